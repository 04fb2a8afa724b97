// SPDX-License-Identifier: Apache-2.0

package lbdsr

// What follows from the health of servers, and packets that only look like answers to checks.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// reported is a load balancer with a service whose health is reported.
const reported = `{` + ports + `,"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{"type":"API","initial-state":"UP"},"server":[
 {"address":"` + server1 + `"},{"address":"` + server2 + `"}]}]}`

const web80 = "lb service 10.0.0.100 80 TCP"

// report says that a server is up or down, and returns in how many services.
func say(l *bpftest.Lab, server, status, why string) string {
	return l.Action("lb report-health", fmt.Sprintf(`{"server":"%s","status":"%s","error":"%s"}`, server, status, why))
}

// healthOf returns the state of a server of the service.
func healthOf(t *testing.T, l *bpftest.Lab, server string) (state string, v health.View) {
	t.Helper()
	var s struct {
		State  string
		Health health.View
	}
	if err := json.Unmarshal([]byte(l.Read(web80+" server "+server)), &s); err != nil {
		t.Fatal(err)
	}
	return s.State, s.Health
}

// only waits until flows go to one server alone.
func only(t *testing.T, l *bpftest.Lab, server string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		if all := serversOf(l, 50, ack); count(all, server) != len(all) {
			return fmt.Errorf("flows go to %v, want %s alone", all, server)
		}
		return nil
	})
}

func TestReportedHealthIsKeptOverARestart(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", reported)
	if n := count(serversOf(l, 50, ack), server1); n == 0 || n == 50 {
		t.Fatalf("%d of 50 flows go to the first server", n)
	}
	if got := say(l, server1, "DOWN", "being upgraded"); got != `{"services":1}` {
		t.Errorf("the report returns %s", got)
	}
	for _, all := range [][]string{serversFrom(l, 5000, 50)} { // new flows at once
		if count(all, server2) != 50 {
			t.Errorf("new flows go to %v", all)
		}
	}
	only(t, l, server2)
	state, before := healthOf(t, l, server1)
	if state != "DOWN" || before.Status != health.Down || before.LastError != "being upgraded" || before.Since == "" {
		t.Errorf("the server is %s, %+v", state, before)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		want := "server " + server1 + " is DOWN: being upgraded (of 10.0.0.100 80 TCP)"
		if all := l.Events("cube"); !strings.Contains(strings.Join(all, "\n"), want) {
			return fmt.Errorf("events are %q, want %q", all, want)
		}
		return nil
	})
	if got := l.Read("lb checks"); !strings.HasPrefix(got, `{"up":1,"down":1,"unknown":0,"made":1,"failed":1,"skipped":0,`) {
		t.Errorf("totals are %s", got)
	}
	l.Restart(nil)
	for range 3 {
		if all := serversOf(l, 50, ack); count(all, server2) != 50 {
			t.Fatalf("after a restart, flows go to %v", all)
		}
	}
	state, after := healthOf(t, l, server1)
	if state != "DOWN" || after.Status != health.Down || after.LastError != before.LastError || after.Since != before.Since {
		t.Errorf("after a restart the server is %s, %+v, before %+v", state, after, before)
	}
	say(l, server1, "UP", "")
	if state, is := healthOf(t, l, server1); state != "UP" || is.LastError != "" {
		t.Errorf("a server that is up again is %s, %+v", state, is)
	}
	l.Restart(nil)
	if state, is := healthOf(t, l, server1); state != "UP" || is.Status != health.Up {
		t.Errorf("a server that was up is %s after a restart, %+v", state, is)
	}
}

func TestWhenAllServersAreReportedDown(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", reported)
	say(l, server2, "DOWN", "")
	only(t, l, server1)
	say(l, server1, "DOWN", "")
	only(t, l, server1) // the last one that was up
	if live := l.Read(web80 + " live-servers"); live != "0" {
		t.Errorf("%s servers are live", live)
	}
	l.Set("PATCH", "lb all-down", `"DROP"`)
	netns.Eventually(t, bpftest.Patience, func() error {
		if got, _ := l.RunBytes("veth1", flow(1, syn)); got != dropped("no-server") {
			return fmt.Errorf("no server is up: %+v", got)
		}
		return nil
	})
	say(l, server2, "UP", "")
	only(t, l, server2)
}

func TestServersBeforeTheirFirstCheck(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", strings.ReplaceAll(reported, `"type":"API","initial-state":"UP"`, `"type":"NONE"`))
	l.Set("PATCH", web80+" health-check", `{"type":"API"}`)
	for _, server := range []string{server1, server2} {
		if state, is := healthOf(t, l, server); state != "UP" || is.Status != health.Up {
			t.Errorf("a server in use is %s when checks begin, %+v", state, is)
		}
	}
	l.Set("POST", web80+" server "+server3, `{}`)
	if state, is := healthOf(t, l, server3); state != "DOWN" || is.Status != health.Unknown {
		t.Errorf("a new server is %s, %+v", state, is)
	}
	if all := serversFrom(l, 6000, 50); count(all, server3) != 0 {
		t.Errorf("flows go to a server that was not checked: %v", all)
	}
	say(l, server3, "UP", "")
	if all := serversFrom(l, 7000, 50); count(all, server3) == 0 {
		t.Errorf("no flow goes to the new server: %v", all)
	}
	l.Set("PATCH", web80+" server "+server3+" admin-state", `"DISABLED"`)
	if _, err := l.TryAction("lb report-health", `{"server":"`+server3+`","status":"UP"}`); err == nil || !strings.Contains(err.Error(), "no service with a health-check of type API has the server") {
		t.Errorf("a report about a server that is not checked: %v", err)
	}
	l.Set("PATCH", web80+" server "+server3+" admin-state", `"ENABLED"`)
	if state, is := healthOf(t, l, server3); state != "DOWN" || is.Status != health.Unknown {
		t.Errorf("a server that is enabled again is %s, %+v", state, is)
	}
	l.Set("PATCH", web80+" health-check type", `"NONE"`)
	if got := l.Read(web80 + " server " + server3); !strings.Contains(got, `"state":"UP"`) || strings.Contains(got, "health") {
		t.Errorf("without checks, the server is %s", got)
	}
}

func TestADrainingServerThatIsDownLosesItsFlows(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", reported)
	first := serversOf(l, 50, ack)
	l.Set("PATCH", web80+" server "+server1+" admin-state", `"DRAINING"`)
	if now := serversOf(l, 50, ack); count(now, server1) != count(first, server1) {
		t.Errorf("a draining server keeps %d flows of %d", count(now, server1), count(first, server1))
	}
	say(l, server1, "DOWN", "")
	only(t, l, server2)
}

func TestReportsAreForTheServicesThatAreSelected(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	service := func(vip string, port int) string {
		return fmt.Sprintf(`{"vip":"%s","vport":%d,"proto":"TCP","health-check":{"type":"API"},"server":[{"address":"%s"}]}`, vip, port, server1)
	}
	l.Create("lbdsr", "lb", `{`+ports+`,"service":[`+service("10.0.0.100", 80)+`,`+service("10.0.0.100", 81)+`,`+service("10.0.0.101", 80)+`]}`)
	for filter, want := range map[string]string{"": "3", `,"vip":"10.0.0.100"`: "2", `,"vport":80`: "2", `,"vip":"10.0.0.101","vport":80`: "1"} {
		if got := l.Action("lb report-health", `{"server":"`+server1+`","status":"UP"`+filter+`}`); got != `{"services":`+want+`}` {
			t.Errorf("with %q: %s, want %s", filter, got, want)
		}
	}
	for _, filter := range []string{`,"vport":82`, `,"vip":"10.0.0.102"`} {
		if _, err := l.TryAction("lb report-health", `{"server":"`+server1+`","status":"UP"`+filter+`}`); err == nil {
			t.Errorf("with %q: a report about no service", filter)
		}
	}
}

func TestChecksThatAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", services)
	before := l.Read("lb service")
	for service, checks := range map[string]map[string]string{
		"10.0.0.101 0 ALL": {`{"type":"TCP"}`: "no port: set the server's port"},
		"10.0.0.100 80 TCP": {
			`{"type":"HTTP","interval":1000,"timeout":1001}`:            "use a timeout of at most the interval",
			`{"type":"HTTP","http":{"body-pattern":"("}}`:               "body-pattern: error",
			`{"type":"TCP","address":"224.0.0.1"}`:                      "not a valid server",
			`{"type":"HTTPS","tls":{"ca-file":"/no/such/file"}}`:        "ca-file",
			`{"type":"GRPC","grpc":{"tls":true},"tls":{"ca-file":"/"}}`: "is not a regular file",
		},
	} {
		for check, want := range checks {
			err := l.Try("PATCH", "lb service "+service+" health-check", check)
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "service "+service) {
				t.Errorf("%s with %s: %v, want %s", service, check, err, want)
			}
		}
	}
	if err := l.Try("PATCH", web80+" announce", "true"); err == nil || !strings.Contains(err.Error(), "shadow=true") {
		t.Errorf("announce without a namespace: %v", err)
	}
	if after := l.Read("lb service"); after != before {
		t.Errorf("refused changes have changed the services from %s to %s", before, after)
	}
}

// checkedServer has one server with checks by TCP and ICMP, which get no answer.
const checkedServer = `{` + ports + `,"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{"type":"TCP","interval":3600000},"server":[{"address":"` + server1 + `"}]},
 {"vip":"10.0.0.100","vport":53,"proto":"UDP","health-check":{"type":"ICMP","interval":3600000},"server":[{"address":"` + server1 + `"}]}]}`

func TestOnlyAnswersToChecksReachTheDaemon(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", checkedServer)
		from := func(src string) *pkt.Frame { return pkt.Eth(server1, backMAC).IPv4(src, "10.0.2.1") }
		fine := from("10.0.0.100").TCP(80, 32771, ack).Bytes()
		netns.Eventually(t, bpftest.Patience, func() error { // checks begin
			if got, _ := l.RunBytes("veth2", fine); !strings.Contains(got.Fate, "lb slowpath") {
				return fmt.Errorf("an answer: %+v", got)
			}
			return nil
		})
		for what, frame := range map[string][]byte{
			"a port behind":       from("10.0.0.100").TCP(80, 32772, ack).Bytes(),
			"a port before":       from("10.0.0.100").TCP(80, 32767, ack).Bytes(),
			"another source port": from("10.0.0.100").TCP(81, 32768, ack).Bytes(),
			"another source":      from("10.0.0.101").TCP(80, 32768, ack).Bytes(),
			"UDP":                 from("10.0.0.100").UDP(80, 32768).Bytes(),
			"an echo request":     from("10.0.0.100").Echo(7, 8).Payload(8).Bytes(),
			"an identifier of none": from("10.0.0.100").Protocol(pkt.ProtoICMP).
				Data(pkt.ICMPMessage(0, 0, 32767<<16, make([]byte, 8))).Bytes(),
			"an error": from("10.0.0.100").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 1, 0, fine[14:42])).Bytes(),
		} {
			if got, _ := l.RunBytes("veth2", frame); !strings.Contains(got.Fate, "lb not-a-check") {
				t.Errorf("%s: %+v, want it dropped as not-a-check", what, got)
			}
		}
		if got, _ := l.RunBytes("veth1", client().IPv4("10.0.0.100", "10.0.2.1").TCP(80, 32768, ack).Bytes()); !strings.Contains(got.Fate, "lb no-service") {
			t.Errorf("an answer at another port: %+v", got)
		}
	})
}

func TestAFloodOfAnswersIsBounded(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbdsr", "lb", checkedServer)
	fine := pkt.Eth(server1, backMAC).IPv4("10.0.0.100", "10.0.2.1").TCP(80, 32771, ack).Bytes()
	netns.Eventually(t, bpftest.Patience, func() error {
		if got, _ := l.RunBytes("veth2", fine); strings.Contains(got.Fate, "lb not-a-check") {
			return fmt.Errorf("checks have not begun: %+v", got)
		}
		return nil
	})
	start := time.Now()
	const packets = 200000
	for range packets / 10000 {
		l.Flood("veth2", fine, 10000)
	}
	took := time.Since(start)
	limited := l.Fates("lb")["check-limit"]
	if passed, most := packets-limited, uint64(4000+20000*took.Seconds()*1.1)+1000; limited == 0 || passed > most {
		t.Errorf("of %d packets in %v, %d reached the daemon, want at most %d", packets, took, passed, most)
	}
	netns.Eventually(t, bpftest.Patience, func() error { // until the daemon has answered all of them
		if got, _ := l.RunBytes("veth1", flow(1, syn)); got != sent {
			return fmt.Errorf("a packet of a client: %+v", got)
		}
		return nil
	})
}
