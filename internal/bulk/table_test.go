// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFindWithAHintIsGet: a hint says where to look first, not what is there, in whatever order entries are looked for, set and
// removed.
func TestFindWithAHintIsGet(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	form := &Form{List: "list", Numeric: []bool{true, false}}
	table, want := form.New(nil), map[string]*Entry{}
	keysOf := func(n int) []string { return []string{fmt.Sprint(n%1000 - 500), fmt.Sprint("k", n/1000)} }
	var hint Hint
	for round := range 50 {
		var numbers []int
		for range 400 {
			numbers = append(numbers, r.IntN(3000))
		}
		if round%2 == 0 {
			slices.SortFunc(numbers, func(a, b int) int { return table.Compare(keysOf(a), keysOf(b)) })
		}
		for _, n := range numbers {
			keys := keysOf(n)
			id := fmt.Sprint(keys)
			found, ok := table.Find(keys, &hint)
			if got, there := table.Get(keys); found != want[id] || ok != (want[id] != nil) || got != found || there != ok {
				t.Fatalf("round %d, %v: found %v, got %v, want %v", round, keys, found, got, want[id])
			}
			switch e := (&Entry{Keys: keys}); {
			case want[id] == nil:
				if c := table.Set(e); c.Old != nil || c.New != e {
					t.Fatalf("added %v: %+v", keys, c)
				}
				want[id] = e
			case r.IntN(3) == 0:
				table.Remove(found)
				delete(want, id)
			default:
				if c := table.Set(e); c.Old != found {
					t.Fatalf("replaced %v: %+v", keys, c)
				}
				want[id] = e
			}
		}
		if round%10 == 0 {
			table = table.Copy()
		}
		if table.Len() != len(want) {
			t.Fatalf("%d entries, want %d", table.Len(), len(want))
		}
	}
	n := 0
	var last []string
	table.All(func(e *Entry) bool {
		if want[fmt.Sprint(e.Keys)] != e || last != nil && table.Compare(last, e.Keys) >= 0 {
			t.Errorf("%v after %v", e.Keys, last)
		}
		n, last = n+1, e.Keys
		return true
	})
	if n != len(want) {
		t.Errorf("walked over %d entries of %d", n, len(want))
	}
}
