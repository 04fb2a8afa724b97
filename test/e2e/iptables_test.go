// SPDX-License-Identifier: Apache-2.0

// The host firewall with the rules of iptables.

package e2e

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestAHostFirewallWithTheRulesOfIptables filters by its three chains, and by chains of the user's own: what comes to the host,
// what it forwards and what it sends. It keeps doing so without the daemon, and counts as before after a restart.
func TestAHostFirewallWithTheRulesOfIptables(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.betweenNetworks()
	wan.AnswerLines("203.0.113.2:7000", sender)
	d.lab.AnswerLines("127.0.0.1:7001", sender)
	lan.Reaches(t, patience, "203.0.113.2")

	d.Do("iptables add ipt")
	d.Do("attach ipt host")
	lan.Reaches(t, patience, "203.0.113.2")
	rule := func(chain, spec string) {
		t.Helper()
		if r := d.CLI("ipt", "chain", chain, "append", "spec="+spec); r.code != 0 {
			t.Fatal(r)
		}
	}
	pings := func(when string, from *netns.Node, to string, want bool) {
		t.Helper()
		if err := from.Ping(to, netns.Brief); (err == nil) != want {
			t.Errorf("%s: a ping from %s to %s passes: %t, want %t", when, from.Outer, to, err == nil, want)
		}
	}
	d.Do("ipt chain web set default=ACCEPT")
	rule("web", "-p icmp -j RETURN")
	rule("web", "-p tcp -m tcp --dport 7000 -j ACCEPT")
	rule("web", "-p udp -j REJECT")
	rule("FORWARD", "-m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT")
	rule("FORWARD", "-i lan0 -o wan+ -j web")
	rule("INPUT", "-i lo -j ACCEPT")
	rule("INPUT", "-i wan0 -p icmp -j DROP")
	rule("INPUT", "-p udp -j REJECT")
	d.Do("ipt chain FORWARD set default=DROP")
	for _, when := range []string{"at first", "after a restart"} {
		c := connectTo(t, lan, "203.0.113.2:7000")
		c.seenAs()
		connectTo(t, &netns.Node{Namespace: d.lab.Namespace}, "127.0.0.1:7001").seenAs()
		pings(when+": FORWARD has the default", lan, "203.0.113.2", false)
		pings(when+": the other way, too", wan, "10.0.0.2", false)
		pings(when+": INPUT of lan0", lan, "10.0.0.1", true)
		pings(when+": INPUT of wan0", wan, "203.0.113.1", false)
		if err := rejected(lan, "203.0.113.2:9"); err != nil {
			t.Errorf("%s: a forwarded datagram: %v", when, err)
		}
		if err := rejected(lan, "10.0.0.1:9"); err != nil {
			t.Errorf("%s: a datagram to the host: %v", when, err)
		}
		was := d.Do("ipt chain FORWARD stats show -json")
		if !strings.Contains(was, "-i lan0 -o wan+ -j web") {
			t.Errorf("%s: %s", when, was)
		}
		d.Kill9()
		c.seenAs()
		pings("without a daemon", lan, "203.0.113.2", false)
		d = d.machine.Start()
		c.seenAs()
	}
	d.Do("ipt del")
	pings("without the cube", lan, "203.0.113.2", true)
}
