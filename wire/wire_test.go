// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/polycube/polycube/test/pkt"
)

const hostText, routerText = "02:00:00:00:00:01", "02:00:00:00:00:02"

var host, router = MAC{2, 0, 0, 0, 0, 1}, MAC{2, 0, 0, 0, 0, 2}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func parse(t *testing.T, frame []byte) Packet {
	t.Helper()
	p, err := ParseIP(frame)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func one() *pkt.Frame { return pkt.Eth(hostText, routerText) }

// echo6 is an echo request of IPv6.
func echo6(n int) []byte {
	b := append([]byte{EchoRequest6, 0, 0, 0, 0, 7, 0, 9}, bytes.Repeat([]byte{0x5a}, n)...)
	return frame6(router, host, addr("2001:db8::1"), addr("2001:db8::2"), 64, b)
}

// decoded lets another implementation read a frame: all layers, checksums too.
func decoded(t *testing.T, frame []byte) gopacket.Packet {
	t.Helper()
	p := gopacket.NewPacket(frame, layers.LayerTypeEthernet, gopacket.Default)
	if e := p.ErrorLayer(); e != nil {
		t.Fatalf("%x: %v", frame, e.Error())
	}
	if six, ok := p.Layer(layers.LayerTypeICMPv6).(*layers.ICMPv6); ok {
		if err := six.SetNetworkLayerForChecksum(p.NetworkLayer()); err != nil {
			t.Fatal(err)
		}
	}
	if err, mistakes := p.VerifyChecksums(); err != nil || len(mistakes) > 0 {
		t.Fatalf("checksums of %x: %v %v", frame, mistakes, err)
	}
	return p
}

func TestFramesHaveTheBytesOfTheStandards(t *testing.T) {
	for _, tt := range []struct {
		name  string
		frame []byte
		want  string
	}{
		{"ARP request", WhoHas(addr("10.0.0.2"), Broadcast, addr("10.0.0.1"), host).Frame(),
			"ffffffffffff020000000001080600010800060400010200000000010a0000010000000000000a000002"},
		{"ARP probe", ProbeARP(addr("10.0.0.2"), host).Frame(),
			"ffffffffffff0200000000010806000108000604000102000000000100000000000000000000" + "0a000002"},
		{"ARP announcement", AnnounceARP(addr("10.0.0.2"), host).Frame(),
			"ffffffffffff020000000001080600010800060400010200000000010a0000020000000000000a000002"},
		{"solicitation", Solicit(addr("2001:db8::2"), MAC{}, host, addr("2001:db8::1")).Frame(),
			"3333ff00000202000000000186dd6000000000203aff20010db8000000000000000000000001ff0200000000000000000001ff000002" +
				"87001c270000000020010db8000000000000000000000002" + "0101020000000001"},
		{"probe of duplicates", ProbeND(addr("2001:db8::2"), host).Frame(),
			"3333ff00000202000000000186dd6000000000183aff00000000000000000000000000000000ff0200000000000000000001ff000002" +
				"87004ceb0000000020010db8000000000000000000000002"},
	} {
		if got := hex.EncodeToString(tt.frame); got != tt.want {
			t.Errorf("%s:\n got %s\nwant %s", tt.name, got, tt.want)
		}
		decoded(t, tt.frame)
	}
}

func TestWhatIsWrittenIsRead(t *testing.T) {
	for _, a := range []ARP{
		WhoHas(addr("10.0.0.2"), host, addr("10.0.0.1"), router),
		{To: host, Op: ARPReply, SenderMAC: router, Sender: addr("10.0.0.1"), TargetMAC: host, Target: addr("10.0.0.2")},
	} {
		if got, err := ParseARP(a.Frame()); err != nil || got != a {
			t.Errorf("got %+v %v, want %+v", got, err, a)
		}
	}
	solicit := Solicit(addr("2001:db8::2"), MAC{}, host, addr("2001:db8::1"))
	for _, n := range []ND{
		solicit,
		Solicit(addr("2001:db8::2"), router, host, addr("fe80::1")),
		ProbeND(addr("2001:db8::2"), host),
		solicit.Advertise(router),
		ProbeND(addr("2001:db8::2"), host).Advertise(router),
		AnnounceND(addr("2001:db8::2"), router),
	} {
		if got, err := ParseND(n.Frame()); err != nil || got != n {
			t.Errorf("got %+v %v, want %+v", got, err, n)
		}
	}
}

// broken is a solicitation in which a test breaks something, with a checksum that is right anyway.
func broken(change func(ip, icmp []byte)) []byte {
	f := Solicit(addr("2001:db8::2"), MAC{}, host, addr("2001:db8::1")).Frame()
	ip, icmp := f[ethLen:], f[ethLen+ipv6Len:]
	change(ip, icmp)
	binary.BigEndian.PutUint16(icmp[2:], 0)
	src, dst := netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
	binary.BigEndian.PutUint16(icmp[2:], fold(sum(pseudo(src, dst, len(icmp), ProtoICMPv6), icmp)))
	return f
}

func TestDiscoveryThatBreaksTheRulesIsRefused(t *testing.T) {
	unspecified := func(ip []byte) { clear(ip[8:24]) }
	for name, frame := range map[string][]byte{
		"forwarded":                broken(func(ip, _ []byte) { ip[7] = 254 }),
		"code":                     broken(func(_, icmp []byte) { icmp[1] = 1 }),
		"a group as target":        broken(func(_, icmp []byte) { icmp[8] = 0xff }),
		"a group as source":        broken(func(ip, _ []byte) { ip[8] = 0xff }),
		"an option of no length":   broken(func(_, icmp []byte) { icmp[25] = 0 }),
		"an option beyond the end": broken(func(_, icmp []byte) { icmp[25] = 2 }),
		"a group as MAC":           broken(func(_, icmp []byte) { icmp[26] = 1 }),
		"a probe with an option":   broken(func(ip, _ []byte) { unspecified(ip) }),
		"solicited advertisement to a multicast address": broken(func(_, icmp []byte) { icmp[0], icmp[4], icmp[24] = NeighbourAdvertisement, 0x40, 2 }),
		"echo":                        broken(func(_, icmp []byte) { icmp[0] = EchoRequest6 }),
		"cut":                         broken(func(_, _ []byte) {})[:60],
		"the wrong group for a probe": append([]byte{}, ProbeND(addr("2001:db8::2"), host).Frame()...),
	} {
		if name == "the wrong group for a probe" {
			frame = broken(func(ip, _ []byte) { unspecified(ip); ip[39] = 3 })
		}
		if n, err := ParseND(frame); err == nil {
			t.Errorf("%s: read as %+v", name, n)
		}
	}
	f := broken(func(_, _ []byte) {})
	f[len(f)-1] ^= 1
	if _, err := ParseND(f); err == nil {
		t.Error("a wrong checksum is taken")
	}
	if _, err := ParseARP(ARP{Op: ARPReply, SenderMAC: Broadcast, Sender: addr("10.0.0.1"), Target: addr("10.0.0.2")}.Frame()); err == nil {
		t.Error("an ARP reply of everybody is taken")
	}
}

func TestUDPThatHasNoRoomIsBroken(t *testing.T) {
	const total4, total6 = 2, 4
	for _, six := range []bool{false, true} {
		header, total := ipv4Len, total4
		frame := func() []byte { return one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Payload(10).Bytes() }
		if six {
			header, total = ipv6Len, total6
			frame = func() []byte { return one().IPv6("2001:db8::1", "2001:db8:1::1").UDP(1, 2).Payload(10).Bytes() }
		}
		for _, tt := range []struct {
			what   string
			change func(ip, udp []byte)
			want   bool
		}{
			{"as it is", func(_, _ []byte) {}, false},
			{"a packet with more behind it", func(_, udp []byte) { udp[5] = 8 }, false},
			{"a byte too long", func(_, udp []byte) { udp[5]++ }, true},
			{"far too long", func(_, udp []byte) { udp[4] = 2 }, true},
			{"shorter than its header", func(_, udp []byte) { udp[5] = 7 }, true},
			{"no length", func(_, udp []byte) { udp[5] = 0 }, !six},
			{"a packet too short for it", func(ip, _ []byte) { ip[total+1]-- }, true},
			{"a packet too short for its header", func(ip, _ []byte) { ip[total+1] -= 11 }, true},
			{"another protocol", func(ip, udp []byte) {
				udp[5]++
				ip[map[bool]int{false: 9, true: 6}[six]] = 253
			}, false},
		} {
			f := frame()
			tt.change(f[ethLen:], f[ethLen+header:])
			p, err := ParseIP(f)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.BrokenUDP(); got != tt.want {
				t.Errorf("IPv6 %v, %s: broken %v, want %v", six, tt.what, got, tt.want)
			}
		}
		f := frame()
		p, err := ParseIP(f[:len(f)-5]) // the slow path returns less than there was
		if err != nil || p.BrokenUDP() {
			t.Errorf("IPv6 %v, cut by the slow path: %v", six, err)
		}
	}
}

func TestErrorsQuoteThePacketAndTellTheMTU(t *testing.T) {
	v4 := func(n int) []byte {
		return one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Payload(n).Bytes()
	}
	v6 := func(n int) []byte {
		return one().IPv6("2001:db8::1", "2001:db8:1::1").TCP(1, 2, pkt.TCPFlags{}).Payload(n).Bytes()
	}
	for _, tt := range []struct {
		name       string
		frame      []byte
		e          Error
		typ, code  uint8
		rest       uint32
		quoted, ip int
	}{
		{"v4 time exceeded", v4(10), Error{Kind: TimeExceeded}, 11, 0, 0, 38, 66},
		{"v4 no route", v4(10), Error{Kind: NoRoute}, 3, 0, 0, 38, 66},
		{"v4 no neighbour", v4(10), Error{Kind: NoNeighbour}, 3, 1, 0, 38, 66},
		{"v4 prohibited", v4(10), Error{Kind: Prohibited}, 3, 13, 0, 38, 66},
		{"v4 no port", v4(10), Error{Kind: NoPort}, 3, 3, 0, 38, 66},
		{"v4 too big", v4(1400), Error{Kind: TooBig, MTU: 1280}, 3, 4, 1280, 548, 576},
		{"v6 time exceeded", v6(10), Error{Kind: TimeExceeded}, 3, 0, 0, 70, 118},
		{"v6 no route", v6(10), Error{Kind: NoRoute}, 1, 0, 0, 70, 118},
		{"v6 no neighbour", v6(10), Error{Kind: NoNeighbour}, 1, 3, 0, 70, 118},
		{"v6 prohibited", v6(10), Error{Kind: Prohibited}, 1, 1, 0, 70, 118},
		{"v6 beyond scope", v6(10), Error{Kind: BeyondScope}, 1, 2, 0, 70, 118},
		{"v6 no protocol", v6(10), Error{Kind: NoProtocol}, 4, 1, 6, 70, 118},
		{"v6 too big", v6(1400), Error{Kind: TooBig, MTU: 1280}, 2, 0, 1280, 1232, 1280},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, tt.frame)
			tt.e.From = addr("10.0.0.254")
			if p.V6() {
				tt.e.From = addr("2001:db8::fe")
			}
			got := tt.e.Frame(&p, host, router)
			decoded(t, got)
			q := parse(t, got)
			b := q.Payload
			if q.Dst != p.Src || q.Src != tt.e.From || len(q.Data) != tt.ip {
				t.Errorf("from %s to %s, %d bytes", q.Src, q.Dst, len(q.Data))
			}
			if b[0] != tt.typ || b[1] != tt.code || binary.BigEndian.Uint32(b[4:]) != tt.rest {
				t.Errorf("type %d code %d rest %d", b[0], b[1], binary.BigEndian.Uint32(b[4:]))
			}
			if !bytes.Equal(b[icmpLen:], p.Data[:tt.quoted]) {
				t.Errorf("%d bytes are quoted, want %d", len(b)-icmpLen, tt.quoted)
			}
			if q.Answerable(TimeExceeded) {
				t.Error("an error could be answered by an error")
			}
		})
	}
}

func TestWhatMayNotBeAnswered(t *testing.T) {
	fragment := func(offset uint16) []byte {
		f := one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Payload(64).Bytes()
		setFragment(f[ethLen:], offset, true)
		return f
	}
	for _, tt := range []struct {
		name  string
		frame []byte
		kind  Kind
		want  bool
	}{
		{"UDP", one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Bytes(), TimeExceeded, true},
		{"echo", one().IPv4("10.0.0.1", "192.0.2.1").Echo(1, 2).Bytes(), TimeExceeded, true},
		{"to a group of stations", pkt.Eth(hostText, "01:00:5e:00:00:05").IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"to multicast", one().IPv4("10.0.0.1", "224.0.0.5").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"to broadcast", one().IPv4("10.0.0.1", "255.255.255.255").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"from nobody", one().IPv4("0.0.0.0", "192.0.2.1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"from loopback", one().IPv4("127.0.0.1", "192.0.2.1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"from multicast", one().IPv4("224.0.0.1", "192.0.2.1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"the first fragment", fragment(0), TimeExceeded, true},
		{"a later fragment", fragment(8), TimeExceeded, false},
		{"v6 UDP", one().IPv6("2001:db8::1", "2001:db8:1::1").UDP(1, 2).Bytes(), TimeExceeded, true},
		{"v6 echo", echo6(8), TimeExceeded, true},
		{"v6 to multicast", one().IPv6("2001:db8::1", "ff0e::1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"v6 to multicast, too big", one().IPv6("2001:db8::1", "ff0e::1").UDP(1, 2).Bytes(), TooBig, true},
		{"v6 from nobody", one().IPv6("::", "2001:db8:1::1").UDP(1, 2).Bytes(), TimeExceeded, false},
		{"v6 from multicast", one().IPv6("ff02::1", "2001:db8:1::1").UDP(1, 2).Bytes(), TooBig, false},
	} {
		p := parse(t, tt.frame)
		if got := p.Answerable(tt.kind); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestEchoIsAnsweredInThePiecesInWhichItCame(t *testing.T) {
	whole4 := one().IPv4("10.0.0.1", "10.0.0.2").Echo(7, 9).Payload(3000).Bytes()
	p := parse(t, whole4)
	if !p.Echo() {
		t.Fatal("an echo request is none")
	}
	want := p.EchoReply(host, router)
	decoded(t, want)
	pieces, err := p.Fragments(1500)
	if err != nil {
		t.Fatal(err)
	}
	var body []byte
	for i, f := range pieces {
		q := parse(t, f)
		if got := q.Echo(); got != (i == 0) {
			t.Errorf("piece %d is an echo request: %v", i, got)
		}
		r := parse(t, q.EchoReply(host, router))
		if r.Offset != q.Offset || r.More != q.More || r.ID != q.ID || r.Src != q.Dst || fold(sum(0, r.Data[:r.header])) != 0 {
			t.Errorf("piece %d: %+v answers %+v", i, r, q)
		}
		body = append(body, r.Payload...)
	}
	if !bytes.Equal(body, parse(t, want).Payload) {
		t.Error("the pieces are not the answer to the whole")
	}
	six := parse(t, echo6(100))
	answer := six.EchoReply(host, router)
	decoded(t, answer)
	if r := parse(t, answer); !six.Echo() || r.Payload[0] != echoReply6 || r.Dst != six.Src || Destination(answer) != host {
		t.Errorf("the answer is %+v", r)
	}
	whole4[len(whole4)-1] ^= 1
	if p := parse(t, whole4); p.Echo() {
		t.Error("a wrong checksum is taken")
	}
}

func TestFragmentsMakeThePacketAgain(t *testing.T) {
	for _, tt := range []struct{ payload, mtu, pieces int }{{1500, 1500, 2}, {3000, 1500, 3}, {100, 68, 3}, {100, 576, 1}, {1472, 1280, 2}} {
		p := parse(t, one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Payload(tt.payload).Bytes())
		pieces, err := p.Fragments(tt.mtu)
		if err != nil || len(pieces) != tt.pieces {
			t.Fatalf("%+v: %d pieces, %v", tt, len(pieces), err)
		}
		var again []byte
		for i, f := range pieces {
			q := parse(t, f)
			if len(q.Data) > tt.mtu || int(q.Offset) != len(again) || q.More != (i < len(pieces)-1) || q.ID != p.ID || fold(sum(0, q.Data[:q.header])) != 0 {
				t.Errorf("%+v: piece %d is %+v", tt, i, q)
			}
			again = append(again, q.Payload...)
		}
		if !bytes.Equal(again, p.Payload) {
			t.Errorf("%+v: the pieces are something else", tt)
		}
	}
}

func TestOptionsAreCopiedWhereTheySaySo(t *testing.T) {
	f := one().IPv4("10.0.0.1", "192.0.2.1").UDP(1, 2).Payload(200).Bytes()
	options := []byte{1, 0x94, 4, 0, 0, 7, 3, 0} // no operation, router alert (copied), record route (not)
	f = slices.Insert(f, ethLen+ipv4Len, options...)
	f[ethLen] = 0x47
	binary.BigEndian.PutUint16(f[ethLen+2:], uint16(len(f)-ethLen))
	p := parse(t, f)
	pieces, err := p.Fragments(128)
	if err != nil {
		t.Fatal(err)
	}
	if first := parse(t, pieces[0]); !bytes.Equal(first.Data[20:28], options) {
		t.Errorf("the first has options %x", first.Data[20:first.header])
	}
	if second := parse(t, pieces[1]); !bytes.Equal(second.Data[20:second.header], options[1:5]) {
		t.Errorf("the second has options %x", second.Data[20:second.header])
	}
}

func TestAddressesOfLinks(t *testing.T) {
	if got := LinkLocal(MAC{0x02, 0x11, 0x22, 0x33, 0x44, 0x55}); got != addr("fe80::11:22ff:fe33:4455") {
		t.Errorf("link-local %s", got)
	}
	if got := SolicitedNode(addr("2001:db8::1:2:3")); got != addr("ff02::1:ff02:3") {
		t.Errorf("group %s", got)
	}
	for group, want := range map[string]string{"224.128.0.5": "01:00:5e:00:00:05", "ff02::1:ff02:3": "33:33:ff:02:00:03"} {
		if got := Multicast(addr(group)).String(); got != want {
			t.Errorf("%s is sent to %s, want %s", group, got, want)
		}
	}
}

func FuzzHostileFramesAreReadOrRefused(f *testing.F) {
	f.Add(one().IPv4("10.0.0.1", "10.0.0.2").Echo(7, 9).Payload(100).Bytes(), uint16(68))
	f.Add(echo6(100), uint16(1280))
	f.Add(Solicit(addr("2001:db8::2"), MAC{}, host, addr("2001:db8::1")).Frame(), uint16(0))
	f.Add(WhoHas(addr("10.0.0.2"), Broadcast, addr("10.0.0.1"), host).Frame(), uint16(0))
	f.Fuzz(func(t *testing.T, frame []byte, mtu uint16) {
		if a, err := ParseARP(frame); err == nil && !bytes.HasPrefix(frame[6:], a.Frame()[12:]) && a.SenderMAC == Source(frame) {
			if got, want := a.Frame()[ethLen:], frame[ethLen:ethLen+arpLen]; !bytes.Equal(got, want) {
				t.Errorf("ARP %x is written as %x", want, got)
			}
		}
		if n, err := ParseND(frame); err == nil && !n.Advertisement {
			n.Advertise(router).Frame()
		}
		p, err := ParseIP(frame)
		if err != nil {
			return
		}
		for k := TimeExceeded; k <= TooBig; k++ {
			p.Answerable(k)
			p.BrokenUDP()
			e := Error{Kind: k, MTU: int(mtu), From: p.Dst}
			e.Frame(&p, host, router)
		}
		if p.Echo() || p.Offset > 0 {
			p.EchoReply(host, router)
		}
		pieces, err := p.Fragments(int(mtu))
		for _, piece := range pieces {
			if len(piece) > ethLen+int(mtu) {
				t.Errorf("a fragment of %d bytes for an MTU of %d", len(piece)-ethLen, mtu)
			}
		}
		if err == nil && len(pieces) == 0 && len(p.Payload) > 0 {
			t.Error("a packet became nothing")
		}
	})
}
