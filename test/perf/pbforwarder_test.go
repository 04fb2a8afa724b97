// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"slices"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/lab"
)

func TestFramesMatchTheOneRuleThatTheyAreOf(t *testing.T) {
	const n = 300
	rs := newRuled(n)
	if len(rs.rules) != n {
		t.Fatalf("%d rules, want %d", len(rs.rules), n)
	}
	for _, kind := range packetKinds {
		want := 1
		if kind == noRule {
			want = 0
		}
		if len(rs.frames[kind]) == 0 {
			t.Errorf("packets %s: there is none", kind)
		}
		for _, f := range rs.frames[kind] {
			k, _ := classifier.KeyOf(f, 0, 0)
			matches, last := 0, 0
			for i := range rs.rules {
				if m := rs.rules[i].Match(); m.Matches(&k) {
					matches, last = matches+1, i
				}
			}
			if matches != want || kind == lastRule && last != n-1 {
				t.Errorf("packets %s: %x matches %d rules, rule %d at last; want %d", kind, f, matches, last, want)
			}
		}
	}
}

// All compared forwarders do the same: each frame that a rule matches passes, and no other.
func TestAllPeersForwardWhatTheRulesSay(t *testing.T) {
	netns.NeedRoot(t)
	rs := newRuled(500)
	for _, by := range ruleForwarders {
		if by.name == nothing || by.name == rulesXDP || by.name == rulesTC {
			continue // ours are compared with nftables
		}
		t.Run(by.name, func(t *testing.T) {
			err := lab.With(t.Context(), func(rig *lab.Rig) error { return forwards(t, rig, by, rs) })
			if err != nil {
				t.Error(err)
			}
		})
	}
}

func forwards(t *testing.T, rig *lab.Rig, by ruleForwarder, rs *ruled) error {
	w, err := rig.NewFrameWire()
	if err == nil {
		err = rig.Sink(w, cube.XDP)
	}
	if err == nil {
		err = by.setup(rig, &Run{}, w, rs)
	}
	if err != nil {
		return err
	}
	var dropped uint64
	for _, kind := range []packetKind{noRule, anyRule} { // the last rule is after all others
		for group := range slices.Chunk(rs.frames[kind], 64) { // fewer than a veth has room for
			if err := w.Frames(group); err != nil {
				return err
			}
			if err := netns.OnCPU(0, func() error { return w.Send(len(group)) }); err != nil {
				return err
			}
			c, err := w.Counts()
			if err != nil {
				return err
			}
			if kind == noRule {
				dropped = c.Sent
				continue
			}
			netns.Eventually(t, bpftest.Patience, func() error {
				c, err := w.Counts()
				if err == nil && (c.Wrong > 0 || c.Received != c.Sent-dropped) {
					err = fmt.Errorf("%d of %d frames of rules have arrived, and %d of no rule", c.Received, c.Sent-dropped, c.Wrong)
				}
				return err
			})
		}
	}
	return nil
}
