// SPDX-License-Identifier: Apache-2.0

package table_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// pages reads a table page by page, calling between after each, and counts how often each key is returned.
func pages(t *testing.T, table table.Table[uint32, pair], limit int, keep func(uint32, pair) bool, between func(got []uint32)) map[uint32]int {
	t.Helper()
	seen := map[uint32]int{}
	after := ""
	for range 100000 {
		entries, next, err := table.Page(after, limit, keep)
		if err != nil {
			t.Fatalf("after %q: %v", after, err)
		}
		if len(entries) > limit {
			t.Fatalf("a page of %d has %d entries", limit, len(entries))
		}
		var got []uint32
		for _, e := range entries {
			seen[e.Key]++
			got = append(got, e.Key)
			if e.Value.A != uint64(e.Key) {
				t.Fatalf("%d has the value %v", e.Key, e.Value)
			}
		}
		if between != nil {
			between(got)
		}
		if after = next; after == "" {
			return seen
		}
	}
	t.Fatalf("pages of %d do not end", limit)
	return nil
}

func filled(t *testing.T, size, n uint32) table.Table[uint32, pair] {
	table := tableOf[uint32, pair](t, ebpf.Hash, 4, 16, size)
	for i := range n {
		if err := table.Set(i, pair{uint64(i), 1}); err != nil {
			t.Fatal(err)
		}
	}
	return table
}

// TestPagesEndWhereverTheEntriesLie: a hash places them differently each time, even all in one bucket after empty ones.
func TestPagesEndWhereverTheEntriesLie(t *testing.T) {
	for range 200 {
		table := filled(t, 4, 4)
		if seen := pages(t, table, 3, nil, nil); len(seen) != 4 {
			t.Fatalf("%d of 4 entries come", len(seen))
		}
		m, err := table.Map()
		if err == nil {
			err = m.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// TestPagesAreTheTable: whatever the page size and the load of the buckets, each entry is returned once.
func TestPagesAreTheTable(t *testing.T) {
	for _, tt := range []struct{ size, n uint32 }{{1, 0}, {1, 1}, {4, 4}, {1024, 1000}, {1024, 3}, {8192, 8192}} {
		table := filled(t, tt.size, tt.n)
		for _, limit := range []int{1, 2, 3, 7, 100, 1024, 5000} {
			if limit < 3 && tt.n > 2000 {
				continue
			}
			seen := pages(t, table, limit, nil, nil)
			for k, times := range seen {
				if times != 1 {
					t.Errorf("%d of %d by %d: %d comes %d times", tt.n, tt.size, limit, k, times)
				}
			}
			if len(seen) != int(tt.n) {
				t.Errorf("%d of %d by %d: %d entries come", tt.n, tt.size, limit, len(seen))
			}
			odd := pages(t, table, limit, func(k uint32, _ pair) bool { return k%2 == 1 }, nil)
			if len(odd) != int(tt.n/2) {
				t.Errorf("%d of %d by %d: %d odd ones come", tt.n, tt.size, limit, len(odd))
			}
		}
	}
}

// TestPagesOfATableThatChanges: entries that stay are returned once, although the one before the cursor is deleted each
// time and others are added and removed.
func TestPagesOfATableThatChanges(t *testing.T) {
	const size, stay = 4096, 2000
	for _, limit := range []int{1, 2, 5, 64} {
		table := filled(t, size, stay)
		random := rand.New(rand.NewPCG(uint64(limit), 1))
		seen := pages(t, table, limit, nil, func(got []uint32) {
			for _, k := range got {
				if k >= stay || random.IntN(2) == 0 {
					if _, err := table.Delete(k); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range limit {
				k := stay + random.Uint32N(size-stay)
				if random.IntN(3) == 0 {
					_, _ = table.Delete(k) // it may be there
				} else if err := table.Set(k, pair{uint64(k), 2}); err != nil {
					t.Fatal(err)
				}
			}
		})
		for k := range uint32(stay) {
			if seen[k] != 1 {
				t.Errorf("by %d: %d comes %d times", limit, k, seen[k])
			}
		}
	}
}

// TestAPageThatNothingFitsEnds: a page examines a bounded number of entries, even if none matches.
func TestAPageThatNothingFitsEnds(t *testing.T) {
	full := tableOf[uint32, pair](t, ebpf.Hash, 4, 16, 3*table.PageScan)
	keys, values := make([]uint32, 2*table.PageScan+100), make([]pair, 2*table.PageScan+100)
	for i := range keys {
		keys[i] = uint32(i)
	}
	if _, err := full.SetAll(keys, values); err != nil {
		t.Fatal(err)
	}
	looked, after := 0, ""
	for n := 1; ; n++ {
		entries, next, err := full.Page(after, 10, func(uint32, pair) bool { looked++; return false })
		if err != nil || len(entries) != 0 {
			t.Fatalf("%d entries, %v", len(entries), err)
		}
		if looked > n*(table.PageScan+2048) {
			t.Fatalf("%d entries were looked at by %d pages", looked, n)
		}
		if after = next; after == "" {
			break
		}
	}
	if looked != len(keys) {
		t.Errorf("%d of %d entries were looked at", looked, len(keys))
	}
}

func TestCursorsThatAreNone(t *testing.T) {
	table := filled(t, 64, 20)
	_, next, err := table.Page("", 3, nil)
	if err != nil || next == "" || strings.ContainsAny(next, " /?&%") {
		t.Fatalf("the next page is %q, %v", next, err)
	}
	size, _, _ := strings.Cut(next, "-")
	for text, want := range map[string]error{
		"x": cube.ErrInvalid, "-": cube.ErrInvalid, size: cube.ErrInvalid, size + "-1-2-3": cube.ErrInvalid, size + "-!": cube.ErrInvalid,
		size + "-1-ff": cube.ErrInvalid, size + "-99999999999999": cube.ErrInvalid, "zz-1": cube.ErrStale,
	} {
		if _, _, err := table.Page(text, 3, nil); !errors.Is(err, want) {
			t.Errorf("after %q: %v, want %v", text, err, want)
		}
	}
	// There is nothing after the last bucket.
	if entries, next, err := table.Page(fmt.Sprint(size, "-zzzzz"), 3, nil); len(entries) != 0 || next != "" || err != nil {
		t.Errorf("behind the end are %d entries, %q, %v", len(entries), next, err)
	}
	if _, _, err := tableOf[uint32, pair](t, ebpf.Array, 4, 16, 4).Page("", 3, nil); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("an array: %v", err)
	}
}

// TestRawPagesAreTheSame: entries as bytes come on the same pages as typed ones.
func TestRawPagesAreTheSame(t *testing.T) {
	typed := filled(t, 1024, 700)
	m, err := typed.Map()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	for _, limit := range []int{1, 3, 64, 5000} {
		after := ""
		for more := true; more; more = after != "" {
			want, next, err := typed.Page(after, limit, nil)
			got, rawNext, rawErr := table.RawPage("typed", m, after, limit)
			if err := errors.Join(err, rawErr); err != nil || rawNext != next || len(got) != len(want) {
				t.Fatalf("by %d after %q: %d entries and %q, want %d and %q (%v)", limit, after, len(got), rawNext, len(want), next, err)
			}
			for i, e := range got {
				if key, value := binary.NativeEndian.Uint32([]byte(e.Key)), binary.NativeEndian.Uint64(e.Value); key != want[i].Key || value != want[i].Value.A {
					t.Errorf("by %d after %q: entry %d is %d: %d, want %+v", limit, after, i, key, value, want[i])
				}
			}
			after = next
		}
	}
	if _, _, err := table.RawPage("typed", m, "zz-1", 3); !errors.Is(err, cube.ErrStale) {
		t.Errorf("a cursor of another size: %v", err)
	}
	array := tableOf[uint32, pair](t, ebpf.Array, 4, 16, 4)
	a, err := array.Map()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	if _, _, err := table.RawPage("array", a, "", 3); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("pages of an array: %v", err)
	}
}
