// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"errors"

	"github.com/polycube/polycube/cube"
)

// Taps are the TAPs of a daemon, by the hook whose programs receive the packets.
type Taps map[cube.Hook]*Tap

// Indexes are the interface indexes.
func (t Taps) Indexes() map[cube.Hook]int {
	out := make(map[cube.Hook]int, len(t))
	for h, tap := range t {
		out[h] = tap.Index()
	}
	return out
}

// Send sends a packet to where cubes of a type receive theirs.
func (t Taps) Send(typ cube.Type, to Target, p *cube.PacketOut, m Meta) error {
	m.XDP, m.Generic = typ.Hook() == cube.XDP, typ == cube.TypeXDPSKB
	return t[typ.Hook()].Send(to, p, m)
}

// Close closes the TAPs, which stay.
func (t Taps) Close() error { return t.each((*Tap).Close) }

// Remove deletes the TAPs.
func (t Taps) Remove() error { return t.each((*Tap).Remove) }

func (t Taps) each(do func(*Tap) error) error {
	var errs []error
	for _, tap := range t {
		errs = append(errs, do(tap))
	}
	return errors.Join(errs...)
}
