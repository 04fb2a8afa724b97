// SPDX-License-Identifier: Apache-2.0

package firewall_test

// Answers to rejected packets, byte by byte as those of nftables.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"testing"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netfilter"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/rulesets"
	"github.com/polycube/polycube/test/traffic"
)

// rejector rejects packets of a side.
type rejector struct {
	name  string
	wires [2]*netns.Raw
	macs  [2][2]string // of frames from a side: source and destination
	set   func(side uint8, with string)
}

// rejections are the ways to reject, and the same for nftables.
var rejections = map[string]string{
	"": "meta l4proto tcp reject with tcp reset\nreject with icmpx port-unreachable\n",

	"tcp-reset":        "meta l4proto tcp reject with tcp reset\n",
	"port-unreachable": "reject with icmpx port-unreachable\n",
	"host-unreachable": "reject with icmpx host-unreachable\n",
	"admin-prohibited": "reject with icmpx admin-prohibited\n",
}

// linuxRejector is a router. It answers by the route to the side that sends.
func linuxRejector(t *testing.T) *rejector {
	l := newLinux(t)
	l.Needs(t, "reject with icmpx host-unreachable")
	r := &rejector{name: "nftables", wires: l.Wires}
	for i, h := range l.Hosts {
		r.macs[i] = [2]string{h.MAC.String(), h.OuterMAC.String()}
	}
	l.Run("ip", "link", "set", "lo", "up")
	l.Run("ip", "addr", "add", "198.51.100.254/32", "dev", "lo")
	l.Run("ip", "addr", "add", "2001:db8:ffff::fe/128", "dev", "lo", "nodad")
	l.Run("sysctl", "-qw", "net.ipv4.icmp_ratelimit=0", "net.ipv4.icmp_ratemask=0", "net.ipv6.icmp.ratelimit=0", "net.ipv6.icmp.ratemask=255")
	r.set = func(side uint8, with string) {
		l.Run("ip", "-4", "route", "replace", "default", "via", "192.0.2.1", "dev", netfilter.Devices[side], "onlink")
		l.Run("ip", "-6", "route", "replace", "default", "via", "fe80::1", "dev", netfilter.Devices[side], "onlink")
		err := l.Load("table inet f {}\ndelete table inet f\ntable inet f { chain c { type filter hook forward priority 0; policy accept;\n" +
			fmt.Sprintf("iifname %q jump side\n}\nchain side {\n", netfilter.Devices[side]) + rejections[with] + "}\n}\n")
		if err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// ourRejector is a machine with the cube.
func ourRejector(t *testing.T, typ cube.Type) *rejector {
	o := bpftest.Options{Type: typ, Hosts: 2}
	if typ != cube.TypeTC {
		o.Host = []netns.Option{netns.WithoutTxChecksum(), netns.WithGRO()}
	}
	g := guard(t, bpftest.New(t, o), `{"families":["ipv4","ipv6"],"reject-limit":100000}`)
	r := &rejector{name: string(typ)}
	for i, h := range g.Hosts {
		r.wires[i] = netns.OpenRaw(t, h, netns.Inner)
		r.macs[i] = [2]string{[]string{macOut, macIn}[i], []string{macIn, macOut}[i]}
	}
	r.set = func(side uint8, with string) {
		g.Set("PUT", "fw chain "+chainNames[1-side]+" rule", "[]")
		rule := `{"id":0,"action":"REJECT"}`
		switch with {
		case "":
		case "tcp-reset":
			rule = `{"id":0,"l4proto":"TCP","reject-with":"tcp-reset","action":"REJECT"}`
		default:
			rule = fmt.Sprintf(`{"id":0,"reject-with":%q,"action":"REJECT"}`, with)
		}
		g.Set("PUT", "fw chain "+chainNames[side]+" rule", "["+rule+"]")
	}
	return r
}

// answer sends a packet and another one that is answered for sure, and returns the answer to the first, without its
// Ethernet header, or nil.
func (r *rejector) answer(side uint8, ip, barrier []byte) ([]byte, error) {
	for _, p := range [][]byte{ip, barrier} {
		if err := r.wires[side].Send(pkt.Eth(r.macs[side][0], r.macs[side][1]).IP(p).Bytes()); err != nil {
			return nil, err
		}
	}
	var got [][]byte
	for {
		frame, err := r.wires[side].Recv(func(b []byte) bool {
			return bytes.Equal(b[:6], pkt.MAC(r.macs[side][0])) && (b[12] == 0x08 && b[13] == 0 || b[12] == 0x86 && b[13] == 0xdd)
		}, patience)
		if err != nil {
			return nil, fmt.Errorf("%s: nothing comes back: %w", r.name, err)
		}
		if answers(frame[14:], barrier) {
			break
		}
		got = append(got, frame[14:])
	}
	if len(got) > 1 {
		return nil, fmt.Errorf("%s: %d answers: %x", r.name, len(got), got)
	}
	if len(got) == 0 {
		return nil, nil
	}
	return got[0], nil
}

// answers reports whether a packet answers a TCP or UDP packet: it is a segment between its ports, or it contains it.
func answers(answer, ip []byte) bool {
	header := 20
	if ip[0]>>4 == 6 {
		header = 40
	}
	if len(answer) < header+8 || answer[0]>>4 != ip[0]>>4 {
		return false
	}
	ports := ip[header : header+4]
	rest := answer[header:]
	if bytes.Equal(rest[:2], ports[2:]) && bytes.Equal(rest[2:4], ports[:2]) {
		return true
	}
	return len(rest) >= 8+header+4 && bytes.Equal(rest[8+header:8+header+4], ports) && traffic.Number(rest[8:]) == traffic.Number(ip)
}

// reportedLength is how much of a packet the program reports to user space, which writes the answer: PCN_REPORT_FRAME
// without the Ethernet header. An ICMP error contains no more of it; in Linux up to 548 bytes, of IPv6 1232.
const reportedLength = 108 - 14

// normal is an answer without what differs on purpose:
//   - the identification of IPv4, the flow label of IPv6, and the TTL or hop limit, which hosts choose (RFC 6864, RFC
//     6437);
//   - the sender of ICMP errors: a router has an address, a firewall on a port has none, and takes the receiver's;
//   - the TTL of the packet in an error, which a router has decremented before;
//   - what an error has of the packet above reportedLength;
//   - the checksums above these. Ours must be correct; the router leaves that of TCP to its device.
func normal(answer []byte, checked bool) ([]byte, error) {
	if answer == nil {
		return nil, nil
	}
	b := bytes.Clone(answer)
	header, protocol, from, to := 20, b[9], b[12:16], b[16:20]
	if b[0]>>4 == 6 {
		header, protocol, from, to = 40, b[6], b[8:24], b[24:40]
	} else if pkt.Sum(b[:20]) != 0xffff {
		return nil, fmt.Errorf("the IPv4 checksum is wrong: %x", b)
	}
	var pseudo []byte
	if protocol != pkt.ProtoICMP {
		pseudo = binary.BigEndian.AppendUint32(append(append(append([]byte{}, from...), to...), 0, protocol), uint32(len(b)-header))
	}
	if checked && pkt.Sum(pseudo, b[header:]) != 0xffff {
		return nil, fmt.Errorf("the checksum is wrong: %x", b)
	}
	if header == 20 {
		b[4], b[5], b[8], b[10], b[11] = 0, 0, 0, 0, 0
	} else {
		b[1] &= 0xf0
		b[2], b[3], b[7] = 0, 0, 0
	}
	if protocol == pkt.ProtoTCP {
		b[header+16], b[header+17] = 0, 0
		return b, nil
	}
	b[header+2], b[header+3] = 0, 0
	clear(from)
	inner := b[header+8:]
	inner = inner[:min(len(inner), reportedLength)]
	if header == 20 {
		clear(b[2:4]) // the length
		inner[8], inner[10], inner[11] = 0, 0, 0
	} else {
		clear(b[4:6])
		inner[7] = 0
	}
	return b[:header+8+len(inner)], nil
}

// summed are protocols with a checksum. Linux looks for one in all packets but those of a few protocols, and answers none
// where it is wrong.
var summed = map[uint8]bool{pkt.ProtoTCP: true, pkt.ProtoUDP: true, pkt.ProtoICMP: true, pkt.ProtoICMPv6: true}

// rejected are packets of one side, of these protocols.
type rejected struct {
	*traffic.Source
	side uint8
}

func (r *rejected) next() traffic.Packet {
	for {
		if p := r.Next(); p.From == r.side && summed[p.Protocol] {
			return p
		}
	}
}

// barrier is a packet that is answered for sure: of TCP or UDP.
func (r *rejected) barrier(six bool, protocol uint8) []byte {
	id := r.Number()
	from, to := "10.1.2.3", "10.3.2.1"
	if six {
		from, to = "2001:db8::7", "2001:db8::8"
	}
	sport := uint16(20000 + id%40000)
	payload := pkt.UDPDatagram(from, to, sport, 9, make([]byte, 8))
	if protocol == pkt.ProtoTCP {
		payload = pkt.TCPSegment(from, to, sport, 9, byte(conntrack.SYN), nil)
	}
	if !six {
		return pkt.IPv4Header{From: from, To: to, Protocol: protocol, TTL: 64, ID: uint16(id)}.Packet(payload)
	}
	b := pkt.IPv6Header{From: from, To: to, Next: protocol, HopLimit: 64}.Packet(payload)
	binary.BigEndian.PutUint16(b[2:], uint16(id))
	return b
}

func TestRejectedPacketsAreAnsweredAsByNftables(t *testing.T) {
	seed := repeat.Seed(t)
	all := []*rejector{linuxRejector(t), ourRejector(t, cube.TypeTC), ourRejector(t, cube.TypeXDPDRV)}
	packets := 80
	if os.Getenv("POLYCUBE_SOAK") != "" {
		packets = 5000
	}
	answered, silent := 0, 0
	for with := range rejections {
		for side := range uint8(2) {
			for _, r := range all {
				r.set(side, with)
			}
			rules := append(rulesets.Make("acl6", 20, seed), rulesets.Make("fw", 30, seed)...)
			source := &rejected{traffic.New(rules, seed), side}
			for range packets {
				p := source.next()
				protocol := uint8(pkt.ProtoUDP)
				if with == "tcp-reset" {
					protocol = pkt.ProtoTCP
				}
				barrier := source.barrier(p.IP[0]>>4 == 6, protocol)
				if with == "tcp-reset" && (p.Conn == nil) {
					continue // it passes
				}
				if sameAnswers(t, all, &p, with, barrier) {
					answered++
				} else {
					silent++
				}
			}
		}
	}
	t.Logf("%d packets are answered, %d are not", answered, silent)
	if answered < 100 || silent < 10 {
		t.Error("these are too few")
	}
}

// sameAnswers compares the answers to a packet, and returns whether there is one.
func sameAnswers(t *testing.T, all []*rejector, p *traffic.Packet, with string, barrier []byte) bool {
	var want []byte
	for i, r := range all {
		answer, err := r.answer(p.From, p.IP, barrier)
		if err != nil {
			t.Fatalf("reject with %s, %s: %v", with, p.What, err)
		}
		got, err := normal(answer, i > 0)
		if err != nil {
			t.Fatalf("%s, reject with %s, %s: %v", r.name, with, p.What, err)
		}
		if i == 0 {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Fatalf("%s, reject with %s, %s:\n%sis answered by\n%swant\n%s", r.name, with, p.What, hex.Dump(p.IP), hex.Dump(got), hex.Dump(want))
		}
	}
	return want != nil
}
