// SPDX-License-Identifier: Apache-2.0

package ipset

// A change of a set: checked, then carried out as a whole.

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ipset"
	"github.com/polycube/polycube/ipset/elements"
)

// change is a prepared change.
type change struct {
	*set
	created bool
	config  *ipset.Config // afterwards
	header  ipset.Header
	plan    cube.Plan // of the prefixes

	prefixes map[netip.Prefix]bool // true for new ones, false for those that are gone
	elements map[elements.Key]cube.Changed[ipset.Entry]
	undone   cube.Undo
	was      uint32   // slot
	stale    []uint32 // members before
	now      uint64   // time
}

// newChange checks a change.
func (s *set) newChange(c cube.ChangeOf[ipset.Config]) (*change, error) {
	n := &change{
		set: s, created: c.Created(), config: cmp.Or(c.New, s.config), was: s.slot,
		prefixes: map[netip.Prefix]bool{}, elements: map[elements.Key]cube.Changed[ipset.Entry]{},
	}
	n.header = n.config.Header()
	if err := n.check(); err != nil {
		return nil, err
	}
	var lists [2][]cube.EntryChange
	for _, e := range c.Entries {
		i := 0
		if e.List[0] == "element" {
			i = 1
		}
		lists[i] = append(lists[i], e)
	}
	if err := n.readPrefixes(lists[0]); err != nil {
		return nil, err
	}
	if err := n.readElements(lists[1]); err != nil {
		return nil, err
	}
	return n, n.count()
}

// check checks the configuration alone.
func (n *change) check() error {
	ports := n.config.FirstPort != nil && n.config.LastPort != nil && *n.config.FirstPort <= *n.config.LastPort
	if n.config.SetType == "bitmap:port" && !ports {
		return fmt.Errorf("a set of type bitmap:port needs first-port and last-port, in this order: %w", cube.ErrInvalid)
	}
	if most := n.config.MaxElem; n.config.SetType == "list:set" && most != nil && *most > elements.MaxMembers {
		return fmt.Errorf("maxelem: a set of sets has up to %d members: %w", elements.MaxMembers, cube.ErrUnsupported)
	}
	return nil
}

// readPrefixes prepares the changes of prefixes.
func (n *change) readPrefixes(list []cube.EntryChange) error {
	entries, err := cube.DecodeEntries[Entry](list)
	if err != nil {
		return err
	}
	changes := make([]classifier.AddressChange, 0, len(entries))
	for _, e := range entries {
		if e.New == nil {
			changes = append(changes, classifier.AddressChange{Prefix: e.Old.Prefix.Prefix, Remove: true})
			n.prefixes[e.Old.Prefix.Prefix] = false
		}
	}
	for _, e := range entries {
		if e.Old != nil || e.New == nil {
			continue
		}
		p := e.New.Prefix.Prefix
		if n.config.Family != "" && (n.header.Family == 4) != p.Addr().Is4() {
			return fmt.Errorf("prefixes %s: the set is of family %s: %w", p, n.config.Family, cube.ErrInvalid)
		}
		if n.config.SetType == "hash:ip" && !p.IsSingleIP() {
			return fmt.Errorf("prefixes %s: a set of type hash:ip has addresses only; use hash:net: %w", p, cube.ErrInvalid)
		}
		changes = append(changes, classifier.AddressChange{Prefix: p})
		n.prefixes[p] = true
	}
	if n.plan, err = n.addresses.Prepare(changes); err != nil {
		return fmt.Errorf("prefixes: %w", err)
	}
	return nil
}

// readElements reads the changes of elements.
func (n *change) readElements(list []cube.EntryChange) error {
	entries, err := cube.DecodeEntries[ipset.Entry](list)
	if err != nil {
		return err
	}
	before := n.header
	if n.set.config != nil {
		before = n.set.config.Header()
	}
	add := func(h ipset.Header, e *ipset.Entry, to func(*cube.Changed[ipset.Entry])) error {
		is, err := h.Single(e.Entry)
		if err != nil {
			return fmt.Errorf("element: %w: %w", err, cube.ErrInvalid)
		}
		k := keyOf(h, is)
		c := n.elements[k]
		to(&c)
		n.elements[k] = c
		return nil
	}
	for _, e := range entries {
		if e.Old != nil {
			if err := add(before, e.Old, func(c *cube.Changed[ipset.Entry]) { c.Old = e.Old }); err != nil {
				return err
			}
		}
		if e.New == nil {
			continue
		}
		if err := checkEntry(n.header, e.New); err != nil {
			return fmt.Errorf("element %s: %w: %w", e.New.Entry, err, cube.ErrInvalid)
		}
		if err := add(n.header, e.New, func(c *cube.Changed[ipset.Entry]) { c.New = e.New }); err != nil {
			return err
		}
	}
	return nil
}

// keyOf returns the key of an element, without its slot. That of a member of a set of sets is made of its name.
func keyOf(h ipset.Header, e ipset.Element) elements.Key {
	if h.Type == "list:set" {
		var k elements.Key
		copy(k.Address[:], e.Set)
		copy(k.Second[:], e.Set[min(len(k.Address), len(e.Set)):])
		return k
	}
	return elements.KeyOf(e)
}

// checkEntry checks that the set has what an entry says.
func checkEntry(h ipset.Header, e *ipset.Entry) error {
	_, err := h.Entry(ipset.Element{}, ipset.Options{
		Timeout: e.Timeout, NoMatch: e.NoMatch, Comment: e.Comment, Packets: e.InitialPackets, Bytes: e.InitialBytes,
		Counted: e.InitialPackets+e.InitialBytes > 0,
	})
	return err
}

// count checks what the set has after the change.
func (n *change) count() error {
	prefixes, elements, left := len(n.set.prefixes), len(n.wanted), len(n.wanted)
	for _, added := range n.prefixes {
		prefixes += map[bool]int{true: 1, false: -1}[added]
	}
	for _, c := range n.elements {
		switch {
		case c.Old == nil:
			elements++
		case c.New == nil:
			elements--
		}
		if c.Old != nil {
			left--
		}
	}
	plain := n.config.Plain()
	switch {
	case plain && elements > 0:
		return fmt.Errorf("element: a set of type %s without timeout, counters, comments and exceptions has prefixes: %w", n.config.SetType, cube.ErrInvalid)
	case !plain && prefixes > 0:
		return fmt.Errorf("prefixes: a set of type %s with timeout, counters, comments or exceptions, and one of another type than hash:ip and hash:net, has "+
			"the list element: %w", n.config.SetType, cube.ErrInvalid)
	case n.set.config != nil && left > 0 && (n.header.Type != n.set.config.SetType || n.header.Family != n.set.config.Header().Family):
		return fmt.Errorf("the set has elements, so its type and family stay: %w", cube.ErrInUse)
	case n.config.MaxElem != nil || !plain:
		most := max(n.header.MaxElem, n.header.Size)
		if most > 0 && prefixes+elements > int(most) {
			return fmt.Errorf("the set is full: it may have %d elements (maxelem): %w", most, cube.ErrFull)
		}
	}
	return nil
}

// commit has packets see the change.
func (n *change) commit() (undo func() error, err error) {
	s := n.set
	if n.now, err = cube.TimeCoarse(); err != nil {
		return nil, err
	}
	config, wanted, prefixes, slot := s.config, s.wanted, s.prefixes, s.slot
	n.undone.Push(func() error { s.config, s.wanted, s.prefixes, s.slot = config, wanted, prefixes, slot; return nil })
	if err := n.carry(); err != nil {
		return nil, errors.Join(err, n.undone.Run())
	}
	n.take()
	return n.undone.Run, nil
}

// take takes the change over into the state in effect.
func (n *change) take() {
	s := n.set
	s.config = n.config
	for p, added := range n.prefixes {
		was := s.prefixes[p]
		n.undone.Push(func() error { setOrDelete(s.prefixes, p, true, was); return nil })
		setOrDelete(s.prefixes, p, true, added)
	}
	for k, c := range n.elements {
		was := s.wanted[k]
		n.undone.Push(func() error { setOrDelete(s.wanted, k, was, was != nil); return nil })
		setOrDelete(s.wanted, k, c.New, c.New != nil)
	}
}

func setOrDelete[K comparable, V any](m map[K]V, k K, v V, there bool) {
	if delete(m, k); there {
		m[k] = v
	}
}

// owner returns the number of the set whose elements these are: a hash of its cube's UUID.
func (n *change) owner() uint64 {
	sum := sha256.Sum256([]byte(cmp.Or(n.config.ElementsOf, n.env.UUID())))
	return binary.NativeEndian.Uint64(sum[:]) | 1
}

// carry writes the elements.
func (n *change) carry() error {
	s := n.set
	if n.config.Plain() {
		if s.slot == 0 && !n.created {
			return nil
		}
		s.slot = 0
		return n.show(0)
	}
	searched, _ := s.addresses.Uses()
	if searched > 0 && s.slot == 0 {
		if !n.created {
			return fmt.Errorf("rules find the addresses of set %s as prefixes, so it cannot have elements that expire, count or are exceptions while they "+
				"are there: delete them, and add them again afterwards: %w", s.env.Name(), cube.ErrInUse)
		}
		s.env.Logger().Warn("rules of cubes other than iptables match this set; they see an empty one, since its elements are no plain prefixes")
	}
	slot, fresh, err := s.memory.Take(n.owner())
	if err != nil {
		return err
	}
	if fresh {
		n.undone.Push(func() error { return s.memory.Free(slot) })
	}
	is, err := s.memory.Slot(slot)
	if err != nil {
		return err
	}
	all := slot != s.slot
	s.slot = slot
	n.undone.Push(n.describe(is))
	if n.header.Type == "list:set" {
		err = n.list(is)
	} else {
		err = n.write(is, all)
	}
	if err != nil {
		return err
	}
	return n.show(slot)
}

func (n *change) show(slot uint32) error {
	undo, err := n.memory.Show(n.addresses.Number(), slot)
	if err == nil {
		n.undone.Push(undo)
	}
	return err
}

// describe writes what a slot says of its elements.
func (n *change) describe(to *elements.Slot) (undo func() error) {
	h, was := n.header, *to
	to.Kind, to.Flags, to.Timeout = elements.KindOf(h.Type), 0, 0
	if h.Family == 6 {
		to.Flags |= elements.IPv6
	}
	if h.Counters {
		to.Flags |= elements.Counted
	}
	if h.Timeout != nil {
		to.Flags |= elements.Expiring
		to.Timeout = *h.Timeout
	}
	to.First, to.Last, to.Most = uint32(h.First), uint32(h.Last), h.MaxElem
	if h.Type == "bitmap:port" {
		to.Most = 1 << 16
	}
	return func() error {
		to.Kind, to.Flags, to.Timeout, to.Most, to.First, to.Last = was.Kind, was.Flags, was.Timeout, was.Most, was.First, was.Last
		return nil
	}
}

// list writes the members of a set of sets.
func (n *change) list(to *elements.Slot) error {
	wanted := maps.Clone(n.wanted)
	for k, c := range n.elements {
		setOrDelete(wanted, k, c.New, c.New != nil)
	}
	entries := slices.SortedFunc(maps.Values(wanted), ipset.ByPosition)
	was, referred := to.Member, n.set.referred
	var next [elements.MaxMembers]uint16
	var numbers []uint32
	n.undone.Push(func() error { to.Member, n.set.referred = was, referred; return nil })
	for i, e := range entries {
		number, err := n.members.Refer(e.Entry)
		if err != nil {
			return err
		}
		numbers = append(numbers, number)
		n.undone.Push(func() error { n.members.Unrefer(number); return nil })
		next[i] = uint16(number)
	}
	to.Member, n.set.referred, n.stale = next, numbers, referred
	return nil
}

// write writes the changed elements, or finds out which of all are to be written.
func (n *change) write(to *elements.Slot, all bool) error {
	lengths := [2]uint64{to.Lengths[0] & 1}
	kept := map[elements.Key]elements.Value{}
	wanted := n.wanted
	if all {
		var err error
		if kept, err = n.memory.All(n.slot); err != nil {
			return err
		}
		wanted = maps.Clone(n.wanted)
		for k, c := range n.elements {
			setOrDelete(wanted, k, c.New, c.New != nil)
		}
		to.Count = uint64(len(kept))
	}
	put := map[elements.Key]cube.Changed[ipset.Entry]{}
	for k, e := range wanted {
		if c, ok := n.elements[k]; ok && c.New == nil {
			continue
		}
		if word, bit := k.Bit(); to.Kind < elements.MAC {
			lengths[word] |= bit
		}
		if all {
			put[k] = cube.Changed[ipset.Entry]{New: e}
		}
	}
	if !all {
		put = n.elements
	}
	for k, c := range put {
		if word, bit := k.Bit(); to.Kind < elements.MAC && c.New != nil {
			lengths[word] |= bit
		}
	}
	before := to.Lengths
	n.undone.Push(func() error { to.Lengths = before; return nil })
	for i := range lengths {
		atomic.OrUint64(&to.Lengths[i], lengths[i])
	}
	if err := n.writeAll(to, put, kept, all); err != nil {
		return err
	}
	for i := range lengths {
		atomic.StoreUint64(&to.Lengths[i], lengths[i])
	}
	return nil
}

// writeAll puts elements into a slot, and removes those that are gone.
func (n *change) writeAll(to *elements.Slot, put map[elements.Key]cube.Changed[ipset.Entry], kept map[elements.Key]elements.Value, all bool) error {
	for k, c := range put {
		k.Slot = n.slot
		was, there, err := n.memory.Elements.Get(k)
		if err != nil {
			return err
		}
		delete(kept, k)
		n.undone.Push(func() error {
			if there {
				return n.memory.Put(to, k, was)
			}
			return n.memory.Remove(to, k)
		})
		if c.New == nil {
			if err := n.memory.Remove(to, k); err != nil {
				return err
			}
			continue
		}
		if err := n.memory.Put(to, k, n.value(c, was, there, all)); err != nil {
			return err
		}
	}
	for k, v := range kept {
		if v.Flags&elements.Added != 0 && !v.Over(n.now) {
			continue
		}
		n.undone.Push(func() error { return n.memory.Put(to, k, v) })
		if err := n.memory.Remove(to, k); err != nil {
			return err
		}
	}
	return nil
}

// value returns an element as programs see it. One that is there keeps its counters, and the time that it has left unless
// its timeout changes.
func (n *change) value(c cube.Changed[ipset.Entry], was elements.Value, there, all bool) elements.Value {
	v := elements.Value{Packets: c.New.InitialPackets, Bytes: c.New.InitialBytes}
	if there {
		v = was
	}
	v.Flags = 0
	if c.New.NoMatch {
		v.Flags = elements.NoMatch
	}
	same := all || c.Old != nil && equal(c.Old.Timeout, c.New.Timeout)
	if there && same && was.Flags&elements.Added == 0 {
		return v
	}
	v.Expires = n.expiry(c.New)
	return v
}

// expiry returns when an element expires that is added now.
func (n *change) expiry(e *ipset.Entry) uint64 {
	seconds := n.header.Timeout
	if e.Timeout != nil && seconds != nil {
		seconds = e.Timeout
	}
	if seconds == nil || *seconds == 0 {
		return 0
	}
	return n.now + uint64(*seconds)*1e9
}

func equal(a, b *uint32) bool { return a == b || a != nil && b != nil && *a == *b }

// free frees the elements that the set had before, unless another set has them now.
func (n *change) free() error {
	for _, number := range n.stale {
		n.members.Unrefer(number)
	}
	if n.was == 0 || n.was == n.slot {
		return nil
	}
	return n.release(n.was)
}
