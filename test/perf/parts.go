// SPDX-License-Identifier: Apache-2.0

package perf

// The cost of the shared parts for the verifier, and their stack: the figures of the parts' reference pages. A cube with
// the smallest use of a part is linked and verified, and compared with the same cube without it.

import (
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/refusal"
)

// weighedParts are the programs part_NAME in bpf/parts.bpf.c; the first has no part, but what each program needs.
var weighedParts = []string{
	"nothing", "flow", "classifier", "classifier_key", "rule_counters", "bucket", "balance", "balance_pins", "encap", "gtpu", "gtpu_end", "sdf", "sketch", "sketch_rates", "sketch_distinct", "sketch_top", "ring", "connections", "connections_table", "bridge_cache",
}

// PartWeight is what a program with one part needs.
type PartWeight struct {
	// Verified is the number of verified instructions, without those of a program that has no part.
	Verified int
	// Stack is the deepest chain of calls of the whole program, in bytes as the kernel counts them. It allows 512.
	Stack int
}

// WeighParts weighs all parts at a hook, on a kernel where a function with some bytes of stack counts for round of them.
func WeighParts(hook cube.Hook, round func(bytes int) int) (map[string]PartWeight, error) {
	s, err := newScales(hook)
	if err != nil {
		return nil, err
	}
	out, err := s.parts(round)
	if err := errors.Join(err, s.close()); err != nil {
		return nil, fmt.Errorf("%s: %w", hook, err)
	}
	return out, nil
}

func (s *scales) parts(round func(bytes int) int) (map[string]PartWeight, error) {
	c, err := s.cube("parts")
	if err != nil {
		return nil, err
	}
	out := map[string]PartWeight{}
	for i, name := range weighedParts {
		spec, err := s.link(c, "part_"+name)
		if err != nil {
			return nil, err
		}
		w, err := refusal.WeighWhole(spec, round)
		if err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		if i > 0 {
			w.Verified -= out[weighedParts[0]].Verified
		}
		out[name] = PartWeight(w)
	}
	return out, nil
}
