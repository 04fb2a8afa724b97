// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// TestEntriesAreCounted: as many as were put in, whatever the type of the map and the size of its keys and values, up to
// the bound.
func TestEntriesAreCounted(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	const noPrealloc = unix.BPF_F_NO_PREALLOC
	tests := []struct {
		spec    ebpf.MapSpec
		entries int
		want    int
	}{
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 100}, 0, 0},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 100}, 100, 100},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 7, ValueSize: 3, MaxEntries: 50000, Flags: noPrealloc}, 40000, 40000},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 64, ValueSize: 4000, MaxEntries: 600}, 600, 600},
		{ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 1, MaxEntries: bpfmap.MaxCounted + 1000, Flags: noPrealloc}, bpfmap.MaxCounted + 5, bpfmap.MaxCounted},
		{ebpf.MapSpec{Type: ebpf.LRUHash, KeySize: 4, ValueSize: 8, MaxEntries: 10000}, 50, 50},
		{ebpf.MapSpec{Type: ebpf.PerCPUHash, KeySize: 4, ValueSize: 3, MaxEntries: 500}, 321, 321},
		{ebpf.MapSpec{Type: ebpf.LPMTrie, KeySize: 8, ValueSize: 4, MaxEntries: 500, Flags: noPrealloc}, 77, 77},
		{ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 10}, 0, -1},
		{ebpf.MapSpec{Type: ebpf.RingBuf, MaxEntries: 4096}, 0, -1},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s_%d_of_%d", tt.spec.Type, tt.entries, tt.spec.MaxEntries), func(t *testing.T) {
			t.Parallel()
			m, err := ebpf.NewMap(&tt.spec)
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			putMany(t, m, tt.entries)
			u, err := usageOf(m, "m")
			if err != nil || u.Entries != tt.want || u.MaxEntries != m.MaxEntries() || u.Name != "m" {
				t.Errorf("%+v, %v, want %d entries", u, err, tt.want)
			}
			if u.Bytes == 0 {
				t.Errorf("%+v takes no memory", u)
			}
		})
	}
}

// putMany puts so many entries into a map.
func putMany(t *testing.T, m *ebpf.Map, entries int) {
	t.Helper()
	value := any(make([]byte, m.ValueSize()))
	if m.Type() == ebpf.PerCPUHash {
		all := make([][]byte, ebpf.MustPossibleCPU())
		for i := range all {
			all[i] = make([]byte, m.ValueSize())
		}
		value = all
	}
	for i := range entries {
		key := make([]byte, m.KeySize())
		if m.Type() == ebpf.LPMTrie {
			binary.NativeEndian.PutUint32(key, 32)
			binary.BigEndian.PutUint32(key[4:], uint32(i))
		} else {
			binary.NativeEndian.PutUint32(key, uint32(i))
		}
		if err := m.Put(key, value); err != nil {
			t.Fatal(err)
		}
	}
}

// TestManyCountersAreReadAsOne: the reader of many says what is said of one, and how full the maps are is known of a
// cube that runs and not of one that went.
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

// TestRelinkFailureClasses: an error has one class, whatever it is wrapped in.
func TestRelinkFailureClasses(t *testing.T) {
	for want, err := range map[string]error{
		"too-large": fmt.Errorf("x: %w", link.ErrTooLarge), "resources": unix.ENOMEM, "other": errors.New("x"),
		"verifier": fmt.Errorf("x: %w", &ebpf.VerifierError{Cause: unix.EACCES}),
	} {
		if got := relinkFailure(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
