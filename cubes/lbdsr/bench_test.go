// SPDX-License-Identifier: Apache-2.0

package lbdsr

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/replay"
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
	replay.Time(b, l, "veth1", replay.Traffic{Frames: frames, Known: true, Nothing: nothing})
}
