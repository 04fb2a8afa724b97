// SPDX-License-Identifier: Apache-2.0

// Package bypass keeps the maps that a transparent cube uses to forward packets past the host's stack (<pcn/bypass.h>): its
// netdev, the netdevs that its outputs lead to, and the VLAN netdevs on each of them.
package bypass

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"maps"
	"slices"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/cube/vlan"
)

// reasons are the names of enum pcn_bypass.
var reasons = []string{"not-routed", "exception", "no-way", "no-output"}

// netdev is struct pcn_bypass_netdev.
type netdev struct {
	MAC   uint64
	Index uint32
	_     uint32
}

// exit is struct pcn_bypass_exit.
type exit struct {
	Output uint32
	Tag    uint32
}

// maxNetdevs is PCN_BYPASS_NETDEVS. Packets of further netdevs stay in the stack.
const maxNetdevs = 4096

// Bypass belongs to a cube. Its methods ParentChanged and OutputChanged are functions of the instance.
type Bypass struct {
	env      cube.Env
	own      table.Table[uint32, netdev]
	vlans    table.Table[uint32, netdev]
	exits    table.Table[uint32, exit]
	counters counter.Set
	// outputs are the configured destinations by number; nil before the first change, when maps cannot be used yet.
	outputs map[uint8]string
	// to are the destinations as last reported, which may belong to an earlier configuration.
	to map[uint8]cube.Peer
	is netdev
	on []vlan.Netdev
}

// Counters are the counters of a service, whose compiled programs are in files.
func Counters(files fs.FS) *counter.Names { return counter.Of(files, "pcn_bypass") }

// New returns the Bypass of a cube, with the result of Counters.
func New(env cube.Env, counters *counter.Names) *Bypass {
	return &Bypass{
		env: env, own: table.New[uint32, netdev](env, "bypass_netdev"), vlans: table.New[uint32, netdev](env, "bypass_vlans"),
		exits: table.New[uint32, exit](env, "bypass_exits"), counters: counters.In(env, "bypass_to_stack"), to: map[uint8]cube.Peer{},
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
	steps := []cube.Step{table.Replace(b.exits, b.exitsOf()), table.Replace(b.vlans, vlansOn(b.on)), table.Put(b.own, 0, b.is)}
	var all cube.Undo
	if err := cube.Carry(steps, &all); err != nil {
		return nil, errors.Join(err, all.Run())
	}
	return all.Run, nil
}

// exitsOf returns the netdevs that packets can leave by: those that outputs lead to, then the VLAN netdevs on them.
func (b *Bypass) exitsOf() map[uint32]exit {
	out := map[uint32]exit{}
	var known []uint8
	for _, number := range slices.Sorted(maps.Keys(b.outputs)) {
		if peer := b.to[number]; peer.Name == b.outputs[number] && peer.Index != 0 {
			known = append(known, number)
			out[uint32(peer.Index)] = exit{Output: uint32(number)}
		}
	}
	for _, number := range known {
		for _, v := range b.to[number].VLANs {
			if _, direct := out[uint32(v.Index)]; !direct && len(out) < maxNetdevs {
				out[uint32(v.Index)] = exit{Output: uint32(number), Tag: tagOf(v)}
			}
		}
	}
	return out
}

// vlansOn returns the entries of VLAN netdevs by the tags of their frames.
func vlansOn(all []vlan.Netdev) map[uint32]netdev {
	out := map[uint32]netdev{}
	for _, v := range all[:min(len(all), maxNetdevs)] {
		out[tagOf(v)] = netdev{MAC: wordOf(v.MAC[:]), Index: uint32(v.Index)}
	}
	return out
}

// tagOf is PCN_TAG.
func tagOf(v vlan.Netdev) uint32 { return uint32(v.Protocol)<<16 | uint32(v.ID) }

// wordOf is a MAC address as pcn_mac returns it.
func wordOf(mac []byte) uint64 { return binary.LittleEndian.Uint64(append(slices.Clone(mac), 0, 0)) }

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
	b.is, b.on = netdev{}, nil
	if p.Cube == "" && len(p.MAC) == 6 {
		b.is, b.on = netdev{MAC: wordOf(p.MAC), Index: uint32(p.Index)}, p.VLANs
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
