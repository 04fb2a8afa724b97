// SPDX-License-Identifier: Apache-2.0

// A user plane between base stations and another user plane (N9), as a real socket of GTP-U.

package e2e

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/wmnsk/go-pfcp/ie"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/smf"
)

// betweenAddress is that of this end, which is not one of the router: that takes no packets from itself. anchorAddress is that of
// the other user plane, and anchorTEID the TEID of packets to it.
const (
	betweenAddress = "203.0.113.1"
	anchorAddress  = "192.0.2.30"
	anchorTEID     = 3001
	betweenStation = "192.0.2.40"
)

// anchor is the other user plane, with a station of the same session.
type anchor struct {
	*net.UDPConn
	c       *core
	station *mobile.Station
}

// attachBetween establishes a session whose packets enter tunnels in both directions.
func (c *core) attachBetween() *anchor {
	c.t.Helper()
	for _, address := range []string{anchorAddress, betweenStation} {
		c.ran.Run("ip", "addr", "add", address+"/24", "dev", "eth0")
	}
	c.ran.Run("ip", "route", "add", betweenAddress, "via", n3Address)
	c.Do("u local-address add " + betweenAddress)
	c.Do("u local-address del " + n3Address)
	ue := netip.MustParseAddr(ueAddress)
	rules := []*ie.IE{
		smf.PDR{ID: 1, Precedence: 100, Source: ie.SrcInterfaceAccess, Choose: true, UE4: ue, FAR: 1}.Create(),
		smf.PDR{ID: 2, Precedence: 100, Source: ie.SrcInterfaceCore, Choose: true, UE4: ue, FAR: 2, QERs: []uint32{2}}.Create(),
		smf.FAR{ID: 1, Action: smf.Forward, Destination: ie.DstInterfaceCore, Peer: netip.MustParseAddr(anchorAddress), TEID: anchorTEID}.Create(),
		smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(betweenStation), TEID: 1025}.Create(),
		smf.QER(2, 0, 0, 9),
	}
	var err error
	if c.session, err = c.smf.Establish(c.t.Context(), 7, rules...); err != nil {
		c.t.Fatal(err)
	}
	c.phone = &mobile.Phone{Uplink: c.session.TEIDs[1], Downlink: 1025, QFI: 9}
	a := &anchor{c: c, station: mobile.NewStation(c.t, c.ran.Namespace, betweenStation, betweenAddress)}
	a.station.Attach(c.ran.Namespace, "phone", c.phone, ueAddress+"/32")
	c.ran.Run("ip", "route", "add", "198.51.100.0/24", "dev", "phone", "src", ueAddress)
	c.ran.Must(func() (err error) {
		a.UDPConn, err = net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.MustParseAddrPort(anchorAddress+":2152")))
		return err
	})
	c.t.Cleanup(func() { _ = a.Close() })
	return a
}

// sends sends a message.
func (a *anchor) sends(m gtpu.Message) {
	a.c.t.Helper()
	b, err := m.Append(nil)
	if err == nil {
		_, err = a.WriteToUDPAddrPort(b, netip.MustParseAddrPort(betweenAddress+":2152"))
	}
	if err != nil {
		a.c.t.Fatal(err)
	}
}

// numbers sends the numbered datagrams from first to last to the phone.
func (a *anchor) numbers(first, last uint32) {
	a.c.t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for i := first; i < last; i++ {
		payload := binary.BigEndian.AppendUint32(nil, i)
		a.sends(gtpu.Message{Type: gtpu.PDU, TEID: a.c.session.TEIDs[2], Payload: mobile.Datagram(webServer, ueAddress, 53, 5000, payload, 0)})
		if i%20 == 19 {
			<-tick.C
		}
	}
}

// TestAnEndMarkerPassesBetweenUserPlanes: the station gets it after all packets, also after those that have waited.
func TestAnEndMarkerPassesBetweenUserPlanes(t *testing.T) {
	onEachUserPlane(t, func(t *testing.T, c *core) {
		a := c.attachBetween()
		n := c.numbers()
		const first = 1 << 30 // of packets that come before those that are counted
		b := make([]byte, 2048)
		c.eventually(func() error { // the router knows both neighbours once packets have come from and to the phone
			c.ran.Must(func() error {
				conn, err := net.Dial("udp", webServer+":53")
				if err != nil {
					return err
				}
				_, err = conn.Write([]byte("question"))
				return errors.Join(err, conn.Close())
			})
			_ = a.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			size, err := a.Read(b)
			if err != nil {
				return err
			}
			if m, err := gtpu.Parse(b[:size]); err != nil || m.Type != gtpu.PDU || m.TEID != anchorTEID {
				return fmt.Errorf("the other user plane gets %+v, %w", m, err)
			}
			a.numbers(first, first+1)
			_ = n.in.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
			_, err = n.in.Read(b)
			return err
		})
		ends := func(want ...uint32) {
			t.Helper()
			c.eventually(func() error {
				if got := a.station.Ends(); !slices.Equal(got, want) {
					return fmt.Errorf("the station has got End Markers %v, want %v", got, want)
				}
				return nil
			})
			if late := a.station.AfterEnd(); late > 0 {
				t.Errorf("%d packets came to the station after the End Marker", late)
			}
		}
		come := func(from, to uint32) {
			t.Helper()
			for i := from; i < to; {
				_ = n.in.SetReadDeadline(time.Now().Add(patience))
				size, err := n.in.Read(b)
				if err != nil || size < 4 {
					t.Fatalf("packet %d: %d bytes, %v", i, size, err)
				}
				switch got := binary.BigEndian.Uint32(b); got {
				case first:
				case i:
					i++
				default:
					t.Fatalf("packet %d comes instead of %d", got, i)
				}
			}
		}
		a.numbers(0, 200)
		a.sends(gtpu.End(c.session.TEIDs[2]))
		come(0, 200)
		ends(1025)

		c.modify(smf.FAR{ID: 2, Action: smf.Buffer | smf.Notify}.Update())
		a.numbers(200, 300)
		a.sends(gtpu.End(c.session.TEIDs[2]))
		c.eventually(func() error {
			if r := strings.TrimSpace(c.Do("u show buffer packets")); r != "101" {
				return fmt.Errorf("%s wait, want 100 packets and an End Marker", r)
			}
			return nil
		})
		a.station.Expect(c.phone, 1026)
		c.modify(smf.FAR{ID: 2, Action: smf.Forward, Destination: ie.DstInterfaceAccess, Peer: netip.MustParseAddr(betweenStation), TEID: 1026}.Update())
		come(200, 300)
		ends(1025, 1026)
	})
}
