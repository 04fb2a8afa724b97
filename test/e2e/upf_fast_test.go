// SPDX-License-Identifier: Apache-2.0

package e2e

// A phone that is handed over, and one that is paged, at 50,000 packets a second.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
	packets "golang.org/x/net/ipv4"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/smf"
)

// fastRate is the rate of the sender in packets a second, and fastPackets how many it sends.
const fastRate, fastPackets = 50_000, 50_000

// sentFast is what became of a sender: the rate that it has reached.
type sentFast struct {
	rate float64
	err  error
}

// sendFast sends numbered datagrams at fastRate: many with a system call, from a thread of its own that goes before others. What is
// late is sent as soon as possible.
func (n *numbered) sendFast() <-chan sentFast {
	done := make(chan sentFast, 1)
	go func() {
		runtime.LockOSThread() // and ends the thread
		is := sentFast{err: unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), -20)}
		conn, begin, sent := packets.NewPacketConn(n.out), time.Now(), 0
		batch := make([]packets.Message, 64)
		for i := range batch {
			batch[i].Buffers = [][]byte{make([]byte, 100)}
		}
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for is.err == nil && sent < fastPackets {
			due := min(int(time.Since(begin).Seconds()*fastRate), fastPackets) - sent
			if due <= 0 {
				<-tick.C
				continue
			}
			some := batch[:min(due, len(batch))]
			for i := range some {
				binary.BigEndian.PutUint32(some[i].Buffers[0], uint32(sent+i))
			}
			var wrote int
			wrote, is.err = conn.WriteBatch(some, 0)
			sent += wrote
		}
		is.rate = float64(sent) / time.Since(begin).Seconds()
		done <- is
	}()
	return done
}

// hurry has the daemon go before other processes of a busy machine.
func (c *core) hurry() {
	c.t.Helper()
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", c.Pid()))
	for _, thread := range threads {
		tid, failed := strconv.Atoi(thread.Name())
		if err = errors.Join(err, failed); err == nil {
			err = unix.Setpriority(unix.PRIO_PROCESS, tid, -20)
		}
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// otherWork returns the share of all CPUs that other work had during a call.
func (c *core) otherWork(during func()) float64 {
	c.t.Helper()
	own := func() time.Duration {
		return ownTime(c.t) + processorTime(c.t, c.Pid()) + processorTime(c.t, c.upf.Process.Pid)
	}
	busy, mine, begin := busyTime(c.t), own(), time.Now()
	during()
	others := busyTime(c.t) - busy - (own() - mine)
	return others.Seconds() / time.Since(begin).Seconds() / float64(runtime.NumCPU())
}

// reached checks the rate of a sender. It may be a little late at the end.
func (is sentFast) reached() error {
	if is.err == nil && is.rate < 0.98*fastRate {
		return fmt.Errorf("only %.0f packets a second were sent, want %d", is.rate, fastRate)
	}
	return is.err
}

// atFullRate runs a test at both hooks with a sender of fastRate. It needs all CPUs: what fails while other work has more than a
// quarter of them is tried again, and decides nothing if that does not end.
func atFullRate(t *testing.T, sizes string, test func(t *testing.T, c *core) error) {
	for _, typ := range []string{"TC", "XDP_DRV"} {
		t.Run(typ, func(t *testing.T) {
			const tries = 5
			for try := 1; ; try++ {
				var err error
				var other float64
				t.Run(fmt.Sprint("try", try), func(t *testing.T) {
					c := newCoreOf(t, typ, "max-sessions=1000 max-rules=4000"+sizes)
					c.hurry()
					c.attach()
					c.ran.Reaches(t, patience, webServer)
					other = c.otherWork(func() { err = test(t, c) })
					t.Logf("other work has %.0f %% of the CPUs; %v", 100*other, err)
				})
				switch {
				case err == nil || t.Failed():
					return
				case other < 0.25:
					t.Fatal(err)
				case try == tries:
					t.Skipf("needs a machine without other work: %v", err)
				}
			}
		})
	}
}

// TestTimedAPhoneIsHandedOver at 50,000 packets a second: it loses none, gets none twice, and gets those of each station in order; the old
// station gets its End Marker after the last one.
func TestTimedAPhoneIsHandedOver(t *testing.T) {
	atFullRate(t, "", func(_ *testing.T, c *core) error {
		n := c.numbers()
		sent := n.sendFast()
		got := n.read(fastPackets, func(read int) {
			if read == fastPackets/4 {
				c.two.Expect(c.phone, 2049)
				c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(gNB2), TEID: 2049, EndMarkers: true}.Update())
			}
		})
		if err := (<-sent).reached(); err != nil {
			return err
		}
		c.eventually(func() error {
			if ends := c.one.Ends(); len(ends) != 1 || ends[0] != 1025 {
				return fmt.Errorf("the old station has got End Markers %v", ends)
			}
			return nil
		})
		if late := c.one.AfterEnd(); late > 0 {
			return fmt.Errorf("%d packets came to the old station after its End Marker", late)
		}
		if c.two.Packets() == 0 || c.one.Packets() == 0 {
			return fmt.Errorf("%d packets came to the old station, %d to the new one", c.one.Packets(), c.two.Packets())
		}
		return movedInOrder(fastPackets, got)
	})
}

// TestTimedAPhoneIsPaged while 50,000 packets a second come: thousands wait until the SMF, which is told once, has it woken up. Then all of
// them come, once and in order, before newer ones.
func TestTimedAPhoneIsPaged(t *testing.T) {
	atFullRate(t, " buffered-packets=40000", func(t *testing.T, c *core) error {
		c.modify(smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify}.Update())
		n := c.numbers()
		sent := n.sendFast()
		c.asked(func(m *message.SessionReportRequest) bool { return m.DownlinkDataReport != nil })
		waited := 0
		c.eventually(func() error { // paging takes a moment
			if _, err := fmt.Sscan(c.Do("u show buffer packets"), &waited); err != nil || waited < 3000 {
				return fmt.Errorf("%d packets wait, %w", waited, err)
			}
			return nil
		})
		c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(gNB1), TEID: 1025}.Update())
		got := n.read(fastPackets, func(int) {})
		if err := (<-sent).reached(); err != nil {
			return err
		}
		released := 0
		if _, err := fmt.Sscan(c.Do("u show buffer released"), &released); err != nil || released < waited {
			t.Errorf("%d packets were released, and %d had waited; %v", released, waited, err)
		}
		t.Logf("%d packets have waited", released)
		return inOrder(fastPackets, got)
	})
}
