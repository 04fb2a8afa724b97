// SPDX-License-Identifier: Apache-2.0

package series

import (
	"encoding/binary"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/sketch"
	"github.com/polycube/polycube/test/netns"
)

func TestMapsOfEachTypeAreReadAndEmptied(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	const entries = 9000 // more than a batch
	for _, typ := range []ebpf.MapType{ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.Array, ebpf.PerCPUArray, ebpf.LPMTrie, ebpf.Queue, ebpf.Stack} {
		s := &ebpf.MapSpec{Name: "test", Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: entries}
		switch typ {
		case ebpf.LRUHash, ebpf.LRUCPUHash:
			s.MaxEntries = 4 * entries // it evicts before it is full
		case ebpf.LPMTrie:
			s.KeySize, s.Flags = 8, 1
		case ebpf.Queue, ebpf.Stack:
			s.KeySize = 0
		}
		m, err := ebpf.NewMap(s)
		if err != nil {
			t.Fatal(err)
		}
		fillMap(t, m, entries)
		shape, err := ShapeOf(&ebpf.MapSpec{Type: typ, KeySize: s.KeySize, ValueSize: 8, Value: u64, MaxEntries: s.MaxEntries}, sketch.Seed{})
		if err != nil {
			t.Fatal(err)
		}
		for round, empty := range []bool{false, true, false} {
			e, err := Read(m, empty)
			if err != nil {
				t.Fatalf("%s: %v", typ, err)
			}
			sum := uint64(0)
			for i := range e.Len {
				for cpu := range e.CPUs {
					sum += shape.value.number(e.Value(i, cpu))
				}
			}
			want := uint64(entries * (entries - 1) / 2 * e.CPUs)
			if round == 2 || round == 1 && isQueue(typ) {
				want = 0
			}
			if sum != want {
				t.Errorf("%s, reading %d: the values of %d entries add up to %d, want %d", typ, round, e.Len, sum, want)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// fillMap writes the values 0, 1, 2 ..., on each CPU.
func fillMap(t *testing.T, m *ebpf.Map, entries int) {
	t.Helper()
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	for i := range entries {
		key := binary.NativeEndian.AppendUint32(nil, uint32(i))
		var value any = uint64(i)
		switch {
		case isPerCPU(m.Type()):
			all := make([]uint64, cpus)
			for cpu := range all {
				all[cpu] = uint64(i)
			}
			value = all
		case isQueue(m.Type()):
			key = nil
		case m.Type() == ebpf.LPMTrie:
			key = append([]byte{32, 0, 0, 0}, key...)
		}
		if key == nil {
			err = m.Put(nil, value)
		} else {
			err = m.Put(key, value)
		}
		if err != nil {
			t.Fatalf("%s: %v", m.Type(), err)
		}
	}
}
