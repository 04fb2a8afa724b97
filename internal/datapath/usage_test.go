// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// TestManyCountersAreReadAsOne: the reader of many counters returns the same as that of one, and how full the maps are
// is known of a running cube and not of a deleted one.
func TestManyCountersAreReadAsOne(t *testing.T) {
	in(t, few, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		for range 5 {
			b.passes(a, z, frame("x"))
		}
		b.packets(two, 0, 5, 0)
		read := b.plane.CounterReader()
		for _, n := range []*Node{one, two} {
			for _, p := range n.Ports {
				got, err := read(p.Slot)
				if want, wrong := b.plane.PortCounters(p.Slot); err != nil || wrong != nil || got != want {
					t.Errorf("%s %s: %+v, %v, want %+v", n.Name, p.Name, got, err, want)
				}
			}
		}
		if _, err := read(MaxSlot + 1); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("a slot that is none: %v", err)
		}
		if got := b.plane.MapUsage(one.ID); len(got) == 0 || got[0].MaxEntries == 0 {
			t.Errorf("maps %+v", got)
		}
		if got := b.plane.MapUsage(999); got != nil {
			t.Errorf("maps of no cube: %+v", got)
		}
	})
}

// TestRelinksAreCountedAndTold: in both modes, with the cubes concerned.
func TestRelinksAreCountedAndTold(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	b := newBench(t, setting{typ: cube.TypeTC, mode: ModeAuto})
	var mu sync.Mutex
	var told []string
	b.close()
	b.opts.Relinked = func(r Relinked) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, r.Mode)
		if len(r.Cubes) != 2 || r.Instructions == 0 {
			t.Errorf("%+v, want both cubes", r)
		}
	}
	b.open()
	one, _, _, _ := b.chain()
	netns.Eventually(t, soon, func() error {
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(told, []string{"call", "inline"}) {
			return fmt.Errorf("told of %v, want call and inline", told)
		}
		return nil
	})
	a := b.plane.Activity()
	if a.Relinks["call"].Count != 1 || a.Relinks["inline"].Count != 1 || len(a.Failures) != 0 || a.Relinks["call"].Sum <= 0 {
		t.Errorf("activity %+v", a)
	}
	if s := b.plane.Segments(); len(s) != 1 || s[0].Cubes != 2 || s[0].First != one.Name || s[0].Mode != "inline" || s[0].Maps < 2 {
		t.Errorf("segments %+v", s)
	}
}
