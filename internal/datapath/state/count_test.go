// SPDX-License-Identifier: Apache-2.0

package state

import (
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
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
