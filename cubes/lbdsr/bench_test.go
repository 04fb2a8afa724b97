// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/perf/bpf"
	"github.com/polycube/polycube/test/perf/lab"
)

// BenchmarkPackets: packets of a number of flows in turn, which have pins, to servers by their MAC addresses; each is
// written before the run, as in "nothing", whose time is to be subtracted.
func BenchmarkPackets(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
		l.Create("lbdsr", "lb", several)
		b.Run(strings.ToLower(string(typ))+"/nothing", func(b *testing.B) { measure(b, l, 1, true) })
		for _, flows := range []int{1, 1000, 16384} {
			b.Run(fmt.Sprintf("%s/%d flows", strings.ToLower(string(typ)), flows), func(b *testing.B) { measure(b, l, flows, false) })
		}
	}
}

// measure times the cube, or a program that does nothing.
func measure(b *testing.B, l *bpftest.Lab, flows int, nothing bool) {
	b.Helper()
	frames := make([][]byte, flows)
	for n := range frames {
		f := append(flow(0, ack), make([]byte, lab.FrameSize-54)...)
		binary.BigEndian.PutUint32(f[26:], 0x0b000000+uint32(n))
		frames[n] = f
	}
	l.TimeWith(b, "veth1", frames[0], func(carried *ebpf.Program) (*ebpf.Program, error) {
		prog, err := replay(b, l.Type.Hook(), frames, carried, nothing, 0)
		if errors.Is(err, unix.EINVAL) && l.Type.Hook() == cube.XDP {
			prog, err = replay(b, l.Type.Hook(), frames, carried, nothing, unix.BPF_F_XDP_HAS_FRAGS)
		}
		return prog, err
	})
}

// replay returns the harness of test/perf/bpf around a program. Programs that call each other must agree on flags.
func replay(b *testing.B, hook cube.Hook, frames [][]byte, program *ebpf.Program, nothing bool, flags uint32) (*ebpf.Program, error) {
	spec, err := bpf.Spec("replay", hook)
	if err != nil {
		return nil, err
	}
	for _, p := range spec.Programs {
		p.Flags |= flags
	}
	coll, err := ebpf.NewCollection(spec)
	if err != nil {
		return nil, err
	}
	b.Cleanup(coll.Close) // the kernel empties the array of programs when nobody has it open
	if nothing {
		program = coll.Programs["nothing"]
	}
	keys, values := make([]uint32, len(frames)), make([][lab.FrameSize + 4]byte, len(frames))
	for i, f := range frames {
		keys[i] = uint32(i)
		copy(values[i][:], f)
	}
	if _, err := coll.Maps["frames"].BatchUpdate(keys, values, nil); err != nil {
		return nil, err
	}
	if err := coll.Variables["replay_frames"].Set(uint32(len(frames))); err != nil {
		return nil, err
	}
	if err := coll.Maps["replay_program"].Put(uint32(0), program); err != nil {
		return nil, err
	}
	return coll.DetachProgram("replay"), nil
}
