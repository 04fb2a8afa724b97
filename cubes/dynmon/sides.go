// SPDX-License-Identifier: Apache-2.0

package dynmon

// Maps that exist twice. Packets of both paths count on one side; a reader turns the side, waits until no packet is in a
// program that has seen it before, and then has the maps of the other side for itself. There is one side for all maps of a
// cube, so that what is read together belongs to one moment. If only some of the maps are read, the others keep counts on both
// sides, and are added up when they are read.

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/cube/series"
	"github.com/polycube/polycube/cube/table"
)

// sides is the state of a cube's maps that exist twice.
type sides struct {
	env cube.Env
	// split are the maps, by name, that may have entries on both sides.
	split map[string]bool
}

// with returns the state for another layout. Maps that it has already keep theirs; others may have entries from before, of an
// earlier daemon, or of a time when they were not swapped.
func (s sides) with(l *layout) sides {
	next := sides{env: s.env, split: map[string]bool{}}
	for _, name := range l.twins {
		split, known := s.split[name]
		next.split[name] = split || !known
	}
	return next
}

// turn turns the side, and returns the one on which packets counted before, when none does any more.
func (s sides) turn() (before uint32, err error) {
	t := table.New[uint32, uint32](s.env, "dynmon_side")
	before, _, err = t.Get(0)
	if err == nil {
		err = t.Set(0, 1-before&1)
	}
	if err == nil {
		err = grace.Wait()
	}
	if err != nil {
		return 0, fmt.Errorf("swap maps: %w", err)
	}
	return before & 1, nil
}

// read reads and empties maps that are swapped.
func (s sides) read(l *layout, metrics []*metric, into map[string]reading) error {
	if err := s.take(l, metrics, into); err != nil {
		return err
	}
	var split []*metric
	for _, m := range metrics {
		if s.split[m.maps[0]] {
			split = append(split, m)
		}
	}
	for name := range s.split { // what was not read has entries on this side now, and gets some on the other one
		if _, read := into[name]; !read {
			s.split[name] = true
		}
	}
	if len(split) == 0 {
		return nil
	}
	rest := map[string]reading{}
	if err := s.take(l, split, rest); err != nil {
		return err
	}
	for _, m := range split {
		name := m.maps[0]
		m.shape.Add(into[name].entries, rest[name].entries)
		into[name] = reading{entries: into[name].entries, at: rest[name].at}
		s.split[name] = false
	}
	for _, m := range metrics { // those that were not split have counted on the first side since
		if _, again := rest[m.maps[0]]; !again {
			s.split[m.maps[0]] = true
		}
	}
	return nil
}

// take turns the side, and reads and empties the maps of the other one.
func (s sides) take(l *layout, metrics []*metric, into map[string]reading) error {
	side, err := s.turn()
	if err != nil {
		return err
	}
	at := time.Now()
	for _, m := range metrics {
		entries, err := series.Read(l.open[m.maps[side]], true)
		if err != nil {
			return fmt.Errorf("metric %s: %w", m.conf.Name, err)
		}
		into[m.maps[0]] = reading{entries: entries, at: at}
	}
	return nil
}
