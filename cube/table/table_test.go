// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

// pair is a value of 16 bytes.
type pair struct{ A, B uint64 }

// prefix is a key of an LPM trie.
type prefix struct {
	Bits    uint32
	Address [4]byte
}

func newMap(t *testing.T, typ ebpf.MapType, key, value, entries uint32) *ebpf.Map {
	t.Helper()
	netns.NeedRoot(t)
	spec := &ebpf.MapSpec{Type: typ, KeySize: key, ValueSize: value, MaxEntries: entries}
	if typ == ebpf.LPMTrie {
		spec.Flags = 1 // BPF_F_NO_PREALLOC
	}
	m, err := ebpf.NewMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

func tableOf[K comparable, V any](t *testing.T, typ ebpf.MapType, key, value, entries uint32) table.Table[K, V] {
	t.Helper()
	table, err := table.Of[K, V]("fdb", newMap(t, typ, key, value, entries))
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// all reads a table into a map, and fails if a key is returned twice.
func all[K comparable, V any](t *testing.T, table table.Table[K, V]) map[K]V {
	t.Helper()
	got := map[K]V{}
	var err error
	for k, v := range table.All(&err) {
		if _, twice := got[k]; twice {
			t.Errorf("%v comes twice", k)
		}
		got[k] = v
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func TestATableIsReadAndWritten(t *testing.T) {
	for _, typ := range []ebpf.MapType{ebpf.Hash, ebpf.LRUHash} {
		table := tableOf[uint32, pair](t, typ, 4, 16, 8)
		if err := table.Set(5, pair{1, 2}); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := table.Get(5); got != (pair{1, 2}) || !ok || err != nil {
			t.Errorf("%s: got %v %v %v", typ, got, ok, err)
		}
		if _, ok, err := table.Get(6); ok || err != nil {
			t.Errorf("%s: what is not there: %v %v", typ, ok, err)
		}
		if added, err := table.Add(5, pair{3, 3}); added || err != nil {
			t.Errorf("%s: adding what is there: %v %v", typ, added, err)
		}
		if added, err := table.Add(7, pair{7, 7}); !added || err != nil {
			t.Errorf("%s: adding: %v %v", typ, added, err)
		}
		if got, ok, err := table.LookupAndDelete(7); got != (pair{7, 7}) || !ok || err != nil {
			t.Errorf("%s: taking: %v %v %v", typ, got, ok, err)
		}
		if _, ok, err := table.LookupAndDelete(7); ok || err != nil {
			t.Errorf("%s: taking again: %v %v", typ, ok, err)
		}
		if gone, err := table.Delete(5); !gone || err != nil {
			t.Errorf("%s: deleting: %v %v", typ, gone, err)
		}
		if gone, err := table.Delete(5); gone || err != nil {
			t.Errorf("%s: deleting again: %v %v", typ, gone, err)
		}
		if got := all(t, table); len(got) != 0 {
			t.Errorf("%s: left are %v", typ, got)
		}
	}
}

func TestEveryEntryIsReadOnce(t *testing.T) {
	tests := []struct {
		typ  ebpf.MapType
		size uint32
		n    int
	}{
		{ebpf.Hash, 1, 0}, {ebpf.Hash, 1, 1}, {ebpf.Hash, 5000, 5000}, {ebpf.Hash, 100000, 3}, {ebpf.LRUHash, 20000, 3000},
		{ebpf.Array, 1, 1}, {ebpf.Array, 1024, 1024}, {ebpf.Array, 2500, 2500},
	}
	for _, tt := range tests {
		table := tableOf[uint32, pair](t, tt.typ, 4, 16, tt.size)
		want := map[uint32]pair{}
		var keys []uint32
		var values []pair
		for i := range uint32(tt.n) {
			want[i] = pair{uint64(i), 9}
			keys, values = append(keys, i), append(values, want[i])
		}
		if n, err := table.SetAll(keys, values); n != tt.n || err != nil {
			t.Fatalf("%s of %d: wrote %d, %v", tt.typ, tt.size, n, err)
		}
		if got := all(t, table); !maps.Equal(got, want) {
			t.Errorf("%s of %d: read %d entries, want %d", tt.typ, tt.size, len(got), tt.n)
		}
		if err := table.Clear(); err != nil {
			t.Fatal(err)
		}
		got := all(t, table)
		for k, v := range got {
			if v != (pair{}) || tt.typ != ebpf.Array {
				t.Errorf("%s: after Clear, %d is %v", tt.typ, k, v)
			}
		}
	}
}

func TestAPrefixTableIsReadOnce(t *testing.T) {
	table := tableOf[prefix, uint64](t, ebpf.LPMTrie, 8, 8, 600)
	want := map[prefix]uint64{}
	for i := range 500 {
		k := prefix{24, [4]byte{10, byte(i >> 8), byte(i), 0}}
		want[k] = uint64(i)
		if err := table.Set(k, uint64(i)); err != nil {
			t.Fatal(err)
		}
	}
	// Deleting a key just read makes the kernel restart from the beginning.
	var err error
	read := map[prefix]bool{}
	for k := range table.All(&err) {
		if read[k] {
			t.Fatalf("%v comes twice", k)
		}
		read[k] = true
		if _, err := table.Delete(k); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || len(read) != 500 {
		t.Errorf("read %d of 500, %v", len(read), err)
	}
	for k, v := range want {
		if err := table.Set(k, v); err != nil {
			t.Fatal(err)
		}
	}
	if got := all(t, table); !maps.Equal(got, want) {
		t.Errorf("read %d of 500", len(got))
	}
	if err := drained(table); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("draining it: %v", err)
	}
	if _, _, err := table.LookupAndDelete(prefix{24, [4]byte{10, 0, 0, 0}}); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("taking one out: %v", err)
	}
	if err := table.Clear(); err != nil || len(all(t, table)) != 0 {
		t.Errorf("after Clear %d are there, %v", len(all(t, table)), err)
	}
}

func TestErrorsSayHowFarAWriteCame(t *testing.T) {
	table := tableOf[uint32, pair](t, ebpf.Hash, 4, 16, 4)
	keys := []uint32{1, 2, 3, 4, 5, 6}
	n, err := table.SetAll(keys, make([]pair, 6))
	if n != 4 || !errors.Is(err, cube.ErrFull) || !strings.Contains(err.Error(), "4 of 6 entries were written: map fdb: writing 5") {
		t.Errorf("wrote %d, %v", n, err)
	}
	if got := all(t, table); len(got) != 4 {
		t.Errorf("%d entries are there", len(got))
	}
	if err := table.Set(9, pair{}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a fifth entry: %v", err)
	}
	if _, err := table.SetAll(keys, nil); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("keys without values: %v", err)
	}
	if n, err := table.DeleteAll([]uint32{9, 1, 8, 3, 7}); n != 2 || err != nil {
		t.Errorf("deleted %d of 2, %v", n, err)
	}
	if got := slices.Sorted(maps.Keys(all(t, table))); !slices.Equal(got, []uint32{2, 4}) {
		t.Errorf("left are %v", got)
	}

	array := tableOf[uint32, pair](t, ebpf.Array, 4, 16, 4)
	if n, err := array.SetAll(keys, make([]pair, 6)); n != 3 || !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("an array of 4: wrote %d, %v", n, err)
	}
	for what, err := range map[string]error{
		"Delete":    second(array.Delete(1)),
		"DeleteAll": second(array.DeleteAll(keys[:1])),
		"Drain":     drained(array),
	} {
		if !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("%s of an array: %v", what, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func drained[K comparable, V any](table table.Table[K, V]) (err error) {
	for range table.Drain(&err) {
		continue // the content does not matter
	}
	return err
}

func TestTypesThatDoNotFitAreRefused(t *testing.T) {
	hash, counters := newMap(t, ebpf.Hash, 4, 16, 4), newMap(t, ebpf.PerCPUArray, 4, 8, 4)
	queue := newMap(t, ebpf.Queue, 0, 8, 4)
	tests := map[string]error{
		"a key too long":       second(table.Of[uint64, pair]("m", hash)),
		"a value too short":    second(table.Of[uint32, uint64]("m", hash)),
		"a key without size":   second(table.Of[int, pair]("m", hash)),
		"per CPU as one":       second(table.Of[uint32, uint64]("m", counters)),
		"one as per CPU":       second(table.PerCPUOf[uint32, pair]("m", hash)),
		"per CPU of four":      second(table.PerCPUOf[uint32, uint32]("m", counters)),
		"a hash as a queue":    second(table.QueueOf[pair]("m", hash)),
		"a hash as sets":       second(table.MapOfOver[uint32, uint32, uint32]("m", hash, nil)),
		"a queue of four":      second(table.QueueOf[uint32]("m", queue)),
		"entries of a queue":   second(table.Of[uint32, uint64]("m", queue)),
		"more CPUs than exist": perCPUOf(t, counters).Set(0, make([]uint64, 4096)...),
	}
	for what, err := range tests {
		if !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func perCPUOf(t *testing.T, m *ebpf.Map) table.PerCPU[uint32, uint64] {
	t.Helper()
	p, err := table.PerCPUOf[uint32, uint64]("counters", m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestValuesPerCPU(t *testing.T) {
	cpus := ebpf.MustPossibleCPU()
	for _, typ := range []ebpf.MapType{ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash} {
		p := perCPUOf(t, newMap(t, typ, 4, 8, 2000))
		values := make([]uint64, cpus)
		for i := range values {
			values[i] = uint64(i) + 10
		}
		if err := p.Set(3, values...); err != nil {
			t.Fatal(err)
		}
		if got, ok, err := p.Get(3); !slices.Equal(got, values) || !ok || err != nil {
			t.Errorf("%s: got %v %v %v", typ, got, ok, err)
		}
		want := uint64(cpus*10 + cpus*(cpus-1)/2)
		if sum, err := table.Sum(p, 3); sum != want || err != nil {
			t.Errorf("%s: the sum is %d %v, want %d", typ, sum, err, want)
		}
		if sum, err := table.Sum(p, 4); sum != 0 || err != nil {
			t.Errorf("%s: the sum of nothing is %d %v", typ, sum, err)
		}
		keys := make([]uint32, 1500)
		for i := range keys {
			keys[i] = uint32(i)
		}
		if n, err := p.SetAll(keys, 7); n != len(keys) || err != nil {
			t.Fatalf("%s: wrote %d, %v", typ, n, err)
		}
		read := map[uint32]uint64{}
		var err error
		for k, v := range p.All(&err) {
			for _, one := range v {
				read[k] += one
			}
		}
		if err != nil || read[0] != uint64(7*cpus) || read[1499] != uint64(7*cpus) || read[1500] != 0 {
			t.Errorf("%s: read %d entries, %v", typ, len(read), err)
		}
		drainPerCPU(t, typ, p, len(keys))
	}
}

func drainPerCPU(t *testing.T, typ ebpf.MapType, p table.PerCPU[uint32, uint64], keys int) {
	t.Helper()
	n := 0
	var err error
	for range p.Drain(&err) {
		n++
	}
	if typ == ebpf.PerCPUArray {
		if !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("draining an array: %v", err)
		}
		if err := p.Clear(); err != nil {
			t.Error(err)
		}
		if sum, err := table.Sum(p, 3); sum != 0 || err != nil {
			t.Errorf("after Clear the sum is %d, %v", sum, err)
		}
		return
	}
	if err != nil || n != keys {
		t.Errorf("%s: drained %d of %d, %v", typ, n, keys, err)
	}
	if values, ok, err := p.LookupAndDelete(3); ok || err != nil {
		t.Errorf("%s: after it %v is there, %v", typ, values, err)
	}
}

func TestAQueue(t *testing.T) {
	for typ, want := range map[ebpf.MapType][]uint64{ebpf.Queue: {1, 2}, ebpf.Stack: {2, 1}} {
		q, err := table.QueueOf[uint64]("jobs", newMap(t, typ, 0, 8, 2))
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(q.Push(1), q.Push(2)); err != nil {
			t.Fatal(err)
		}
		if err := q.Push(3); !errors.Is(err, cube.ErrFull) {
			t.Errorf("%s: a third: %v", typ, err)
		}
		for _, w := range want {
			if got, ok, err := q.Pop(); got != w || !ok || err != nil {
				t.Errorf("%s: got %d %v %v, want %d", typ, got, ok, err, w)
			}
		}
		if _, ok, err := q.Pop(); ok || err != nil {
			t.Errorf("%s: an empty one: %v %v", typ, ok, err)
		}
	}
}

// Entries that stay are read once and drained ones are passed on once, whatever is written concurrently.
func TestATableIsReadWhileItChanges(t *testing.T) {
	table := tableOf[uint32, pair](t, ebpf.Hash, 4, 16, 20000)
	const stay = 3000
	for i := range uint32(stay) {
		if err := table.Set(i, pair{1, 0}); err != nil {
			t.Fatal(err)
		}
	}
	var wait sync.WaitGroup
	done := make(chan struct{})
	for w := range uint32(2) {
		wait.Go(func() {
			for i := uint32(0); ; i++ {
				select {
				case <-done:
					return
				default:
				}
				k := stay + w*5000 + i%5000
				if i/5000%2 == 0 {
					_ = table.Set(k, pair{0, 1}) // there is room
				} else {
					_, _ = table.Delete(k) // it may be there
				}
			}
		})
	}
	for range 30 {
		there := 0
		for _, v := range all(t, table) {
			there += int(v.A)
		}
		if there != stay {
			t.Errorf("read %d of the %d entries that stay", there, stay)
		}
	}
	there := 0
	var err error
	for _, v := range table.Drain(&err) {
		there += int(v.A)
	}
	if err != nil || there != stay {
		t.Errorf("drained %d of %d, %v", there, stay, err)
	}
	close(done)
	wait.Wait()
}

func TestALoopThatEndsEarlyReadsNoMore(t *testing.T) {
	table := tableOf[uint32, pair](t, ebpf.Hash, 4, 16, 5000)
	for i := range uint32(5000) {
		if err := table.Set(i, pair{}); err != nil {
			t.Fatal(err)
		}
	}
	n := 0
	err := fmt.Errorf("from before")
	for range table.All(&err) {
		if n++; n == 7 {
			break
		}
	}
	if n != 7 || err != nil {
		t.Errorf("read %d, %v", n, err)
	}
}
