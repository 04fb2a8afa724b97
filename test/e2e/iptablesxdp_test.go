// SPDX-License-Identifier: Apache-2.0

// A host firewall whose chain INPUT is at XDP.

package e2e

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestAHostFirewallAtXDP: INPUT is in front of the stack, FORWARD and OUTPUT are where packets leave, and connections are known
// to all of them, also after a crash and on a netdev that appears later.
func TestAHostFirewallAtXDP(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.betweenNetworks()
	host := &netns.Node{Namespace: d.lab.Namespace}
	wan.AnswerLines("203.0.113.2:7000", sender)
	d.lab.AnswerLines("10.0.0.1:7001", sender)
	d.inPlaceOfIptables(`pcn-iptables-init-xdp
		pcn-iptables-init-xdp
		iptables -P INPUT DROP
		iptables -P FORWARD DROP
		iptables -A INPUT -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT
		iptables -A INPUT -i lan0 -p tcp --dport 7001 -j ACCEPT
		iptables -A INPUT -i later0 -p icmp -j ACCEPT
		iptables -A INPUT -p udp -j REJECT
		iptables -A FORWARD -m conntrack --ctstate ESTABLISHED -j ACCEPT
		iptables -A FORWARD -i lan0 -o wan0 -p tcp --dport 7000 -j ACCEPT
		iptables -A OUTPUT -o lan0 -p icmp --icmp-type echo-request -j DROP`)
	if got := host.Run("ip", "link", "show", "dev", "lan0"); !strings.Contains(got, " xdp ") {
		t.Errorf("no XDP program is on lan0: %s", got)
	}
	through, to, from := connectTo(t, lan, "203.0.113.2:7000"), connectTo(t, lan, "10.0.0.1:7001"), connectTo(t, host, "203.0.113.2:7000")
	check := func(when string) {
		t.Helper()
		for _, c := range []*asked{through, to, from} {
			c.seenAs()
		}
		for _, refused := range []struct {
			from *netns.Node
			to   string
		}{{lan, "10.0.0.1"}, {wan, "10.0.0.2"}, {host, "10.0.0.2"}} {
			if err := refused.from.Ping(refused.to, netns.Brief); err == nil {
				t.Errorf("%s: a ping from %s to %s passes", when, refused.from.Outer, refused.to)
			}
		}
	}
	check("at first")
	later := d.lab.Host("later0", "192.0.2.2/24")
	d.lab.Run("ip", "addr", "add", "192.0.2.1/24", "dev", "later0")
	netns.Eventually(t, patience, func() error { return rejected(later, "192.0.2.1:9") })
	later.Reaches(t, patience, "192.0.2.1")
	d.Kill9()
	check("without a daemon")
	d = d.machine.Start()
	check("after a restart")
	if err := rejected(wan, "203.0.113.1:9"); err != nil {
		t.Errorf("after a restart: a datagram to the host: %v", err)
	}

	rules := d.inPlaceOfIptables("iptables-save")
	d.refuses("pcn-iptables set forward=fib", "use a firewall of type TC")
	for command, says := range map[string]string{
		"iptables -t nat -A POSTROUTING -j MASQUERADE": "make one with pcn-iptables-init",
		"pcn-iptables-init":                            "there is a firewall pcn-iptables of type XDP_DRV",
	} {
		contains(t, d.inPlaceOfIptables("! "+command), says)
	}
	if got := d.inPlaceOfIptables("iptables-save"); got != rules {
		t.Errorf("the rules were\n%s\nand are\n%s", rules, got)
	}
	d.inPlaceOfIptables("pcn-iptables-clean")
	if got := host.Run("ip", "link", "show", "dev", "lan0"); strings.Contains(got, "xdp") {
		t.Errorf("an XDP program stays on lan0: %s", got)
	}
	lan.Reaches(t, patience, "10.0.0.1")
}
