// SPDX-License-Identifier: Apache-2.0

package topology

// The numbers that the fast path knows things by. They are given out here, stored with the cube and the same after a
// restart. A cube's number is not used again at once: packets on their way through the slow path still carry it.

import (
	"crypto/rand"
	"fmt"
	"maps"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// newUUID returns a random UUID (RFC 9562, version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: the runtime ends the process if the kernel has no randomness
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// freeID returns the first free cube number after last, going round.
func (w *world) freeID(last datapath.CubeID) (datapath.CubeID, error) {
	used := make(map[datapath.CubeID]bool, len(w.cubes)+len(w.broken))
	for _, rec := range w.cubes {
		used[rec.id] = true
	}
	for _, b := range w.broken {
		used[b.stored.ID] = true
	}
	for range datapath.MaxCubeID {
		last = last%datapath.MaxCubeID + 1
		if !used[last] {
			return last, nil
		}
	}
	return 0, fmt.Errorf("%d cubes exist, the most there can be: %w", len(used), cube.ErrFull)
}

// usedSlots marks the counter slots that are taken.
func (w *world) usedSlots() map[uint16]bool {
	used := map[uint16]bool{}
	maps.Copy(used, w.leaving)
	for _, rec := range w.cubes {
		for _, p := range rec.ports {
			used[p.slot] = true
		}
	}
	for _, b := range w.broken {
		for _, p := range b.stored.Ports {
			used[p.Slot] = true
		}
	}
	return used
}

// freeSlots returns n free slots, in one page with the cube's other slots when there is one with room: the data plane
// maps a page per segment.
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
		return nil, fmt.Errorf("%d ports exist, the most there can be: %w", len(used), cube.ErrFull)
	}
	return free[:n], nil
}

// numberPorts gives indexes and slots to ports that are new in rec. taken are indexes of ports that this same
// transaction removes: while it runs both are known.
func (w *world) numberPorts(rec *record, fresh []*port, taken map[uint16]bool, limit int) error {
	if len(fresh) == 0 {
		return nil
	}
	if len(rec.ports)+len(fresh) > limit {
		return fmt.Errorf("%s: %d ports, the maximum is %d: %w", rec.name, len(rec.ports)+len(fresh), limit, cube.ErrFull)
	}
	own := map[int]bool{}
	for _, p := range rec.ports {
		taken[p.index] = true
		own[int(p.slot)/datapath.SlotsPerPage] = true
	}
	slots, err := freeSlots(w.usedSlots(), own, len(fresh))
	if err != nil {
		return fmt.Errorf("%s: %w", rec.name, err)
	}
	index := uint16(0)
	for i, p := range fresh {
		for taken[index] {
			index++
		}
		if index >= datapath.MaxPorts {
			return fmt.Errorf("%s: no free port number, remove and add ports in separate requests: %w", rec.name, cube.ErrFull)
		}
		taken[index] = true
		p.index, p.slot = index, slots[i]
	}
	return nil
}

// collides refuses a record whose numbers are those of another cube.
func (r *record) collides(others []*record) error {
	slots := map[uint16]bool{}
	for _, o := range others {
		if o.id == r.id || o.uuid == r.uuid {
			return fmt.Errorf("its number %d is that of %s: %w", r.id, o.name, cube.ErrInvalid)
		}
		for _, p := range o.ports {
			slots[p.slot] = true
		}
	}
	indexes := map[uint16]bool{}
	for _, p := range r.ports {
		if slots[p.slot] || indexes[p.index] || p.slot > datapath.MaxSlot || p.index >= datapath.MaxPorts {
			return fmt.Errorf("the numbers of port %s are not its own: %w", p.name, cube.ErrInvalid)
		}
		slots[p.slot], indexes[p.index] = true, true
	}
	return nil
}

// checkNumbers checks that no cube from the store takes a number of another one, and names the one at fault: of two that
// collide, the younger.
func (w *world) checkNumbers(fromStore map[*record]bool) (culprit string, err error) {
	ids, slots := map[datapath.CubeID]string{}, map[uint16]string{}
	for _, rec := range w.inOrder() {
		if fromStore[rec] {
			if err := rec.checkNumbers(ids, slots); err != nil {
				return rec.name, err
			}
		}
		ids[rec.id] = rec.name
		for _, p := range rec.ports {
			slots[p.slot] = rec.name
		}
	}
	return "", nil
}

// checkNumbers checks a cube's numbers against those that are taken.
func (r *record) checkNumbers(ids map[datapath.CubeID]string, slots map[uint16]string) error {
	if other := ids[r.id]; other != "" {
		return fmt.Errorf("its number %d is that of %s: %w", r.id, other, cube.ErrInvalid)
	}
	indexes, own := map[uint16]bool{}, map[uint16]bool{}
	for _, p := range r.ports {
		if slots[p.slot] != "" || own[p.slot] || indexes[p.index] || p.slot > datapath.MaxSlot || p.index >= datapath.MaxPorts {
			return fmt.Errorf("the numbers of port %s are not its own: %w", p.name, cube.ErrInvalid)
		}
		indexes[p.index], own[p.slot] = true, true
	}
	return nil
}
