// SPDX-License-Identifier: Apache-2.0

package efw

// The configuration in Go; a test compares it with the model.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Outputs []cube.Output `json:"outputs"`
	Offload bool          `json:"offload"`
	Order   Order         `json:"order"`
	Port    []Port        `json:"port"`
	Subnet  []Subnet      `json:"subnet"`
}

// Order is the order in which matchers decide.
type Order uint32

// The orders.
const (
	PortFirst Order = iota
	SubnetFirst
	BlockFirst
)

// UnmarshalText parses the model's enum.
func (o *Order) UnmarshalText(text []byte) (err error) {
	*o, err = cube.Enum[Order]("order", text, "PORT_FIRST", "SUBNET_FIRST", "BLOCK_FIRST")
	return err
}

// Action is what a matcher does.
type Action uint32

// The actions.
const (
	Allow Action = iota
	Block
	Pass
)

// UnmarshalText parses the model's enum.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "ALLOW", "BLOCK", "PASS")
	return err
}

// Direction is whether a matcher compares source or destination.
type Direction uint32

// The directions.
const (
	Source Direction = iota
	Destination
)

var directionNames = []string{"SOURCE", "DESTINATION"}

// UnmarshalText parses the model's enum.
func (d *Direction) UnmarshalText(text []byte) (err error) {
	*d, err = cube.Enum[Direction]("direction", text, directionNames...)
	return err
}

// MarshalText writes the model's enum.
func (d Direction) MarshalText() ([]byte, error) { return []byte(directionNames[d]), nil }

// Port is a matcher of ports.
type Port struct {
	Protocol  inet.Protocol `json:"protocol"`
	Direction Direction     `json:"direction"`
	Ports     inet.Ports    `json:"ports"`
	Action    Action        `json:"action"`
}

// Subnet is a matcher of addresses.
type Subnet struct {
	Direction Direction   `json:"direction"`
	Prefix    inet.Prefix `json:"prefix"`
	Action    Action      `json:"action"`
}

// matcher is an entry of either list, in the form that the classifier takes. Two with the same key are the same.
type matcher struct {
	key    string
	match  classifier.Match
	action Action
	// rank orders matchers of the same list and action: the most specific one counts.
	rank int
	port bool
}

// matchers returns those of a configuration, in the order in which they decide.
func (c *Config) matchers() (out []matcher, err error) {
	for _, p := range c.Port {
		m := matcher{key: p.key(), action: p.Action, rank: int(p.Ports.Last) - int(p.Ports.First), port: true}
		m.match.Protocol(uint8(p.Protocol))
		set := m.match.SourcePorts
		if p.Direction == Destination {
			set = m.match.DestinationPorts
		}
		if err := set(p.Ports.First, p.Ports.Last); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	for _, s := range c.Subnet {
		m := matcher{key: s.key(), action: s.Action, rank: -s.Prefix.Bits()}
		set := m.match.Source
		if s.Direction == Destination {
			set = m.match.Destination
		}
		if err := set(s.Prefix.Prefix); err != nil {
			return nil, fmt.Errorf("subnet %s: %w", s.Prefix, err)
		}
		out = append(out, m)
	}
	slices.SortStableFunc(out, func(a, b matcher) int {
		return cmp.Or(cmp.Compare(c.Order.class(a), c.Order.class(b)), cmp.Compare(a.rank, b.rank))
	})
	return out, nil
}

// class ranks a matcher by its list and action.
func (o Order) class(m matcher) int {
	second := m.port == (o == SubnetFirst) // of the two lists
	class := 4
	if m.action != Block {
		class = map[Action]int{Allow: 0, Pass: 1}[m.action]
		if second {
			class += 2
		}
	} else if second {
		class++
	}
	if o == BlockFirst && m.action == Block {
		class -= 8
	}
	return class
}

// key identifies the matcher.
func (p *Port) key() string { return fmt.Sprint("port ", p.Protocol, p.Direction, p.Ports) }

// key identifies the matcher.
func (s *Subnet) key() string { return fmt.Sprint("subnet ", s.Direction, s.Prefix) }
