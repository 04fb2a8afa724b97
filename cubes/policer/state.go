// SPDX-License-Identifier: Apache-2.0

package policer

// State: what contracts have passed and dropped.

import (
	"context"
	"strconv"
)

// contractState is the state of a contract.
type contractState struct {
	PassedPackets  uint64 `json:"passed-packets"`
	PassedBytes    uint64 `json:"passed-bytes"`
	DroppedPackets uint64 `json:"dropped-packets"`
	DroppedBytes   uint64 `json:"dropped-bytes"`
	MarkedPackets  uint64 `json:"marked-packets"`
}

// entryState is that of an entry of the list.
type entryState struct {
	Class uint32 `json:"traffic-class"`
	contractState
}

func stateOf(c counts) contractState {
	return contractState{c.Passed.Packets, c.Passed.Bytes, c.Dropped.Packets, c.Dropped.Bytes, c.Marked}
}

// whole is how many contracts have their counters in an answer about the whole cube, which monitoring may request often.
const whole = 10_000

func (p *policer) state(_ context.Context, path []string) (any, error) {
	wanted := func(name string) bool { return len(path) == 0 || path[0] == name }
	var s struct {
		Default   *contractState `json:"default-contract,omitempty"`
		Contracts []entryState   `json:"contract,omitempty"`
	}
	if wanted("default-contract") {
		sum, err := p.slots.countsOf(0)
		if err != nil {
			return nil, err
		}
		is := stateOf(sum)
		s.Default = &is
	}
	if wanted("contract") && (len(path) > 0 || len(p.slots.of) <= whole) {
		var err error
		if s.Contracts, err = p.slots.entries(path); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// entries returns the state of all contracts, or of the one whose class is in the path.
func (s *slots) entries(path []string) (all []entryState, err error) {
	if len(path) > 1 {
		class, err := strconv.ParseUint(path[1], 10, 32)
		slot, ok := s.of[uint32(class)]
		if err != nil || !ok {
			return nil, nil // there is none: the framework says so
		}
		sum, err := s.countsOf(slot)
		return []entryState{{uint32(class), stateOf(sum)}}, err
	}
	sums := map[uint32]counts{}
	for slot, each := range s.counts.All(&err) {
		var sum counts
		for _, c := range each {
			sum.add(c)
		}
		sums[slot] = sum
	}
	for class, slot := range s.of {
		all = append(all, entryState{class, stateOf(sums[slot])})
	}
	return all, err
}
