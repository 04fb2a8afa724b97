// SPDX-License-Identifier: Apache-2.0

// The history. The journals and snapshots that are kept for recovery also contain what each transaction did and the
// previous states: nothing more must be written for it. Reading it blocks nobody, and damage in it costs only the
// affected transactions, never the current state.

package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
)

// ErrGone is the error for a state or transaction that is not in the store: too old, damaged, or not made yet.
var ErrGone = errors.New("not kept")

// Transaction is a past transaction.
type Transaction struct {
	Sequence uint64
	Records  []Record
}

// past is what can be read at one moment.
type past struct {
	gens []generation
	// gen and size are the current journal, and its valid length.
	gen  uint64
	size int64
	seq  uint64
}

func (s *Store) past() (past, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return past{}, fmt.Errorf("store %s: %w", s.dir.path, ErrClosed)
	}
	gens, err := s.dir.generations()
	return past{gens: gens, gen: s.gen, size: s.size, seq: s.seq}, err
}

// journal reads the journal of a generation. One that was pruned meanwhile is like a missing one.
func (p *past) journal(d *dir, g generation) (*journal, error) {
	limit := int64(math.MaxInt64)
	if g.gen == p.gen {
		limit = p.size
	}
	j, err := readJournalTo(d, g, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return &journal{damaged: err}, nil
	}
	return j, err
}

// Sequence is the number of the last transaction.
func (s *Store) Sequence() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seq
}

// Oldest is the number of the oldest transaction whose state At may return, according to the snapshots.
func (s *Store) Oldest() (uint64, error) {
	p, err := s.past()
	if err != nil {
		return 0, err
	}
	for _, g := range p.gens {
		if seq, ok := s.dir.snapshotSequence(g); ok {
			return seq, nil
		}
	}
	return p.seq, nil
}

// At returns the state after a transaction, or ErrGone.
func (s *Store) At(seq uint64) (*State, error) {
	p, err := s.past()
	if err != nil {
		return nil, err
	}
	if seq > p.seq {
		return nil, fmt.Errorf("store: transaction %d, the last is %d: %w", seq, p.seq, ErrGone)
	}
	for i, g := range slices.Backward(p.gens) {
		if from, ok := s.dir.snapshotSequence(g); !ok || from > seq {
			continue
		}
		b, err := s.dir.read(snapshotName(g.gen))
		if err != nil {
			continue // pruned meanwhile, or damaged: try an older one
		}
		r := &recovered{state: map[string][]byte{}}
		var recs []Record
		if r.seq, recs, err = decodeSnapshot(b, g.gen); err != nil {
			continue
		}
		r.apply(recs)
		if err := s.replayTo(&p, r, p.gens[i:], seq); err != nil {
			return nil, err
		}
		if r.seq == seq {
			state := &State{Sequence: seq}
			for _, k := range slices.Sorted(maps.Keys(r.state)) {
				state.Records = append(state.Records, Record{Key: k, Value: r.state[k]})
			}
			return state, nil
		}
	}
	return nil, fmt.Errorf("store: the state of transaction %d: %w", seq, ErrGone)
}

// replayTo applies what follows a state, up to a transaction or to damage.
func (s *Store) replayTo(p *past, r *recovered, gens []generation, seq uint64) error {
	for _, g := range gens {
		if r.seq == seq {
			return nil
		}
		j, err := p.journal(s.dir, g)
		if err != nil {
			return err
		}
		if j.size > 0 && j.base > r.seq {
			return nil // the transactions in between are lost
		}
		for _, tx := range j.txs {
			if tx.seq == r.seq+1 && tx.seq <= seq {
				r.apply(tx.recs)
				r.seq = tx.seq
			}
		}
	}
	return nil
}

// Transactions returns up to n transactions, newest first, none newer than before; 0 is the newest. Only records that
// want accepts are included. Damaged transactions are omitted.
func (s *Store) Transactions(before uint64, n int, want func(key string) bool) ([]Transaction, error) {
	p, err := s.past()
	if err != nil {
		return nil, err
	}
	if before == 0 {
		before = p.seq
	}
	var out []Transaction
	for _, g := range slices.Backward(p.gens) {
		if len(out) >= n {
			break
		}
		j, err := p.journal(s.dir, g)
		if err != nil {
			return nil, err
		}
		for _, tx := range slices.Backward(j.txs) {
			if tx.seq <= before && len(out) < n {
				recs := slices.DeleteFunc(tx.recs, func(r Record) bool { return !want(r.Key) })
				out = append(out, Transaction{Sequence: tx.seq, Records: recs})
			}
		}
		if j.size > 0 {
			before = min(before, j.base) // an older journal may continue with what was truncated
		}
	}
	return out, nil
}

// snapshotSequence reads the header of a generation's snapshot: the number of its last transaction.
func (d *dir) snapshotSequence(g generation) (seq uint64, ok bool) {
	if !g.snapshot {
		return 0, false
	}
	f, err := d.open(snapshotName(g.gen), os.O_RDONLY)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	b := make([]byte, snapshotHeaderLen)
	if _, err := io.ReadFull(f, b); err != nil {
		return 0, false
	}
	body := b[:snapshotHeaderLen-sumLen]
	if string(b[:8]) != snapshotMagic || binary.LittleEndian.Uint32(b[len(body):]) != sum(body) || binary.LittleEndian.Uint64(b[8:]) != g.gen {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b[16:]), true
}

// Pin keeps the state of a transaction, however old it gets, and that of no other one; 0 keeps none.
func (s *Store) Pin(seq uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pinned = seq
}

// bytes is the size of a generation's files.
func (d *dir) bytes(g generation) int64 {
	var n int64
	for _, name := range []string{snapshotName(g.gen), journalName(g.gen)} {
		if f, err := d.open(name, os.O_RDONLY); err == nil {
			if info, err := f.Stat(); err == nil {
				n += info.Size()
			}
			f.Close()
		}
	}
	return n
}

// retention decides which generations stay on disk, called from the newest to the oldest.
type retention struct {
	s      *Store
	whole  int
	bytes  int64
	oldest uint64 // oldest transaction in the generations kept so far
}

// keeps reports whether a generation stays: one of those for recovery, or one for the history that fits.
func (k *retention) keeps(g generation) bool {
	k.bytes += k.s.dir.bytes(g)
	o := &k.s.opts
	if k.whole >= o.KeepGenerations && (k.s.pinned == 0 || k.oldest <= k.s.pinned) && (k.s.seq-k.oldest >= o.KeepTransactions || k.bytes > o.KeepBytes) {
		return false
	}
	if seq, ok := k.s.dir.snapshotSequence(g); ok && !k.s.suspect[g.gen] {
		k.whole++
		k.oldest = seq
	}
	return true
}
