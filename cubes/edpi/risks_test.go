// SPDX-License-Identifier: Apache-2.0

package edpi_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// TestRisksAreNamedAndAnnounced: by name where there is one, once for each flow, and not one by one if there are many.
func TestRisksAreNamedAndAnnounced(t *testing.T) {
	each(t, `{"timeout":600}`, func(t *testing.T, r *rig) {
		r.alive(true)
		r.run("a query", "veth1", udp(1, 53), "")
		r.decide(udp(1, 53), dpi.Class{Protocol: dns, Category: media, Risks: 1<<1 | 1<<40})
		risks := func() string {
			t.Helper()
			for raw := range r.Entries("c flow") {
				var e struct {
					Port  int `json:"source-port"`
					Risks string
				}
				if err := json.Unmarshal(raw, &e); err != nil {
					t.Fatal(err)
				}
				if e.Port == 1 {
					return e.Risks
				}
			}
			t.Fatal("the flow is not there")
			return ""
		}
		if got := risks(); got != "1, 40" {
			t.Errorf("before names are known, risks are %q, want their numbers", got)
		}
		r.announce()
		r.decide(udp(1, 53), dpi.Class{Protocol: dns, Category: media, Risks: 1<<1 | 1<<40 | 1<<41})
		told := func(want ...string) {
			t.Helper()
			netns.Eventually(t, bpftest.Patience, func() error {
				all := strings.Join(r.Events("cube"), "\n")
				for _, w := range want {
					if strings.Count(all, w) != 1 {
						return fmt.Errorf("events are\n%s\nwant %q once", all, w)
					}
				}
				return nil
			})
		}
		if got := risks(); got != "Weak Cipher, 40, 41" {
			t.Errorf("risks are %q, want a name and two numbers", got)
		}
		told("UDP from 10.0.0.1 port 1 to 10.0.0.2 port 53: Weak Cipher, 40, 41")
		const many = 40
		for port := range uint16(many) {
			r.run("one of many", "veth1", udp(1000+port, 53), "")
		}
		for port := range uint16(many) {
			r.decide(udp(1000+port, 53), dpi.Class{Protocol: dns, Risks: 1 << 1})
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			single, rest := 0, 0
			for _, e := range r.Events("cube") {
				var n int
				if _, err := fmt.Sscanf(e[strings.LastIndex(e, ": ")+2:], "%d more flows have risks", &n); err == nil {
					rest += n
				} else if strings.Contains(e, " port 10") && strings.HasSuffix(e, ": Weak Cipher") {
					single++
				}
			}
			if single < 10 || rest == 0 || single+rest != many {
				return fmt.Errorf("%d flows are announced alone and %d together, want %d, of which 10 of a sweep alone:\n%s", single, rest, many, strings.Join(r.Events("cube"), "\n"))
			}
			return nil
		})
		told("UDP from 10.0.0.1 port 1 to 10.0.0.2 port 53: Weak Cipher, 40, 41")
	})
}
