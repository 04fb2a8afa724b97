// SPDX-License-Identifier: Apache-2.0

package state

// Changes by programs to a map that already has a successor.

import (
	"errors"
	"fmt"
	"maps"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// programsWrite reports whether programs can change the entries of a map whose entries can be read.
func programsWrite(t ebpf.MapType) bool {
	switch t {
	case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.LPMTrie, ebpf.Array, ebpf.PerCPUArray:
		return true
	default:
		return false
	}
}

func isArray(t ebpf.MapType) bool { return t == ebpf.Array || t == ebpf.PerCPUArray }

// carries reports whether changes by programs are carried over.
func (s *succession) carries() bool {
	return !s.dropped && programsWrite(s.was.Type()) && programsWrite(s.now.Type())
}

// begin carries entries over to another layout for the first time.
func (s *succession) begin() error {
	passes := s.carries()
	if passes {
		if err := s.other.had.Note(s.was); err != nil {
			return err
		}
	}
	err := s.other.migrate(s.was, s.now)
	if err == nil && passes {
		err = s.copied.Note(s.now)
	}
	return err
}

// catchUp brings a successor that no program uses yet up to date: entries that were added, changed or deleted
// since, unless the control plane changed them in the successor.
func (s *succession) catchUp() error {
	if !s.carries() {
		return nil
	}
	if s.other == nil {
		_, err := s.copied.Update(s.was, s.now)
		return err
	}
	if same, err := s.other.had.SameAs(s.was); err != nil || same {
		return err
	}
	had := bpfmap.Image{}
	if err := had.Note(s.was); err != nil {
		return err
	}
	err := s.other.throughScratch(s.was, func(scratch *ebpf.Map) error {
		_, err := s.copied.Update(scratch, s.now)
		return err
	})
	if err != nil {
		return err
	}
	s.other.had = had
	return s.follow() // entries that were added meanwhile: the service may take long
}

// follow carries over entries that were added since, to a successor that programs use. Entries that these have written are
// kept; one that was carried over before and no longer exists was deleted by them.
func (s *succession) follow() error {
	if !s.carries() || isArray(s.was.Type()) {
		return nil // an array's entries are all there
	}
	if s.other == nil {
		_, err := s.copied.Add(s.was, s.now)
		return err
	}
	rest, added, err := s.other.had.Rest(s.was)
	if err != nil || rest == nil {
		return err
	}
	defer func() { _ = rest.Close() }()
	err = s.other.throughScratch(rest, func(scratch *ebpf.Map) error {
		_, err := s.copied.Add(scratch, s.now)
		return err
	})
	if err == nil {
		maps.Copy(s.other.had, added)
	}
	return err
}

// throughScratch calls fn with a map of the new layout that contains the entries of a map of the old one.
func (o *otherLayout) throughScratch(from *ebpf.Map, fn func(scratch *ebpf.Map) error) error {
	scratch, err := bpfmap.New(o.spec)
	if err != nil {
		return fmt.Errorf("create a map for entries of another layout: %w", err)
	}
	if err = o.migrate(from, scratch); err == nil {
		err = fn(scratch)
	}
	return errors.Join(err, scratch.Close())
}
