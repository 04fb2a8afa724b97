// SPDX-License-Identifier: Apache-2.0

package table

// Packets and bytes of connections, of <pcn/conntrack_account.h>. Their memory exists while a zone wants them.

import (
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/memory"
)

// countsMap is the name of the map in C; mostParts and mostEmbryos are PCN_CONNTRACK_PARTS and PCN_CONNTRACK_EMBRYOS.
const (
	countsMap   = "ct_counts"
	mostParts   = 512
	mostEmbryos = 1 << 14
)

// sides is struct pcn_conntrack_count.
type sides struct{ packets, bytes [2]uint64 }

// Counts are the packets of a connection, with their bytes from the IP header on: those from the side that opened it, and
// those from the other one.
type Counts struct{ Original, Reply inet.Count }

// counting is the memory of counts. The table's mutexes guard it: sweeping guards zones and changes of the parts, giving
// the parts.
type counting struct {
	large, young parts[sides]
	zones        map[uint16]bool // that want counts
}

// open prepares the memory; a cube's own table has none.
func (c *counting) open(maps Maps) error {
	c.zones = map[uint16]bool{}
	err := c.large.open(maps, countsMap, 0)
	if errors.Is(err, cube.ErrNotFound) {
		return nil
	}
	return errors.Join(err, c.young.open(maps, countsMap, mostParts))
}

// on reports whether there are counts.
func (c *counting) on() bool { return len(c.large.elem) > 0 }

// of returns a copy of counts, as seen from the side that opened the connection; none if s is nil.
func (s *sides) of(opener uint8) (c Counts) {
	if s == nil {
		return c
	}
	load := func(side uint8) inet.Count {
		return inet.Count{Packets: atomic.LoadUint64(&s.packets[side]), Bytes: atomic.LoadUint64(&s.bytes[side])}
	}
	return Counts{load(opener & 1), load(1 - opener&1)}
}

// adopt continues with what an earlier process has left, which may have been killed while the size changed.
func (c *counting) adopt(entries int) error {
	if c.large.outer == nil {
		return nil
	}
	if err := errors.Join(c.large.adopt(mostParts), c.young.adopt(1)); err != nil || !c.on() {
		return err
	}
	return c.extend(entries)
}

// extend makes memory for a number of entries.
func (c *counting) extend(entries int) error {
	return errors.Join(c.large.extend(entries), c.young.extend(mostEmbryos))
}

// drop removes the memory.
func (c *counting) drop() error { return errors.Join(c.young.dropAll(), c.large.dropAll()) }

// clear sets the counts of an entry to zero: no program uses it.
func (c *counting) clear(n uint32) {
	if s := c.large.at(n); s != nil {
		*s = sides{}
	}
}

// trim removes the memory for the last part of the entries.
func (c *counting) trim(part int) error {
	if part >= len(c.large.elem) {
		return nil
	}
	err := c.large.drop(part)
	c.large.mem, c.large.elem = c.large.mem[:part], c.large.elem[:part]
	return err
}

func (c *counting) close() error { return errors.Join(c.large.close(), c.young.close()) }

// Counters are the counts of the connections in a table.
type Counters struct{ Table *Table }

// Start makes memory for the counts, since a zone wants them: its programs count if they are set to. Connections that exist
// have counts from now on.
func (c Counters) Start(zone uint16) error {
	t := c.Table
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if t.counting.large.outer == nil {
		return fmt.Errorf("connection table: its programs count nothing: %w", cube.ErrUnsupported)
	}
	if !t.counting.on() {
		entries := len(t.entries.elem) * partEntries
		err := memory.Check(uint32(t.Size()), t.counting.large.lacks(entries)+t.counting.young.lacks(mostEmbryos))
		if err == nil {
			t.giving.Lock()
			if err = t.counting.extend(entries); err != nil {
				err = errors.Join(err, t.counting.drop())
			}
			t.giving.Unlock()
		}
		if err != nil {
			return fmt.Errorf("counts of connections: %w", err)
		}
	}
	t.counting.zones[zone] = true
	return nil
}

// Stop is called when a zone does not want counts any more. The memory is freed with the last one.
func (c Counters) Stop(zone uint16) error {
	t := c.Table
	t.sweeping.Lock()
	defer t.sweeping.Unlock()
	if !t.counting.zones[zone] {
		return nil
	}
	delete(t.counting.zones, zone)
	if len(t.counting.zones) > 0 {
		return nil
	}
	t.giving.Lock()
	defer t.giving.Unlock()
	return t.counting.drop()
}

// Page is Table.Page with the counts, which are zeros without Start. It calls a function with each connection, which
// returns whether that counts for the limit.
func (c Counters) Page(cursor uint32, limit int, selected func(*Entry, Counts) bool) (next uint32) {
	t := c.Table
	t.giving.RLock()
	entries := len(t.entries.elem) * partEntries
	t.giving.RUnlock()
	all := uint32(entries + len(t.young.entries))
	first, examined, found := max(cursor, 1), 0, 0
	last := min(first+pageEntries, all)
	for n := c.nextOpen(first, last, entries); n < last; n = c.nextOpen(n+1, last, entries) {
		if found == limit || examined == pageConnections {
			return n
		}
		e, counts, ok := c.read(n, entries)
		if !ok {
			continue
		}
		examined++
		if selected(&e, counts) {
			found++
		}
	}
	if last < all {
		return last
	}
	return 0
}

// nextOpen returns the first number, from one to another one, that an open connection has; the latter if there is none. Most
// of a table is free, so this takes the lock once for many.
func (c Counters) nextOpen(from, to uint32, entries int) uint32 {
	t := c.Table
	t.giving.RLock()
	for ; from < min(to, uint32(entries)); from++ {
		if e := t.entry(from); e != nil && atomic.LoadUint32(&e.Status) == open {
			break
		}
	}
	t.giving.RUnlock()
	for ; int(from) >= entries && from < to; from++ {
		if t.young.isOpen(int(from) - entries) {
			break
		}
	}
	return from
}

// read copies an open connection and its counts. Numbers after those of the entries are those of half-open connections.
func (c Counters) read(n uint32, entries int) (Entry, Counts, bool) {
	if int(n) >= entries {
		return c.readHalfOpen(int(n) - entries)
	}
	t := c.Table
	t.giving.RLock()
	defer t.giving.RUnlock()
	e := t.entry(n)
	if e == nil || atomic.LoadUint32(&e.Status) != open {
		return Entry{}, Counts{}, false
	}
	is := e.copy()
	return is, t.counting.large.at(n).of(is.State.Opener()), true
}

// Find is Table.Find with the counts.
func (c Counters) Find(key Key) (e Entry, counts Counts, ok bool) {
	if e, counts, ok = c.findOpen(&key); ok {
		return e, counts, ok
	}
	for n := range c.Table.young.entries {
		if e, counts, ok = c.readHalfOpen(n); ok && e.Key == key {
			return e, counts, true
		}
	}
	return Entry{}, Counts{}, false
}

func (c Counters) findOpen(key *Key) (e Entry, counts Counts, ok bool) {
	t := c.Table
	t.giving.RLock()
	defer t.giving.RUnlock()
	n, at := t.search(key, isOpen)
	if n == 0 {
		return Entry{}, Counts{}, false
	}
	e = at.copy()
	return e, t.counting.large.at(n).of(e.State.Opener()), true
}

// readHalfOpen copies a half-open connection and its counts.
func (c Counters) readHalfOpen(n int) (Entry, Counts, bool) {
	t := c.Table
	e, status, ok := t.young.read(n)
	if !ok {
		return Entry{}, Counts{}, false
	}
	t.giving.RLock()
	defer t.giving.RUnlock()
	return e, t.counting.young.at(status >> 8 & (mostEmbryos - 1)).of(e.State.Opener()), true
}
