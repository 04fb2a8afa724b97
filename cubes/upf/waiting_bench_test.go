// SPDX-License-Identifier: Apache-2.0

package upf_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
)

// BenchmarkPacketsThatWait measures the way of a packet to the daemon, where it waits, and the way out again: ADR 89.
func BenchmarkPacketsThatWait(b *testing.B) {
	const packets = 20_000
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		b.Run(string(typ), func(b *testing.B) {
			l := bpftest.New(b, bpftest.Options{Type: typ, Hosts: 2})
			c := newCore(b, l, `,"buffered-packets":65535`)
			wires := c.Wires()
			s := session()
			var rows *pdusession.Rows
			frame := network(mobile.Datagram(server, phone, 53, 1000, make([]byte, 100), 0))
			var in, out time.Duration
			waiting := func(n int) {
				for c.Read("u buffer packets") != fmt.Sprint(n) {
					runtime.Gosched()
				}
			}
			for b.Loop() {
				s.Rules[1].Forward.Action = pdusession.Wait
				rows = c.put(rows, s)
				begin := time.Now()
				for i := range packets {
					if err := wires[1].Send(frame); err != nil {
						b.Fatal(err)
					}
					if i%500 == 499 { // no more than the slow path takes
						waiting(i + 1)
					}
				}
				in += time.Since(begin)
				s.Rules[1].Forward.Action = pdusession.Pass
				rows = c.put(rows, s)
				begin = time.Now()
				waiting(0)
				out += time.Since(begin)
			}
			b.ReportMetric(float64(in.Nanoseconds())/float64(b.N)/packets, "ns-in/packet")
			b.ReportMetric(float64(out.Nanoseconds())/float64(b.N)/packets, "ns-out/packet")
		})
	}
}
