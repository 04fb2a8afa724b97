// SPDX-License-Identifier: Apache-2.0

package classifier

// A set of rules of a cube in the memory of all sets.

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
)

// pooled is a set in the memory of all sets.
type pooled struct {
	env    cube.Env
	number uint32
	pool   *pool
	used   map[string]uint32 // sets of addresses that rules match
}

// set is the index of the set among all sets.
func (s *pooled) set() uint32 { return uint32(s.env.Instance())*setsOfCube + s.number }

// open opens the pool; the first steps of a cube's plan are the earliest use.
func (s *pooled) open() error {
	if s.pool != nil {
		return nil
	}
	if s.number >= setsOfCube {
		return fmt.Errorf("set %d: a cube has up to %d sets of rules: %w", s.number, setsOfCube, cube.ErrInvalid)
	}
	p, err := openPool(s.env)
	if err != nil {
		return err
	}
	s.pool = p
	return p.closeKept(s.set())
}

func (s *pooled) maker() (func(blocks int) (home, error), error) {
	if err := s.open(); err != nil {
		return nil, err
	}
	p := s.pool
	return func(blocks int) (home, error) { return p.take(blocks) }, nil
}

func (s *pooled) root() uint64 { return atomic.LoadUint64(s.pool.root(s.set())) }

func (s *pooled) publish(root uint64) { atomic.StoreUint64(s.pool.root(s.set()), root) }

func (s *pooled) fields() uint32 { return uint32(atomic.LoadUint64(s.pool.fields(s.set()))) }

func (s *pooled) setFields(fields uint32) {
	atomic.StoreUint64(s.pool.fields(s.set()), uint64(fields))
}

func (s *pooled) wait() error { return s.pool.wait() }

func (s *pooled) settle() error { return s.pool.settle(s.set()) }

// close keeps the regions of the set: if the daemon stops, its programs go on searching there.
func (s *pooled) close(used []home) error {
	if s.pool == nil {
		return nil
	}
	p := s.pool
	s.pool = nil
	p.keep(s.set(), used)
	for _, number := range s.used {
		p.unrefer(number, true)
	}
	return p.release()
}

// refer returns the numbers of sets of addresses, which are kept until unrefer.
func (s *pooled) refer(names []string) ([]uint32, error) {
	if s.used == nil {
		s.used = map[string]uint32{}
	}
	out := make([]uint32, len(names))
	for i, name := range names {
		number, ok := s.used[name]
		if !ok {
			var err error
			if number, err = s.pool.refer(name); err != nil {
				return nil, err
			}
			s.used[name] = number
		}
		out[i] = number
	}
	return out, nil
}

// unrefer ends the use of all sets of addresses but some.
func (s *pooled) unrefer(but []string) {
	for name, number := range s.used {
		if !slices.Contains(but, name) {
			delete(s.used, name)
			s.pool.unrefer(number, false)
		}
	}
}
