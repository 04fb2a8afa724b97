// SPDX-License-Identifier: Apache-2.0

package bulk

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
)

var rules = &Form{List: "chain/rule", Numeric: []bool{true}, Positions: true}

// rule is an entry at a position with a text of its own.
func rule(at, name int) *Entry {
	e := &Entry{Keys: []string{strconv.Itoa(at)}, Full: fmt.Sprintf(`{"id":%d,"name":%d,"weight":7}`, at, name),
		Saved: fmt.Sprintf(`{"id":%d,"name":%d}`, at, name)}
	if name%2 == 0 {
		e.Refs = []string{"even"}
	}
	return e
}

// lab is a table, what it should contain, and what a store of its changes contains.
type lab struct {
	t     *testing.T
	table *Table
	names []int
	store map[string]string
}

func newLab(t *testing.T) *lab {
	return &lab{t: t, table: rules.New([]string{"INPUT"}), store: map[string]string{}}
}

// note applies changes to the store: first what goes, then what comes.
func (l *lab) note(changes ...Change) {
	for _, c := range changes {
		if c.Old != nil {
			delete(l.store, c.Old.Keys[0])
		}
	}
	for _, c := range changes {
		if c.New != nil {
			l.store[c.New.Keys[0]] = c.New.Saved
		}
	}
}

func (l *lab) insert(at, name int) {
	l.t.Helper()
	changes, err := l.table.Insert(rule(at, name))
	if err != nil {
		l.t.Fatal(err)
	}
	if last := changes[len(changes)-1]; last.Old != nil || last.At[0] != strconv.Itoa(at) {
		l.t.Fatalf("insert at %d is %+v", at, last)
	}
	for _, c := range changes[:len(changes)-1] {
		if !c.Moved() || c.Old.Identity() != c.New.Identity() {
			l.t.Fatalf("%+v is not a move", c)
		}
	}
	l.names = slices.Insert(l.names, at, name)
	l.note(changes...)
}

func (l *lab) check() {
	l.t.Helper()
	if l.table.Len() != len(l.names) {
		l.t.Fatalf("%d entries, want %d", l.table.Len(), len(l.names))
	}
	at, even := 0, 0
	l.table.All(func(e *Entry) bool {
		want := rule(at, l.names[at])
		if !e.Same(want) {
			l.t.Fatalf("entry %d is %q %s, want %s", at, e.Keys, e.Full, want.Full)
		}
		even += len(e.Refs)
		at++
		return true
	})
	used := false
	l.table.Used(func(string) bool { used = true; return true })
	if used != (even > 0) {
		l.t.Fatalf("used is %v with %d references", used, even)
	}
	if len(l.store) != len(l.names) {
		l.t.Fatalf("%d entries in the store, want %d", len(l.store), len(l.names))
	}
	before := -1
	l.table.Stored(func(e *Entry) bool {
		order, _ := position(e.Keys)
		if l.store[e.Keys[0]] != e.Saved || order <= before || order >= orders {
			l.t.Fatalf("the store has %q under %s after %d, want %s", l.store[e.Keys[0]], e.Keys[0], before, e.Saved)
		}
		before = order
		return true
	})
}

// restored is the table that a restart makes of the store.
func (l *lab) restored() *Table {
	out := rules.New(nil)
	for key, saved := range l.store {
		full := withKey(`{"id":0,"name":`+saved[len(`{"id":`)+len(key)+len(`,"name":`):len(saved)-1]+`,"weight":7}`, key)
		if !out.Restore(&Entry{Keys: []string{key}, Full: full, Saved: saved}) {
			l.t.Fatalf("%s is refused", saved)
		}
	}
	return out
}

// A table of positions is like an array, whatever happens to it, and the records of its changes make the same table.
func TestPositionsAreThoseOfAnArray(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 7))
		l := newLab(t)
		for i := range 400 {
			n := len(l.names)
			switch at := r.IntN(n + 1); {
			case r.IntN(3) > 0 || at == n:
				l.insert([]int{at, at, 0, n, min(n, 1)}[r.IntN(5)], i)
			case r.IntN(2) == 0:
				e, _ := l.table.Get([]string{strconv.Itoa(at)})
				l.note(l.table.Remove(e))
				l.names = slices.Delete(l.names, at, at+1)
			default:
				c := l.table.Set(rule(at, i))
				if c.Moved() || c.Old == nil || c.Old.Identity() != c.New.Identity() {
					t.Fatalf("%+v is another entry", c)
				}
				l.note(c)
				l.names[at] = i
			}
			if i%20 == 0 {
				l.check()
			}
		}
		l.check()
		l.table = l.restored()
		for i, name := range l.names {
			if e, ok := l.table.Get([]string{strconv.Itoa(i)}); !ok || !e.Same(rule(i, name)) {
				t.Fatalf("seed %d: after a restart entry %d is %+v, want %d", seed, i, e, name)
			}
		}
	}
}

// Many entries at one place use up the gaps, again and again: few others move.
func TestManyInsertionsAtOnePlace(t *testing.T) {
	for name, at := range map[string]func(n int) int{
		"first":        func(int) int { return 0 },
		"last":         func(n int) int { return n },
		"second":       func(n int) int { return min(n, 1) },
		"last but one": func(n int) int { return max(n-1, 0) },
		"middle":       func(n int) int { return n / 2 },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			moved := 0
			const many = 20_000
			for i := range many {
				changes, err := l.table.Insert(rule(at(i), i))
				if err != nil {
					t.Fatal(err)
				}
				moved += len(changes) - 1
				l.names = slices.Insert(l.names, at(i), i)
				l.note(changes...)
			}
			l.check()
			if moved > 16*many {
				t.Errorf("%d entries moved for %d insertions", moved, many)
			}
			t.Logf("%d entries moved for %d insertions", moved, many)
		})
	}
}

// A copy keeps what it had.
func TestCopiesOfPositions(t *testing.T) {
	l := newLab(t)
	for i := range 100 {
		l.insert(i, i)
	}
	before := l.table.Copy()
	for i := range 100 {
		l.insert(50, 1000+i)
	}
	for i := range 100 {
		if e, ok := before.Get([]string{strconv.Itoa(i)}); !ok || !e.Same(rule(i, i)) {
			t.Fatalf("entry %d of the copy is %+v", i, e)
		}
	}
	changes := l.table.Clear()
	if len(changes) != 200 || changes[0].At[0] != "199" || l.table.Len() != 0 || before.Len() != 100 {
		t.Fatalf("%d changes, the first %+v, and %d entries remain", len(changes), changes[0], l.table.Len())
	}
}

func TestWhatCannotBeInserted(t *testing.T) {
	l := newLab(t)
	l.insert(0, 1)
	for _, e := range []*Entry{rule(2, 5), {Keys: []string{"x"}}, {Keys: []string{"-1"}}, {Keys: []string{"0", "1"}}} {
		if _, err := l.table.Insert(e); err == nil {
			t.Errorf("%q is accepted", e.Keys)
		}
	}
	if _, ok := l.table.Get([]string{"1"}); ok {
		t.Error("there is an entry 1")
	}
	if l.table.Restore(rule(orders, 1)) {
		t.Error("an order that is too large is accepted")
	}
	l.check()
}
