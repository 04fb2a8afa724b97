// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

// The prefixes of the lists, in a hash of the program. A filter in memory tells for most addresses that no prefix of some
// length contains them, and a word for each family which lengths there are.

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/origins"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
)

// entry is struct ddosmitigator_entry.
type entry struct {
	Lists   uint32
	_       uint32
	Expires [lists]uint64
	Drops   [ends]inet.Count
}

// lengths is struct ddosmitigator_lengths.
type lengths struct{ IPv4, Lower, Upper uint64 }

// lengthsOfEnds is an entry of the map `lengths`.
type lengthsOfEnds struct{ Of [ends]lengths }

const (
	// most is how many entries a list may have.
	most = 1_000_000
	// least is the size of the hash of an idle cube.
	least = 1024
	// growth is how many times as large a full hash becomes. To replace it costs as much as to fill it, and an entry without a
	// prefix only 20 bytes.
	growth = 4
	// entriesPerWord: the filter has 32 bits for each entry.
	entriesPerWord = 2
)

type prefixes struct {
	env     cube.Env
	entries table.Table[prefix, entry]
	filter  *table.Mapped[uint64]
	lengths *table.Mapped[lengthsOfEnds]
	seed    sketch.Seed

	numbers
	// due are entries that expire, and some that were changed or removed since; expiring is set while their removal is in
	// progress, and removing are those that it removes.
	due      dueQueue
	expiring bool
	removing []dueEntry
}

// numbers are those of the entries.
type numbers struct {
	// size is that of the hash.
	size int
	// count is the number of entries of each list, distinct that of prefixes.
	count    [lists]int
	distinct int
	// byLength is the number of prefixes with a length that are looked up for an end of packets: of IPv4 and of IPv6.
	byLength [ends][2][129]int
	// stale is how many prefixes were removed whose bits may be left in the filter.
	stale int
}

func newPrefixes(env cube.Env) *prefixes {
	return &prefixes{env: env, entries: table.New[prefix, entry](env, "entries"), filter: table.NewMapped[uint64](env, "filter"),
		lengths: table.NewMapped[lengthsOfEnds](env, "lengths"), numbers: numbers{size: least}}
}

// total returns the number of entries of all lists.
func (p *prefixes) total() int { return p.count[source] + p.count[destination] + p.count[allow] }

func (p *prefixes) close() error { return errors.Join(p.filter.Close(), p.lengths.Close()) }

// edit is what happens to a prefix: the lists that it joins and leaves, and the lifetimes with which it joins, in seconds.
type edit struct {
	join, leave uint32
	lifetime    [lists]uint32
}

// change is a checked change of the lists.
type change struct {
	*prefixes
	created bool
	edits   map[prefix]edit
	// count and size are those after the change.
	count [lists]int
	size  int
}

// prepare checks a change of entries.
func (p *prefixes) prepare(created bool, entries []cube.EntryChange) (*change, error) {
	c := &change{prefixes: p, created: created, edits: make(map[prefix]edit, len(entries)), count: p.count, size: p.size}
	if created {
		c.count, c.size = [lists]int{}, least
	}
	byList := map[string][]cube.EntryChange{}
	for _, e := range entries {
		name := e.List[0]
		if byList[name] == nil {
			byList[name] = make([]cube.EntryChange, 0, len(entries))
		}
		byList[name] = append(byList[name], e)
	}
	for list, name := range listNames {
		changed, err := cube.DecodeEntries[Entry](byList[name])
		if err != nil {
			return nil, err
		}
		for _, e := range changed {
			c.note(list, e)
		}
		if c.count[list] > most {
			return nil, fmt.Errorf("%s: %d entries, the maximum is %d: %w", name, c.count[list], most, cube.ErrFull)
		}
	}
	for c.size < c.room() {
		c.size *= growth
	}
	return c, nil
}

// note adds the change of an entry of a list.
func (c *change) note(list int, e cube.Changed[Entry]) {
	if e.Old != nil && e.New != nil && *e.Old == *e.New {
		return
	}
	bit := uint32(1) << list
	if e.Old != nil {
		key := prefixOf(e.Old.IP.Prefix)
		is := c.edits[key]
		is.leave |= bit
		c.edits[key] = is
		c.count[list]--
	}
	if e.New != nil {
		key := prefixOf(e.New.IP.Prefix)
		is := c.edits[key]
		is.join, is.lifetime[list] = is.join|bit, e.New.Lifetime
		c.edits[key] = is
		c.count[list]++
	}
}

// room is how many prefixes the hash must have room for: new ones are written before others are removed, so that packets see
// no gap.
func (c *change) room() int {
	joins := 0
	for _, is := range c.edits {
		if is.join != 0 && is.leave == 0 {
			joins++
		}
	}
	if c.created {
		return joins
	}
	return c.distinct + joins
}

// mapSizes are the sizes of the maps after the change.
func (c *change) mapSizes() map[string]uint32 {
	if c.size == c.numbers.size && !c.created {
		return nil
	}
	return map[string]uint32{"entries": uint32(c.size), "filter": uint32(1 + c.size/entriesPerWord)}
}

// commit carries the change out. The maps have their new size.
func (c *change) commit() (func() error, error) {
	if len(c.edits) == 0 && !c.created {
		return nil, nil
	}
	p := c.prefixes
	was := p.numbers
	have, err := c.read()
	if err != nil {
		return nil, err
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	w := c.plan(have, now)
	undo := func() error {
		err := w.revert(p.entries, have)
		p.numbers = was
		return errors.Join(err, p.tellLengths())
	}
	if err := w.carryOut(c); err != nil {
		return nil, errors.Join(err, undo())
	}
	return undo, nil
}

// reads is up to how many prefixes are read one by one.
const reads = 4096

// read returns the entries that the change concerns, when the cube is restored all.
func (c *change) read() (map[prefix]entry, error) {
	have := map[prefix]entry{}
	origin, err := c.entries.Origin()
	if err != nil || origin == origins.Created && c.created || !c.created && c.allFresh() {
		return have, err
	}
	if len(c.edits) <= reads && !c.created {
		for key := range c.edits {
			e, ok, err := c.entries.Get(key)
			if err != nil {
				return nil, err
			}
			if ok {
				have[key] = e
			}
		}
		return have, nil
	}
	for key, e := range c.entries.All(&err) {
		if _, ok := c.edits[key]; ok || c.created {
			have[key] = e
		}
	}
	return have, err
}

// allFresh reports whether no prefix of the change can have an entry: all join one list, and no other list has any.
func (c *change) allFresh() bool {
	var joined, left uint32
	for _, is := range c.edits {
		joined, left = joined|is.join, left|is.leave
	}
	for list, n := range c.prefixes.count {
		if n > 0 && joined != 1<<list {
			return false
		}
	}
	return left == 0
}

// writes are the entries to write and to remove.
type writes struct {
	keys   []prefix
	values []entry
	gone   []prefix
	// fresh are the keys that had no entry.
	fresh []prefix
	due   []dueEntry
}

// plan computes what to write, and takes the change over into the counts.
func (c *change) plan(have map[prefix]entry, now uint64) *writes {
	p, w := c.prefixes, &writes{keys: make([]prefix, 0, len(c.edits)), values: make([]entry, 0, len(c.edits)), fresh: make([]prefix, 0, len(c.edits))}
	if c.created {
		p.byLength, p.distinct, p.due = [ends][2][129]int{}, 0, nil
	}
	for key, is := range c.edits {
		was, had := have[key]
		e := was
		if c.created {
			e.Lists &= is.join // what it keeps from before the restart, with the time left
		} else {
			e.Lists &^= is.leave
		}
		for list := range lists {
			bit := uint32(1) << list
			if is.join&bit == 0 || e.Lists&bit != 0 {
				if e.Lists&bit == 0 {
					e.Expires[list] = 0
					if list < ends {
						e.Drops[list] = inet.Count{}
					}
				}
				continue
			}
			e.Expires[list] = 0
			if list < ends && (was.Lists&is.leave)&bit == 0 {
				e.Drops[list] = inet.Count{}
			}
			if is.lifetime[list] > 0 {
				e.Expires[list] = now + uint64(is.lifetime[list])*uint64(time.Second)
			}
		}
		e.Lists |= is.join
		w.note(p, key, was, e, had, c.created)
	}
	for key := range have {
		if _, stays := c.edits[key]; !stays && c.created {
			w.gone = append(w.gone, key)
		}
	}
	p.count, p.size = c.count, c.size
	return w
}

// note notes the entry that a prefix has and is to have.
func (w *writes) note(p *prefixes, key prefix, was, is entry, had, created bool) {
	counted := was
	if created {
		counted = entry{} // the counts begin with the restored cube
	}
	p.recount(key, counted.Lists, is.Lists)
	switch {
	case is.Lists == 0 && had:
		w.gone = append(w.gone, key)
		return
	case is.Lists == 0:
		return
	case !had || is != was:
		w.keys, w.values = append(w.keys, key), append(w.values, is)
	}
	if !had {
		w.fresh = append(w.fresh, key)
	}
	for list, at := range is.Expires {
		if at != 0 && (created || at != was.Expires[list]) {
			w.due = append(w.due, dueEntry{at, key, list})
		}
	}
}

// recount takes a change of the lists that a prefix is in over into the counts.
func (p *prefixes) recount(key prefix, was, is uint32) {
	switch {
	case was == 0 && is != 0:
		p.distinct++
	case was != 0 && is == 0:
		p.distinct--
		p.stale++
	}
	for end := range ends {
		looks := uint32(1)<<end | 1<<allow
		n := &p.byLength[end][key.family()][key.Length]
		switch {
		case was&looks == 0 && is&looks != 0:
			*n++
		case was&looks != 0 && is&looks == 0:
			*n--
		}
	}
}

// family is 0 for IPv4.
func (p prefix) family() int {
	if p.isIPv4() {
		return 0
	}
	return 1
}

// carryOut writes the entries. Packets find one as soon as its bits and its length are there.
func (w *writes) carryOut(c *change) error {
	words, err := c.filter.Values()
	if err != nil {
		return err
	}
	if mask := uint64(c.size/entriesPerWord - 1); words[0] != mask || c.created {
		if err := c.rebuild(words, mask, w.keys); err != nil {
			return err
		}
	} else {
		for _, key := range w.fresh {
			c.mark(words, key)
		}
	}
	if c.created { // what a change left that was interrupted is in the way
		if _, err := c.entries.DeleteAll(w.gone); err != nil {
			return err
		}
	}
	if _, err := c.entries.SetAll(w.keys, w.values); err != nil {
		return err
	}
	if _, err := c.entries.DeleteAll(w.gone); err != nil {
		return err
	}
	for _, d := range w.due {
		c.due.push(d)
	}
	if c.stale > max(least, c.distinct) {
		if err := c.thin(words); err != nil {
			return err
		}
	}
	return c.tellLengths()
}

// revert restores the entries.
func (w *writes) revert(t table.Table[prefix, entry], have map[prefix]entry) error {
	_, err := t.DeleteAll(w.fresh)
	keys, values := make([]prefix, 0, len(have)), make([]entry, 0, len(have))
	for key, e := range have {
		keys, values = append(keys, key), append(values, e)
	}
	_, werr := t.SetAll(keys, values)
	return errors.Join(err, werr)
}

// bit returns where the bit of a prefix is in the filter.
func (p *prefixes) bit(mask uint64, key prefix) (word, bit uint64) {
	hash := p.seed.Words(key.Outer, key.Inner, key.Length)
	return 1 + hash>>6&mask, 1 << (hash & 63)
}

// mark sets the bit of a prefix.
func (p *prefixes) mark(words []uint64, key prefix) {
	word, bit := p.bit(words[0], key)
	atomic.OrUint64(&words[word], bit)
}

// rebuild fills a filter of another size, which packets do not use yet, or that of a restored cube.
func (p *prefixes) rebuild(words []uint64, mask uint64, more []prefix) error {
	if words[0] != mask {
		clear(words)
		words[0] = mask
	}
	var err error
	for key := range p.entries.All(&err) {
		p.mark(words, key)
	}
	for _, key := range more {
		p.mark(words, key)
	}
	p.stale = 0
	return err
}

// thin clears the bits that no prefix has, while packets use the filter.
func (p *prefixes) thin(words []uint64) error {
	want := make([]uint64, len(words))
	want[0] = words[0]
	var err error
	for key := range p.entries.All(&err) {
		word, bit := p.bit(words[0], key)
		want[word] |= bit
	}
	if err != nil {
		return err
	}
	for i := 1; i < len(words); i++ {
		atomic.StoreUint64(&words[i], want[i])
	}
	p.stale = 0
	return nil
}

// tellLengths tells the program which lengths there are.
func (p *prefixes) tellLengths() error {
	all, err := p.lengths.Values()
	if err != nil {
		return err
	}
	for end := range ends {
		var is lengths
		for length := 1; length <= 128; length++ {
			if p.byLength[end][0][length] > 0 {
				is.IPv4 |= 1 << (128 - length)
			}
			switch {
			case p.byLength[end][1][length] > 0 && length > 64:
				is.Lower |= 1 << (128 - length)
			case p.byLength[end][1][length] > 0:
				is.Upper |= 1 << (64 - length)
			}
		}
		atomic.StoreUint64(&all[0].Of[end].IPv4, is.IPv4)
		atomic.StoreUint64(&all[0].Of[end].Lower, is.Lower)
		atomic.StoreUint64(&all[0].Of[end].Upper, is.Upper)
	}
	return nil
}
