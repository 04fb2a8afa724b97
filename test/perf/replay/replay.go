// SPDX-License-Identifier: Apache-2.0

// Package replay times the program of a netdev on packets of many flows: a harness writes the next one before each run.
package replay

import (
	"encoding/binary"
	"errors"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
)

// Traffic is what a program is timed on.
type Traffic struct {
	// Frames are sent in turn: lab.FrameSize bytes each, and 16,384 at most.
	Frames [][]byte
	// Flows is for one frame, a datagram of UDP over IPv4: how many flows it becomes, by the client's address and port. Their
	// checksums are wrong.
	Flows int
	// Known has each flow sent once before.
	Known bool
	// Nothing has a program that does nothing timed instead: what the harness costs, to be subtracted.
	Nothing bool
}

// Time times the program that a netdev carries.
func Time(b *testing.B, l *bpftest.Lab, device string, t Traffic) {
	b.Helper()
	warm := 0
	if t.Known {
		warm = max(t.Flows, len(t.Frames))
	}
	l.TimeWith(b, device, t.Frames[0], uint32(warm), func(carried *ebpf.Program) (*ebpf.Program, error) {
		prog, err := t.harness(b, l.Type.Hook(), carried, 0)
		if errors.Is(err, unix.EINVAL) && l.Type.Hook() == cube.XDP {
			prog, err = t.harness(b, l.Type.Hook(), carried, unix.BPF_F_XDP_HAS_FRAGS)
		}
		return prog, err
	})
}

// harness returns the harness of test/perf/bpf around a program. Programs that call each other must agree on flags.
func (t *Traffic) harness(b *testing.B, hook cube.Hook, program *ebpf.Program, flags uint32) (*ebpf.Program, error) {
	spec, err := bpf.Spec("replay", hook)
	if err != nil {
		return nil, err
	}
	for _, p := range spec.Programs {
		p.Flags |= flags
	}
	name, variables := "replay", map[string]uint32{"replay_frames": uint32(len(t.Frames))}
	if t.Flows > 0 {
		name = "replay_datagrams"
		variables = map[string]uint32{"gen_flows": uint32(t.Flows), "gen_first": binary.BigEndian.Uint32(t.Frames[0][26:]),
			"gen_service": binary.BigEndian.Uint32(t.Frames[0][30:])}
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	b.Cleanup(coll.Close) // the kernel empties the array of programs when nobody has it open
	if t.Nothing {
		program = coll.Programs["nothing"]
	}
	keys, values := make([]uint32, len(t.Frames)), make([][lab.FrameSize + 4]byte, len(t.Frames))
	for i, f := range t.Frames {
		keys[i] = uint32(i)
		copy(values[i][:], f)
	}
	if _, err := coll.Maps["frames"].BatchUpdate(keys, values, nil); err != nil {
		return nil, err
	}
	for variable, value := range variables {
		if err := coll.Variables[variable].Set(value); err != nil {
			return nil, err
		}
	}
	if err := coll.Maps["replay_program"].Put(uint32(0), program); err != nil {
		return nil, err
	}
	return coll.DetachProgram(name), nil
}
