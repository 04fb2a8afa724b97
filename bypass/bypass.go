// SPDX-License-Identifier: Apache-2.0

// Package bypass keeps the maps that a transparent cube uses to forward packets past the host's stack (<pcn/bypass.h>): its
// netdev, and the netdevs that its outputs lead to.
package bypass

import (
	"encoding/binary"
	"errors"
	"io/fs"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// reasons are the names of enum pcn_bypass.
var reasons = []string{"not-routed", "exception", "no-way", "no-output"}

// netdev is struct pcn_bypass_netdev.
type netdev struct {
	MAC   uint64
	Index uint32
	_     uint32
}

// Bypass belongs to a cube. Its methods ParentChanged and OutputChanged are functions of the instance.
type Bypass struct {
	env      cube.Env
	own      table.Table[uint32, netdev]
	outputOf table.Table[uint32, uint32]
	counters counter.Set
	// outputs are the configured destinations by number; nil before the first change, when maps cannot be used yet.
	outputs map[uint8]string
	// to are the destinations as last reported, which may belong to an earlier configuration.
	to map[uint8]cube.Peer
	is netdev
}

// Counters are the counters of a service, whose compiled programs are in files.
func Counters(files fs.FS) *counter.Names { return counter.Of(files, "pcn_bypass") }

// New returns the Bypass of a cube, with the result of Counters.
func New(env cube.Env, counters *counter.Names) *Bypass {
	return &Bypass{
		env: env, own: table.New[uint32, netdev](env, "bypass_netdev"), outputOf: table.New[uint32, uint32](env, "bypass_output_of"),
		counters: counters.In(env, "bypass_to_stack"), to: map[uint8]cube.Peer{},
	}
}

// Prepare returns the steps for the outputs of a new configuration: entries for outputs that are gone or lead elsewhere are
// removed. New destinations are reported by OutputChanged.
func (b *Bypass) Prepare(outputs []cube.Output) []cube.Step {
	now := map[uint8]string{}
	for _, o := range outputs {
		if !o.Received {
			now[o.Number] = o.To
		}
	}
	configure := cube.Effect(func() (func() error, error) {
		was := b.outputs
		b.outputs = now
		return func() error { b.outputs = was; return nil }, nil
	})
	return []cube.Step{configure, cube.Effect(b.write)}
}

// write brings the maps in line with the known state.
func (b *Bypass) write() (undo func() error, err error) {
	outputOf := map[uint32]uint32{}
	for number, to := range b.outputs {
		if peer := b.to[number]; peer.Name == to && peer.Index != 0 {
			outputOf[uint32(peer.Index)] = uint32(number)
		}
	}
	var all cube.Undo
	if err := cube.Carry([]cube.Step{table.Replace(b.outputOf, outputOf), table.Put(b.own, 0, b.is)}, &all); err != nil {
		return nil, errors.Join(err, all.Run())
	}
	return all.Run, nil
}

// changed writes the change that a notification reported.
func (b *Bypass) changed(what string) {
	if b.outputs == nil {
		return
	}
	if _, err := b.write(); err != nil {
		b.env.Logger().Error("update the bypass of the stack after a change of "+what, "err", err)
	}
}

// ParentChanged notes the netdev that the cube is attached to. At a port there is none, and all packets pass on.
func (b *Bypass) ParentChanged(p cube.Parent) {
	b.is = netdev{}
	if p.Cube == "" && len(p.MAC) == 6 {
		b.is = netdev{MAC: binary.LittleEndian.Uint64(append(append([]byte{}, p.MAC...), 0, 0)), Index: uint32(p.Index)}
	}
	b.changed("its netdev")
}

// OutputChanged notes the netdev that an output leads to.
func (b *Bypass) OutputChanged(number uint8, peer cube.Peer) {
	b.to[number] = peer
	b.changed("an output")
}

// State returns the container `to-stack`.
func (b *Bypass) State() (map[string]uint64, error) {
	out := map[string]uint64{}
	for _, name := range reasons {
		n, err := b.counters.Sum(name)
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return out, nil
}
