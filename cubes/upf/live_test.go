// SPDX-License-Identifier: Apache-2.0

package upf_test

// Packets on wires: those that wait, End Markers, and queues.

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestPacketsWaitForTheirDevice(t *testing.T) {
	each(t, `,"buffered-packets":20`, func(t *testing.T, c *core) {
		wires := c.Wires()
		s := session()
		s.Rules[1].Forward.Action, s.Rules[1].Forward.Notify = pdusession.Wait, true
		rows := c.put(nil, s)
		numbered := func(i byte) []byte { return network(mobile.Datagram(server, phone, 53, 1000, []byte{i}, 0x40)) }
		send := func(first, last byte) {
			t.Helper()
			for i := first; i <= last; i++ {
				if err := wires[1].Send(numbered(i)); err != nil {
					t.Fatal(err)
				}
			}
		}
		waiting := func(n int) {
			t.Helper()
			netns.Eventually(t, bpftest.Patience, func() error {
				if got := c.Read("u buffer packets"); got != fmt.Sprint(n) {
					return fmt.Errorf("%s packets wait, want %d: %s", got, n, c.Read("u buffer"))
				}
				return nil
			})
		}
		arrive := func(first, last byte, teid uint32) {
			t.Helper()
			for i := first; i <= last; i++ {
				got, err := wires[0].Recv(isTunnel, bpftest.Patience)
				if err != nil {
					t.Fatalf("packet %d: %v", i, err)
				}
				is, err := mobile.ReadTunnel(got)
				if err != nil || is.Message.TEID != teid || is.Message.Payload[28] != i {
					t.Fatalf("packet %d: %+v, %v", i, is, err)
				}
			}
		}
		send(1, 20)
		waiting(20)
		send(21, 25) // too many
		if got := c.notices(1); got[0].Kind != pdusession.Waiting || got[0].Block != rows.Block || got[0].Rule != 1 || got[0].DSCP != 0x10 {
			t.Errorf("%+v", got)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if n := c.Fates("u")["queue-full"]; n != 5 {
				return fmt.Errorf("%d packets were too many, want 5", n)
			}
			return nil
		})
		s.Rules[1].Forward.Action, s.Rules[1].Forward.TEID = pdusession.Pass, 1026
		rows = c.put(rows, s)
		arrive(1, 20, 1026)
		waiting(0)

		// Newer packets follow those that wait.
		s.Rules[1].Forward.Action = pdusession.Wait
		rows = c.put(rows, s)
		send(21, 25)
		waiting(5)
		c.notices(1)
		s.Rules[1].Forward.Action = pdusession.Pass
		rows = c.put(rows, s)
		send(26, 30)
		arrive(21, 30, 1026)
		waiting(0)

		s.Rules[1].Forward.Action = pdusession.Wait
		rows = c.put(rows, s)
		send(31, 33)
		waiting(3)
		s.Rules[1].Forward.Action = pdusession.Drop
		rows = c.put(rows, s)
		waiting(0)
		s.Rules[1].Forward.Action = pdusession.Pass
		rows = c.put(rows, s)
		send(34, 35)
		arrive(34, 35, 1026)
		if got := c.Read("u buffer discarded"); got != "3" {
			t.Errorf("%s were discarded, want 3", got)
		}

		// What waits is lost with the daemon, and does not keep others waiting.
		s.Rules[1].Forward.Action = pdusession.Wait
		rows = c.put(rows, s)
		send(36, 38)
		waiting(3)
		c.Restart(nil)
		s.Rules[1].Forward.Action = pdusession.Pass
		c.put(rows, s)
		send(39, 40)
		arrive(39, 40, 1026)
	})
}

func TestAnEndMarkerIsSentOnRequest(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		c.put(nil, session())
		if err := wires[0].Send(uplink(257, 9, fromPhone(53))); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			_, err := c.TryAction("u end-marker", `{"tunnel-endpoint":"`+station+`","remote-teid":1025}`)
			return err
		})
		if _, err := wires[0].Recv(func(frame []byte) bool {
			if len(frame) < 50 || frame[12] != 8 || frame[23] != 17 {
				return false
			}
			is, err := mobile.ReadTunnel(frame[:14+int(frame[16])<<8+int(frame[17])])
			return err == nil && is.Message.Type == gtpu.EndMarker && is.Message.TEID == 1025
		}, bpftest.Patience); err != nil {
			t.Error(err)
		}
	})
}

// TestPathsGoUpAndDown: a peer that answers Echo Requests is up, and one that does not is down: there is an event of either, and
// polycube-upf is told of the second.
func TestPathsGoUpAndDown(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		c.Set("PATCH", "u", `{"echo-interval":1,"echo-timeout":1,"echo-requests":2}`)
		c.put(nil, session())
		if err := wires[0].Send(uplink(257, 9, fromPhone(53))); err != nil { // tells where the station is
			t.Fatal(err)
		}
		var request gtpu.Message
		if _, err := wires[0].Recv(func(frame []byte) bool {
			if len(frame) < 50 || frame[12] != 8 || frame[23] != 17 {
				return false
			}
			is, err := mobile.ReadTunnel(frame[:14+int(frame[16])<<8+int(frame[17])])
			request = is.Message
			return err == nil && request.Type == gtpu.EchoRequest && request.Sequence != nil
		}, bpftest.Patience); err != nil {
			t.Fatal(err)
		}
		if err := wires[0].Send(mobile.Frame(stationMAC, gatewayMAC, mobile.Message(station, gateway, gtpu.Echo(true, *request.Sequence)))); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			want := []string{"u: peer " + station + " is UP", "u: peer " + station + " is DOWN: it does not answer Echo Requests"}
			if got := c.Events("cube"); !slices.Equal(got, want) {
				return fmt.Errorf("events are %q, want %q", got, want)
			}
			return nil
		})
		if got := c.notices(1); got[0].Kind != pdusession.PathDown || got[0].Peer != addr(station) {
			t.Errorf("notices are %+v", got)
		}
	})
}

// TestGuaranteedPacketsHaveAQueue of their own, where packets leave.
func TestGuaranteedPacketsHaveAQueue(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	c := newCore(t, l, `,"guaranteed-queue":"1:a"`)
	l.Lab.Run("tc", "qdisc", "add", "dev", "veth1", "root", "handle", "1:", "htb", "default", "b")
	for _, class := range []string{"1:a", "1:b"} {
		l.Lab.Run("tc", "class", "add", "dev", "veth1", "parent", "1:", "classid", class, "htb", "rate", "100mbit")
	}
	sent := func(class string) string {
		lines := strings.Split(l.Lab.Run("tc", "-s", "class", "show", "dev", "veth1", "classid", class), "\n")
		for _, line := range lines {
			if words := strings.Fields(line); len(words) > 3 && words[0] == "Sent" {
				return words[3]
			}
		}
		return "nothing"
	}
	wires := c.Wires()
	s := session()
	rows := c.put(nil, s)
	for _, step := range []struct {
		guaranteed bool
		a, b       string
	}{{false, "0", "1"}, {true, "1", "1"}} {
		s.Rules[1].Forward.Guaranteed = step.guaranteed
		rows = c.put(rows, s)
		if err := wires[1].Send(network(toPhone(53))); err != nil {
			t.Fatal(err)
		}
		netns.Eventually(t, bpftest.Patience, func() error {
			if a, b := sent("1:a"), sent("1:b"); a != step.a || b != step.b {
				return fmt.Errorf("guaranteed is %v: %s packets in its queue, %s in the other one, want %s and %s", step.guaranteed, a, b, step.a, step.b)
			}
			return nil
		})
	}
	xdp := bpftest.New(t, bpftest.Options{Type: cube.TypeXDPDRV, Hosts: 1})
	if err := xdp.TryCreate("upf", "u", `{"guaranteed-queue":"1:a"}`); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("at XDP: %v", err)
	}
}

// TestPacketsThatAreTooBigCountOnce: fragments are counted instead of the packet, and one that is answered is not counted.
func TestPacketsThatAreTooBigCountOnce(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		wires := c.Wires()
		s := session()
		s.Usages = []pdusession.Usage{{ID: 1}}
		s.Rules[1].Usages = []uint32{1}
		rows := c.put(nil, s)
		udp := pkt.UDPDatagram(server, phone, 53, 1000, make([]byte, 1472))
		packet := pkt.IPv4Header{From: server, To: phone, Protocol: pkt.ProtoUDP, TTL: 64, ID: 7}.Packet(udp)
		if err := wires[1].Send(network(packet)); err != nil {
			t.Fatal(err)
		}
		bytes := 0
		for range 2 {
			got, err := wires[0].Recv(isTunnel, bpftest.Patience)
			if err != nil {
				t.Fatal(err)
			}
			is, err := mobile.ReadTunnel(got)
			if err != nil {
				t.Fatal(err)
			}
			bytes += len(is.Message.Payload)
		}
		copy(packet, // it may not be fragmented
			pkt.IPv4Header{From: server, To: phone, Protocol: pkt.ProtoUDP, TTL: 64, ID: 8, Fragment: 0x4000}.Packet(udp)[:20])
		if err := wires[1].Send(network(packet)); err != nil {
			t.Fatal(err)
		}
		if _, err := wires[1].Recv(func(frame []byte) bool { return len(frame) > 34 && frame[23] == 1 && frame[34] == 3 }, bpftest.Patience); err != nil {
			t.Errorf("no ICMP error has come: %v", err)
		}
		if n, err := c.tables.Counts(rows.Usages[1]); err != nil || n.DownPackets != 2 || n.Down != uint64(bytes) || bytes != len(packet)+20 {
			t.Errorf("%+v was counted, %v; %d bytes came out", n, err, bytes)
		}
	})
}

// TestMorePacketsDoNotWait than the buffer has room for; the others are counted.
func TestMorePacketsDoNotWait(t *testing.T) {
	each(t, `,"buffered-bytes":65536`, func(t *testing.T, c *core) {
		wires := c.Wires()
		s := session()
		s.Rules[1].Forward.Action = pdusession.Wait
		c.put(nil, s)
		frame := network(mobile.Datagram(server, phone, 53, 1000, make([]byte, 1400), 0))
		const sent = 60
		for range sent {
			if err := wires[1].Send(frame); err != nil {
				t.Fatal(err)
			}
		}
		room := 65536 / len(frame)
		netns.Eventually(t, bpftest.Patience, func() error {
			if waiting, over := c.Read("u buffer packets"), c.Read("u buffer overflowed"); waiting != fmt.Sprint(room) || over != fmt.Sprint(sent-room) {
				return fmt.Errorf("%s packets wait and %s were too many, want %d and %d", waiting, over, room, sent-room)
			}
			return nil
		})
	})
}

// TestSoManyPacketsWaitByDefault: 512 of a rule, and 64 MB in all. Both limits are reached, and what is above them is counted.
func TestSoManyPacketsWaitByDefault(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(string(typ), func(t *testing.T) {
			const perRule, above, room = 512, 10, 64 << 20
			c := newCore(t, bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2}), "")
			wires := c.Wires()
			frame := func(i int) []byte {
				return network(mobile.Datagram(server, fmt.Sprintf("10.1.1.%d", i), 53, 1000, make([]byte, 1472), 0))
			}
			fit := room / len(frame(0))
			b := c.tables.Begin()
			for i := range fit/perRule + 1 {
				s := &pdusession.Session{IPv4: netip.AddrFrom4([4]byte{10, 1, 1, byte(i)}), Rules: []pdusession.Rule{{ID: 1, Forward: pdusession.Forward{Action: pdusession.Wait}}}}
				if _, err := b.Put(nil, s); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := b.Commit(); err != nil {
				t.Fatal(err)
			}
			for i := range fit/perRule + 1 {
				for range perRule + above {
					if err := wires[1].Send(frame(i)); err != nil {
						t.Fatal(err)
					}
				}
				sent := (i + 1) * (perRule + above)
				netns.Eventually(t, bpftest.Patience, func() error {
					waiting, over, full := c.Read("u buffer packets"), c.Read("u buffer overflowed"), c.Fates("u")["queue-full"]
					want, many := (i+1)*perRule, "0"
					if want > fit { // a packet that finds no room leaves its place to another one of its rule
						want, many = fit, fmt.Sprint(uint64(sent-fit)-full)
					}
					if waiting != fmt.Sprint(want) || over != many || many == "0" && full != uint64(above*(i+1)) {
						return fmt.Errorf("of %d packets %s wait, %s were too many in all and %d for their rules, want %d and %s", sent, waiting, over, full, want, many)
					}
					return nil
				})
			}
			if over := c.Read("u buffer overflowed"); over == "0" {
				t.Error("no packet was too many")
			}
		})
	}
}

func TestTablesOfACubeThatIsGoneAreNotCurrent(t *testing.T) {
	c := newCore(t, bpftest.New(t, bpftest.Options{Hosts: 2}), "")
	c.put(nil, session())
	c.Restart(nil)
	if !c.tables.Current() {
		t.Error("the tables are other ones after a restart of the daemon")
	}
	c.Detach("u", "f:p1")
	c.Set("DELETE", "u", "")
	if c.tables.Current() {
		t.Error("the tables of a cube that is gone are current")
	}
	c.Create("upf", "u", `{}`)
	if c.tables.Current() {
		t.Error("the tables of a former cube are current")
	}
}

// isTunnel reports whether a frame is one of GTP-U over IPv4.
func isTunnel(frame []byte) bool {
	return len(frame) > 60 && frame[12] == 8 && frame[13] == 0 && frame[23] == pkt.ProtoUDP
}
