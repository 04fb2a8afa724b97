// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/perf/replay"
)

// benchmarked is how many flows of BenchmarkPackets/new are new: as many as -benchtime may say.
const benchmarked = 1 << 19

// BenchmarkPackets: datagrams of clients for one service, of a number of sessions in turn, or each of a new one. Each is
// written before the run, as in "nothing", whose time is to be subtracted.
func BenchmarkPackets(b *testing.B) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		for _, sessions := range []int{0, 1, 1000, benchmarked} {
			name := fmt.Sprintf("%d sessions", sessions)
			if sessions == 0 {
				name = "nothing"
			}
			b.Run(strings.ToLower(string(typ))+"/"+name, func(b *testing.B) { measure(b, typ, max(sessions, 1), true, sessions == 0) })
		}
		b.Run(strings.ToLower(string(typ))+"/new", func(b *testing.B) { measure(b, typ, benchmarked, false, false) })
	}
}

// measure times the cube, or a program that does nothing.
func measure(b *testing.B, typ cube.Type, sessions int, known, nothing bool) {
	b.Helper()
	l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
	l.Create("lbrp", "lb", strings.Replace(one, "{", fmt.Sprintf(`{"max-sessions":%d,`, benchmarked*2), 1))
	frame := fromClient().IPv4("11.0.0.0", "10.0.0.100").UDP(4000, 80).Payload(lab.FrameSize - 42).Bytes()
	replay.Time(b, l, "veth1", replay.Traffic{Frames: [][]byte{frame}, Flows: sessions, Known: known, Nothing: nothing})
}
