// SPDX-License-Identifier: Apache-2.0

package world

// The numbers that identify objects in the fast path. They are allocated here, stored with the cube and unchanged by a
// restart. A cube's number is not reused at once: packets in the slow path still carry it.

import (
	"crypto/rand"
	"fmt"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// NewUUID returns a random UUID (RFC 9562, version 4).
func NewUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process if the kernel has no randomness
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// FreeID returns the first free cube number after last, wrapping around.
func (w *World) FreeID(last datapath.CubeID) (datapath.CubeID, error) {
	used := make(map[datapath.CubeID]bool, len(w.Cubes)+len(w.Broken))
	for _, rec := range w.Cubes {
		used[rec.ID] = true
	}
	for _, b := range w.Broken {
		used[b.Stored.ID] = true
	}
	for range datapath.MaxCubeID {
		last = last%datapath.MaxCubeID + 1
		if !used[last] {
			return last, nil
		}
	}
	return 0, fmt.Errorf("the maximum of %d cubes is reached: %w", len(used), cube.ErrFull)
}

// usedSlots marks the counter slots in use.
func (w *World) usedSlots() map[uint16]bool {
	used := map[uint16]bool{}
	maps.Copy(used, w.Leaving)
	for _, rec := range w.Cubes {
		for _, p := range rec.Ports {
			used[p.Slot] = true
		}
	}
	for _, b := range w.Broken {
		for _, p := range b.Stored.Ports {
			used[p.Slot] = true
		}
	}
	return used
}

// freeSlots returns n free slots, if possible in one page with the cube's other slots: the data plane maps a page per
// segment.
func freeSlots(used map[uint16]bool, own map[int]bool, n int) ([]uint16, error) {
	const pages = (datapath.MaxSlot + 1) / datapath.SlotsPerPage
	room := func(page int) []uint16 {
		var free []uint16
		for s := page * datapath.SlotsPerPage; s < (page+1)*datapath.SlotsPerPage && len(free) < n; s++ {
			if !used[uint16(s)] {
				free = append(free, uint16(s))
			}
		}
		return free
	}
	for _, mine := range []bool{true, false} {
		for page := range pages {
			if own[page] != mine {
				continue
			}
			if free := room(page); len(free) == n {
				return free, nil
			}
		}
	}
	var free []uint16
	for page := 0; page < pages && len(free) < n; page++ {
		free = append(free, room(page)...)
	}
	if len(free) < n {
		return nil, fmt.Errorf("the maximum of %d ports is reached: %w", len(used), cube.ErrFull)
	}
	return free[:n], nil
}

// NumberPorts allocates indexes and slots for ports that are new in rec. taken are indexes of ports that the same
// transaction removes: both exist while it runs.
func (w *World) NumberPorts(rec *Cube, fresh []*Port, taken map[uint16]bool, limit int) error {
	if len(fresh) == 0 {
		return nil
	}
	if len(rec.Ports)+len(fresh) > limit {
		return fmt.Errorf("%s: %d ports, the maximum is %d: %w", rec.Name, len(rec.Ports)+len(fresh), limit, cube.ErrFull)
	}
	own := map[int]bool{}
	for _, p := range rec.Ports {
		taken[p.Index] = true
		own[int(p.Slot)/datapath.SlotsPerPage] = true
	}
	slots, err := freeSlots(w.usedSlots(), own, len(fresh))
	if err != nil {
		return fmt.Errorf("%s: %w", rec.Name, err)
	}
	index := uint16(0)
	for i, p := range fresh {
		for taken[index] {
			index++
		}
		if index >= datapath.MaxPorts {
			return fmt.Errorf("%s: no free port number, remove and add ports in separate requests: %w", rec.Name, cube.ErrFull)
		}
		taken[index] = true
		p.Index, p.Slot = index, slots[i]
	}
	return nil
}

// Collides returns an error if a record has a number of another cube.
func (r *Cube) Collides(others []*Cube) error {
	slots := map[uint16]bool{}
	for _, o := range others {
		if o.ID == r.ID || o.UUID == r.UUID {
			return fmt.Errorf("its number %d is that of %s: %w", r.ID, o.Name, cube.ErrInvalid)
		}
		for _, p := range o.Ports {
			slots[p.Slot] = true
		}
	}
	indexes := map[uint16]bool{}
	for _, p := range r.Ports {
		if slots[p.Slot] || indexes[p.Index] || p.Slot > datapath.MaxSlot || p.Index >= datapath.MaxPorts {
			return fmt.Errorf("the numbers of port %s are not its own: %w", p.Name, cube.ErrInvalid)
		}
		slots[p.Slot], indexes[p.Index] = true, true
	}
	return nil
}

// CheckNumbers checks that no stored cube has a number of another one, and returns the cube that is in error: of two
// that collide, the younger.
func (w *World) CheckNumbers(fromStore map[*Cube]bool) (culprit string, err error) {
	ids, slots := map[datapath.CubeID]string{}, map[uint16]string{}
	for _, rec := range w.InOrder() {
		if fromStore[rec] {
			if err := rec.checkNumbers(ids, slots); err != nil {
				return rec.Name, err
			}
		}
		ids[rec.ID] = rec.Name
		for _, p := range rec.Ports {
			slots[p.Slot] = rec.Name
		}
	}
	return "", nil
}

// checkNumbers checks a cube's numbers against those in use.
func (r *Cube) checkNumbers(ids map[datapath.CubeID]string, slots map[uint16]string) error {
	if other := ids[r.ID]; other != "" {
		return fmt.Errorf("its number %d is that of %s: %w", r.ID, other, cube.ErrInvalid)
	}
	indexes, own := map[uint16]bool{}, map[uint16]bool{}
	for _, p := range r.Ports {
		if slots[p.Slot] != "" || own[p.Slot] || indexes[p.Index] || p.Slot > datapath.MaxSlot || p.Index >= datapath.MaxPorts {
			return fmt.Errorf("the numbers of port %s are not its own: %w", p.Name, cube.ErrInvalid)
		}
		indexes[p.Index], own[p.Slot] = true, true
	}
	return nil
}
