// SPDX-License-Identifier: Apache-2.0

package table

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
)

// instructions returns how many the verifier processed for a program.
func (l *lab) instructions(program string) uint32 {
	l.t.Helper()
	info, err := l.progs[program].Info()
	if err != nil {
		l.t.Fatal(err)
	}
	n, ok := info.VerifiedInstructions()
	if !ok {
		l.t.Skip("the kernel does not tell")
	}
	return n
}

// TestTheVerifiersWorkIsSmall: lookup and opening are verified once in a program.
func TestTheVerifiersWorkIsSmall(t *testing.T) {
	for hook, object := range objects {
		l := newLab(t, object, 256)
		nothing := l.instructions("nothing")
		for program, limit := range map[string]uint32{"find": 3500, "open": 26000} {
			n := l.instructions(program) - nothing
			t.Logf("%s: %s: %d instructions", hook, program, n)
			if n > limit {
				t.Errorf("%s: %s takes %d instructions, want at most %d", hook, program, n, limit)
			}
		}
	}
}

// time runs a program many times and returns the time of one run.
func (l *lab) time(program string, times uint64) time.Duration {
	l.t.Helper()
	var sum time.Duration
	for done := uint64(0); done < times; done += 8192 {
		_, d, err := l.progs[program].Benchmark(make([]byte, 64), 8192, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		sum += d * 8192
	}
	return sum
}

// BenchmarkTable reports ns for an operation, net of a program that only makes the key: the difference of the medians,
// and that of the minimums.
func BenchmarkTable(b *testing.B) {
	const known = 1 << 17
	for hook, object := range objects {
		b.Run(hook, func(b *testing.B) {
			l := newLab(b, object, 1<<18)
			times := map[string][]float64{}
			measure := func(name, program string, base, keys, runs uint64) {
				*l.job = job{Base: base, Keys: keys, Stride: 0x9e3779b1}
				times[name] = append(times[name], float64(l.time(program, runs))/float64(runs))
			}
			for b.Loop() {
				measure("new", "pass", 0, known, known)
				if l.job.Opened != known {
					b.Fatalf("%d of %d are opened: %v", l.job.Opened, known, l.job.Refused)
				}
				for range 5 {
					measure("", "nothing", 0, known, 1<<16)
					measure("find-131072", "find", 0, known, 1<<16)
					measure("find-1024", "find", 0, 1024, 1<<16)
					measure("none", "find", 1<<24, known, 1<<16)
				}
				sweep := func(name string, selected func(*Entry) bool) {
					begin := time.Now()
					l.remove(selected)
					times[name] = append(times[name], float64(time.Since(begin))/known)
				}
				sweep("sweep-stays", none)
				sweep("sweep-removes", all)
			}
			slices.Sort(times[""])
			for name, v := range times {
				empty := times[""]
				if strings.HasPrefix(name, "sweep") {
					empty = []float64{0}
				}
				if slices.Sort(v); name != "" {
					b.ReportMetric(v[len(v)/2]-empty[len(empty)/2], name+"-ns")
					b.ReportMetric(v[0]-empty[0], name+"-min-ns")
				}
			}
		})
	}
}

// BenchmarkPacket reports ns for classifying a packet of a connection that the rules have accepted, net of reading the
// packet: the difference of the medians, and that of the minimums.
func BenchmarkPacket(b *testing.B) {
	for hook, object := range packetObjects {
		b.Run(hook, func(b *testing.B) {
			l := newPacketLab(b, object, 1024)
			ack := tcpFrame(hostA, hostB, 1, 80, conntrack.Segment{Flags: conntrack.ACK, Scale: conntrack.NoScale})
			l.v.Options = conntrack.Options{PickUp: true}.Bits()
			times := map[string][]float64{}
			for b.Loop() {
				for name, frames := range map[string][2][]byte{
					"TCP": {ack, tcpFrame(hostB, hostA, 80, 1, conntrack.Segment{Flags: conntrack.ACK, Scale: conntrack.NoScale})},
					"UDP": {udpFrame(hostA, hostB, 1, 53), udpFrame(hostB, hostA, 53, 1)},
				} {
					l.pass(frames[0], 0)
					if got := l.pass(frames[1], 0); conntrack.Class(got.Class) != conntrack.Established {
						b.Fatalf("%s: the reply is %+v", name, got)
					}
					for program, key := range map[string]string{"nothing": "", "track": name} {
						_, d, err := l.progs[program].Benchmark(frames[0], 8192, nil)
						if err != nil {
							b.Fatal(err)
						}
						times[key] = append(times[key], float64(d))
					}
				}
			}
			slices.Sort(times[""])
			for name, v := range times {
				if slices.Sort(v); name != "" {
					b.ReportMetric(v[len(v)/2]-times[""][len(times[""])/2], name+"-ns")
					b.ReportMetric(v[0]-times[""][0], name+"-min-ns")
				}
			}
		})
	}
}

// BenchmarkHalfOpen reports ns for classifying and accepting the first packet of a connection, and for the reply that
// moves it to the large table, net of a program that only makes the packet: the difference of the medians, and that of
// the minimums. More connections than may be half open, so each takes the entry of another, are the flood.
func BenchmarkHalfOpen(b *testing.B) {
	const some = 8192
	l := newPacketLab(b, packetTC, 1<<14)
	times := map[string][]float64{}
	measure := func(name, program string, first uint64) {
		l.v.Next = first
		ret, d, err := l.progs[program].Benchmark(make([]byte, 64), some, nil)
		if err != nil || ret != 0 {
			b.Fatalf("%s: %d, %v", name, int32(ret), err)
		}
		times[name] = append(times[name], float64(d))
	}
	for i := uint64(0); b.Loop(); i++ {
		first := i % (1 << 10) * 4 * some
		measure("", "count", first)
		measure("first", "open", first)
		measure("reply", "answer", first)
		for n := range uint64(3) {
			measure("flood", "open", first+(n+1)*some)
		}
		l.remove(all)
	}
	for name, v := range times {
		slices.Sort(times[""])
		if slices.Sort(v); name != "" {
			b.ReportMetric(v[len(v)/2]-times[""][len(times[""])/2], name+"-ns")
			b.ReportMetric(v[0]-times[""][0], name+"-min-ns")
		}
	}
}
