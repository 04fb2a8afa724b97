// SPDX-License-Identifier: Apache-2.0

package classifier

// The names of sets of addresses. Rules refer to sets by numbers, which the names keep as long as anything uses them, in a
// map that outlives the daemon: after a restart, rules find the sets of before until the cube with the set has written
// it again, in whatever order cubes are restored. A set that does not exist is empty.

import (
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/polycube/polycube/cube"
)

const (
	// addressSets, addressesSize and nameSize are those of pcn/classify_addresses.h.
	addressSets   = 1024
	addressesSize = 72
	nameSize      = 64
	// addressKey is added to the number of a set of addresses where sets of rules have theirs.
	addressKey = 1 << 20
)

// names are the numbers of sets of addresses.
type names struct {
	table  []byte // the map
	byName map[string]uint32
	users  map[uint32]int // sets of rules that use a number
	tests  map[uint32]int // other uses by rules
	// owners are the cubes with the set: for a moment two, if one takes the place of another. The last one counts.
	owners map[uint32][]*Addresses
}

// openNames reads the names that an earlier daemon has left.
func openNames(table []byte) names {
	n := names{table, map[string]uint32{}, map[uint32]int{}, map[uint32]int{}, map[uint32][]*Addresses{}}
	for number := uint32(1); number < addressSets; number++ {
		if name := n.name(number); name != "" {
			n.byName[name] = number
		}
	}
	return n
}

// at is the word that says where a set is.
func (n *names) at(number uint32) *uint64 {
	return (*uint64)(unsafe.Pointer(&n.table[number*addressesSize]))
}

func (n *names) text(number uint32) []byte { return n.table[number*addressesSize+8:][:nameSize] }

func (n *names) name(number uint32) string {
	return strings.TrimRight(string(n.text(number)), "\x00")
}

// number returns the number of a name, a free one if it has none.
func (n *names) number(name string) (uint32, error) {
	if number, ok := n.byName[name]; ok {
		return number, nil
	}
	if name == "" || len(name) > nameSize || strings.Contains(name, "\x00") {
		return 0, fmt.Errorf("the name %.80q of a set of addresses: %w", name, cube.ErrInvalid)
	}
	for _, isFree := range []func(uint32) bool{func(x uint32) bool { return n.name(x) == "" }, n.isUnused} {
		for number := uint32(1); number < addressSets; number++ {
			if isFree(number) {
				delete(n.byName, n.name(number))
				clear(n.text(number))
				copy(n.text(number), name)
				n.byName[name] = number
				return number, nil
			}
		}
	}
	return 0, fmt.Errorf("all %d numbers of sets of addresses are in use: %w", addressSets-1, cube.ErrFull)
}

// isUnused reports whether neither rules nor addresses use a number.
func (n *names) isUnused(number uint32) bool {
	return n.users[number]+n.tests[number] == 0 && len(n.owners[number]) == 0 && atomic.LoadUint64(n.at(number)) == 0
}

// forget frees the number if it is unused.
func (n *names) forget(number uint32) {
	if n.isUnused(number) {
		delete(n.byName, n.name(number))
		clear(n.text(number))
	}
}

// refer returns the number of a set that rules name, and keeps it until unrefer.
func (p *pool) refer(name string) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number, err := p.names.number(name)
	if err == nil {
		p.names.users[number]++
	}
	return number, err
}

// unrefer ends a use. A set of rules that is closed keeps its numbers, because packets may still use them.
func (p *pool) unrefer(number uint32, closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.names.users[number]--; p.names.users[number] > 0 {
		return
	}
	delete(p.names.users, number)
	if !closed {
		p.names.forget(number)
	}
}

// own returns the number of a set for the cube that has its addresses.
func (p *pool) own(name string, s *Addresses) (uint32, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	number, err := p.names.number(name)
	if err == nil {
		p.names.owners[number] = append(p.names.owners[number], s)
	}
	return number, err
}

// empty removes the addresses of a set, unless another cube with that name has the set now.
func (p *pool) empty(number uint32, s *Addresses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if all := p.names.owners[number]; len(all) > 0 && all[len(all)-1] == s {
		atomic.StoreUint64(p.names.at(number), 0)
	}
}

// disown ends what own began.
func (p *pool) disown(number uint32, s *Addresses) {
	p.mu.Lock()
	defer p.mu.Unlock()
	all := slices.DeleteFunc(p.names.owners[number], func(x *Addresses) bool { return x == s })
	if p.names.owners[number] = all; len(all) == 0 {
		delete(p.names.owners, number)
		p.names.forget(number)
	}
}

// addressesAt is where packets find a set, publishAddresses replaces it by one store.
func (p *pool) addressesAt(number uint32) uint64 { return atomic.LoadUint64(p.names.at(number)) }

func (p *pool) publishAddresses(number uint32, at uint64) {
	atomic.StoreUint64(p.names.at(number), at)
}
