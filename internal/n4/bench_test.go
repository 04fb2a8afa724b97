// SPDX-License-Identifier: Apache-2.0

package n4

import (
	"fmt"
	"net/netip"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/smf"
)

// BenchmarkEstablish measures the establishment of sessions with 2 PDRs, 2 FARs, 2 QERs and 1 URR, from the datagram to the
// response on the socket, with a store on the disk and a data plane that does nothing. cpu-µs/op is the time of the
// processors, of the whole process without the encoding of the requests; B/session is memory that a session keeps.
func BenchmarkEstablish(b *testing.B) {
	at := start(b, func(c *Config) { c.T1, c.Heartbeat = time.Minute, time.Hour })
	m := at.smf()
	from := netip.AddrPortFrom(netip.MustParseAddr(m.Node), Port)
	requests := make([][]byte, b.N)
	for i := range requests {
		addr := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		list := append([]*ie.IE{m.NodeID(), m.FSEID(uint64(i + 1))}, smf.Device(addr, base, uint32(i+1))...)
		requests[i] = make([]byte, 0)
		is := message.NewSessionEstablishmentRequest(0, 0, 0, uint32(i+1), 0, list...)
		raw := make([]byte, is.MarshalLen())
		if err := is.MarshalTo(raw); err != nil {
			b.Fatal(err)
		}
		requests[i] = raw
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	used := processorTime(b)
	b.ResetTimer()
	for _, raw := range requests {
		at.inbox <- datagram{from, raw}
	}
	eventually(b, fmt.Sprintf("%d sessions", b.N), func() bool { return at.status().Sessions == b.N })
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-used).Microseconds())/float64(b.N), "cpu-µs/op")
	runtime.GC()
	runtime.ReadMemStats(&after)
	b.ReportMetric(float64(int64(after.HeapAlloc)-int64(before.HeapAlloc))/float64(b.N), "B/session")
}

func processorTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
