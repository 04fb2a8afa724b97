// SPDX-License-Identifier: Apache-2.0

package language

import (
	"math"
	"strconv"
)

// Routing is -m rt: a routing header of IPv6 and its type.
type Routing struct {
	Type uint32
	Not  bool
}

func newRouting(Family) *builder {
	var m Routing
	return &builder{
		name: "rt",
		options: []option{{names: []string{"--rt-type"}, arity: oneValue, not: true, set: func(v value) error {
			n, err := v.numberOf(0, math.MaxUint32)
			m = Routing{Type: uint32(n), Not: v.not}
			return err
		}}},
		required: "--rt-type",
		match:    func() Match { return m },
	}
}

// Name returns rt.
func (Routing) Name() string { return "rt" }

func (m Routing) String() string {
	return bang(m.Not, "--rt-type "+strconv.FormatUint(uint64(m.Type), 10))
}

func (Routing) match() {}
