// SPDX-License-Identifier: Apache-2.0

package e2e

// How fast sessions are established, with all processes.

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/smf"
)

// establishing is what the establishment of some sessions took.
type establishing struct {
	sessions int
	took     time.Duration
	// upf is the CPU time of polycube-upf, smf that of this process, which encodes the requests and reads the responses.
	upf, smf time.Duration
	// busy is the time that all CPUs of the machine have worked.
	busy time.Duration
}

func (e establishing) each(d time.Duration) time.Duration { return d / time.Duration(e.sessions) }

func (e establishing) String() string {
	return fmt.Sprintf("%d sessions: %.0f/s, %.0f/s without other work, %v CPU of polycube-upf each, %v of the SMF", e.sessions,
		float64(e.sessions)/e.took.Seconds(), e.rate(), e.each(e.upf), e.each(e.smf))
}

// processorTime is the CPU time that a process has used.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(rest)
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, in hundredths of a second
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// busyTime is the time that all CPUs have worked since the machine was started.
func busyTime(t *testing.T) (sum time.Duration) {
	t.Helper()
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line)[1:9] { // user, nice, system, idle, iowait, irq, softirq, steal
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		if i != 3 && i != 4 {
			sum += time.Duration(n) * 10 * time.Millisecond
		}
	}
	return sum
}

// ownTime is the CPU time of this process.
func ownTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// establish establishes the sessions from first to last with 2 PDRs, 2 FARs, 2 QERs and a URR each, many at once.
func (c *core) establish(first, last int) (is establishing) {
	c.t.Helper()
	const clients = 512
	ctx, stop := context.WithTimeout(c.t.Context(), pace.Stretch(10*time.Minute))
	defer stop()
	upf, own, busy, begin := processorTime(c.t, c.upf.Process.Pid), ownTime(c.t), busyTime(c.t), time.Now()
	var next atomic.Int64
	next.Store(int64(first))
	failed := make(chan error, clients)
	var all sync.WaitGroup
	for range clients {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= last {
					return
				}
				var a [4]byte
				binary.BigEndian.PutUint32(a[:], 10<<24|2<<16+uint32(i))
				rules := smf.Device(netip.AddrFrom4(a), netip.MustParseAddr(gNB1), uint32(1000+i))
				if _, err := c.smf.Establish(ctx, uint64(i+1), rules...); err != nil {
					failed <- fmt.Errorf("session %d: %w", i, err)
					return
				}
			}
		})
	}
	all.Wait()
	is = establishing{last - first, time.Since(begin), processorTime(c.t, c.upf.Process.Pid) - upf, ownTime(c.t) - own, busyTime(c.t) - busy}
	select {
	case err := <-failed:
		c.t.Fatal(err)
	default:
	}
	c.t.Log(is)
	return is
}

// goal is the CPU time of polycube-upf that a session may take.
const goal = 100 * time.Microsecond

// limit is the goal, on a machine on which the CPU of the SMF takes 40 µs for a session, or less. CPUs that are shared slow down both ends.
func (e establishing) limit() time.Duration {
	return time.Duration(float64(goal) * max(1, float64(e.each(e.smf))/float64(40*time.Microsecond)))
}

// rate is the number of sessions in a second. A machine that does other work, too, is credited with the time that this takes of its
// CPUs.
func (e establishing) rate() float64 {
	share := float64(e.upf+e.smf) / float64(max(e.busy, e.upf+e.smf))
	return float64(e.sessions) / e.took.Seconds() / share
}

// goalRate is the number of sessions that are to be established in a second.
const goalRate = 10_000

// TestTimedSessionsAreEstablished: with all processes, a session costs the same however many there are, polycube-upf less than
// a few times what go-pfcp takes to write and read the messages, and at most 100 µs of its CPU. 10,000 are established in a second.
func TestTimedSessionsAreEstablished(t *testing.T) {
	n := 20_000
	if soak {
		n = 100_000
	}
	c := newCoreOf(t, "XDP_DRV", fmt.Sprintf("max-sessions=%d max-rules=%d max-meters=%d max-usages=%d", n+1000, 2*n+4000, 2*n+4000, n+1000))
	c.establish(0, 1000) // the program grows
	quarter := (n - 1000) / 4
	var parts []establishing
	var sum establishing
	var best float64
	for i := range 4 {
		is := c.establish(1000+i*quarter, 1000+(i+1)*quarter)
		parts = append(parts, is)
		sum = establishing{sum.sessions + is.sessions, sum.took + is.took, sum.upf + is.upf, sum.smf + is.smf, sum.busy + is.busy}
		best = max(best, is.rate())
	}
	t.Logf("in all %v", sum)
	if first, last := parts[0].each(parts[0].upf), parts[3].each(parts[3].upf); last > 2*first {
		t.Errorf("the last sessions take %v of CPU each, the first ones %v", last, first)
	}
	if is, most := sum.each(sum.upf), pace.Stretch(sum.limit()); is > most {
		t.Errorf("polycube-upf takes %v of CPU for each session, want at most %v", is, most)
	}
	if pace.Stretch(time.Duration(best)) < goalRate {
		t.Errorf("%.0f sessions are established in a second at best, want %d", best, goalRate)
	}
	if sum.upf > 3*sum.smf {
		t.Errorf("polycube-upf takes %v for each session, go-pfcp %v to write and read its messages", sum.each(sum.upf), sum.each(sum.smf))
	}
}
