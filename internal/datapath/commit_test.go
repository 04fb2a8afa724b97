// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/expedite"
	"github.com/polycube/polycube/test/netns"
)

// TestTimedTheFiveHundredthPortCostsWhatTheFifthDoes attaches ports one by one: the part of the time that grows with
// the number of ports must stay small compared with the constant part, on each hook. A temporary disturbance of the
// machine is not growth, so the fastest of a few counts, and the last ports are attached again until they are as fast
// or the time is up.
func TestTimedTheFiveHundredthPortCostsWhatTheFifthDoes(t *testing.T) {
	in(t, []setting{settings[0], settings[3]}, func(t *testing.T, b *bench) {
		const ports, around = 500, 16
		c := b.cube("probe", ports, map[string]any{"what": uint32(2)})
		names := b.pairs(ports / 2)
		put := func(i int, peer Peer) (took time.Duration) {
			c.Ports[uint16(i)].Peer = peer
			g := cloneOf(b.g)
			b.must(func() error {
				start := time.Now()
				ch, err := b.plane.Prepare(t.Context(), g)
				if err == nil {
					err = ch.Commit()
				}
				took = time.Since(start)
				return err
			})
			return took
		}
		var gen *segments.Generation
		took := make([]time.Duration, ports)
		for i, name := range names {
			b.netdev(name).MTU = 1500
			took[i] = put(i, Peer{Netdev: name})
			if gen == nil {
				gen = b.generation()
			}
		}
		if b.generation() != gen {
			t.Error("ports relinked the component")
		}
		fifth, last := slices.Min(took[2:2+around]), slices.Min(took[ports-around:])
		limit := 5*fifth + 2*time.Millisecond
		netns.Eventually(t, 4*soon, func() error {
			if last <= limit {
				return nil
			}
			for i := ports - around; i < ports; i++ {
				put(i, Peer{})
				last = min(last, put(i, Peer{Netdev: names[i]}))
			}
			return fmt.Errorf("port 500 takes %s, port 5 %s: more than %s", last, fifth, limit)
		})
		t.Logf("port 5: %s, port 500: %s", fifth.Round(time.Microsecond), last.Round(time.Microsecond))
	})
}

// TestACommitLeavesGracePeriodsAsTheyWere reads the kernel's setting.
func TestACommitLeavesGracePeriodsAsTheyWere(t *testing.T) {
	if _, err := os.Stat(expedite.File); err != nil {
		t.Skipf("needs %s: %v", expedite.File, err)
	}
	in(t, settings[:1], func(t *testing.T, b *bench) {
		c := b.cube("probe", 1, nil)
		b.host("a", "", c, 0)
		b.commit()
		netns.Eventually(t, soon, func() error { // others may be changing something right now
			now, err := os.ReadFile(expedite.File)
			if err == nil && strings.TrimSpace(string(now)) == strconv.Itoa(expedite.Ours) {
				err = fmt.Errorf("%s has %s", expedite.File, now)
			}
			return err
		})
	})
}
