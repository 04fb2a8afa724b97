// SPDX-License-Identifier: Apache-2.0

// Rules about the program that sends a packet.

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestRulesKnowTheOwner as those of Linux do: each user and group opens a connection through each rule, there and here.
func TestRulesKnowTheOwner(t *testing.T) {
	t.Parallel()
	needs(t, "setpriv")
	needs(t, "iptables-nft")
	d := start(t)
	_, wan := d.betweenNetworks()
	wan.AnswerLines("203.0.113.2:7000", sender)
	host := &netns.Node{Namespace: d.lab.Namespace}
	rules := []string{
		"--uid-owner 4243", "! --uid-owner 4243", "--gid-owner 4242", "! --gid-owner 4242", "--gid-owner 4000-4241", "--gid-owner 4242-5000",
		"--uid-owner 4243 --gid-owner 4242", "--uid-owner 0-100 ! --gid-owner 4242", "--socket-exists", "! --socket-exists",
	}
	const with = "-p tcp --syn --dport 7000 -m owner %s -j REJECT --reject-with tcp-reset"
	outcomes := func(iptables func(args string)) (out []string) {
		for _, owner := range rules {
			iptables("-A OUTPUT " + fmt.Sprintf(with, owner))
			for _, ids := range [][2]string{{"0", "0"}, {"4243", "4242"}, {"0", "4242"}, {"4243", "0"}} {
				err := host.Command("timeout", "5", "setpriv", "--reuid", ids[0], "--regid", ids[1], "--clear-groups",
					"bash", "-c", ": < /dev/tcp/203.0.113.2/7000").Run()
				out = append(out, fmt.Sprintf("%s, user %s, group %s: connects %t", owner, ids[0], ids[1], err == nil))
			}
			iptables("-F OUTPUT")
		}
		return out
	}
	want := outcomes(func(args string) { host.Run("iptables-nft", strings.Fields(args)...) })
	refused := 0
	for _, outcome := range want {
		if strings.HasSuffix(outcome, " false") {
			refused++
		}
	}
	if refused < 10 || refused > len(want)-10 {
		t.Fatalf("Linux refuses %d of %d connections: this compares nothing", refused, len(want))
	}
	d.inPlaceOfIptables("pcn-iptables-init")
	for i, got := range outcomes(func(args string) { d.inPlaceOfIptables("iptables " + args) }) {
		if got != want[i] {
			t.Errorf("%s, want %s", got, want[i])
		}
	}
}
