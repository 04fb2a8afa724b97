// SPDX-License-Identifier: Apache-2.0

package classifier

// Subscribers in the maps of the program, by their address.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/sdf"
)

// key is where the maps have a subscriber: in that of IPv4 or IPv6, under an address in host byte order, of which IPv6 has
// the upper half.
type key struct {
	ipv6    bool
	address uint64
}

// subscriber is struct classifier_subscriber.
type subscriber struct{ Class, List uint32 }

type subscribers struct {
	ipv4  table.Table[uint32, subscriber]
	ipv6  table.Table[uint64, subscriber]
	lists *sdf.Lists
	count int
}

func newSubscribers(env cube.Env) *subscribers {
	return &subscribers{ipv4: table.New[uint32, subscriber](env, "subscribers4"), ipv6: table.New[uint64, subscriber](env, "subscribers6"), lists: sdf.NewLists(table.NewMapped[sdf.List](env, "lists"))}
}

func (s *subscribers) close() error { return s.lists.Close() }

// desired is what a subscriber has.
type desired struct {
	class uint32
	list  *sdf.List // nil: it has no flows
}

// edit is a change of a subscriber: nil for none, before or after.
type edit struct {
	address  string
	old, new *desired
}

// subscribersChange is a checked change of subscribers.
type subscribersChange struct {
	*subscribers
	created bool
	edits   map[key]edit
	// after is the number of subscribers after the change, and users how many more of them have a list then.
	after int
	users map[sdf.List]int
	// taken are lists that have more users after the change, and dropped those that have fewer.
	taken, dropped []sdf.List
	undone         cube.Undo
}

// prepare checks changes of subscribers.
func (s *subscribers) prepare(entries []cube.EntryChange, conf *Config, created bool) (*subscribersChange, error) {
	c := &subscribersChange{subscribers: s, created: created, edits: make(map[key]edit, len(entries)), after: s.count, users: map[sdf.List]int{}}
	changed, err := cube.DecodeEntries[Subscriber](entries)
	if err != nil {
		return nil, err
	}
	for _, e := range changed {
		if err := c.note(e); err != nil {
			return nil, err
		}
	}
	if c.after > int(conf.MaxSubscribers) {
		return nil, fmt.Errorf("%d subscribers, but max-subscribers is %d: create a classifier with more: %w", c.after, conf.MaxSubscribers, cube.ErrFull)
	}
	if n := s.lists.After(c.users); n > int(conf.MaxLists) {
		return nil, fmt.Errorf("subscriber: %d different lists of flows, but max-flow-lists is %d: give subscribers equal flows, or create a classifier with more: %w", n, conf.MaxLists, cube.ErrFull)
	}
	return c, nil
}

// note adds the change of an entry.
func (c *subscribersChange) note(e cube.Changed[Subscriber]) error {
	for i, s := range []*Subscriber{e.Old, e.New} {
		if s == nil {
			continue
		}
		k, is, err := s.compile()
		if err != nil {
			return fmt.Errorf("subscriber %s: %w", s.Address, err)
		}
		change, more := c.edits[k], 2*i-1
		if change.address = s.Address.String(); i == 0 {
			change.old = is
		} else {
			change.new = is
		}
		c.edits[k] = change
		if c.after += more; is.list != nil {
			c.users[*is.list] += more
		}
	}
	return nil
}

// compile brings a subscriber into the form of the program.
func (s *Subscriber) compile() (k key, is *desired, err error) {
	is = &desired{class: s.Class}
	if len(s.Flows) > 0 {
		if is.list, err = s.list(); err != nil {
			return k, nil, err
		}
	}
	k, err = s.key()
	return k, is, err
}

// commit writes the subscribers: first it removes those that are gone, which makes room.
func (c *subscribersChange) commit() (undo func() error, err error) {
	was := c.count
	c.undone.Push(func() error {
		taken := c.taken
		c.count, c.taken, c.dropped = was, nil, nil
		return c.lists.Drop(taken)
	})
	if c.created {
		err = c.begin()
	}
	for _, put := range []bool{false, true} {
		for k, e := range c.edits {
			if err == nil && (e.new != nil) == put {
				if err = c.apply(k, e); err != nil {
					err = fmt.Errorf("subscriber %s: %w", e.address, err)
				}
			}
		}
	}
	if err != nil {
		return nil, errors.Join(err, c.undone.Run())
	}
	c.count = c.after
	return c.undone.Run, nil
}

// begin takes over the lists of an earlier daemon, and removes its subscribers that are not configured any more.
func (c *subscribersChange) begin() error {
	used := map[uint32]bool{}
	var gone []key
	seen := func(k key, is subscriber) {
		if is.List != 0 {
			used[is.List] = true
		}
		if c.edits[k].new == nil {
			gone = append(gone, k)
		}
	}
	var err4, err6 error
	for address, is := range c.ipv4.All(&err4) {
		seen(key{address: uint64(address)}, is)
	}
	for address, is := range c.ipv6.All(&err6) {
		seen(key{true, address}, is)
	}
	if err := errors.Join(err4, err6, c.lists.Begin(used)); err != nil {
		return err
	}
	for _, k := range gone {
		if err := c.remove(k); err != nil {
			return err
		}
	}
	return nil
}

// apply carries out the change of a subscriber.
func (c *subscribersChange) apply(k key, e edit) error {
	if e.old != nil && e.old.list != nil {
		c.dropped = append(c.dropped, *e.old.list)
	}
	was, had, err := c.get(k)
	if err != nil {
		return err
	}
	c.undone.Push(func() error {
		if had {
			return c.set(k, was)
		}
		return c.remove(k)
	})
	if e.new == nil {
		return c.remove(k)
	}
	is := subscriber{Class: e.new.class}
	if e.new.list != nil {
		if is.List, err = c.lists.Take(*e.new.list); err != nil {
			return err
		}
		c.taken = append(c.taken, *e.new.list)
	}
	return c.set(k, is)
}

func (s *subscribers) get(k key) (is subscriber, ok bool, err error) {
	if k.ipv6 {
		return s.ipv6.Get(k.address)
	}
	return s.ipv4.Get(uint32(k.address))
}

func (s *subscribers) set(k key, is subscriber) error {
	if k.ipv6 {
		return s.ipv6.Set(k.address, is)
	}
	return s.ipv4.Set(uint32(k.address), is)
}

func (s *subscribers) remove(k key) (err error) {
	if k.ipv6 {
		_, err = s.ipv6.Delete(k.address)
	} else {
		_, err = s.ipv4.Delete(uint32(k.address))
	}
	return err
}

// free frees the lists that fewer subscribers use.
func (c *subscribersChange) free() (undo func() error, err error) {
	dropped := c.dropped
	c.taken, c.dropped = nil, nil
	err = c.lists.Drop(dropped)
	if c.created {
		c.lists.Abandon()
	}
	return nil, err
}
