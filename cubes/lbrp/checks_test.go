// SPDX-License-Identifier: Apache-2.0

package lbrp

// Health checks of real servers in namespaces, through the cube's programs.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/wire"
)

// checkSource is where the checks of tests come from.
const checkSource = `"check-source":{"ip":"10.0.2.250/24","ip6":"2001:db8:2::250/64"},`

// quick makes checks often, so that tests are short.
const quick = `"interval":250,"timeout":100,"fall":2,"rise":2,`

// live are the hosts of a lab with real servers.
var live = bpftest.Options{Hosts: 2, Host: []netns.Option{netns.WithIPv6(), netns.WithGRO()}}

// eachLive runs a test with real servers at each hook.
func eachLive(t *testing.T, test func(t *testing.T, l *bpftest.Lab)) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			t.Parallel()
			o := live
			o.Type = typ
			test(t, bpftest.New(t, o))
		})
	}
}

// webServer is a real server of HTTP at an address of the second host.
type webServer struct {
	host   *netns.Node
	at     string
	status atomic.Int32
	from   atomic.Value
	server *http.Server
}

// newWebServer starts a server.
func newWebServer(t *testing.T, l *bpftest.Lab, at string) *webServer {
	t.Helper()
	w := &webServer{host: l.Hosts[1], at: at}
	w.status.Store(200)
	host, _, err := net.SplitHostPort(at)
	if err != nil {
		t.Fatal(err)
	}
	length := "/24"
	if strings.Contains(host, ":") {
		length = "/64"
	}
	w.host.Run("ip", "address", "replace", host+length, "dev", "eth0", "nodad")
	w.start(t)
	return w
}

// start starts to listen.
func (w *webServer) start(t *testing.T) {
	t.Helper()
	server := &http.Server{Handler: http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		from, _, _ := net.SplitHostPort(in.RemoteAddr)
		w.from.Store(from)
		out.WriteHeader(int(w.status.Load()))
		_, _ = out.Write([]byte("ready")) // the checker may be gone
	})}
	w.server = server
	var is net.Listener
	w.host.Must(func() (err error) {
		is, err = net.Listen("tcp", w.at)
		return err
	})
	go func() { _ = server.Serve(is) }()
	t.Cleanup(func() { server.Close() })
}

// stop makes it refuse connections.
func (w *webServer) stop() { w.server.Close() }

// is waits until a server of a service has a state, and an error.
func is(t *testing.T, l *bpftest.Lab, service, server, state, why string) {
	t.Helper()
	netns.Eventually(t, bpftest.Patience, func() error {
		got, v, err := healthOf(l, service, server)
		if err != nil {
			return err
		}
		if got != state || !strings.Contains(v.LastError, why) || why == "" && v.LastError != "" {
			return fmt.Errorf("server %s of %s is %s, %+v, want %s, %q", server, service, got, v, state, why)
		}
		return nil
	})
}

func healthOf(l *bpftest.Lab, service, server string) (state string, v health.View, err error) {
	var s struct {
		State  string
		Health health.View
	}
	err = json.Unmarshal([]byte(l.Read("lb service "+service+" backend "+server)), &s)
	return s.State, s.Health, err
}

// sentTo returns the server that a packet from a client goes to. Answers to checks that arrive meanwhile have fates, too, so
// only the bytes count.
func sentTo(l *bpftest.Lab, frame []byte) string {
	if _, out := l.RunBytes("veth1", frame); len(out) >= 34 {
		return netip.AddrFrom4([4]byte(out[30:34])).String()
	}
	return ""
}

// goTo waits until all new connections of clients go to some servers.
func goTo(t *testing.T, l *bpftest.Lab, servers ...string) {
	t.Helper()
	port := uint16(1000)
	netns.Eventually(t, bpftest.Patience, func() error {
		port += 50
		seen := map[string]int{}
		for n := range uint16(40) {
			seen[sentTo(l, request("10.0.1.2", port+n, syn))]++
		}
		for _, s := range servers {
			if seen[s] == 0 {
				return fmt.Errorf("connections go to %v, want %v", seen, servers)
			}
		}
		if len(seen) != len(servers) {
			return fmt.Errorf("connections go to %v, want %v", seen, servers)
		}
		return nil
	})
}

const httpService = "10.0.0.100 80 TCP"

func TestServersAreChecked(t *testing.T) {
	eachLive(t, func(t *testing.T, l *bpftest.Lab) {
		one, two, six := newWebServer(t, l, "10.0.2.11:8080"), newWebServer(t, l, "10.0.2.12:8080"), newWebServer(t, l, "[2001:db8:2::11]:80")
		two.status.Store(503)
		l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"HTTP","http":{"path":"/x","body":"ready"}},"backend":[{"ip":"10.0.2.11","port":8080},{"ip":"10.0.2.12","port":8080}]},
 {"vip":"2001:db8::100","vport":80,"proto":"ALL","health-check":{`+quick+`"type":"TCP"},"backend":[{"ip":"2001:db8:2::11","port":0}]},
 {"vip":"10.0.0.101","vport":0,"proto":"ICMP","health-check":{`+quick+`"type":"ICMP"},"backend":[{"ip":"10.0.2.11","port":0}]},
 {"vip":"2001:db8::101","vport":53,"proto":"UDP","health-check":{`+quick+`"type":"ICMP"},"backend":[{"ip":"2001:db8:2::11","port":53}]}]}`)
		is(t, l, httpService, "10.0.2.11 8080", "UP", "")
		is(t, l, httpService, "10.0.2.12 8080", "DOWN", "503")
		is(t, l, "2001:db8::100 80 ALL", "2001:db8:2::11 0", "UP", "")
		is(t, l, "10.0.0.101 0 ICMP", "10.0.2.11 0", "UP", "")
		is(t, l, "2001:db8::101 53 UDP", "2001:db8:2::11 53", "UP", "")
		if from := one.from.Load(); from != "10.0.2.250" {
			t.Errorf("checks come from %v", from)
		}
		goTo(t, l, "10.0.2.11")
		two.status.Store(200)
		is(t, l, httpService, "10.0.2.12 8080", "UP", "")
		goTo(t, l, "10.0.2.11", "10.0.2.12")
		established := request("10.0.1.9", 7777, syn)
		was := sentTo(l, established)
		stops, stays := one, "10.0.2.12"
		if was == "10.0.2.12" {
			stops, stays = two, "10.0.2.11"
		}
		stops.stop()
		is(t, l, httpService, was+" 8080", "DOWN", "refused")
		goTo(t, l, stays)
		if now := sentTo(l, request("10.0.1.9", 7777, ack)); now != stays {
			t.Errorf("a session of a server that is down goes to %s", now)
		}
		stops.start(t)
		is(t, l, httpService, was+" 8080", "UP", "")
		goTo(t, l, "10.0.2.11", "10.0.2.12")
		six.stop()
		is(t, l, "2001:db8::100 80 ALL", "2001:db8:2::11 0", "DOWN", "refused")
		if got := l.Read("lb checks"); !strings.Contains(got, `"strays":0`) || !strings.HasPrefix(got, `{"up":4,"down":1,"unknown":0,`) {
			t.Errorf("totals are %s", got)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			want := "server " + was + " 8080 is DOWN: "
			if all := strings.Join(l.Events("cube"), "\n"); !strings.Contains(all, want) {
				return fmt.Errorf("events are %q, want %q", all, want)
			}
			return nil
		})
	})
}

func TestAServerWhoseHostIsGone(t *testing.T) {
	t.Parallel()
	o := live
	o.Type = cube.TypeTC
	l := bpftest.New(t, o)
	w := newWebServer(t, l, "10.0.2.11:8080")
	l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"HTTP"},"backend":[{"ip":"10.0.2.11","port":8080}]}]}`)
	is(t, l, httpService, "10.0.2.11 8080", "UP", "")
	w.host.Run("ip", "link", "set", "eth0", "address", "02:00:00:00:99:01") // as if another machine took its address
	w.host.Run("ip", "neighbour", "flush", "dev", "eth0")
	netns.Eventually(t, bpftest.Patience, func() error {
		_, v, err := healthOf(l, httpService, "10.0.2.11 8080")
		if err == nil && v.FailedChecks == 0 {
			err = errors.New("no check has failed")
		}
		return err
	})
	is(t, l, httpService, "10.0.2.11 8080", "UP", "")
	w.host.Run("ip", "link", "set", "eth0", "arp", "off")
	w.host.Run("ip", "address", "flush", "dev", "eth0")
	is(t, l, httpService, "10.0.2.11 8080", "UNRESOLVED", "cannot check: the MAC address of 10.0.2.11 is unknown")
	w.host.Run("ip", "link", "set", "eth0", "arp", "on")
	w.host.Run("ip", "address", "add", "10.0.2.11/24", "dev", "eth0")
	is(t, l, httpService, "10.0.2.11 8080", "UP", "")
}

func TestServersBehindAGateway(t *testing.T) {
	t.Parallel()
	o := live
	o.Type = cube.TypeTC
	l := bpftest.New(t, o)
	w := newWebServer(t, l, "10.0.2.254:9")
	w.stop()
	w.host.Run("sh", "-c", "echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter")
	w.host.Run("ip", "link", "set", "lo", "up")
	w.host.Run("ip", "address", "add", "10.7.0.1/32", "dev", "lo")
	w.host.Run("ip", "address", "add", "2001:db8:7::1/128", "dev", "lo", "nodad")
	w.host.Run("ip", "address", "add", "fe80::1/64", "dev", "eth0", "nodad")
	w.host.Run("ip", "address", "add", "2001:db8:2::254/64", "dev", "eth0", "nodad")
	l.Create("lbrp", "lb", `{`+twoPorts+`,"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"ICMP"},"backend":[{"ip":"10.7.0.1","port":80}]},
 {"vip":"2001:db8::100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"ICMP"},"backend":[{"ip":"2001:db8:7::1","port":80}]}]}`)
	const six, server6 = "2001:db8::100 80 TCP", "2001:db8:7::1 80"
	is(t, l, httpService, "10.7.0.1 80", "DOWN", "cannot check: check-source has no address of the same family as 10.7.0.1: set ip")
	is(t, l, six, server6, "DOWN", "cannot check: check-source has no address of the same family as 2001:db8:7::1: set ip6")
	l.Set("PATCH", "lb check-source", `{"ip":"10.0.2.250/24","ip6":"2001:db8:2::250/64"}`)
	is(t, l, httpService, "10.7.0.1 80", "DOWN", "10.7.0.1 is not on the link of check-source, and check-source has no gateway")
	l.Set("PATCH", "lb check-source", `{"gateway":"10.0.2.254","gateway6":"fe80::1"}`)
	is(t, l, httpService, "10.7.0.1 80", "UP", "")
	is(t, l, six, server6, "UP", "")
	l.Set("PATCH", "lb check-source ip", `"10.0.2.251/24"`)
	l.Set("PATCH", "lb service "+httpService+" health-check interval", "110")
	is(t, l, httpService, "10.7.0.1 80", "UP", "")
	l.Set("DELETE", "lb ports b", "")
	is(t, l, httpService, "10.7.0.1 80", "UP", "cannot check: the cube has no backend port")
	l.Set("POST", "lb ports b", `{"type":"BACKEND","peer":"veth2"}`)
	is(t, l, httpService, "10.7.0.1 80", "UP", "")
	l.Set("PATCH", "lb service "+httpService+" health-check type", `"NONE"`)
	if got := l.Read("lb service " + httpService + " backend 10.7.0.1 80"); strings.Contains(got, "health") || !strings.Contains(got, `"state":"UP"`) {
		t.Errorf("without checks, the server is %s", got)
	}
}

func TestChecksWithSeveralFrontends(t *testing.T) {
	t.Parallel()
	o := live
	o.Hosts, o.Type = 3, cube.TypeTC
	l := bpftest.New(t, o)
	newWebServer(t, l, "10.0.2.11:80")
	l.Create("lbrp", "lb", `{"port_mode":"MULTI","ports":[{"name":"b","type":"BACKEND","peer":"veth2"},
 {"name":"f","type":"FRONTEND","ip":"10.0.1.2","peer":"veth1"},{"name":"g","type":"FRONTEND","ip":"10.0.1.3","peer":"veth3"}],`+checkSource+`
 "service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"TCP"},"backend":[{"ip":"10.0.2.11","port":80}]}]}`)
	is(t, l, httpService, "10.0.2.11 80", "UP", "")
}

func TestARestartIsNotNoticed(t *testing.T) {
	t.Parallel()
	o := live
	o.Type = cube.TypeTC
	l := bpftest.New(t, o)
	newWebServer(t, l, "10.0.2.11:80")
	l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{`+quick+`"type":"HTTP"},
 "backend":[{"ip":"10.0.2.11","port":80},{"ip":"10.0.2.12","port":80}]}]}`)
	is(t, l, httpService, "10.0.2.11 80", "UP", "")
	goTo(t, l, "10.0.2.11")
	_, before, _ := healthOf(l, httpService, "10.0.2.11 80")
	l.Restart(nil)
	goTo(t, l, "10.0.2.11")
	netns.Eventually(t, bpftest.Patience, func() error {
		state, v, err := healthOf(l, httpService, "10.0.2.11 80")
		if state != "UP" || v.Since != before.Since {
			t.Errorf("after a restart the server is %s, %+v, before it was up since %s", state, v, before.Since)
		}
		if err == nil && v.Checks < 5 {
			err = fmt.Errorf("%d checks after a restart", v.Checks)
		}
		return err
	})
}

// reported is a load balancer with a service whose health is reported.
func reported(leaves string) string {
	return `{` + twoPorts + `,` + leaves + `"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{"type":"API","initial-state":"UP"},` + three + `}]}`
}

func say(l *bpftest.Lab, server, status string) string {
	return l.Action("lb report-health", fmt.Sprintf(`{"server":"%s","status":"%s","error":"as told"}`, server, status))
}

func TestWhenAllServersAreDown(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", reported(""))
		goTo(t, l, "10.0.2.11", "10.0.2.12", "10.0.2.13")
		if got := say(l, "10.0.2.11", "DOWN"); got != `{"services":1}` {
			t.Errorf("the report returns %s", got)
		}
		goTo(t, l, "10.0.2.12", "10.0.2.13")
		say(l, "10.0.2.13", "DOWN")
		goTo(t, l, "10.0.2.12")
		session := request("10.0.1.9", 7777, syn)
		server(l, session)
		say(l, "10.0.2.12", "DOWN")
		goTo(t, l, "10.0.2.12") // the last one that was up
		if is := server(l, request("10.0.1.9", 7777, ack)); is != "10.0.2.12" || l.Read("lb service "+httpService+" live-servers") != "0" {
			t.Errorf("a packet of the session goes to %s", is)
		}
		l.Restart(nil)
		goTo(t, l, "10.0.2.12")
		if state, v, err := healthOf(l, httpService, "10.0.2.11 80"); err != nil || state != "DOWN" || v.LastError != "as told" {
			t.Errorf("after a restart a server is %s, %+v, %v", state, v, err)
		}
		l.Set("PATCH", "lb all-down", `"DROP"`)
		if got, _ := l.RunBytes("veth1", request("10.0.1.2", 999, syn)); !strings.Contains(got.Fate, "lb slowpath") {
			t.Errorf("no server is up: %+v", got)
		}
		l.Set("PATCH", "lb all-down", `"KEEP"`)
		say(l, "10.0.2.13", "UP")
		goTo(t, l, "10.0.2.13")
		l.Set("PATCH", "lb service "+httpService+" backend 10.0.2.13 80 admin-state", `"DRAINING"`)
		if is := server(l, request("10.0.1.9", 7777, ack)); is == "10.0.2.13" {
			t.Errorf("a new session goes to a draining server")
		}
	})
}

func TestReportsAreForTheServersThatAreSelected(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	service := func(vip string, port int) string {
		return fmt.Sprintf(`{"vip":"%s","vport":%d,"proto":"TCP","health-check":{"type":"API"},"backend":[{"ip":"10.0.2.11","port":80},{"ip":"10.0.2.11","port":81}]}`, vip, port)
	}
	l.Create("lbrp", "lb", `{`+twoPorts+`,"service":[`+service("10.0.0.100", 80)+`,`+service("10.0.0.100", 81)+`,`+service("10.0.0.101", 80)+`]}`)
	for filter, want := range map[string]string{"": "3", `,"vip":"10.0.0.100"`: "2", `,"vport":80`: "2", `,"vip":"10.0.0.101","vport":80,"port":81`: "1"} {
		if got := l.Action("lb report-health", `{"server":"10.0.2.11","status":"UP"`+filter+`}`); got != `{"services":`+want+`}` {
			t.Errorf("with %q: %s, want %s", filter, got, want)
		}
	}
	if _, err := l.TryAction("lb report-health", `{"server":"10.0.2.11","status":"UP","port":82}`); err == nil || !strings.Contains(err.Error(), "10.0.2.11 82") {
		t.Errorf("a report about a server that is not there: %v", err)
	}
}

func TestADrainingServerThatIsDownLosesItsSessions(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	l.Create("lbrp", "lb", reported(""))
	was := server(l, request("10.0.1.2", 4000, syn))
	l.Set("PATCH", "lb service "+httpService+" backend "+was+" 80 admin-state", `"DRAINING"`)
	if is := server(l, request("10.0.1.2", 4000, ack)); is != was {
		t.Errorf("a session of a draining server goes to %s", is)
	}
	say(l, was, "DOWN")
	if is := server(l, request("10.0.1.2", 4000, ack)); is == was {
		t.Error("a session of a draining server that is down stays there")
	}
}

const (
	serverMAC = "02:00:00:00:02:11"
	ownIP     = "10.0.2.250"
	ownIP6    = "2001:db8:2::250"
)

func TestTheSourceOfChecksIsAnswered(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		// Without checks, the daemon sends nothing that could be taken for what the program sends.
		l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[{"vip":"10.0.0.100","vport":80,"proto":"TCP","backend":[{"ip":"10.0.2.11","port":8080}]}]}`)
		arp := pkt.Eth(serverMAC, "ff:ff:ff:ff:ff:ff").ARPRequest(serverMAC, "10.0.2.11", ownIP).Bytes()
		got, out := l.RunBytes("veth2", arp)
		own := net.HardwareAddr(out[6:12]).String()
		if want := pkt.Eth(own, serverMAC).ARPReply(own, ownIP, serverMAC, "10.0.2.11").Bytes(); got != toBackend || string(out) != string(want) || out[6]&3 != 2 {
			t.Errorf("a request for the source: %+v, % x, want % x", got, out, want)
		}
		server6, source6 := netip.MustParseAddr("2001:db8:2::11"), netip.MustParseAddr(ownIP6)
		asks := wire.Solicit(source6, wire.MAC{}, wire.MAC(pkt.MAC(serverMAC)), server6).Frame()
		got, out = l.RunBytes("veth2", asks)
		if n, err := wire.ParseND(out); err != nil || got != toBackend || !n.Advertisement || !n.Solicited || n.Target != source6 || n.Link.String() != own {
			t.Errorf("a solicitation for the source: %+v, %+v, %v", got, n, err)
		}
		// Everything else crosses, as do the same packets from the other side.
		foreign := pkt.Eth(serverMAC, own).IPv4("10.0.2.11", "10.0.1.7").TCP(8080, 32768, ack).Bytes()
		for _, frame := range [][]byte{
			pkt.Eth(serverMAC, "ff:ff:ff:ff:ff:ff").ARPRequest(serverMAC, "10.0.2.11", "10.0.2.1").Bytes(),
			pkt.Eth(serverMAC, clientMAC).ARPReply(serverMAC, "10.0.2.11", clientMAC, "10.0.1.2").Bytes(),
			wire.Solicit(server6, wire.MAC{}, wire.MAC(pkt.MAC(serverMAC)), server6.Next()).Frame(),
			wire.AnnounceND(server6, wire.MAC(pkt.MAC(serverMAC))).Frame(),
			foreign,
		} {
			sends(t, l, "veth2", frame, toFrontend, frame)
		}
		for _, frame := range [][]byte{arp, asks} {
			sends(t, l, "veth1", frame, toBackend, frame)
		}
		fine := pkt.Eth(serverMAC, own).IPv4("10.0.2.11", ownIP).TCP(8080, 32768, ack).Bytes()
		if got, _ := l.RunBytes("veth2", fine); !strings.Contains(got.Fate, "lb not-a-check") {
			t.Errorf("an answer without a check: %+v", got)
		}
		l.Set("DELETE", "lb check-source", "")
		sends(t, l, "veth2", arp, toFrontend, arp)
		sends(t, l, "veth2", asks, toFrontend, asks)
		sends(t, l, "veth2", fine, toFrontend, fine)
	})
}

func TestOnlyAnswersToChecksReachTheDaemon(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", `{`+twoPorts+`,`+checkSource+`"service":[
 {"vip":"10.0.0.100","vport":80,"proto":"TCP","health-check":{"type":"TCP","interval":3600000},"backend":[{"ip":"10.0.2.11","port":8080}]}]}`)
		from := func(src string) *pkt.Frame { return pkt.Eth(serverMAC, clientMAC).IPv4(src, ownIP) }
		reply := pkt.Eth(serverMAC, clientMAC).ARPReply(serverMAC, "10.0.2.11", clientMAC, ownIP).Bytes()
		fine := from("10.0.2.11").TCP(8080, 32771, ack).Bytes()
		netns.Eventually(t, bpftest.Patience, func() error { // checks begin once the server's MAC address is known
			for _, frame := range [][]byte{reply, fine} {
				if got, _ := l.RunBytes("veth2", frame); !strings.Contains(got.Fate, "lb slowpath") {
					return fmt.Errorf("an answer: %+v", got)
				}
			}
			return nil
		})
		for what, frame := range map[string][]byte{
			"a port behind":       from("10.0.2.11").TCP(8080, 32772, ack).Bytes(),
			"another server":      from("10.0.2.12").TCP(8080, 32768, ack).Bytes(),
			"another source port": from("10.0.2.11").TCP(8081, 32768, ack).Bytes(),
			"an echo request":     from("10.0.2.11").Echo(7, 8).Payload(8).Bytes(),
			"an error":            from("10.0.2.11").Protocol(pkt.ProtoICMP).Data(pkt.ICMPMessage(3, 1, 0, fine[14:42])).Bytes(),
			"IPv6":                pkt.Eth(serverMAC, clientMAC).IPv6("2001:db8:2::11", ownIP6).TCP(8080, 32768, ack).Bytes(),
		} {
			if got, _ := l.RunBytes("veth2", frame); !strings.Contains(got.Fate, "lb not-a-check") {
				t.Errorf("%s: %+v, want it dropped as not-a-check", what, got)
			}
		}
		for range 10 {
			l.Flood("veth2", fine, 20000)
		}
		if l.Fates("lb")["check-limit"] == 0 {
			t.Error("a flood of answers is not limited")
		}
	})
}

func TestBadChecksAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	create(l, one80("")+`,{"vip":"10.0.0.101","vport":0,"proto":"ICMP"}`)
	before := l.Read("lb service") + l.Read("lb check-source")
	for _, c := range []struct{ words, body, says string }{
		{"lb check-source", `{"ip":"2001:db8::1/64"}`, "not IPv4"},
		{"lb check-source", `{"ip6":"10.0.2.1/24"}`, "not IPv6"},
		{"lb check-source", `{"gateway":"10.0.2.1"}`, "requires a source address"},
		{"lb check-source", `{"ip":"10.0.2.0/24"}`, "not a valid host address"},
		{"lb check-source", `{"ip":"127.0.0.1/8"}`, "not a valid host address"},
		{"lb check-source", `{"ip":"10.0.2.250/24","gateway":"10.0.3.1"}`, "not on the link"},
		{"lb check-source", `{"ip":"10.0.2.250/24","gateway":"10.0.2.250"}`, "the source address itself"},
		{"lb check-source", `{"ip":"10.0.0.100/24"}`, "virtual address"},
		{"lb check-source", `{"ip":"10.0.2.11/24"}`, "check-source already uses this address"},
		{"lb service 10.0.0.101 0 ICMP health-check", `{"type":"TCP"}`, "no port"},
		{"lb service 10.0.0.100 80 TCP health-check", `{"type":"HTTP","interval":1000,"timeout":1001}`, "use a timeout of at most the interval"},
		{"lb service 10.0.0.100 80 TCP health-check", `{"type":"HTTPS","tls":{"ca-file":"/no/such/file"}}`, "ca-file"},
	} {
		if err := l.Try("PATCH", c.words, c.body); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s %s: %v, want %q", c.words, c.body, err, c.says)
		}
	}
	l.Set("PATCH", "lb check-source", `{"ip":"10.0.2.250/24"}`)
	if err := l.Try("POST", "lb service 10.0.0.100 80 TCP backend 10.0.2.250 80", "{}"); err == nil || !strings.Contains(err.Error(), "check-source") {
		t.Errorf("the source of checks as a server: %v", err)
	}
	if err := l.Try("PATCH", "lb src-ip-rewrite", `{"ip-range":"10.9.0.0/24","new_ip_range":"10.0.2.0/24"}`); err == nil || !strings.Contains(err.Error(), "new_ip_range") {
		t.Errorf("the source of checks among clients: %v", err)
	}
	l.Set("DELETE", "lb check-source", "")
	if after := l.Read("lb service") + l.Read("lb check-source"); after != before {
		t.Errorf("refused edits changed\n%s to\n%s", before, after)
	}
}
