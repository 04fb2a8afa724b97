// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"errors"
	"maps"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// contents reads a whole table.
func contents[K comparable, V any](t *testing.T, entries table.Table[K, V]) map[K]V {
	t.Helper()
	out := map[K]V{}
	var err error
	for k, v := range entries.All(&err) {
		out[k] = v
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestStepsAreCarriedOutAndUndone(t *testing.T) {
	for _, tt := range []struct {
		name  string
		steps func(table.Table[uint32, uint64]) []cube.Step
		want  map[uint32]uint64
	}{
		{"a new entry", func(entries table.Table[uint32, uint64]) []cube.Step { return []cube.Step{table.Put(entries, 3, 30)} },
			map[uint32]uint64{1: 10, 2: 20, 3: 30}},
		{"another value", func(entries table.Table[uint32, uint64]) []cube.Step { return []cube.Step{table.Put(entries, 1, 11)} },
			map[uint32]uint64{1: 11, 2: 20}},
		{"the same entry twice", func(entries table.Table[uint32, uint64]) []cube.Step {
			return []cube.Step{table.Put(entries, 1, 11), table.Delete(entries, 1), table.Put(entries, 1, 12)}
		}, map[uint32]uint64{1: 12, 2: 20}},
		{"an entry less", func(entries table.Table[uint32, uint64]) []cube.Step { return []cube.Step{table.Delete(entries, 2)} },
			map[uint32]uint64{1: 10}},
		{"an entry that is not there", func(entries table.Table[uint32, uint64]) []cube.Step { return []cube.Step{table.Delete(entries, 9)} },
			map[uint32]uint64{1: 10, 2: 20}},
		{"all others", func(entries table.Table[uint32, uint64]) []cube.Step {
			return []cube.Step{table.Replace(entries, map[uint32]uint64{2: 22, 4: 40})}
		}, map[uint32]uint64{2: 22, 4: 40}},
		{"none", func(entries table.Table[uint32, uint64]) []cube.Step { return []cube.Step{table.Replace(entries, nil)} },
			map[uint32]uint64{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			entries := tableOf[uint32, uint64](t, ebpf.Hash, 4, 8, 4)
			begin := map[uint32]uint64{1: 10, 2: 20}
			for k, v := range begin {
				if err := entries.Set(k, v); err != nil {
					t.Fatal(err)
				}
			}
			steps := tt.steps(entries)
			for range 2 { // a step can be repeated
				var undo cube.Undo
				if err := cube.Carry(steps, &undo); err != nil {
					t.Fatal(err)
				}
				if got := contents(t, entries); !maps.Equal(got, tt.want) {
					t.Errorf("%v, want %v", got, tt.want)
				}
				if err := undo.Run(); err != nil {
					t.Fatal(err)
				}
				if got := contents(t, entries); !maps.Equal(got, begin) {
					t.Errorf("undone: %v, want %v", got, begin)
				}
			}
		})
	}
}

// TestAStepThatFailsChangesNothing: a table for four entries cannot become one of five, and the steps before are undone.
func TestAStepThatFailsChangesNothing(t *testing.T) {
	entries := tableOf[uint32, uint64](t, ebpf.Hash, 4, 8, 4)
	if err := entries.Set(1, 10); err != nil {
		t.Fatal(err)
	}
	var undo cube.Undo
	many := map[uint32]uint64{11: 1, 12: 1, 13: 1, 14: 1, 15: 1}
	if err := cube.Carry([]cube.Step{table.Put(entries, 2, 20), table.Replace(entries, many), table.Put(entries, 3, 30)}, &undo); !errors.Is(err, cube.ErrFull) {
		t.Errorf("five entries: %v", err)
	}
	if got := contents(t, entries); !maps.Equal(got, map[uint32]uint64{1: 10, 2: 20}) {
		t.Errorf("after the failed step: %v", got)
	}
	if err := undo.Run(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, entries); !maps.Equal(got, map[uint32]uint64{1: 10}) {
		t.Errorf("undone: %v", got)
	}
}

func TestReplaceGivesAnArrayZeros(t *testing.T) {
	entries := tableOf[uint32, uint64](t, ebpf.Array, 4, 8, 4)
	if err := entries.Set(0, 1); err != nil {
		t.Fatal(err)
	}
	var undo cube.Undo
	if err := cube.Carry([]cube.Step{table.Replace(entries, map[uint32]uint64{2: 3})}, &undo); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, entries); !maps.Equal(got, map[uint32]uint64{0: 0, 1: 0, 2: 3, 3: 0}) {
		t.Errorf("%v", got)
	}
	if err := undo.Run(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, entries); !maps.Equal(got, map[uint32]uint64{0: 1, 1: 0, 2: 0, 3: 0}) {
		t.Errorf("undone: %v", got)
	}
}

// envOf is an Env with one map, which may be replaced.
type envOf struct {
	cube.Env
	m *ebpf.Map
}

func (e *envOf) Map(string) (*ebpf.Map, error) {
	if e.m == nil {
		return nil, cube.ErrNotFound
	}
	return e.m, nil
}

// TestATableIsTheMapThatThereIs: before the map exists every use is an error; a map that replaces it is used at once,
// and one with other types is refused.
func TestATableIsTheMapThatThereIs(t *testing.T) {
	env := &envOf{}
	entries := table.New[uint32, uint64](env, "m")
	if err := entries.Set(1, 1); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("without a map: %v", err)
	}
	var err error
	for range entries.All(&err) {
		t.Error("an entry of no map")
	}
	if !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("going through no map: %v", err)
	}
	for _, size := range []uint32{4, 8} {
		fresh := tableOf[uint32, uint64](t, ebpf.Hash, 4, 8, size)
		if env.m, err = fresh.Map(); err != nil {
			t.Fatal(err)
		}
		if err := entries.Set(1, uint64(size)); err != nil {
			t.Fatal(err)
		}
		if v, ok, err := fresh.Get(1); !ok || v != uint64(size) || err != nil {
			t.Errorf("the map of %d has %d, %v, %v", size, v, ok, err)
		}
	}
	narrow := tableOf[uint32, uint32](t, ebpf.Hash, 4, 4, 4)
	if env.m, err = narrow.Map(); err != nil {
		t.Fatal(err)
	}
	if err := entries.Set(1, 1); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("values of four bytes: %v", err)
	}
}

func TestSwapPutsASetInPlaceAndBack(t *testing.T) {
	sets := mapOf(t)
	want := func(what string, has map[uint32]uint64) {
		t.Helper()
		inner, ok, err := sets.Get(0)
		if err != nil || ok != (has != nil) {
			t.Fatalf("%s: there is a set: %v, %v", what, ok, err)
		}
		if !ok {
			return
		}
		defer inner.Close()
		if got := contents(t, inner.Table); !maps.Equal(got, has) {
			t.Errorf("%s: %v, want %v", what, got, has)
		}
	}
	var first, second cube.Undo
	one, two := map[uint32]uint64{1: 1}, map[uint32]uint64{1: 2, 2: 2}
	if err := cube.Carry([]cube.Step{table.Swap(sets, 0, maps.All(one))}, &first); err != nil {
		t.Fatal(err)
	}
	want("the first set", one)
	if err := cube.Carry([]cube.Step{table.Swap(sets, 0, maps.All(two))}, &second); err != nil {
		t.Fatal(err)
	}
	want("the second set", two)
	if err := second.Run(); err != nil {
		t.Fatal(err)
	}
	want("the second undone", one)
	if err := first.Run(); err != nil {
		t.Fatal(err)
	}
	want("the first undone", nil)
}

// mapOf is a hash with room for four sets of four entries.
func mapOf(t *testing.T) table.MapOf[uint32, uint32, uint64] {
	t.Helper()
	inner := &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8, MaxEntries: 4}
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.HashOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 4, InnerMap: inner})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	sets, err := table.MapOfOver[uint32, uint32, uint64]("sets", m, inner)
	if err != nil {
		t.Fatal(err)
	}
	return sets
}
