// SPDX-License-Identifier: Apache-2.0

package elements

// The maps.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// ofSets is PCN_ELEMENTS_OF_SETS.
const ofSets = 1 << 32

// Memory is the maps as a cube sees them, from the steps of its first plan on. All cubes of a daemon share them; what is
// written by one at a time, in plans, is the slots of sets.
type Memory struct {
	of       *table.Mapped[uint64]
	slots    *table.Mapped[Slot]
	Elements table.Table[Key, Value]
}

// New returns the memory of a cube whose programs have it.
func New(env cube.Env) *Memory {
	return &Memory{
		of: table.NewMapped[uint64](env, "elements_of"), slots: table.NewMapped[Slot](env, "elements_slots"),
		Elements: table.New[Key, Value](env, "elements"),
	}
}

// Of returns the slot of a set by its number; 0 if its prefixes are in a trie, or it does not exist.
func (m *Memory) Of(number uint32) (uint32, error) {
	of, err := m.of.Values()
	if err != nil {
		return 0, err
	}
	return uint32(atomic.LoadUint64(&of[number])), nil
}

// Show has packets find the elements of a slot in a set; 0 for the trie. undo reverses it.
func (m *Memory) Show(number, slot uint32) (undo func() error, err error) {
	of, err := m.of.Values()
	if err != nil {
		return nil, err
	}
	to := uint64(slot)
	if slot != 0 {
		s, err := m.Slot(slot)
		if err != nil {
			return nil, err
		}
		if s.Kind == Sets {
			to |= ofSets
		}
	}
	was := atomic.SwapUint64(&of[number], to)
	return func() error { atomic.StoreUint64(&of[number], was); return nil }, nil
}

// Shown reports whether any set has the elements of a slot.
func (m *Memory) Shown(slot uint32) (bool, error) {
	of, err := m.of.Values()
	for i := range of {
		if uint32(atomic.LoadUint64(&of[i])) == slot {
			return true, err
		}
	}
	return false, err
}

// Slot returns a slot: the memory that programs use, valid until Close.
func (m *Memory) Slot(slot uint32) (*Slot, error) {
	all, err := m.slots.Values()
	if err != nil {
		return nil, err
	}
	return &all[slot], nil
}

// Take returns the slot of an owner, which is not 0: the one it has, or a free one.
func (m *Memory) Take(owner uint64) (slot uint32, fresh bool, err error) {
	all, err := m.slots.Values()
	if err != nil {
		return 0, false, err
	}
	for i := 1; i < len(all); i++ {
		switch is := all[i].Owner; {
		case is == owner:
			return uint32(i), false, nil
		case is == 0 && slot == 0:
			slot = uint32(i)
		}
	}
	if slot == 0 {
		return 0, false, fmt.Errorf("all %d sets whose elements are no plain prefixes are in use: %w", len(all)-1, cube.ErrFull)
	}
	all[slot] = Slot{Owner: owner}
	return slot, true, nil
}

// Free removes the elements of a slot, and frees it.
func (m *Memory) Free(slot uint32) error {
	s, err := m.Slot(slot)
	if err != nil {
		return err
	}
	var keys []Key
	for k := range m.Elements.All(&err) {
		if k.Slot == slot {
			keys = append(keys, k)
		}
	}
	if err != nil {
		return err
	}
	if _, err = m.Elements.DeleteAll(keys); err == nil {
		*s = Slot{}
	}
	return err
}

// All returns the elements of a slot.
func (m *Memory) All(slot uint32) (map[Key]Value, error) {
	out := map[Key]Value{}
	var err error
	for k, v := range m.Elements.All(&err) {
		if k.Slot == slot {
			out[k] = v
		}
	}
	return out, err
}

// Put writes an element; one that is not there yet counts.
func (m *Memory) Put(s *Slot, k Key, v Value) error {
	fresh, err := m.Elements.Add(k, v)
	switch {
	case err != nil:
		return err
	case fresh:
		atomic.AddUint64(&s.Count, 1)
		return nil
	}
	return m.Elements.Set(k, v)
}

// Remove removes an element, if it is there.
func (m *Memory) Remove(s *Slot, k Key) error {
	there, err := m.Elements.Delete(k)
	if there {
		atomic.AddUint64(&s.Count, ^uint64(0))
	}
	return err
}

// Close ends the use of the memory. Packets still see it.
func (m *Memory) Close() error { return errors.Join(m.of.Close(), m.slots.Close()) }
