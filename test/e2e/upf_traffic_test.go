// SPDX-License-Identifier: Apache-2.0

// What must not disturb the packets of a phone: other sessions that come, change and go, and the end of polycube-upf, of the
// daemon, or of both.

package e2e

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/smf"
)

// stream sends numbered datagrams to the phone, so many in a millisecond, until end is called, which returns how many were sent
// and the numbers that have come.
func (n *numbered) stream(pace uint32) (end func() (sent uint32, got []uint32)) {
	stop, sent, came := make(chan struct{}), make(chan uint32, 1), make(chan []uint32, 1)
	go func() {
		b := make([]byte, 100)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for i := uint32(0); ; i++ {
			if i%pace == 0 {
				select {
				case <-stop:
					sent <- i
					return
				case <-tick.C:
				}
			}
			binary.BigEndian.PutUint32(b, i)
			_, _ = n.out.Write(b) // the phone counts them
		}
	}()
	go func() { came <- n.read(math.MaxInt, func(int) {}) }()
	return func() (uint32, []uint32) {
		close(stop)
		return <-sent, <-came
	}
}

// inOrder says what is wrong with the numbers that have come.
func inOrder(sent uint32, got []uint32) error {
	for i, number := range got {
		if number != uint32(i) {
			return fmt.Errorf("of %d datagrams %d have come, and %d is number %d", sent, len(got), i, number)
		}
	}
	if len(got) != int(sent) {
		return fmt.Errorf("of %d datagrams only the first %d have come", sent, len(got))
	}
	return nil
}

// movedInOrder says what is wrong with the numbers that have come from the first until a number from one base station, and from
// there on from another one: each station's are in order, though both may come at the same time.
func movedInOrder(sent uint32, got []uint32) error {
	moved, lowest := uint32(math.MaxUint32), uint32(math.MaxUint32) // moved is the first number that came before a lower one
	for _, number := range slices.Backward(got) {
		if number > lowest {
			moved = min(moved, number)
		}
		lowest = min(lowest, number)
	}
	if moved == math.MaxUint32 {
		return inOrder(sent, got)
	}
	var former, later []uint32
	for _, number := range got {
		if number < moved {
			former = append(former, number)
		} else {
			later = append(later, number-moved)
		}
	}
	return errors.Join(inOrder(moved, former), inOrder(sent-moved, later))
}

// others are the sessions of other phones, each of which has a base station that nobody hears of.
type others struct {
	*rand.Rand
	c     *core
	first int // the number of the first phone
	is    map[int]*smf.Session
	steps int
}

// step establishes the session of a phone, or changes, hands over or deletes it.
func (o *others) step(ctx context.Context) error {
	i := o.first + o.IntN(20)
	tunnel := smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.AddrFrom4([4]byte{192, 0, 2, byte(100 + o.IntN(100))}), TEID: o.Uint32() | 1, EndMarkers: true}
	var err error
	is := o.is[i]
	switch what := o.IntN(4); {
	case is == nil:
		address := netip.AddrFrom4([4]byte{10, 1, 1 + byte(i>>8), byte(i)})
		o.is[i], err = o.c.smf.Establish(ctx, uint64(1000+i), smf.Device(address, tunnel.Peer, tunnel.TEID)...)
	case what == 0:
		delete(o.is, i)
		_, err = o.c.smf.Delete(ctx, is)
	case what == 1:
		_, err = o.c.smf.Modify(ctx, is, tunnel.Update())
	case what == 2:
		_, err = o.c.smf.Modify(ctx, is, smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify}.Update())
	default:
		_, err = o.c.smf.Modify(ctx, is, ie.NewQueryURR(ie.NewURRID(1)), tunnel.Update())
	}
	if err != nil {
		return fmt.Errorf("phone %d: %w", i, err)
	}
	o.steps++
	return nil
}

// TestOtherSessionsChangeWhileAPhoneDownloads: the SMF establishes, changes, hands over and deletes sessions as fast as it can. The
// phone loses none of up to 50,000 packets a second, gets none twice, and each of its bytes is reported.
func TestOtherSessionsChangeWhileAPhoneDownloads(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		ctx, stop := context.WithTimeout(t.Context(), patience)
		defer stop()
		begin := time.Now()
		end := c.numbers().stream(50)
		var all sync.WaitGroup
		const clients = 16
		failed, steps := make(chan error, clients), make(chan int, clients)
		seed := repeat.Seed(t)
		for i := range clients {
			all.Go(func() {
				o := &others{Rand: rand.New(rand.NewPCG(seed, uint64(i))), c: c, first: 20 * i, is: map[int]*smf.Session{}}
				var err error
				for err == nil && time.Since(begin) < 2*time.Second {
					err = o.step(ctx)
				}
				for _, is := range o.is {
					_, gone := c.smf.Delete(ctx, is)
					err = errors.Join(err, gone)
				}
				failed <- err
				steps <- o.steps
			})
		}
		all.Wait()
		took := time.Since(begin)
		sent, got := end()
		changes := 0
		for range clients {
			if err := <-failed; err != nil {
				t.Error(err)
			}
			changes += <-steps
		}
		t.Logf("%d changes of other sessions, %.0f packets a second", changes, float64(sent)/took.Seconds())
		if err := inOrder(sent, got); err != nil {
			t.Error(err)
		}
		if changes < 100 {
			t.Errorf("only %d changes of other sessions", changes)
		}
		c.remove()
	})
}

// TestPacketsPassWhileAPartOfACoreIsReplaced: polycube-upf, the daemon, and both are killed and started again. The phone loses no
// packet, and each of its bytes is reported.
func TestPacketsPassWhileAPartOfACoreIsReplaced(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		end := c.numbers().stream(5)
		c.killUPF()
		c.modifyAfter(c.startUPF)
		c.Kill9()
		c.daemon = c.Start()
		c.modifyAfter(func() {})
		c.killUPF()
		c.Kill9()
		c.daemon = c.Start()
		c.modifyAfter(c.startUPF)
		if err := inOrder(end()); err != nil {
			t.Error(err)
		}
		c.remove()
	})
}

func TestTheOrderOfAHandover(t *testing.T) {
	for _, tt := range []struct {
		got []uint32
		ok  bool
	}{
		{[]uint32{0, 1, 2, 3, 4, 5}, true},
		{[]uint32{0, 1, 3, 2, 4, 5}, true},
		{[]uint32{0, 3, 1, 4, 2, 5}, true},
		{[]uint32{0, 1, 4, 5, 2, 3}, true},
		{[]uint32{0, 4, 1, 2, 5, 3}, true},
		{[]uint32{0, 2, 1, 3, 5, 4}, false},
		{[]uint32{0, 1, 4, 5, 3, 2}, false},
		{[]uint32{0, 3, 2, 1, 4, 5}, false},
		{[]uint32{0, 1, 3, 2, 4}, false},
		{[]uint32{0, 1, 3, 2, 2, 4, 5}, false},
		{[]uint32{0, 3, 2, 4, 5}, false},
	} {
		if err := movedInOrder(6, tt.got); (err == nil) != tt.ok {
			t.Errorf("%v: %v, want order: %v", tt.got, err, tt.ok)
		}
	}
}
