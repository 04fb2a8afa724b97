// SPDX-License-Identifier: Apache-2.0

package counter

// Counters of rules (pcn/rule_counters.h). A rule has its counter as long as it exists, whatever other rules are added
// and removed, and keeps it when the daemon is restarted.

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/inet"
)

// setsOfCube is how many lists of rules a cube may have whose numbers are next to each other; see set. maxSets is how many
// there may be in all.
const (
	setsOfCube = 8
	maxSets    = setsOfCube << 12
)

// Rules are the counters of a list of rules of a cube. Its functions must not be called at the same time.
type Rules struct {
	env    cube.Env
	number uint32
	pool   *pool
	// left are the counters that an earlier daemon gave to rules, by id.
	left map[uint32]uint32
}

// NewRules returns the counters of one of a cube's lists of rules, by its number.
func NewRules(env cube.Env, number uint32) *Rules { return &Rules{env: env, number: number} }

// set is the number of the list among all lists: its upper bits are those of the list's number, so the first lists of cubes
// have the numbers that they had when there could be no others.
func (r *Rules) set() uint32 {
	return uint32(r.env.Instance())*setsOfCube + r.number%setsOfCube | r.number/setsOfCube<<19
}

// Open opens the memory, before anything else is called. Rules that had counters before get them again by Take.
func (r *Rules) Open() error {
	if r.pool != nil {
		return nil
	}
	if r.number >= maxSets {
		return fmt.Errorf("counters of list %d: a cube has up to %d lists of rules: %w", r.number, maxSets, cube.ErrInvalid)
	}
	origin, err := r.env.Origin(keptMap)
	if err != nil {
		return err
	}
	p, err := openPool(r.env)
	if err != nil {
		return err
	}
	r.pool = p
	r.left = p.reopen(r.set())
	if origin != origins.Created {
		return nil
	}
	return r.Abandon() // they are of a deleted cube, which had the number
}

// Take gives rules their counters, in the order of their ids: the previous ones, or unused ones, which are zero. undo
// takes them back.
func (r *Rules) Take(ids []uint32) (indexes []uint32, undo func() error, err error) {
	indexes = make([]uint32, len(ids))
	var fresh []uint32
	was := map[uint32]uint32{}
	for i, id := range ids {
		index, ok := r.left[id]
		if ok {
			was[id] = index
		} else if index, err = r.pool.take(r.set(), id); err != nil {
			return nil, nil, errors.Join(fmt.Errorf("counter of rule %d: %w", id, err), r.Free(fresh))
		} else {
			fresh = append(fresh, index)
		}
		indexes[i] = index
	}
	if err := r.pool.clear(fresh); err != nil {
		return nil, nil, errors.Join(err, r.Free(fresh))
	}
	for id := range was {
		delete(r.left, id)
	}
	return indexes, func() error {
		maps.Copy(r.left, was)
		return r.Free(fresh)
	}, nil
}

// Renamed is a rule that gets another id.
type Renamed struct{ Index, From, To uint32 }

// Rename records that rules have other ids, under which the next daemon takes their counters. undo reverses it.
func (r *Rules) Rename(rules []Renamed) (undo func() error) {
	for _, is := range rules {
		r.pool.rename(r.set(), is.Index, is.To)
	}
	return func() error {
		for _, is := range rules {
			r.pool.rename(r.set(), is.Index, is.From)
		}
		return nil
	}
}

// Reset sets counters to zero.
func (r *Rules) Reset(indexes []uint32) error { return r.pool.clear(indexes) }

// Write sets counters to counts, in the order of their indexes, as if one CPU had counted them.
func (r *Rules) Write(indexes []uint32, counts []inet.Count) error {
	return r.pool.write(indexes, counts)
}

// Free frees counters, once no packet uses the rules any more and the change cannot be undone.
func (r *Rules) Free(indexes []uint32) error {
	r.pool.give(indexes)
	return r.pool.shrink()
}

// Abandon frees the counters of an earlier daemon's rules that were not taken.
func (r *Rules) Abandon() error {
	if len(r.left) == 0 {
		return nil
	}
	indexes := slices.Collect(maps.Values(r.left))
	clear(r.left)
	return r.Free(indexes)
}

// Counts reads counters, in the order of their indexes.
func (r *Rules) Counts(indexes []uint32) ([]inet.Count, error) { return r.pool.read(indexes) }

// Close ends the use of the memory, which stays with its counters.
func (r *Rules) Close() error {
	if r.pool == nil {
		return nil
	}
	p := r.pool
	r.pool = nil
	return p.release()
}
