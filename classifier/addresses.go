// SPDX-License-Identifier: Apache-2.0

package classifier

// Sets of addresses (docs/adr/0051). A set is in one part of the shared memory, as tries of IPv4 and of IPv6 prefixes. A
// change writes new nodes next to those in use and then replaces one word, so packets see all of it or nothing.

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
)

// AddressChange is a prefix that is added to a set of addresses, or removed.
type AddressChange struct {
	Prefix netip.Prefix
	Remove bool
}

// Addresses is a named set of IPv4 and IPv6 prefixes, which the rules of all cubes of the daemon can match
// (Match.SourceSet). It contains an address if one of its prefixes does. Its methods are called one at a time.
type Addresses struct {
	env  cube.Env
	name string
	pool *pool
	// number is that of the name.
	number uint32
	addressState
	edits    uint64
	prepared *addressEdit
	// emptied says that the set is deleted.
	emptied bool
}

// addressState is the state that a change replaces.
type addressState struct {
	tries [2]*trieNode // IPv4, IPv6
	count int          // prefixes
	nodes int          // blocks of the tries
	area  *area
	// root is the block with the references to the tries.
	root uint32
}

// NewAddresses returns the set with a name, whose prefixes a cube has. It uses no map before the steps of the first plan.
func NewAddresses(env cube.Env, name string) *Addresses { return &Addresses{env: env, name: name} }

// Len returns the number of prefixes.
func (s *Addresses) Len() int { return s.count }

// addressEdit is a prepared change.
type addressEdit struct {
	trieEdit
	s      *Addresses
	next   addressState
	was    addressState
	wasAt  uint64
	moved  bool     // to an area of its own
	blocks []uint32 // allocated in the area that stays
}

// Prepare checks changes, no two of the same prefix, and returns the steps that apply them. A previously prepared change
// cannot be committed any more.
func (s *Addresses) Prepare(changes []AddressChange) (cube.Plan, error) {
	s.edits, s.prepared = s.edits+1, nil
	n := &addressEdit{trieEdit: trieEdit{number: s.edits}, s: s, next: s.addressState}
	for _, c := range changes {
		if err := n.apply(c); err != nil {
			return cube.Plan{}, err
		}
	}
	n.next.nodes += n.made - len(n.gone)
	if n.next.nodes >= maxBlocks {
		return cube.Plan{}, fmt.Errorf("a set of %d prefixes needs more than %d MB, which are enough for 130000 prefixes, or more if "+
			"they are close to each other: %w", n.next.count, maxBlocks*blockSize>>20, cube.ErrFull)
	}
	s.prepared = n
	return cube.Plan{
		Before: []cube.Step{cube.Effect(func() (func() error, error) { return n.undo, n.commit() })},
		After:  []cube.Step{cube.Effect(func() (func() error, error) { return nil, n.free() })},
	}, nil
}

// apply makes a change of the tries.
func (n *addressEdit) apply(c AddressChange) error {
	p, six, err := prefixOf(c.Prefix)
	if err != nil {
		return err
	}
	trie := &n.next.tries[0]
	if six {
		trie = &n.next.tries[1]
	}
	var ok bool
	if c.Remove {
		if *trie, ok = n.remove(*trie, p); !ok {
			return fmt.Errorf("prefix %s: %w", c.Prefix, cube.ErrNotFound)
		}
		n.next.count--
		return nil
	}
	if *trie, ok = n.add(*trie, p); !ok {
		return fmt.Errorf("prefix %s: %w", c.Prefix, cube.ErrExists)
	}
	n.next.count++
	return nil
}

func (n *addressEdit) commit() error {
	s := n.s
	if s.prepared != n {
		return fmt.Errorf("addresses: another change was prepared after this one: %w", cube.ErrInvalid)
	}
	if err := s.open(); err != nil {
		return err
	}
	n.was, n.wasAt = s.addressState, s.pool.addressesAt(s.number)
	if err := n.place(); err != nil {
		return err
	}
	for _, trie := range n.next.tries {
		trie.madeBy(n.number, func(x *trieNode) { x.write(n.next.area.at(x.at)) })
	}
	root := n.next.area.at(n.next.root)
	clear(root)
	for i, trie := range n.next.tries {
		native.PutUint32(root[4*i:], trie.reference())
	}
	s.addressState, s.prepared = n.next, nil
	s.pool.publishAddresses(s.number, n.next.area.reference(n.next.root))
	return nil
}

// place allocates blocks for what is new: in the area of the set or, if there is no room or too much, for all of the set
// in another one.
func (n *addressEdit) place() (err error) {
	if a := n.next.area; a != nil && !a.isSparse(n.next.nodes) {
		if n.blocks, err = a.take(n.made + 1); err != nil {
			return err
		}
	}
	if n.blocks == nil {
		n.moved = true
		for i, trie := range n.next.tries {
			n.next.tries[i] = n.copyAll(trie)
		}
		if n.next.area, err = n.s.pool.newArea(n.next.nodes + 1); err != nil {
			return err
		}
		if n.blocks, err = n.next.area.take(n.next.nodes + 1); err != nil {
			return errors.Join(err, n.next.area.close())
		}
	}
	left := n.blocks
	next := func() uint32 {
		at := left[0]
		left = left[1:]
		return at
	}
	n.next.root = next()
	for _, trie := range n.next.tries {
		trie.madeBy(n.number, func(x *trieNode) { x.at = next() })
	}
	return nil
}

func (n *addressEdit) undo() error {
	s := n.s
	s.pool.publishAddresses(s.number, n.wasAt)
	s.addressState = n.was
	if !n.moved {
		n.was.area.give(n.blocks)
		return nil
	}
	return errors.Join(s.pool.wait(), n.next.area.close())
}

// free frees what only packets that have begun before the change may read.
func (n *addressEdit) free() error {
	if n.was.area != nil && !n.moved {
		n.was.area.give(append(n.gone, n.was.root))
		return nil
	}
	if n.was.area != nil {
		if err := errors.Join(n.s.pool.wait(), n.was.area.close()); err != nil {
			return err
		}
	}
	return n.s.pool.settle(addressKey + n.s.number)
}

// open opens the pool; the first steps of a cube's plan are the earliest use.
func (s *Addresses) open() error {
	if s.pool != nil {
		return nil
	}
	p, err := openPool(s.env)
	if err != nil {
		return err
	}
	number, err := p.own(s.name, s)
	if err != nil {
		return errors.Join(err, p.release())
	}
	s.pool, s.number = p, number
	return p.closeKept(addressKey + number)
}

// Empty removes all addresses for packets, because the set is deleted.
func (s *Addresses) Empty() {
	s.emptied = true
	if s.pool != nil {
		s.pool.empty(s.number, s)
	}
}

// Close ends the use of the set. Unless it was emptied, packets still find its addresses.
func (s *Addresses) Close() error {
	if s.pool == nil {
		return nil
	}
	p := s.pool
	s.pool = nil
	p.disown(s.number, s)
	var err error
	switch {
	case s.area == nil:
	case s.emptied:
		err = errors.Join(p.wait(), s.area.close())
	default:
		p.keep(addressKey+s.number, s.area.homes())
	}
	return errors.Join(err, p.release())
}
