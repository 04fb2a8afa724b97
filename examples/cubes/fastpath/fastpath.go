// SPDX-License-Identifier: Apache-2.0

// Package fastpath forwards packets past the stack of the host, by the host's routes and neighbours.
package fastpath

import (
	"context"
	"embed"
	"encoding/binary"
	"errors"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// files are the model and the compiled programs.
//
//go:embed fastpath.yang fastpath.tc.o fastpath.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newFastPath}) }

// counters are those of the packets that the stack gets.
var counters = counter.Of(files, "fastpath_counter")

// Config is the decoded configuration.
type Config struct {
	Outputs []cube.Output `json:"outputs"`
}

// netdev is struct fastpath_netdev.
type netdev struct {
	MAC   uint64
	Index uint32
	_     uint32
}

type fastPath struct {
	env      cube.Env
	own      table.Table[uint32, netdev]
	outputOf table.Table[uint32, uint32]
	// outputs are the configured destinations by number; nil before the first change, when maps cannot be used yet.
	outputs map[uint8]string
	// to are the destinations as they were reported last, which may be those of an earlier configuration.
	to map[uint8]cube.Peer
	is netdev
}

func newFastPath(env cube.Env) (cube.Instance, error) {
	f := &fastPath{
		env: env, own: table.New[uint32, netdev](env, "netdev"), outputOf: table.New[uint32, uint32](env, "output_of"),
		to: map[uint8]cube.Peer{},
	}
	return cube.Instance{Prepare: cube.Typed(f.prepare), State: f.state, ParentChanged: f.parentChanged, OutputChanged: f.outputChanged}, nil
}

// prepare removes what leads to outputs that are gone, or lead elsewhere. New destinations are reported.
func (f *fastPath) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	now := map[uint8]string{}
	for _, o := range c.New.Outputs {
		if !o.Received {
			now[o.Number] = o.To
		}
	}
	configure := cube.Effect(func() (func() error, error) {
		was := f.outputs
		f.outputs = now
		return func() error { f.outputs = was; return nil }, nil
	})
	return cube.Plan{Before: []cube.Step{configure, cube.Effect(f.write)}}, nil
}

// write makes the maps match what is known.
func (f *fastPath) write() (undo func() error, err error) {
	outputOf := map[uint32]uint32{}
	for number, to := range f.outputs {
		if peer := f.to[number]; peer.Name == to && peer.Index != 0 {
			outputOf[uint32(peer.Index)] = uint32(number)
		}
	}
	var all cube.Undo
	if err := cube.Carry([]cube.Step{table.Replace(f.outputOf, outputOf), table.Put(f.own, 0, f.is)}, &all); err != nil {
		return nil, errors.Join(err, all.Run())
	}
	return all.Run, nil
}

// changed writes what a notification has changed.
func (f *fastPath) changed(what string) {
	if f.outputs == nil {
		return
	}
	if _, err := f.write(); err != nil {
		f.env.Logger().Error("the fast path does not follow "+what, "err", err)
	}
}

// parentChanged notes the netdev that the cube is on. On a port there is none: all packets continue there.
func (f *fastPath) parentChanged(p cube.Parent) {
	f.is = netdev{}
	if p.Cube == "" && len(p.MAC) == 6 {
		f.is = netdev{MAC: binary.LittleEndian.Uint64(append(append([]byte{}, p.MAC...), 0, 0)), Index: uint32(p.Index)}
	}
	f.changed("its netdev")
}

// outputChanged notes the netdev that an output leads to.
func (f *fastPath) outputChanged(number uint8, peer cube.Peer) {
	f.to[number] = peer
	f.changed("an output")
}

// state returns the counters.
func (f *fastPath) state(context.Context, []string) (any, error) {
	set := counters.In(f.env, "counters")
	out := map[string]uint64{}
	for _, name := range []string{"not-routed", "exception", "no-way", "no-output"} {
		n, err := set.Sum(name)
		if err != nil {
			return nil, err
		}
		out[name] = n
	}
	return map[string]any{"to-stack": out}, nil
}
