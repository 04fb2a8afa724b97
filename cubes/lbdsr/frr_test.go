// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Virtual addresses that FRR in the load balancer's namespace announces to a router with FRR, over BGP, while they have a
// live server.

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/frr"
	"github.com/polycube/polycube/test/netns"
)

// bgp is the configuration of a speaker.
func bgp(as int, neighbour, redistribute string) string {
	return fmt.Sprintf("router bgp %d\n bgp router-id 192.0.2.%d\n no bgp ebgp-requires-policy\n timers bgp 1 3\n"+
		" neighbor %s remote-as external\n neighbor %[3]s timers connect 1\n neighbor %[3]s advertisement-interval 0\n"+
		" address-family ipv4 unicast\n %s\n exit-address-family\n address-family ipv6 unicast\n  neighbor %[3]s activate\n %[4]s\n exit-address-family\n",
		as, as, neighbour, redistribute)
}

func TestFRRAnnouncesAddressesWithALiveServer(t *testing.T) {
	frr.Need(t)
	t.Parallel()
	o := live
	o.Shadow, o.Follow = true, true
	l := bpftest.New(t, o)
	w := newWeb(t, l, 2)
	router := l.Hosts[0]
	router.Run("ip", "address", "add", "10.0.1.2/24", "dev", "eth0")
	router.Run("ip", "address", "add", "2001:db8:1::2/64", "dev", "eth0", "nodad")
	const ports = `"ports":[{"name":"f","type":"FRONTEND","peer":"veth1","ip":"10.0.1.1/24","ip6":"2001:db8:1::1/64"},{"name":"b","type":"BACKEND","peer":"veth2","ip":"10.0.2.1/24","ip6":"2001:db8:2::1/64"}]`
	const check = `"health-check":{` + quick + `"type":"HTTP"}`
	l.Create("lbdsr", "lb", `{"shadow":true,`+ports+`,"service":[
 {"vip":"`+webVIP+`","vport":80,"proto":"TCP","announce":true,`+check+`,"server":[{"address":"10.0.2.11"}]},
 {"vip":"`+webVIP6+`","vport":80,"proto":"TCP","announce":true,`+check+`,"server":[{"address":"2001:db8:2::11"}]},
 {"vip":"10.0.0.109","vport":80,"proto":"TCP","server":[{"address":"10.0.2.11"}]}]}`)
	within := func(name string, args ...string) *exec.Cmd { return l.Within("lb", name, args...) }
	frr.Start(t, within, map[string]string{"bgpd": bgp(1, "10.0.1.2", " redistribute kernel")})
	peer := frr.Start(t, router.Command, map[string]string{"bgpd": bgp(2, "10.0.1.1", "")})
	const routes, routes6 = "show bgp ipv4 unicast", "show bgp ipv6 unicast"
	peer.Eventually("bgpd", routes, webVIP+"/32", 1)
	peer.Eventually("bgpd", routes6, webVIP6+"/128", 1)
	peer.Eventually("bgpd", routes, "10.0.0.109", 0) // not to be announced

	w.stop()
	t.Logf("withdrawn %v after the server stopped; checks: every 100 ms, down after 2 failures", peer.Eventually("bgpd", routes, webVIP+"/32", 0))
	peer.Eventually("bgpd", routes6, webVIP6+"/128", 0)
	w.start(t)
	t.Logf("announced %v after the server was back", peer.Eventually("bgpd", routes, webVIP+"/32", 1))

	if out, err := l.Within("lb", "ip", "route", "flush", "proto", "80").CombinedOutput(); err != nil { // by mistake
		t.Fatalf("%v, %s", err, out)
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		out, err := l.Within("lb", "ip", "route", "show", "proto", "80").CombinedOutput()
		if err != nil || !strings.Contains(string(out), webVIP) {
			return fmt.Errorf("the namespace has %s: %w", out, err)
		}
		return nil
	})
	l.Restart(func() {
		out, err := l.Within("lb", "ip", "route", "show", "proto", "80").CombinedOutput()
		if err != nil || !strings.Contains(string(out), webVIP) {
			t.Errorf("while the daemon is down, the namespace has %s, %v", out, err)
		}
	})
	peer.Eventually("bgpd", routes, webVIP+"/32", 1)
	l.Set("PATCH", "lb service "+webVIP+" 80 TCP announce", "false")
	peer.Eventually("bgpd", routes, webVIP+"/32", 0)
	l.Set("PATCH", "lb service "+webVIP+" 80 TCP announce", "true")
	peer.Eventually("bgpd", routes, webVIP+"/32", 1)
	l.Set("DELETE", "lb service "+webVIP+" 80 TCP", "")
	peer.Eventually("bgpd", routes, webVIP+"/32", 0)
}
