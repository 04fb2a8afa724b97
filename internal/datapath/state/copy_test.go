// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/test/netns"
)

// Each type of map is copied whole, into one that is larger.
func TestEntriesOfAllTypesAreCopied(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	inner := &ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 8, MaxEntries: 2}
	for _, typ := range mapTypes {
		spec := &ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: 300}
		switch typ {
		case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
			spec.ValueSize, spec.InnerMap = 4, inner
		case ebpf.LPMTrie:
			spec.KeySize, spec.Flags = 8, 1
		case ebpf.Queue, ebpf.Stack, ebpf.BloomFilter, ebpf.RingBuf:
			continue
		}
		t.Run(typ.String(), func(t *testing.T) {
			n := 300
			room := uint32(n)
			switch typ {
			case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
				n = 12 // each costs a grace period
				room = 12
			case ebpf.LRUHash, ebpf.LRUCPUHash:
				// Each processor on which the test happens to run takes a batch of up to 128 free entries for itself.
				room += uint32(128 * ebpf.MustPossibleCPU())
			}
			from, to := newMap(t, spec, room), newMap(t, spec, room+100)
			fill(t, from, inner, n)
			copied := bpfmap.Image{}
			if err := bpfmap.Copy(from, to, copied); err != nil {
				t.Fatal(err)
			}
			wantSame(t, from, to, n)
			late := &succession{was: from, now: to, copied: copied}
			if err := errors.Join(late.catchUp(), late.follow()); err != nil {
				t.Errorf("nothing follows: %v", err)
			}
			wantSame(t, from, to, n)
			small := newMap(t, spec, 10)
			err := bpfmap.Copy(from, small, nil)
			switch typ {
			case ebpf.Array, ebpf.PerCPUArray, ebpf.ArrayOfMaps:
				if err != nil {
					t.Errorf("the beginning of an array: %v", err)
				}
				wantSame(t, from, small, 10)
			case ebpf.LRUHash, ebpf.LRUCPUHash: // it forgets
			default:
				if !errors.Is(err, cube.ErrFull) {
					t.Errorf("into a smaller one: %v", err)
				}
			}
		})
	}
	for _, typ := range []ebpf.MapType{ebpf.Queue, ebpf.BloomFilter} {
		spec := &ebpf.MapSpec{Type: typ, ValueSize: 8, MaxEntries: 16}
		if err := bpfmap.Copy(newMap(t, spec, 16), newMap(t, spec, 32), nil); !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func newMap(t *testing.T, spec *ebpf.MapSpec, entries uint32) *ebpf.Map {
	t.Helper()
	s := spec.Copy()
	s.MaxEntries = entries
	m, err := ebpf.NewMap(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// key is the n-th of a map's keys.
func key(m *ebpf.Map, n int) []byte {
	k := make([]byte, m.KeySize())
	if m.Type() == ebpf.LPMTrie {
		k[0], k[4], k[5] = 32, byte(n), byte(n>>8)
		return k
	}
	k[0], k[1] = byte(n), byte(n>>8)
	return k
}

func fill(t *testing.T, m *ebpf.Map, inner *ebpf.MapSpec, entries int) {
	t.Helper()
	for n := range entries {
		var value any = []byte{byte(n), byte(n >> 8), 1, 0, 0, 0, 0, 9}
		switch m.Type() {
		case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
			value = [][]byte{value.([]byte), {byte(n), 2, 0, 0, 0, 0, 0, 0}}[:ebpf.MustPossibleCPU()]
		case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
			value = newMap(t, inner, 2)
		}
		if err := m.Put(key(m, n), value); err != nil {
			t.Fatal(err)
		}
	}
}

func wantSame(t *testing.T, from, to *ebpf.Map, n int) {
	t.Helper()
	for i := range n {
		a, err1 := from.LookupBytes(key(from, i))
		b, err2 := to.LookupBytes(key(to, i))
		if err := errors.Join(err1, err2); err != nil || a == nil || string(a) != string(b) {
			t.Fatalf("entry %d is % x, was % x (%v)", i, b, a, err)
		}
	}
}
