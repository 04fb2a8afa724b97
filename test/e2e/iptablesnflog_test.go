// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestProgramsReceivePacketsOfNFLOG: tcpdump listens to the group of a rule of each chain.
func TestProgramsReceivePacketsOfNFLOG(t *testing.T) {
	t.Parallel()
	needs(t, "tcpdump")
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.inPlaceOfIptables(`
		pcn-iptables-init
		iptables -A INPUT -p icmp -j NFLOG --nflog-group 5 --nflog-prefix "in: "
		iptables -A FORWARD -i lan0 -p icmp -j NFLOG --nflog-group 6 --nflog-size 60 --nflog-threshold 4
		iptables -N sent
		iptables -A sent -j NFLOG
		iptables -A OUTPUT -p icmp -g sent
		iptables -S INPUT | grep -qx -- '-A INPUT -p icmp -j NFLOG --nflog-prefix "in: " --nflog-group 5'`)
	for _, c := range []struct{ group, to, sees string }{
		{"5", "10.0.0.1", "10.0.0.2 > 10.0.0.1: ICMP echo request"}, {"6", "203.0.113.2", "10.0.0.2 > 203.0.113.2: ICMP echo request"},
		{"0", "10.0.0.1", "10.0.0.1 > 10.0.0.2: ICMP echo reply"},
	} {
		seen := capture(t, d.lab.Command("timeout", "20", "tcpdump", "-n", "-i", "nflog:"+c.group, "-c", "2"))
		if err := lan.Ping(c.to, netns.PingOptions{Count: 10}); err != nil {
			t.Error(err)
		}
		if got := seen(); strings.Count(got, c.sees) != 2 {
			t.Errorf("group %s: tcpdump has seen %s", c.group, got)
		}
	}
}
