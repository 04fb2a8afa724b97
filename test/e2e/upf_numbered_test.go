// SPDX-License-Identifier: Apache-2.0

// Numbered packets for a phone that is handed over, or paged.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"

	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/smf"
)

// numbered sends numbered datagrams to the phone, and returns how often each has come.
type numbered struct {
	in, out *net.UDPConn
}

func (c *core) numbers() *numbered { return c.numbersTo(ueAddress) }

// numbersTo is for a phone that has another address.
func (c *core) numbersTo(address string) *numbered {
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 5000))
	n := &numbered{}
	c.ran.Must(func() (err error) {
		n.in, err = net.ListenUDP("udp", to)
		return err
	})
	c.dn.Must(func() (err error) {
		n.out, err = net.DialUDP("udp", nil, to)
		return err
	})
	mobile.Room(c.t, n.in)
	c.t.Cleanup(func() { _ = errors.Join(n.in.Close(), n.out.Close()) })
	return n
}

// send sends the datagrams from first to last, at most 50 in a millisecond.
func (n *numbered) send(first, last uint32) {
	b := make([]byte, 100)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := first; i < last; i++ {
		binary.BigEndian.PutUint32(b, i)
		_, _ = n.out.Write(b) // the phone counts them
		if i%50 == 49 {
			<-tick.C
		}
	}
}

// read returns the numbers that come until want of them have, or none does for two seconds.
func (n *numbered) read(want int, each func(read int)) (got []uint32) {
	b := make([]byte, 200)
	for len(got) < want {
		_ = n.in.SetReadDeadline(time.Now().Add(2 * time.Second))
		if _, err := n.in.Read(b); err != nil {
			break
		}
		got = append(got, binary.BigEndian.Uint32(b))
		each(len(got))
	}
	return got
}

// TestAPhoneIsHandedOver loses no packet, gets none twice, and gets those of each station in order; the old one gets its End
// Marker after the last.
func TestAPhoneIsHandedOver(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		n := c.numbers()
		const packets = 50_000
		start, sent := time.Now(), make(chan time.Duration, 1)
		go func() {
			n.send(0, packets)
			sent <- time.Since(start)
		}()
		got := n.read(packets, func(read int) {
			if read != packets/4 {
				return
			}
			c.two.Expect(c.phone, 2049)
			c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(gNB2), TEID: 2049, EndMarkers: true}.Update())
		})
		t.Logf("%.0f packets a second", packets/(<-sent).Seconds())
		if err := movedInOrder(packets, got); err != nil {
			t.Error(err)
		}
		c.eventually(func() error {
			if ends := c.one.Ends(); !slices.Equal(ends, []uint32{1025}) {
				return fmt.Errorf("the old station has got End Markers %v", ends)
			}
			return nil
		})
		if late := c.one.AfterEnd(); late > 0 {
			t.Errorf("%d packets came to the old station after its End Marker", late)
		}
		c.two.Take(c.phone)
		c.ran.Reaches(t, patience, webServer)
	})
}

// TestAPhoneIsPaged: packets wait while it sleeps, the SMF is told once, and then all of them come, in order.
func TestAPhoneIsPaged(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		c.attach()
		c.ran.Reaches(t, patience, webServer)
		c.modify(smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify}.Update())
		n := c.numbers()
		n.send(0, 300)
		c.asked(func(m *message.SessionReportRequest) bool {
			if m.DownlinkDataReport == nil {
				return false
			}
			id, err := m.DownlinkDataReport.PDRID()
			return err == nil && id == 2
		})
		c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(gNB1), TEID: 1025}.Update())
		go n.send(300, 500) // not more than there is room for, in case they all wait
		got := n.read(500, func(int) {})
		go n.send(500, 2000)
		if err := inOrder(2000, append(got, n.read(1500, func(int) {})...)); err != nil {
			t.Error(err)
		}
	})
}
