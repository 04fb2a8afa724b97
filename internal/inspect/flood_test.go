// SPDX-License-Identifier: Apache-2.0

package inspect

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/ring"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// flood lets new flows through a cube with a worker, each with a DNS query: so many a second, or as many as it can for 0. It
// returns how many that was, and how many packets were lost.
func flood(t *testing.T, r *rig, flows int, perSecond time.Duration) (rate float64, lost int) {
	t.Helper()
	dns := one(t, "dns")
	frames := make([][]byte, 0, flows)
	for n := range flows {
		f := dns.framer(n)
		f.sport = uint16(1024 + n%60000)
		f.datagram(false, []byte(dns.messages[0][1:]))
		frames = append(frames, f.out[0].bytes)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- r.tables.Packets.RunBatches(ctx, ring.Batches{Packet: r.worker.take, Done: r.worker.work})
	}()
	began := time.Now()
	r.Together("veth1", 1, frames, func(n int, _ []byte) {
		if perSecond != 0 {
			pause := unix.NsecToTimespec(int64(time.Duration(n)*time.Second/perSecond - time.Since(began)))
			_ = unix.Nanosleep(&pause, nil) // the pace of the flood; a negative one is refused
		}
	})
	rate = float64(flows) / time.Since(began).Seconds()
	written := func() uint64 {
		counts, err := ring.Sum(r.Map("c", "packets"+ring.CountsSuffix))
		if err != nil {
			t.Fatal(err)
		}
		return counts.Written
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		if got, want := r.counts.Packets.Load(), written(); got != want {
			return fmt.Errorf("%d of %d packets were read", got, want)
		}
		return nil
	})
	stop()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := r.counts.Decided.Load(); got != written() {
		t.Errorf("%d flows were decided, want %d", got, written())
	}
	return rate, flows - int(written())
}

func TestTimedTwentyThousandNewFlowsASecond(t *testing.T) {
	const flows = 40_000
	r := newRig(t, `{"max-flows":50000}`, 16, flows)
	rate, lost := flood(t, r, flows, 22_000)
	effect := r.counts.Effect.quantile(0.99)
	t.Logf("%.0f new flows a second, %d packets of %d lost, decided within %v of the packet (median), in effect within %v of the answer (99 %%)",
		rate, lost, flows, r.counts.Latency.quantile(0.5), effect)
	if rate < 20_000 || lost*100 > flows || effect > 1024*time.Microsecond {
		t.Error("want 20,000 flows a second, 1 % of packets lost at most, and 99 % of decisions in effect within a millisecond")
	}
}

func TestAFloodOfFlowsIsSurvived(t *testing.T) {
	const flows = 30_000
	r := newRig(t, `{"max-flows":20000}`, 16, 5000)
	rate, lost := flood(t, r, flows, 0)
	t.Logf("%.0f new flows a second, %d lost", rate, lost)
	if lost != 10_000 {
		t.Errorf("%d flows were not inspected, want the 10,000 for which there was no room", lost)
	}
	if got := r.worker.flows.size.Load(); got != 5000 {
		t.Errorf("%d flows in memory, want 5,000", got)
	}
}
