// SPDX-License-Identifier: Apache-2.0

package ipset

// Elements that have expired. Programs ignore them at once; here they are removed from the configuration and the memory.

import (
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/ipset/elements"
)

// together is how many elements are removed in one change: other changes wait for it.
const together = 10_000

// sweep removes elements that have expired: those that programs have added at once, and others by a change of the
// configuration. Looking at all of them takes a while, as the elements of other sets are among them.
func (s *set) sweep() {
	if s.slot == 0 || s.sweeps {
		return
	}
	is, err := s.memory.Slot(s.slot)
	if err != nil {
		s.failedSweep(err)
		return
	}
	ended := atomic.SwapUint64(&is.Ended, 0) != 0
	if atomic.LoadUint64(&is.Count) == 0 || !ended && s.config.Timeout == nil {
		return
	}
	over, err := s.over(true)
	if err != nil {
		s.failedSweep(err)
	}
	if err != nil || len(over) > 0 {
		atomic.StoreUint64(&is.Ended, 1) // the next one looks again
	}
	if len(over) == 0 {
		return
	}
	s.sweeps = true
	author.EditLater(s.env, s.expired, func(err error) {
		if s.sweeps = false; err != nil {
			s.failedSweep(err)
		}
	})
}

func (s *set) failedSweep(err error) {
	s.env.Logger().Error("remove expired elements", "error", err)
}

// over returns the configured elements that have expired, without their slots. With purge, it removes others.
func (s *set) over(purge bool) (out []elements.Key, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	is, err := s.memory.Slot(s.slot)
	if err != nil {
		return nil, err
	}
	for k, v := range s.memory.Elements.All(&err) {
		if k.Slot != s.slot || !v.Over(now) {
			continue
		}
		bare := k
		bare.Slot = 0
		switch {
		case s.wanted[bare] != nil:
			out = append(out, bare)
		case purge:
			if err := s.memory.Remove(is, k); err != nil {
				return out, err
			}
		}
	}
	return out, err
}

// expired returns the edits that remove elements, at the time of the change: until then, they may have been renewed.
func (s *set) expired() ([]cube.Edit, error) {
	if s.slot == 0 {
		return nil, nil
	}
	over, err := s.over(false)
	edits := make([]cube.Edit, 0, len(over))
	for _, k := range over[:min(len(over), together)] {
		edits = append(edits, cube.Edit{Delete: true, Path: []string{"element", s.wanted[k].Entry}})
	}
	return edits, err
}

// release frees a slot that no set shows any more.
func (s *set) release(slot uint32) error {
	shown, err := s.memory.Shown(slot)
	if shown || err != nil {
		return err
	}
	return s.memory.Free(slot)
}
