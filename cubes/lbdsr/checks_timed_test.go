// SPDX-License-Identifier: Apache-2.0

package lbdsr

// How soon the failure of a server of a thousand services takes effect.

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// thousand are services with these servers and checks.
func thousand(servers []string, check string) string {
	var list, services []string
	for _, s := range servers {
		list = append(list, `{"address":"`+s+`"}`)
	}
	for i := range 1000 {
		services = append(services, fmt.Sprintf(`{"vip":"10.1.%d.%d","vport":80,"proto":"TCP","health-check":{%s},"server":[%s]}`, i>>8, i&255, check, strings.Join(list, ",")))
	}
	return `"max-servers":4096,"service":[` + strings.Join(services, ",") + `]`
}

// liveOf counts the services with a number of live servers.
func liveOf(l *bpftest.Lab, live int) int {
	return strings.Count(l.Read("lb service"), fmt.Sprintf(`"live-servers":%d,`, live))
}

// TestTimedAServerOfAThousandServicesIsReportedDown: 100 servers each, as of the request.
func TestTimedAServerOfAThousandServicesIsReportedDown(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	var servers []string
	for i := range 100 {
		servers = append(servers, fmt.Sprintf("02:00:00:00:05:%02x", i))
	}
	l.Create("lbdsr", "lb", `{`+ports+`,`+thousand(servers, `"type":"API","initial-state":"UP"`)+`}`)
	frame := client().IPv4("10.9.0.1", "10.1.3.200").TCP(1000, 80, syn).Bytes()
	first := to(l, frame)
	mac := fmt.Sprintf("%s:%s:%s:%s:%s:%s", first[:2], first[2:4], first[4:6], first[6:8], first[8:10], first[10:])
	start := time.Now()
	if got := say(l, mac, "DOWN", ""); got != `{"services":1000}` {
		t.Errorf("the report returns %s", got)
	}
	took := time.Since(start)
	t.Logf("one server left 1,000 services in %v", took)
	if took > 200*time.Millisecond {
		t.Errorf("one server left 1,000 services in %v, want 200 ms", took)
	}
	if n := liveOf(l, 99); n != 1000 {
		t.Errorf("%d services have 99 live servers", n)
	}
	frame = client().IPv4("10.9.0.1", "10.1.3.200").TCP(1000, 80, syn).Bytes()
	netns.Eventually(t, bpftest.Patience, func() error { // the flow has a pin
		if got := to(l, frame); got == first {
			return fmt.Errorf("the flow still goes to %s", got)
		}
		return nil
	})
}

// TestTimedARealServerOfAThousandServicesFails: its failure is found by 1,000 checks, of which the last one is made an
// interval later than the first one.
func TestTimedARealServerOfAThousandServicesFails(t *testing.T) {
	const interval, fall = 2 * time.Second, 2
	o := live
	l := bpftest.New(t, o)
	var listeners []net.Listener
	for i, h := range l.Hosts[1:] {
		h.Run("sh", "-c", "echo 1 | tee /proc/sys/net/ipv4/conf/*/arp_ignore; echo 0 | tee /proc/sys/net/ipv4/conf/*/rp_filter")
		h.Run("ip", "address", "add", fmt.Sprintf("10.0.%d.11/24", i+2), "dev", "eth0")
		h.Run("ip", "link", "set", "lo", "up")
		h.Run("ip", "route", "add", "local", "10.1.0.0/16", "dev", "lo")
		var is net.Listener
		h.Must(func() (err error) { is, err = net.Listen("tcp", "0.0.0.0:80"); return err })
		go func() { _ = http.Serve(is, http.NotFoundHandler()) }()
		t.Cleanup(func() { _ = is.Close() })
		listeners = append(listeners, is)
	}
	l.Create("lbdsr", "lb", `{`+sides+`,`+thousand([]string{"10.0.2.11", "10.0.3.11"}, `"type":"TCP","interval":2000,"timeout":500,"fall":2`)+`}`)
	netns.Eventually(t, bpftest.Patience, func() error {
		if n := liveOf(l, 2); n != 1000 {
			return fmt.Errorf("%d services have two live servers", n)
		}
		return nil
	})
	start := time.Now()
	_ = listeners[0].Close()
	netns.Eventually(t, bpftest.Patience, func() error {
		if n := liveOf(l, 1); n != 1000 {
			return fmt.Errorf("%d services have one live server", n)
		}
		return nil
	})
	took := time.Since(start)
	t.Logf("all checks of a server found in %v that it has failed", took)
	if most := interval*fall + 200*time.Millisecond; took > most {
		t.Errorf("a server has left 1,000 services after %v, want at most %v", took, most)
	}
	t.Logf("checks: %s", l.Read("lb checks"))
}
