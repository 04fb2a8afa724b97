// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"testing"
	"time"
)

// BenchmarkReader reads 128 bytes of each packet while a program writes on another core. At TC: the start of a test run at
// XDP waits for a grace period.
func BenchmarkReader(b *testing.B) {
	w := load(b, ringTC)
	read, sum := 0, 0
	g := start(b, w.open(), func(p *Packet) { read++; sum += int(p.Data[64]) })
	b.ResetTimer()
	for done := 0; done < b.N; done += 10_000 {
		w.run("copy_head", frame(1000), min(b.N-done, 10_000), nil)
	}
	b.StopTimer()
	if err := g.stop(); err != nil {
		b.Fatal(err)
	}
	c := w.counts()
	b.ReportMetric(float64(read)/b.Elapsed().Seconds()/1e6, "Mpps")
	b.ReportMetric(100*float64(c.Lost)/float64(c.Written+c.Lost), "%lost")
}

// BenchmarkWriter is what the copy costs the program, without a reader and in a ring that never fills.
func BenchmarkWriter(b *testing.B) {
	for _, program := range []string{"copy_nothing", "copy_head"} {
		b.Run(program, func(b *testing.B) {
			w := load(b, ringTC)
			r := w.open()
			var spent time.Duration
			for done := 0; done < b.N; done += 4000 {
				begin := now(b)
				w.run(program, frame(1000), min(b.N-done, 4000), nil)
				spent += now(b) - begin
				r.records.Drain(func([]byte) {})
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/packet")
		})
	}
}
