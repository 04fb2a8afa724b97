// SPDX-License-Identifier: Apache-2.0

// The firewall of a web service and its load balancer have one stack: what efw leaves to the rules there, elb does not take past
// them.

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// webLimited are rules that efw cannot carry out, for some sources.
var webLimited = []string{"-I INPUT 3 -s 198.19.7.0/24 -m limit --limit 1/hour --limit-burst 1 -j RETURN", "-I INPUT 4 -s 198.19.7.0/24 -j DROP"}

// asks sends a SYN for the service from each of 50 addresses that begin like this.
func (h *webHost) asks(begin string) {
	h.t.Helper()
	raw := netns.OpenRaw(h.t, h.network, netns.Inner)
	for i := range 50 {
		frame := pkt.Eth(h.network.MAC.String(), h.network.OuterMAC.String()).IPv4(fmt.Sprintf("%s.%d", begin, 1+i), "10.0.0.1").
			TCP(4000, 80, pkt.TCPFlags{SYN: true}).Bytes()
		if err := raw.Send(frame); err != nil {
			h.t.Fatal(err)
		}
	}
}

// come waits until all SYNs that were sent are counted.
func (h *webHost) come(what string, opened, undecided uint64) {
	h.t.Helper()
	netns.Eventually(h.t, patience, func() error {
		if s := h.sessions(); s.Opened != opened || s.Undecided != undecided {
			return fmt.Errorf("%s: %+v, want %d opened and %d undecided", what, s, opened, undecided)
		}
		return nil
	})
}

func TestRulesThatEfwLeavesToTheStackAreNotAvoided(t *testing.T) {
	t.Parallel()
	needsWeb(t)
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			h := newWebHost(t, typ)
			h.takenOver(h.proxy())
			for _, rule := range webLimited {
				h.lab.Run("iptables-nft", strings.Fields(rule)...)
			}
			h.reports("198.19.7.0/24")
			was := h.sessions()
			opened, undecided := was.Opened, was.Undecided

			h.asks("198.19.8")
			opened += 50
			h.come("accepted by rules that efw knows", opened, undecided)
			h.asks("198.19.7")
			undecided += 50
			h.come("rules of the stack", opened, undecided)
			if text := h.lab.Run("iptables-nft", "-L", "INPUT", "-v", "-n", "-x"); !strings.Contains(strings.Join(strings.Fields(text), " "), " 49 1960 DROP ") {
				t.Errorf("the rules have counted\n%s", text)
			}
			h.asks("198.18.1")
			h.come("dropped", opened, undecided)

			// A chain in front may do anything to packets, so efw does not know what becomes of them.
			h.lab.Run("nft", "add table ip early; add chain ip early in { type filter hook prerouting priority raw; }; add rule ip early in ip saddr 198.18.2.0/24 counter drop")
			netns.Eventually(t, patience, func() error {
				if report := h.Must(http.StatusOK, http.MethodGet, "/efw/efw1/report", ""); !strings.Contains(report, "early") {
					return fmt.Errorf("the report is %s", report)
				}
				return nil
			})
			h.asks("198.18.2")
			undecided += 50
			h.come("a chain in front", opened, undecided)
			if h.connect().fast() {
				t.Error("elb has a connection although efw does not know what the rules say")
			}
		})
	}
}
