// SPDX-License-Identifier: Apache-2.0

package perf

// Rule sets that all forwarders by rules can express, and frames for them.

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/test/perf/lab"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/rulesets"
)

// ruled is a set of rules and the frames that it is measured with.
type ruled struct {
	rules  []rulesets.Rule
	frames map[packetKind][][]byte
}

// packetKind is the relation of the frames of a measurement to the rules.
type packetKind string

const (
	lastRule packetKind = "matching the last rule"
	anyRule  packetKind = "matching random rules"
	noRule   packetKind = "matching no rule"
)

var packetKinds = []packetKind{lastRule, anyRule, noRule}

// newRuled creates n rules like those of access lists. No two of them overlap: entries of a set or of a hash table have
// no order.
func newRuled(n int) *ruled {
	rs := &ruled{frames: map[packetKind][][]byte{}}
	for _, r := range rulesets.Make("acl", n+n/4+16, 1) {
		if len(rs.rules) == n {
			break
		}
		if !slices.ContainsFunc(rs.rules, func(o rulesets.Rule) bool { return overlap(&r, &o) }) {
			rs.rules = append(rs.rules, r)
		}
	}
	packets := rulesets.NewPackets(rs.rules, 1, 1)
	rs.frames[lastRule] = [][]byte{flow(packets.In(n-1).Frame, lab.RightMAC)}
	for range lab.MaxFrames {
		rs.frames[anyRule] = append(rs.frames[anyRule], flow(packets.In(packets.IntN(n)).Frame, lab.RightMAC))
	}
	for len(rs.frames[noRule]) < lab.MaxFrames/4 {
		if f := packets.Next().Frame; plain(f) && !rs.match(f) {
			rs.frames[noRule] = append(rs.frames[noRule], flow(f, lab.NobodyMAC))
		}
	}
	return rs
}

// overlap is whether a packet may match both of two rules for IPv4.
func overlap(a, b *rulesets.Rule) bool {
	networks := func(a, b netip.Prefix) bool { return !a.IsValid() || !b.IsValid() || a.Overlaps(b) }
	ports := func(a, b *rulesets.Ports) bool { return a == nil || b == nil || a.First <= b.Last && b.First <= a.Last }
	return networks(a.Dst, b.Dst) && networks(a.Src, b.Src) && *a.Protocol == *b.Protocol && ports(a.DstPort, b.DstPort)
}

func (rs *ruled) match(frame []byte) bool {
	k, _ := classifier.KeyOf(frame, 0, 0)
	return slices.ContainsFunc(rs.rules, func(r rulesets.Rule) bool { m := r.Match(); return m.Matches(&k) })
}

const tcp, udp = 6, 17

// plain is whether a frame is TCP or UDP over IPv4, without tags, options and fragments.
func plain(f []byte) bool {
	return binary.BigEndian.Uint16(f[12:]) == 0x0800 && f[14] == 0x45 && binary.BigEndian.Uint16(f[20:])&0x3fff == 0 && (f[23] == tcp || f[23] == udp)
}

// flow is the first packet of the flow that a plain frame is of, whole and with checksums.
func flow(f []byte, to string) []byte {
	address := func(b []byte) string { return netip.AddrFrom4([4]byte(b)).String() }
	out := pkt.Eth(lab.LeftMAC, to).IPv4(address(f[26:30]), address(f[30:34]))
	sport, dport := binary.BigEndian.Uint16(f[34:]), binary.BigEndian.Uint16(f[36:])
	if f[23] == tcp {
		return out.TCP(sport, dport, pkt.TCPFlags{SYN: true}).Bytes()
	}
	return out.UDP(sport, dport).Payload(18).Bytes()
}
