// SPDX-License-Identifier: Apache-2.0

package policer

// Contracts in the maps of the programs. Each class with a contract has a slot; the first slot is the default contract's.

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// counts is struct policer_counts.
type counts struct {
	Passed, Dropped inet.Count
	Marked          uint64
}

// state is struct policer_state.
type state struct {
	Lock uint32
	_    uint32
	At   uint64
	// Credit is in 2^-8 ns.
	Credit int64
}

// slots are the maps, and which slot belongs to whom.
type slots struct {
	classes table.Table[uint32, uint32]
	rows    *table.Mapped[contract]
	counts  table.PerCPU[uint32, counts]
	states  table.Table[uint32, state]

	of map[uint32]uint32
	// next is the first slot that was never used; freed are others, those freed last at the end. One is used again as late as
	// possible, as a packet that found it before may still be counted there.
	next  uint32
	freed []uint32
}

func newSlots(env cube.Env) *slots {
	return &slots{classes: table.New[uint32, uint32](env, "classes"), rows: table.NewMapped[contract](env, "contracts"),
		counts: table.NewPerCPU[uint32, counts](env, "counts"), states: table.New[uint32, state](env, "states"), of: map[uint32]uint32{}, next: 1}
}

func (s *slots) close() error { return s.rows.Close() }

// begin takes over the slots of an earlier daemon, and frees those of classes that have no contract any more.
func (s *slots) begin(kept map[uint32]Contract) error {
	s.of, s.next, s.freed = map[uint32]uint32{}, 1, nil
	used := map[uint32]bool{}
	var gone []uint32
	var err error
	for class, slot := range s.classes.All(&err) {
		if _, ok := kept[class]; !ok {
			gone = append(gone, class)
			continue
		}
		s.of[class], used[slot] = slot, true
		s.next = max(s.next, slot+1)
	}
	for slot := uint32(1); slot < s.next; slot++ {
		if !used[slot] {
			s.freed = append(s.freed, slot)
		}
	}
	if err == nil {
		_, err = s.classes.DeleteAll(gone)
	}
	return err
}

// take returns a slot that nobody has.
func (s *slots) take(rows int) (uint32, error) {
	if int(s.next) < rows {
		s.next++
		return s.next - 1, nil
	}
	if len(s.freed) == 0 {
		return 0, fmt.Errorf("all %d contracts are in use: %w", rows-1, cube.ErrFull)
	}
	slot := s.freed[0]
	s.freed = s.freed[1:]
	return slot, nil
}

// writing is a change of the maps.
type writing struct {
	*slots
	algorithm Algorithm
	undo      *cube.Undo
}

// put gives a class a contract.
func (w *writing) put(class uint32, is contract) error {
	if slot, ok := w.of[class]; ok {
		return w.write(slot, is)
	}
	rows, err := w.rows.Values()
	if err != nil {
		return err
	}
	slot, err := w.take(len(rows))
	if err != nil {
		return err
	}
	w.undo.Push(func() error {
		w.freed = append(w.freed, slot)
		return nil
	})
	if _, err := w.slots.counts.SetAll([]uint32{slot}, counts{}); err != nil {
		return err
	}
	if err := w.forget(slot); err != nil {
		return err
	}
	was := rows[slot]
	rows[slot] = is // with a full bucket
	w.of[class] = slot
	w.undo.Push(func() error {
		delete(w.of, class)
		_, err := w.classes.Delete(class)
		rows[slot] = was
		return err
	})
	return w.classes.Set(class, slot)
}

// forget gives a slot a full bucket, if the algorithm has its state in a map.
func (w *writing) forget(slot uint32) error {
	if !w.algorithm.locks() {
		return nil
	}
	return w.states.Set(slot, state{})
}

// remove takes a contract from a class.
func (w *writing) remove(class uint32) error {
	slot, ok := w.of[class]
	if !ok {
		return nil
	}
	if _, err := w.classes.Delete(class); err != nil {
		return err
	}
	delete(w.of, class)
	w.freed = append(w.freed, slot)
	w.undo.Push(func() error {
		w.of[class] = slot
		w.freed = slices.DeleteFunc(w.freed, func(s uint32) bool { return s == slot })
		return w.classes.Set(class, slot)
	})
	return nil
}

// write changes the contract in a slot under traffic.
func (w *writing) write(slot uint32, is contract) error {
	rows, err := w.rows.Values()
	if err != nil {
		return err
	}
	row := &rows[slot]
	was := *row
	if is.Word, is.Warned = was.Word, was.Warned; is == was {
		return nil
	}
	if err := w.fit(slot, row, was.Limit, is); err != nil {
		return err
	}
	store(row, is)
	w.undo.Push(func() error {
		err := w.fit(slot, row, is.Limit, was)
		store(row, was)
		return err
	})
	return nil
}

// store writes all of a contract but what packets change.
func store(row *contract, is contract) {
	row.Limit, row.Quota, row.Near = is.Limit, is.Quota, is.Near
	row.Action, row.Coarse, row.DSCP, row.Queue = is.Action, is.Coarse, is.DSCP, is.Queue
}

// fit fits the bucket of a slot to another limit, before packets get it, so that no burst passes.
func (w *writing) fit(slot uint32, row *contract, was bucket.Limit, is contract) error {
	ns, err := cube.Time()
	if err != nil {
		return err
	}
	now := time.Duration(ns)
	if w.algorithm.locks() {
		if was != is.Limit && was != (bucket.Limit{}) {
			return w.states.Set(slot, state{At: ns << 8}) // an empty one
		}
		return nil
	}
	for {
		word := atomic.LoadUint64(&row.Word)
		if atomic.CompareAndSwapUint64(&row.Word, word, w.fitted(word, was, is, now)) { // packets change it at the same time
			return nil
		}
	}
}

// fitted returns the word of a contract after a change of its limit.
func (w *writing) fitted(word uint64, was bucket.Limit, is contract, now time.Duration) uint64 {
	switch {
	case w.algorithm == FixedWindow || was == is.Limit || was == (bucket.Limit{}):
		return word
	case was.Left(word, now) == was.Burst:
		return 0 // full before, and after
	}
	if moved := was.Moved(word, is.Limit, now); int64(moved-word) > 0 {
		return moved
	}
	return word // the rate falls
}

// countsOf returns the packets of a slot.
func (s *slots) countsOf(slot uint32) (sum counts, err error) {
	each, ok, err := s.counts.Get(slot)
	if err == nil && !ok {
		err = errors.New("no counters")
	}
	for _, c := range each {
		sum.add(c)
	}
	return sum, err
}

func (c *counts) add(d counts) {
	c.Passed.Packets += d.Passed.Packets
	c.Passed.Bytes += d.Passed.Bytes
	c.Dropped.Packets += d.Dropped.Packets
	c.Dropped.Bytes += d.Dropped.Bytes
	c.Marked += d.Marked
}
