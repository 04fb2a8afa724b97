// SPDX-License-Identifier: Apache-2.0

package classifier

// References to sets by rules that do not search them as part of a match, but test them by their numbers afterwards.

import (
	"sync/atomic"

	"github.com/polycube/polycube/cube"
)

// References are the sets whose numbers a cube uses. The names keep their numbers meanwhile. Its methods are called one at
// a time, from the steps of the first plan on.
type References struct {
	env  cube.Env
	pool *pool
	uses map[uint32]int
}

// NewReferences returns the references of a cube.
func NewReferences(env cube.Env) *References { return &References{env: env, uses: map[uint32]int{}} }

// Refer returns the number of a set by its name, until Unrefer.
func (r *References) Refer(name string) (number uint32, err error) {
	if r.pool == nil {
		if r.pool, err = openPool(r.env); err != nil {
			return 0, err
		}
	}
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if number, err = p.names.number(name); err == nil {
		p.names.tests[number]++
		r.uses[number]++
	}
	return number, err
}

// Find returns the number of a set that has one, and whether there is a cube with the set, or was in the daemon before.
func (r *References) Find(name string) (number uint32, exists bool, err error) {
	p, err := openPool(r.env)
	if err != nil {
		return 0, false, err
	}
	p.mu.Lock()
	number = p.names.byName[name]
	exists = number != 0 && (len(p.names.owners[number]) > 0 || atomic.LoadUint64(p.names.at(number)) != 0)
	p.mu.Unlock()
	return number, exists, p.release()
}

// Unrefer ends a use.
func (r *References) Unrefer(number uint32) {
	if r.uses[number] == 0 {
		return
	}
	r.end(number)
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	p.names.forget(number)
}

// end ends a use, and keeps the number, because packets may still use it.
func (r *References) end(number uint32) {
	p := r.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.uses[number]--; r.uses[number] == 0 {
		delete(r.uses, number)
	}
	if p.names.tests[number]--; p.names.tests[number] == 0 {
		delete(p.names.tests, number)
	}
}

// Close ends all uses.
func (r *References) Close() error {
	if r.pool == nil {
		return nil
	}
	for number, n := range r.uses {
		for range n {
			r.end(number)
		}
	}
	p := r.pool
	r.pool = nil
	return p.release()
}

// Number returns the number of the set, from the steps of the first plan on.
func (s *Addresses) Number() uint32 { return s.number }

// Uses returns how many sets of rules match the set as part of their search, and how many rules test it otherwise.
func (s *Addresses) Uses() (searched, tested int) {
	if s.pool == nil {
		return 0, 0
	}
	s.pool.mu.Lock()
	defer s.pool.mu.Unlock()
	return s.pool.names.users[s.number], s.pool.names.tests[s.number]
}
