// SPDX-License-Identifier: Apache-2.0

// The past, however the files that tell of it came about.

package store

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"testing"
)

func anyKey(string) bool { return true }

// wantPast checks every state from the oldest on, that older ones are refused, and the list of transactions.
func wantPast(t *testing.T, s *Store, txs [][]Record, states []map[string]string, from int) {
	t.Helper()
	last := len(txs)
	for n := range states {
		state, err := s.At(uint64(n))
		switch {
		case n < from && !errors.Is(err, ErrGone):
			t.Errorf("the state of transaction %d, older than %d: %v, want %v", n, from, err, ErrGone)
		case n >= from && err != nil:
			t.Errorf("the state of transaction %d: %v", n, err)
		case n >= from && !maps.Equal(asMap(state), states[n]):
			t.Errorf("the state of transaction %d is %v, want %v", n, asMap(state), states[n])
		}
	}
	if _, err := s.At(uint64(last + 1)); !errors.Is(err, ErrGone) {
		t.Errorf("a state of the future: %v, want %v", err, ErrGone)
	}
	list, err := s.Transactions(0, 1000, anyKey)
	if err != nil || len(list) != last-from {
		t.Fatalf("%d transactions, %v; want %d", len(list), err, last-from)
	}
	for i, tx := range list {
		n := last - i
		if tx.Sequence != uint64(n) || fmt.Sprint(tx.Records) != fmt.Sprint(txs[n-1]) {
			t.Errorf("entry %d is transaction %d with %v, want %d with %v", i, tx.Sequence, tx.Records, n, txs[n-1])
		}
	}
}

func TestThePastIsReadBack(t *testing.T) {
	const n = 40
	txs, states := history(n)
	cases := []struct {
		name string
		o    Options
		from int // the oldest state that is there
	}{
		{"one journal", Options{}, 0},
		{"several generations", Options{SnapshotEvery: 10, KeepTransactions: 1000, KeepBytes: 1 << 20}, 0},
		{"as many as asked for", Options{SnapshotEvery: 10, KeepTransactions: 25, KeepBytes: 1 << 20}, 10},
		{"no more than has room", Options{SnapshotEvery: 10, KeepTransactions: 1000, KeepBytes: 1}, 20},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.o.Dir = newDir(t)
			s, _ := mustOpen(t, c.o)
			for _, tx := range txs {
				mustCommit(t, s, tx...)
			}
			oldest, err := s.Oldest()
			if err != nil {
				t.Fatal(err)
			}
			if c.from == 0 && oldest != 0 || c.from > 0 && (oldest == 0 || oldest > uint64(n)) {
				t.Errorf("the oldest is %d", oldest)
			}
			wantPast(t, s, txs, states, int(oldest))
			mustClose(t, s)
			s, _ = mustOpen(t, c.o)
			wantPast(t, s, txs, states, int(oldest))
			list, err := s.Transactions(30, 3, func(key string) bool { return key == "both" })
			if err != nil || len(list) != 3 || list[0].Sequence != 30 || len(list[0].Records) != 1 || len(list[1].Records) != 0 {
				t.Errorf("three from 30 on are %v, %v", list, err)
			}
		})
	}
}

func TestLimitsOfThePastAreKept(t *testing.T) {
	files := func(o Options) int {
		o.Dir, o.SnapshotEvery = newDir(t), 5
		s, _ := mustOpen(t, o)
		txs, _ := history(100)
		for _, tx := range txs {
			mustCommit(t, s, tx...)
		}
		entries, err := os.ReadDir(o.Dir)
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	none, some, all := files(Options{}), files(Options{KeepTransactions: 40, KeepBytes: 1 << 20}), files(Options{KeepTransactions: 1000, KeepBytes: 1 << 20})
	if none >= some || some >= all {
		t.Errorf("%d files without a past, %d with 40 transactions, %d with all", none, some, all)
	}
	if room := files(Options{KeepTransactions: 1000, KeepBytes: 100}); room != none {
		t.Errorf("%d files where there is no room for the past, want %d", room, none)
	}
}

// Damage costs the transactions that it hits, and the list says by its numbers what is missing.
func TestDamageInThePastIsAGap(t *testing.T) {
	txs, states := history(40)
	o := Options{Dir: newDir(t), SnapshotEvery: 10, KeepTransactions: 1000, KeepBytes: 1 << 20, Logger: quiet()}
	s, _ := mustOpen(t, o)
	for _, tx := range txs {
		mustCommit(t, s, tx...)
	}
	mustClose(t, s)
	path := filepath.Join(o.Dir, journalName(2))
	b := readFile(t, path)
	b[len(b)-5] ^= 0xff // in its last transaction
	writeFile(t, path, b)
	s, have := mustOpen(t, o)
	if !maps.Equal(have, states[40]) {
		t.Fatalf("damage of the past changed the present to %v", have)
	}
	list, err := s.Transactions(0, 1000, anyKey)
	if err != nil || len(list) != 39 {
		t.Fatalf("%d transactions, %v; want 39", len(list), err)
	}
	missing := 0
	for i := 1; i < len(list); i++ {
		if list[i].Sequence != list[i-1].Sequence-1 {
			missing = int(list[i].Sequence) + 1
		}
	}
	for n := range states {
		state, err := s.At(uint64(n))
		// The snapshot behind the damaged transaction holds its state.
		if err != nil || !maps.Equal(asMap(state), states[n]) {
			t.Errorf("the state of transaction %d, of which %d is missing: %v", n, missing, err)
		}
	}
	if missing == 0 {
		t.Error("no transaction is missing")
	}
}

func TestWhatWasCutOffIsNoPast(t *testing.T) {
	dir, journal, _, states := journalOf(t, 6)
	writeFile(t, filepath.Join(dir, journalName(1)), journal[:len(journal)-3])
	s, have := mustOpen(t, Options{Dir: dir})
	if !maps.Equal(have, states[5]) {
		t.Errorf("it holds %v, want %v", have, states[5])
	}
	// The number of the transaction that was cut off is given again, and its new content is what counts.
	mustCommit(t, s, put("new", "6"))
	state, err := s.At(6)
	if err != nil || asMap(state)["new"] != "6" {
		t.Errorf("the state of transaction 6 is %v, %v", state, err)
	}
	list, err := s.Transactions(0, 10, anyKey)
	if err != nil || len(list) != 6 || list[0].Records[0].Key != "new" {
		t.Errorf("transactions %v, %v", list, err)
	}
}

// Readers of the past see whole transactions while others are written and generations are pruned.
func TestThePastIsReadWhileItGrows(t *testing.T) {
	txs, states := history(120)
	s, _ := mustOpen(t, Options{Dir: newDir(t), SnapshotEvery: 7, KeepTransactions: 20, KeepBytes: 1 << 20})
	var done sync.WaitGroup
	done.Go(func() {
		for _, tx := range txs {
			if err := s.Commit(tx); err != nil {
				t.Error(err)
			}
		}
	})
	for s.Sequence() < uint64(len(txs)) {
		seq := s.Sequence()
		state, err := s.At(seq)
		if errors.Is(err, ErrGone) && s.Sequence() > seq+20 {
			continue // it was pruned meanwhile
		}
		if err != nil || !maps.Equal(asMap(state), states[seq]) {
			t.Errorf("the state of transaction %d: %v", seq, err)
			break
		}
		list, err := s.Transactions(0, 5, anyKey)
		if err != nil || len(list) > 0 && fmt.Sprint(list[0].Records) != fmt.Sprint(txs[list[0].Sequence-1]) {
			t.Errorf("the newest of %d is %v, %v", seq, list, err)
			break
		}
	}
	done.Wait()
}
