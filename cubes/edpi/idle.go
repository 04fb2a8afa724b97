// SPDX-License-Identifier: Apache-2.0

package edpi

// How long flows stay after their last packet: by their application, if it has a time of its own, else by transport.

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/inet"
)

// Idle is an entry of the list `idle-timeout`.
type Idle struct {
	Kind    Kind   `json:"kind"`
	Name    string `json:"name"`
	Seconds uint32 `json:"seconds"`
}

// class is the class as policies name it.
func (i *Idle) class() Policy { return Policy{Kind: i.Kind, Name: i.Name} }

// idleClasses are those with a time of their own.
func (c *Config) idleClasses() []Policy {
	all := make([]Policy, len(c.Idle))
	for i := range c.Idle {
		all[i] = c.Idle[i].class()
	}
	return all
}

// checkIdle finds a class that is there twice.
func (c *Config) checkIdle() error {
	seen := map[classKey]bool{}
	for _, p := range c.idleClasses() {
		if seen[p.key()] {
			return fmt.Errorf("idle-timeout %s %s: the name is already used (names are case-insensitive): %w", kinds[p.Kind], p.Name, cube.ErrInvalid)
		}
		seen[p.key()] = true
	}
	return nil
}

// idleRows are the times of classes that polycube-ndpi knows, by row.
func (n *edpi) idleRows() map[uint32]time.Duration {
	all := map[uint32]time.Duration{}
	for i := range n.conf.Idle {
		p := n.conf.Idle[i].class()
		if row, known := n.policies.row(&p); known {
			all[row] = time.Duration(n.conf.Idle[i].Seconds) * time.Second
		}
	}
	return all
}

// timeout is how long a flow stays after its last packet; classified: it has a class. The order is that of policies.
func (c *Config) timeout(rows map[uint32]time.Duration, key dpi.Key, is *dpi.Flow, class dpi.Class, classified bool) time.Duration {
	tcp := key.Protocol == uint8(inet.TCP)
	if tcp && is.Flags.Ended() {
		return time.Duration(c.Ended) * time.Second
	}
	if classified && len(rows) > 0 {
		for _, row := range []uint32{class.ProtocolRow(), dpi.Class{Protocol: class.Master}.ProtocolRow(), class.CategoryRow()} {
			if t, ok := rows[row]; ok && (row != 0 || class.Protocol == 0) {
				return t
			}
		}
	}
	if tcp {
		return time.Duration(c.TCP) * time.Second
	}
	return time.Duration(c.Other) * time.Second
}

// idleState is what an entry of the list `idle-timeout` has in addition.
type idleState struct {
	Kind     string `json:"kind"`
	Name     string `json:"name"`
	InEffect bool   `json:"in-effect"`
}

func (n *edpi) idleStates() []idleState {
	var all []idleState
	for _, p := range n.conf.idleClasses() {
		_, known := n.policies.row(&p)
		all = append(all, idleState{kinds[p.Kind], p.Name, known})
	}
	return all
}
