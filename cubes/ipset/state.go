// SPDX-License-Identifier: Apache-2.0

package ipset

// State: what elements have counted, the time that they have left, and those that rules have added.

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ipset"
	"github.com/polycube/polycube/ipset/elements"
)

// state has the structure of the model.
type state struct {
	References uint32         `json:"references"`
	Refused    *uint64        `json:"refused,omitempty"`
	Element    []elementState `json:"element,omitempty"`
}

// elementState is the state of an element.
type elementState struct {
	Entry    string  `json:"entry"`
	TimeLeft *uint32 `json:"time-left,omitempty"`
	Packets  *uint64 `json:"packets,omitempty"`
	Bytes    *uint64 `json:"bytes,omitempty"`
	Added    bool    `json:"added"`
}

// whole is how many elements have their state in an answer about the whole set, which monitoring may request often.
const whole = 10_000

func (s *set) state(_ context.Context, path []string) (any, error) {
	searched, tested := s.addresses.Uses()
	out := state{References: uint32(searched + tested)}
	if s.slot == 0 || s.config.SetType == "list:set" {
		return out, nil
	}
	is, err := s.memory.Slot(s.slot)
	if err != nil {
		return nil, err
	}
	refused := atomic.LoadUint64(&is.Refused)
	out.Refused = &refused
	if len(path) > 0 && path[0] != "element" || len(path) == 0 && atomic.LoadUint64(&is.Count) > whole {
		return out, nil
	}
	all, err := s.current()
	if err != nil {
		return nil, err
	}
	for _, m := range all {
		if len(path) < 2 || path[1] == m.Entry.Entry {
			out.Element = append(out.Element, m.state)
		}
	}
	return out, nil
}

// member is an element in effect.
type member struct {
	*ipset.Entry
	key   elements.Key
	state elementState
}

// current returns the elements in effect, in the order of their texts.
func (s *set) current() (out []member, err error) {
	h := s.config.Header()
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	for k, v := range s.memory.Elements.All(&err) {
		if k.Slot != s.slot || v.Over(now) {
			continue
		}
		m := member{key: k}
		m.key.Slot = 0
		if m.Entry = s.wanted[m.key]; m.Entry == nil {
			m.Entry = &ipset.Entry{Entry: h.Text(k.Element(h))}
		}
		m.state = elementState{Entry: m.Entry.Entry, Added: v.Flags&elements.Added != 0}
		if h.Timeout != nil {
			left := v.Left(now)
			m.state.TimeLeft = &left
		}
		if h.Counters {
			m.state.Packets, m.state.Bytes = &v.Packets, &v.Bytes
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b member) int { return strings.Compare(a.Entry.Entry, b.Entry.Entry) })
	return out, err
}

// deleteState removes elements that rules have added.
func (s *set) deleteState(_ context.Context, path []string) error {
	if len(path) != 2 || path[0] != "element" || s.slot == 0 {
		return fmt.Errorf("%v: %w", path, cube.ErrNotFound)
	}
	h := s.config.Header()
	e, err := h.Single(path[1])
	if err != nil {
		return fmt.Errorf("element: %w: %w", err, cube.ErrInvalid)
	}
	k := keyOf(h, e)
	k.Slot = s.slot
	if _, there, err := s.memory.Elements.Get(k); err != nil {
		return err
	} else if !there {
		return fmt.Errorf("element %s: %w", path[1], cube.ErrNotFound)
	}
	return s.remove(k)
}

// remove removes an element that is not configured.
func (s *set) remove(k elements.Key) error {
	is, err := s.memory.Slot(s.slot)
	if err != nil {
		return err
	}
	return s.memory.Remove(is, k)
}
