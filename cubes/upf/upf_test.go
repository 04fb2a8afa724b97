// SPDX-License-Identifier: Apache-2.0

package upf_test

// What becomes of the packets of sessions: frames through the programs, with tables that are written as polycube-upf does.

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"testing"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/sdf"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // registers the cube, and what it is attached to
	"github.com/polycube/polycube/test/mobile"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// Base stations are behind veth1, the network is behind veth2.
const (
	gateway, station   = "192.0.2.1", "192.0.2.10"
	gateway6, station6 = "2001:db8:a::1", "2001:db8:a::10"
	anchor             = "192.0.2.30" // another user plane function
	stationMAC         = "02:00:00:00:00:0a"
	gatewayMAC         = "02:00:00:00:00:01"
	nextHopMAC         = "02:00:00:00:00:02"
	server, server6    = "198.51.100.1", "2001:db8:ffff::1"
	phone, phone6      = "10.1.0.1", "2001:db8:0:1::77"
)

const conf = `"echo-interval":0,"local-address":[{"address":"` + gateway + `"},{"address":"` + gateway6 + `"}],
	"max-sessions":100,"max-rules":400,"max-meters":100,"max-usages":100,"max-flow-lists":10`

// core is a forwarder with a cube u on its first port, and the tables of that.
type core struct {
	*bpftest.Lab
	t      testing.TB
	tables *pdusession.Tables
}

func newCore(t testing.TB, l *bpftest.Lab, more string) *core {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("upf", "u", `{`+conf+more+`}`)
	l.Attach("u", "f:p1")
	c := &core{Lab: l, t: t}
	c.open()
	return c
}

// open opens the tables.
func (c *core) open() {
	c.t.Helper()
	tables, err := pdusession.Open(c.PinsOf("u"))
	if err != nil {
		c.t.Fatal(err)
	}
	c.tables = tables
	c.t.Cleanup(func() {
		if err := tables.Close(); err != nil {
			c.t.Error(err)
		}
	})
}

func each(t *testing.T, more string, test func(t *testing.T, c *core)) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) { test(t, newCore(t, l, more)) })
}

// put puts a session; was is nil for a new one.
func (c *core) put(was *pdusession.Rows, s *pdusession.Session) *pdusession.Rows {
	c.t.Helper()
	b := c.tables.Begin()
	rows, err := b.Put(was, s)
	if err == nil {
		_, err = b.Commit()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return rows
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

// session is one with a tunnel in each direction.
func session() *pdusession.Session {
	return &pdusession.Session{
		IPv4: addr(phone), IPv6: netip.MustParsePrefix("2001:db8:0:1::/64"),
		Rules: []pdusession.Rule{
			{ID: 1, TEID: 257, Forward: pdusession.Forward{Action: pdusession.Pass}},
			{ID: 2, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: addr(station), TEID: 1025, QFI: 9}},
		},
	}
}

// uplink is a packet in a tunnel, as a frame.
func uplink(teid uint32, qfi uint8, packet []byte) []byte {
	m := gtpu.Message{Type: gtpu.PDU, TEID: teid, Payload: packet}
	if qfi != 0 {
		m.Extensions = []gtpu.Extension{gtpu.Session{Uplink: true, QFI: qfi}.Extension()}
	}
	return mobile.Frame(stationMAC, gatewayMAC, mobile.Message(station, gateway, m))
}

// packets from and to the phone.
func fromPhone(port uint16) []byte {
	return mobile.Datagram(phone, server, 1000, port, []byte("question"), 0)
}
func toPhone(port uint16) []byte {
	return mobile.Datagram(server, phone, port, 1000, []byte("answer"), 0xb9)
}

// fate checks what becomes of a frame: the port that sends it, or the reason for which it is dropped.
func (c *core) fate(what, dev string, frame []byte, want string) []byte {
	c.t.Helper()
	outcome, got := c.RunBytes(dev, frame)
	if want == "slowpath" {
		outcome.Sent = "" // user space may have answered already
	}
	is := bpftest.Outcome{Verdict: "drop", Fate: "u " + want}
	if want == "p1" || want == "p2" {
		is = bpftest.Outcome{Verdict: "send", Sent: "f:" + want}
	}
	if outcome != is {
		c.t.Errorf("%s: %+v, want %+v", what, outcome, is)
	}
	return got
}

// leaves checks that a packet comes out of its tunnel.
func (c *core) leaves(what string, teid uint32, qfi uint8, packet []byte) {
	c.t.Helper()
	if got := c.fate(what, "veth1", uplink(teid, qfi, packet), "p2"); !bytes.Equal(got[14:], packet) {
		c.t.Errorf("%s:\n got %x\nwant %x", what, got[14:], packet)
	}
}

// enters checks that a packet for the phone enters a tunnel, and returns that.
func (c *core) enters(what string, packet []byte, to string, teid uint32, qfi uint8) mobile.Tunnelled {
	c.t.Helper()
	got := c.fate(what, "veth2", mobile.Frame(gatewayMAC, nextHopMAC, packet), "p1")
	is, err := mobile.ReadTunnel(got)
	if err != nil {
		c.t.Fatalf("%s: %v", what, err)
	}
	from := gateway
	if addr(to).Is6() {
		from = gateway6
	}
	s, has := is.Message.Session()
	if is.From != addr(from) || is.To != addr(to) || is.Message.TEID != teid || has != (qfi != 0) || s.QFI != qfi || s.Uplink || !bytes.Equal(is.Message.Payload, packet) {
		c.t.Errorf("%s: %+v, want a tunnel from %s to %s with TEID %d and QFI %d", what, is, from, to, teid, qfi)
	}
	return is
}

func network(dev []byte) []byte { return mobile.Frame(gatewayMAC, nextHopMAC, dev) }

func TestPacketsFollowTheRulesOfTheirSession(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		c.fate("nobody's", "veth2", network(toPhone(53)), "p1")
		s := session()
		rows := c.put(nil, s)
		c.leaves("IPv4", 257, 9, fromPhone(53))
		c.leaves("IPv6", 257, 0, mobile.Datagram(phone6, server6, 1000, 53, []byte("question"), 0))
		c.fate("a stranger's address", "veth1", uplink(257, 9, mobile.Datagram("10.1.0.2", server, 1, 2, nil, 0)), "spoofed-source")
		is := c.enters("IPv4", toPhone(53), station, 1025, 9)
		if is.TOS != 0xb9 || is.ToMAC != fmt.Sprintf("% x", []byte{2, 0, 0, 0, 0, 0x0a}) {
			t.Errorf("DSCP, or the MAC address that the station was heard from: %+v", is)
		}
		c.enters("IPv6", mobile.Datagram(server6, phone6, 53, 1000, []byte("answer"), 0), station, 1025, 9)

		s.Rules[1].Forward = pdusession.Forward{Action: pdusession.Pass, Peer: addr(station6), TEID: 1026, Mark: true, DSCP: 10}
		rows = c.put(rows, s)
		if is := c.enters("another tunnel", toPhone(53), station6, 1026, 0); is.TOS != 10<<2|1 {
			t.Errorf("DSCP of the tunnel: %#x, want that of the rule and the packet's ECN", is.TOS)
		}
		s.Rules[0].Forward.Action, s.Rules[1].Forward.Action = pdusession.Drop, pdusession.Drop
		rows = c.put(rows, s)
		c.fate("dropped", "veth1", uplink(257, 9, fromPhone(53)), "rule-drops")
		c.fate("dropped", "veth2", network(toPhone(53)), "rule-drops")

		b := c.tables.Begin()
		if err := b.Remove(rows); err != nil {
			t.Fatal(err)
		}
		if _, err := b.Commit(); err != nil {
			t.Fatal(err)
		}
		c.fate("gone", "veth2", network(toPhone(53)), "p1")
		if outcome, _ := c.RunBytes("veth1", uplink(257, 9, fromPhone(53))); outcome.Fate != "u slowpath" { // the answer may be sent by now
			t.Errorf("a tunnel that is gone: %+v", outcome)
		}
	})
}

func TestTheFirstRuleWhoseFlowsMatchDecides(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		web, dns, udp := ports(443), ports(53), uint8(17)
		five := uint8(5)
		pass := func(teid uint32) pdusession.Forward {
			return pdusession.Forward{Action: pdusession.Pass, Peer: addr(station), TEID: teid}
		}
		s := session()
		s.Rules = []pdusession.Rule{
			{ID: 1, TEID: 257, Flows: []sdf.Flow{{RemotePort: web}, {QFI: &five}}, Forward: pdusession.Forward{Action: pdusession.Drop}},
			{ID: 2, Flows: []sdf.Flow{{RemotePort: web}}, Forward: pass(443)},
			{ID: 3, Flows: []sdf.Flow{{L4Proto: &udp, RemotePort: dns}}, Forward: pass(53)},
			{ID: 4, TEID: 257, Forward: pdusession.Forward{Action: pdusession.Pass}},
		}
		c.put(nil, s)
		c.leaves("no flow of the first rule", 257, 9, fromPhone(53))
		c.fate("a port", "veth1", uplink(257, 9, fromPhone(443)), "rule-drops")
		c.fate("a QFI", "veth1", uplink(257, 5, fromPhone(53)), "rule-drops")
		c.enters("web", toPhone(443), station, 443, 0)
		c.enters("DNS", toPhone(53), station, 53, 0)
		c.fate("no rule", "veth2", network(toPhone(54)), "no-rule")
	})
}

func ports(port uint16) *inet.Ports { return &inet.Ports{First: port, Last: port} }

func TestTunnelsToOtherUserPlanes(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		s := session()
		s.Rules = []pdusession.Rule{
			{ID: 1, TEID: 257, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: addr(anchor), TEID: 3001, QFI: 9}},
			{ID: 2, TEID: 258, FromNetwork: true, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: addr(station), TEID: 1025, QFI: 9}},
		}
		c.put(nil, s)
		for what, way := range map[string]struct {
			teid    uint32
			packet  []byte
			to      string
			enters  uint32
			uplinks bool
		}{"up": {257, fromPhone(53), anchor, 3001, true}, "down": {258, toPhone(53), station, 1025, false}} {
			is, err := mobile.ReadTunnel(c.fate(what, "veth1", uplink(way.teid, 9, way.packet), "p2"))
			session, _ := is.Message.Session()
			if err != nil || is.To != addr(way.to) || is.Message.TEID != way.enters || session.Uplink != way.uplinks || !bytes.Equal(is.Message.Payload, way.packet) {
				t.Errorf("%s: %+v, %v", what, is, err)
			}
		}
		c.fate("down, to a stranger", "veth1", uplink(258, 9, mobile.Datagram(server, "10.1.0.2", 1, 2, nil, 0)), "spoofed-source")
		c.fate("down, from the phone", "veth1", uplink(258, 9, fromPhone(53)), "spoofed-source")
	})
}

func TestNetworksBehindADevice(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		s := session()
		s.Routes = []netip.Prefix{netip.MustParsePrefix("10.5.0.0/16"), netip.MustParsePrefix("2001:db8:5::/48")}
		rows := c.put(nil, s)
		for _, way := range [][2]string{{"10.5.6.7", server}, {"2001:db8:5:6::7", server6}} {
			c.leaves("from "+way[0], 257, 9, mobile.Datagram(way[0], way[1], 1000, 53, nil, 0))
			c.enters("to "+way[0], mobile.Datagram(way[1], way[0], 53, 1000, nil, 0), station, 1025, 9)
		}
		other := session()
		other.IPv4, other.IPv6, other.Rules[0].TEID = addr("10.1.0.2"), netip.Prefix{}, 258
		other.Routes = []netip.Prefix{netip.MustParsePrefix("10.5.6.0/24")}
		c.put(nil, other)
		c.fate("another device's network", "veth1", uplink(257, 9, mobile.Datagram("10.5.6.7", server, 1, 2, nil, 0)), "spoofed-source")
		c.leaves("the longest prefix", 258, 9, mobile.Datagram("10.5.6.7", server, 1, 2, nil, 0))
		s.Routes = s.Routes[:1]
		c.put(rows, s)
		c.fate("not any more", "veth2", network(mobile.Datagram(server6, "2001:db8:5:6::7", 53, 1000, nil, 0)), "p1")
		c.fate("not any more", "veth1", uplink(257, 9, mobile.Datagram("2001:db8:5:6::7", server6, 1, 2, nil, 0)), "spoofed-source")
	})
}

// TestRouterSolicitationsGoToTheCore: their addresses are those of the link, and so are those of the answers.
func TestRouterSolicitationsGoToTheCore(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		icmp, routers := uint8(58), netip.MustParsePrefix("ff02::2/128")
		s := session()
		s.Rules = append([]pdusession.Rule{
			{ID: 8, TEID: 257, Flows: []sdf.Flow{{L4Proto: &icmp, Remote: &routers}}, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: addr(anchor), TEID: 77}},
			{ID: 9, TEID: 300, FromNetwork: true, Forward: pdusession.Forward{Action: pdusession.Pass, Peer: addr(station), TEID: 1025, QFI: 9}},
		}, s.Rules...)
		c.put(nil, s)
		message := func(from, to string, kind byte) []byte {
			return pkt.IPv6Header{From: from, To: to, Next: 58, HopLimit: 255}.Packet(pkt.ICMPv6Message(from, to, kind, 0, 0, nil))
		}
		solicitation := message("fe80::5", "ff02::2", 133)
		is, err := mobile.ReadTunnel(c.fate("a solicitation", "veth1", uplink(257, 9, solicitation), "p2"))
		if err != nil || is.To != addr(anchor) || is.Message.TEID != 77 || !bytes.Equal(is.Message.Payload, solicitation) {
			t.Errorf("%+v, %v", is, err)
		}
		for _, to := range []string{"fe80::5", "ff02::1"} {
			advertisement := message("fe80::1", to, 134)
			is, err = mobile.ReadTunnel(c.fate("an advertisement", "veth1", uplink(300, 0, advertisement), "p2"))
			if err != nil || is.To != addr(station) || is.Message.TEID != 1025 || !bytes.Equal(is.Message.Payload, advertisement) {
				t.Errorf("%+v, %v", is, err)
			}
		}
		c.fate("a multicast source", "veth1", uplink(257, 9, message("ff02::1", "ff02::2", 133)), "spoofed-source")
	})
}

func TestMetersLimitAndClose(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		s := session()
		s.Meters = []pdusession.Meter{{ID: 1, Up: pdusession.Rate{Closed: true}}, {ID: 2, Down: pdusession.Rate{Limited: true, BitsPerSecond: 8000}}}
		s.Rules[0].Meters, s.Rules[1].Meters = []uint32{2, 1}, []uint32{1, 2}
		rows := c.put(nil, s)
		c.fate("closed", "veth1", uplink(257, 9, fromPhone(53)), "gate-closed")
		large := mobile.Datagram(server, phone, 53, 1000, make([]byte, 1400), 0)
		passed := 0
		for range 200 {
			outcome, _ := c.RunBytes("veth2", network(large))
			if outcome.Verdict == "send" {
				passed++
			} else if outcome.Fate != "u exceeded" {
				t.Fatalf("%+v", outcome)
			}
		}
		if burst := 2 * 65536 / len(large); passed < burst || passed > burst+5 {
			t.Errorf("%d passed, the burst is %d", passed, burst)
		}
		s.Meters[0].Up.Closed, s.Meters[1].Down.Limited = false, false
		c.put(rows, s)
		c.leaves("open", 257, 9, fromPhone(53))
		c.enters("unlimited", toPhone(53), station, 1025, 9)
	})
}

// notices reads what programs have told so far.
func (c *core) notices(want int) (all []pdusession.Notice) {
	c.t.Helper()
	ctx, stop := context.WithTimeout(c.t.Context(), bpftest.Patience)
	defer stop()
	if err := c.tables.Notices(ctx, func(n pdusession.Notice) {
		if all = append(all, n); len(all) >= want {
			stop()
		}
	}); err != nil {
		c.t.Fatal(err)
	}
	if len(all) != want {
		c.t.Errorf("notices %+v, want %d", all, want)
	}
	return all
}

func TestUsagesCountWarnAndBlock(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		up, down := fromPhone(53), toPhone(53)
		n := uint64(len(up))
		s := session()
		s.Usages = []pdusession.Usage{{ID: 1, Start: true, Threshold: pdusession.Volume{Total: 2 * n}}, {ID: 2, Quota: pdusession.Volume{Up: 3 * n}}}
		s.Rules[0].Usages, s.Rules[1].Usages = []uint32{1, 2}, []uint32{1}
		rows := c.put(nil, s)
		for range 3 {
			c.leaves("below the quota", 257, 9, up)
		}
		c.enters("down", down, station, 1025, 9)
		c.fate("the quota is used up", "veth1", uplink(257, 9, up), "quota-used")
		c.fate("and is", "veth1", uplink(257, 9, up), "quota-used")
		counts, err := c.tables.Counts(rows.Usages[1])
		if err != nil || counts.Up != 3*n || counts.UpPackets != 3 || counts.Down != uint64(len(down)) || counts.DownPackets != 1 || counts.First == 0 || counts.Last < counts.First {
			t.Errorf("%+v, %v", counts, err)
		}
		got := c.notices(3)
		for i, kind := range []pdusession.NoticeKind{pdusession.Started, pdusession.ThresholdReached, pdusession.QuotaReached} {
			if got[i].Kind != kind || got[i].Usage != rows.Usages[uint32(1+i/2)] {
				t.Errorf("notice %d is %+v", i, got[i])
			}
		}
		if err := c.tables.Arm(rows.Usages[2], pdusession.Volume{}, pdusession.Volume{Up: 4 * n}); err != nil {
			t.Fatal(err)
		}
		c.leaves("more quota", 257, 9, up)
		c.fate("used up again", "veth1", uplink(257, 9, up), "quota-used")
		c.notices(1)
		seen, err := c.tables.Seen(rows)
		if err != nil || seen == 0 {
			t.Errorf("seen at %v, %v", seen, err)
		}
	})
}

// TestAQuotaIsExceededByAPacketOfEachCPU at most, when all of them send as fast as they can, and the end of the quota is told once.
func TestAQuotaIsExceededByAPacketOfEachCPU(t *testing.T) {
	each(t, "", func(t *testing.T, c *core) {
		up := fromPhone(53)
		size, threads := uint64(len(up)), max(2, runtime.NumCPU())
		s := session()
		s.Usages = []pdusession.Usage{{ID: 1}}
		s.Rules[0].Usages = []uint32{1}
		rows := c.put(nil, s)
		for round := range uint64(5) {
			before, err := c.tables.Counts(rows.Usages[1])
			if err != nil {
				t.Fatal(err)
			}
			quota := before.Up + 100*size - round
			if err := c.tables.Arm(rows.Usages[1], pdusession.Volume{}, pdusession.Volume{Up: quota}); err != nil {
				t.Fatal(err)
			}
			var all sync.WaitGroup
			for range threads {
				all.Go(func() {
					frames := make([][]byte, 200)
					for i := range frames {
						frames[i] = uplink(257, 9, up)
					}
					c.RunAll("veth1", frames)
				})
			}
			all.Wait()
			after, err := c.tables.Counts(rows.Usages[1])
			if most := quota + uint64(threads)*size; err != nil || after.Up < quota || after.Up >= most {
				t.Errorf("with a quota of %d bytes, %d were counted, want less than %d: %v", quota, after.Up, most, err)
			}
			if got := c.notices(1); got[0].Kind != pdusession.QuotaReached {
				t.Errorf("%+v", got)
			}
		}
	})
}

func TestDevicesAreShown(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	c := newCore(t, l, "")
	s := session()
	rows := c.put(nil, s)
	s.Rules[1].Forward.Action = pdusession.Wait
	c.put(rows, s)
	want := map[string]bool{phone: true, "2001:db8:0:1::": true}
	for raw := range l.Entries("u device") {
		for ip := range want {
			if bytes.Contains(raw, []byte(`"`+ip+`"`)) && bytes.Contains(raw, []byte(`"action":"WAIT"`)) && bytes.Contains(raw, []byte(`"remote-teid":1025`)) {
				delete(want, ip)
			}
		}
	}
	if len(want) != 0 {
		t.Errorf("missing %v", want)
	}
	if got := l.Read("u device " + phone + " action"); got != `"WAIT"` {
		t.Error(got)
	}
}
