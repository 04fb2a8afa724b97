// SPDX-License-Identifier: Apache-2.0

// What a packet costs on its way up and down, in processor time, of the kernel too.

package slowpath

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// BenchmarkUp reads what a program has put into the ring: the reader's part of the work.
func BenchmarkUp(b *testing.B) {
	for _, size := range []int{60, 1500, 9000, 65000} {
		b.Run(strconv.Itoa(size), func(b *testing.B) {
			k := newKernel(b)
			hook := cube.TC
			if size > 1500 { // a test run at TC takes one page
				hook = cube.XDP
			}
			p := k.caller(hook, "pcn_core_up", 1, withMD(mdBytes(md{})))
			r := k.open()
			h := &counter{}
			var spent time.Duration
			b.ReportAllocs()
			b.ResetTimer()
			for done := 0; done < b.N; {
				b.StopTimer()
				run(b, p, frame(size), uint32(min(b.N-done, 10000)), nil)
				b.StartTimer()
				begin := cpu(b)
				done += r.drain(h)
				spent += cpu(b) - begin
			}
			report(b, spent)
		})
	}
}

// BenchmarkUpWhileWritten reads while a program writes on another core, and sheds what the reader cannot take.
func BenchmarkUpWhileWritten(b *testing.B) {
	k := newKernel(b)
	p := k.caller(cube.TC, "pcn_core_up", 1, withMD(mdBytes(md{})))
	r := k.open()
	h := &counter{}
	stop := start(b, r, h)
	b.ResetTimer()
	run(b, p, frame(60), uint32(b.N), nil)
	b.StopTimer()
	stop()
	b.ReportMetric(float64(h.packets[1])/b.Elapsed().Seconds()/1e6, "Mpps-up")
	b.ReportMetric(100*float64(k.fate(1, reasonShed))/float64(b.N), "%shed")
}

// BenchmarkDown sends to a program that counts: the write, the kernel's receive path and the entry.
func BenchmarkDown(b *testing.B) {
	for _, c := range []struct {
		name  string
		hook  cube.Hook
		frame []byte
		off   cube.Offload
	}{
		{"tc/60", cube.TC, frame(60), cube.Offload{}},
		{"tc/TCP of 60", cube.TC, layout{payload: 1}.frame(), cube.Offload{}},
		{"tc/1500", cube.TC, frame(1500), cube.Offload{}},
		{"tc/superframe", cube.TC, layout{payload: 65000, sum: pseudo}.frame(), cube.Offload{GSOSize: 1448}},
		{"xdp/60", cube.XDP, frame(60), cube.Offload{}},
		{"xdp/1500", cube.XDP, frame(1500), cube.Offload{}},
		{"generic xdp/60", cube.XDP, frame(60), cube.Offload{}},
	} {
		b.Run(c.name, func(b *testing.B) {
			l := newLane(b, netns.New(b), c.hook, 0)
			p := &cube.PacketOut{Port: 1, Data: c.frame, Offload: c.off}
			m := Meta{XDP: c.hook == cube.XDP, Generic: strings.HasPrefix(c.name, "generic")}
			b.ReportAllocs()
			b.ResetTimer()
			begin := cpu(b)
			for range b.N {
				if err := l.Send(Target{1, ToTX}, p, m); err != nil {
					b.Fatal(err)
				}
			}
			report(b, cpu(b)-begin)
		})
	}
}

// cpu is the processor time of the process so far: on a machine that others use too, the clock says little.
func cpu(b testing.TB) time.Duration {
	b.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// report turns the processor time of b.N packets into what one core does.
func report(b *testing.B, spent time.Duration) {
	b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "cpu-ns/op")
	b.ReportMetric(float64(b.N)/spent.Seconds()/1e6, "Mpps/core")
}
