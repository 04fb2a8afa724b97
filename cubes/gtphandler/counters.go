// SPDX-License-Identifier: Apache-2.0

package gtphandler

// The counters of devices and sessions. They belong to one as long as it is configured, and survive the daemon.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// counts is struct gtphandler_counts.
type counts struct{ Up, Down inet.Count }

// counted is what has a counter.
type counted struct{ counter uint32 }

type counters struct {
	rows table.PerCPU[uint32, counts]
	// kept are the counters of an earlier daemon, and taken those that devices have.
	kept  map[*counted]uint32
	taken map[uint32]*counted
	// next is the first counter that was never taken; freed are others, those freed last at the end.
	next  uint32
	freed []uint32
}

func newCounters(env cube.Env) *counters {
	return &counters{rows: table.NewPerCPU[uint32, counts](env, "counts"), kept: map[*counted]uint32{}, taken: map[uint32]*counted{}}
}

func (c *counters) begin() {
	c.kept, c.taken, c.next, c.freed = map[*counted]uint32{}, map[uint32]*counted{}, 0, nil
}

// keep gives a device a counter of an earlier daemon; false if another one has it.
func (c *counters) keep(is *counted, counter uint32) bool {
	if owner := c.taken[counter]; owner != nil && owner != is {
		return false
	}
	if kept, ok := c.kept[is]; ok {
		return kept == counter
	}
	c.kept[is], c.taken[counter] = counter, is
	return true
}

// give gives a device its counter: the one that it had with an earlier daemon, or one at zero.
func (c *counters) give(is *counted, undo *cube.Undo) error {
	if kept, ok := c.kept[is]; ok {
		is.counter = kept
		return nil
	}
	rows, err := c.rows.Map()
	if err != nil {
		return err
	}
	for c.next < rows.MaxEntries() && c.taken[c.next] != nil {
		c.next++
	}
	switch {
	case c.next < rows.MaxEntries():
		is.counter = c.next
		c.next++
	case len(c.freed) > 0:
		is.counter, c.freed = c.freed[0], c.freed[1:]
	default:
		return fmt.Errorf("all %d counters are in use: %w", rows.MaxEntries(), cube.ErrFull)
	}
	c.taken[is.counter] = is
	undo.Push(func() error {
		delete(c.taken, is.counter)
		c.freed = append(c.freed, is.counter)
		return nil
	})
	_, err = c.rows.SetAll([]uint32{is.counter}, counts{})
	return err
}

// release frees the counter of a device that is gone.
func (c *counters) release(was *counted, undo *cube.Undo) {
	delete(c.taken, was.counter)
	c.freed = append(c.freed, was.counter)
	undo.Push(func() error {
		c.taken[was.counter] = was
		for i, counter := range c.freed {
			if counter == was.counter {
				c.freed = append(c.freed[:i:i], c.freed[i+1:]...)
				break
			}
		}
		return nil
	})
}

// read returns what a counter has counted.
func (c *counters) read(counter uint32) (counts, error) {
	each, ok, err := c.rows.Get(counter)
	if err == nil && !ok {
		err = errors.New("no such counter")
	}
	return total(each), err
}

// all returns what all counters have counted.
func (c *counters) all() (map[uint32]counts, error) {
	sums := map[uint32]counts{}
	var err error
	for counter, each := range c.rows.All(&err) {
		sums[counter] = total(each)
	}
	return sums, err
}

// total adds up what CPUs have counted.
func total(each []counts) (sum counts) {
	for _, n := range each {
		sum.Up.Packets += n.Up.Packets
		sum.Up.Bytes += n.Up.Bytes
		sum.Down.Packets += n.Down.Packets
		sum.Down.Bytes += n.Down.Bytes
	}
	return sum
}
