// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

func newMapped(t testing.TB, value, entries uint32) *ebpf.Map {
	t.Helper()
	netns.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: value, MaxEntries: entries, Flags: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func TestAMappedArrayIsTheMemoryOfTheMap(t *testing.T) {
	m := newMapped(t, 16, 1000)
	mapped, err := table.MappedOf[pair]("counters", m)
	if err != nil {
		t.Fatal(err)
	}
	values, err := mapped.Values()
	if err != nil || len(values) != 1000 {
		t.Fatalf("%d values, %v", len(values), err)
	}
	if err := m.Put(uint32(7), pair{1, 2}); err != nil {
		t.Fatal(err)
	}
	if values[7] != (pair{1, 2}) || values[8] != (pair{}) {
		t.Errorf("the map has 7: {1 2}, the memory %v and %v", values[7], values[8])
	}
	values[999] = pair{3, 4}
	again, err := mapped.Values()
	if err != nil || &again[0] != &values[0] {
		t.Errorf("the second call maps again: %v", err)
	}
	var got pair
	if err := m.Lookup(uint32(999), &got); err != nil || got != (pair{3, 4}) {
		t.Errorf("the memory has 999: {3 4}, the map %v, %v", got, err)
	}
	if err := mapped.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mapped.Close(); err != nil {
		t.Errorf("a second Close: %v", err)
	}
}

// TestAMappedArrayIsTheMapThatThereIs: before the map exists it is an error; after it was replaced, the memory is that of
// the new one, and slices of the old one can still be read.
func TestAMappedArrayIsTheMapThatThereIs(t *testing.T) {
	env := &envOf{}
	mapped := table.NewMapped[uint64](env, "m")
	if _, err := mapped.Values(); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("without a map: %v", err)
	}
	var all [][]uint64
	for _, size := range []uint32{4, 8} {
		env.m = newMapped(t, 8, size)
		if err := env.m.Put(uint32(1), uint64(size)); err != nil {
			t.Fatal(err)
		}
		values, err := mapped.Values()
		if err != nil || len(values) != int(size) || values[1] != uint64(size) {
			t.Fatalf("a map of %d: %v, %v", size, values, err)
		}
		all = append(all, values)
	}
	if all[0][1] != 4 {
		t.Errorf("the memory of the map that was replaced has %d", all[0][1])
	}
	if err := mapped.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAMapThatCannotBeMappedIsRefused(t *testing.T) {
	plain := newMap(t, ebpf.Array, 4, 16, 8)
	type short struct{ A uint32 }
	for name, c := range map[string]struct {
		open func() error
		says string
	}{
		"without the flag": {func() error { _, err := table.MappedOf[pair]("m", plain); return err }, "BPF_F_MMAPABLE"},
		"another size":     {func() error { _, err := table.MappedOf[uint64]("m", newMapped(t, 16, 8)); return err }, "a Go type of 8 bytes for a value of 16"},
		"padding": {func() error {
			_, err := table.MappedOf[struct {
				A uint64
				B uint32
			}]("m", newMapped(t, 12, 8))
			return err
		}, "no implicit padding"},
		"four bytes": {func() error { _, err := table.MappedOf[short]("m", newMapped(t, 4, 8)); return err }, "a multiple of 8 bytes"},
	} {
		if err := c.open(); !errors.Is(err, cube.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

// BenchmarkCounters reads 100,000 counters, which a cube with as many may do ten times a second.
func BenchmarkCounters(b *testing.B) {
	const n = 100_000
	m := newMapped(b, 16, n)
	mapped, err := table.MappedOf[pair]("counters", m)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("mapped", func(b *testing.B) {
		var sum uint64
		for b.Loop() {
			values, err := mapped.Values()
			if err != nil {
				b.Fatal(err)
			}
			for i := range values {
				sum += values[i].A
			}
		}
	})
	b.Run("table", func(b *testing.B) {
		counters, err := table.Of[uint32, pair]("counters", m)
		if err != nil {
			b.Fatal(err)
		}
		var sum uint64
		for b.Loop() {
			for _, v := range counters.All(&err) {
				sum += v.A
			}
			if err != nil {
				b.Fatal(err)
			}
		}
	})
	if err := mapped.Close(); err != nil {
		b.Fatal(err)
	}
}
