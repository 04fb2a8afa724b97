// SPDX-License-Identifier: Apache-2.0

// Package rulesets creates rule sets and packets for tests and measurements of classifiers. The shapes follow the
// findings of the authors of ClassBench (Taylor and Turner, 2005) in the filters of providers: access lists with
// specific destinations and ports (acl), firewalls with many wildcards and port ranges (fw), and chains between (ipc).
// The result depends on the seed alone.
package rulesets

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"net/netip"

	"github.com/polycube/polycube/classifier"
)

// Ports is a range of ports.
type Ports struct{ First, Last uint16 }

// Rule is a rule in terms of headers. Fields that are zero, or nil, match anything.
type Rule struct {
	Src, Dst         netip.Prefix
	Protocol         *uint8
	SrcPort, DstPort *Ports
	SrcMAC, DstMAC   *[6]byte
	SrcMask          *[6]byte // bits of SrcMAC that count; nil: all
	VLAN, InPort     *uint16
	EtherType        *uint16
	ICMP             *ICMP
	Flags            *Flags
	DSCP             *uint8
	// Not has fields that must differ, each on its own.
	Not *Rule
}

// ICMP is a type and a range of codes, of ICMP or ICMPv6.
type ICMP struct {
	V6                bool
	Type, First, Last uint8
}

// Flags are TCP flags in the bits of a mask.
type Flags struct{ Value, Mask uint8 }

// Match is the rule for package classifier.
func (r *Rule) Match() classifier.Match {
	var m classifier.Match
	for _, set := range []func(*classifier.Match) error{r.link, r.addresses, r.transport} {
		if err := set(&m); err != nil {
			panic(err) // a rule set that cannot be is a mistake here
		}
	}
	for _, one := range r.Not.parts() {
		if err := m.Except(one.Match()); err != nil {
			panic(err)
		}
	}
	return m
}

// parts are the fields of a rule, each as a rule of its own.
func (r *Rule) parts() (out []Rule) {
	if r == nil {
		return nil
	}
	for _, one := range []Rule{
		{Src: r.Src}, {Dst: r.Dst}, {Protocol: r.Protocol}, {SrcPort: r.SrcPort}, {DstPort: r.DstPort}, {DstMAC: r.DstMAC},
		{SrcMAC: r.SrcMAC, SrcMask: r.SrcMask}, {VLAN: r.VLAN}, {InPort: r.InPort}, {EtherType: r.EtherType}, {ICMP: r.ICMP},
		{Flags: r.Flags}, {DSCP: r.DSCP},
	} {
		if one != (Rule{}) {
			out = append(out, one)
		}
	}
	return out
}

// link sets the conditions on the Ethernet header and the port.
func (r *Rule) link(m *classifier.Match) error {
	all := [6]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff}
	if r.SrcMAC != nil {
		mask := all
		if r.SrcMask != nil {
			mask = *r.SrcMask
		}
		m.SourceMAC(*r.SrcMAC, mask)
	}
	if r.DstMAC != nil {
		m.DestinationMAC(*r.DstMAC, all)
	}
	if r.VLAN != nil {
		m.VLAN(*r.VLAN)
	}
	if r.InPort != nil {
		m.InPort(*r.InPort)
	}
	if r.EtherType != nil {
		m.Ethertype(*r.EtherType)
	}
	return nil
}

func (r *Rule) addresses(m *classifier.Match) error {
	var errs [2]error
	if r.Src.IsValid() {
		errs[0] = m.Source(r.Src)
	}
	if r.Dst.IsValid() {
		errs[1] = m.Destination(r.Dst)
	}
	if r.DSCP != nil {
		m.DSCP(*r.DSCP)
	}
	return errors.Join(errs[:]...)
}

func (r *Rule) transport(m *classifier.Match) error {
	var errs [3]error
	if r.SrcPort != nil {
		errs[0] = m.SourcePorts(r.SrcPort.First, r.SrcPort.Last)
	}
	if r.DstPort != nil {
		errs[1] = m.DestinationPorts(r.DstPort.First, r.DstPort.Last)
	}
	if r.Protocol != nil {
		m.Protocol(*r.Protocol)
	}
	if r.Flags != nil {
		m.TCPFlags(r.Flags.Value, r.Flags.Mask)
	}
	if i := r.ICMP; i != nil {
		icmp := m.ICMP
		if i.V6 {
			icmp = m.ICMPv6
		}
		errs[2] = icmp(i.Type, i.First, i.Last)
	}
	return errors.Join(errs[:]...)
}

// Shapes are the names of the shapes that Make knows.
var Shapes = []string{"acl", "fw", "ipc", "acl6", "l2", "mixed", "overlapping", "ranges", "singles", "wildcards", "masks", "headers", "negated"}

// Make creates n different rules of a shape. None of them matches everything: packets may match none.
func Make(shape string, n int, seed uint64) []Rule {
	g := &generator{rand.New(rand.NewPCG(seed, uint64(n)))} //nolint:gosec // it has to repeat
	makers := map[string]func() Rule{
		"acl": g.acl, "fw": g.fw, "ipc": g.ipc, "acl6": g.acl6, "l2": g.l2, "mixed": g.mixed, "overlapping": g.overlapping,
		"ranges": g.ranges, "singles": g.singles, "wildcards": g.wildcards, "masks": g.masks,
		"headers": g.headers, "negated": g.negated,
	}
	out := make([]Rule, 0, n)
	seen := make(map[classifier.Match]bool, n)
	for len(out) < n {
		r := makers[shape]()
		if m := r.Match(); !seen[m] {
			seen[m] = true
			out = append(out, r)
		}
	}
	return out
}

type generator struct{ *rand.Rand }

func pointer[T any](v T) *T { return &v }

// prefix is one of IPv4 below 10.0.0.0/8 and 172.16.0.0/12, of one of some lengths.
func (g *generator) prefix(lengths ...int) netip.Prefix {
	var b [4]byte
	binary.BigEndian.PutUint32(b[:], g.Uint32())
	if b[0] = 10; g.IntN(3) == 0 {
		b[0], b[1] = 172, 16+b[1]&15
	}
	// Subnets crowd: a few second bytes have most rules.
	if g.IntN(4) > 0 {
		b[1] = b[1] & 7
	}
	return netip.PrefixFrom(netip.AddrFrom4(b), lengths[g.IntN(len(lengths))]).Masked()
}

func (g *generator) prefix6(lengths ...int) netip.Prefix {
	b := [16]byte{0x20, 0x01, 0x0d, 0xb8}
	binary.BigEndian.PutUint32(b[4:], g.Uint32N(1<<16)<<16|g.Uint32N(8))
	binary.BigEndian.PutUint64(b[8:], g.Uint64N(1<<20))
	return netip.PrefixFrom(netip.AddrFrom16(b), lengths[g.IntN(len(lengths))]).Masked()
}

func (g *generator) exact() *Ports {
	services := []uint16{22, 25, 53, 80, 123, 443, 445, 993, 1433, 3306, 5060, 8080, 8443}
	p := services[g.IntN(len(services))]
	if g.IntN(3) == 0 {
		p = uint16(g.IntN(65536))
	}
	return &Ports{p, p}
}

func (g *generator) ranged() *Ports {
	switch g.IntN(4) {
	case 0:
		return &Ports{1024, 65535}
	case 1:
		return &Ports{0, 1023}
	}
	first := uint16(g.IntN(65000))
	return &Ports{first, first + uint16(g.IntN(500))}
}

func (g *generator) transport() *uint8 { return pointer([]uint8{6, 6, 6, 17}[g.IntN(4)]) }

func (g *generator) acl() Rule {
	r := Rule{Src: g.prefix(16, 24, 24, 27, 32), Dst: g.prefix(24, 28, 32, 32, 32), Protocol: g.transport()}
	switch g.IntN(10) {
	case 0:
		r.Src = netip.Prefix{}
	case 1:
		r.Dst = g.prefix(16)
	}
	switch g.IntN(8) {
	case 0:
	case 1:
		r.DstPort = g.ranged()
	default:
		r.DstPort = g.exact()
	}
	return r
}

func (g *generator) fw() Rule {
	var r Rule
	if g.IntN(2) == 0 {
		r.Src = g.prefix(8, 16, 24, 32)
	}
	if g.IntN(10) < 7 {
		r.Dst = g.prefix(8, 16, 24, 32, 32)
	}
	if g.IntN(8) > 0 {
		r.Protocol = g.transport()
		switch g.IntN(5) {
		case 0:
			r.SrcPort = g.ranged()
		case 1:
			r.SrcPort, r.DstPort = g.ranged(), g.exact()
		case 2:
			r.DstPort = g.ranged()
		default:
			r.DstPort = g.exact()
		}
	} else {
		r.Protocol = pointer[uint8](1)
	}
	if !r.Src.IsValid() && !r.Dst.IsValid() && r.SrcPort == nil && r.DstPort == nil {
		r.Dst = g.prefix(32)
	}
	return r
}

func (g *generator) ipc() Rule {
	r := Rule{Src: g.prefix(0, 16, 24, 32, 32), Dst: g.prefix(0, 16, 24, 32, 32)}
	if g.IntN(3) > 0 {
		r.Protocol = g.transport()
		if g.IntN(2) == 0 {
			r.DstPort = g.exact()
		}
		if g.IntN(6) == 0 {
			r.SrcPort = g.exact()
		}
	}
	return r
}

func (g *generator) acl6() Rule {
	r := Rule{Src: g.prefix6(32, 48, 64, 128), Dst: g.prefix6(64, 64, 128, 128), Protocol: g.transport(), DstPort: g.exact()}
	if g.IntN(8) == 0 {
		r.Src = netip.Prefix{}
	}
	return r
}

func (g *generator) mac() *[6]byte {
	m := [6]byte{2, 0, 0, byte(g.IntN(2))}
	binary.BigEndian.PutUint16(m[4:], uint16(g.IntN(1<<13)))
	return &m
}

func (g *generator) l2() Rule {
	r := Rule{VLAN: pointer(uint16(g.IntN(64)))}
	switch g.IntN(3) {
	case 0:
		r.SrcMAC = g.mac()
	case 1:
		r.DstMAC = g.mac()
	default:
		r.SrcMAC, r.DstMAC = g.mac(), g.mac()
	}
	if g.IntN(4) == 0 {
		r.InPort = pointer(uint16(g.IntN(4)))
	}
	return r
}

func (g *generator) mixed() Rule {
	r := []func() Rule{g.acl, g.fw, g.ipc, g.acl6, g.l2}[g.IntN(5)]()
	if g.IntN(4) == 0 {
		r.InPort = pointer(uint16(g.IntN(4)))
	}
	if g.IntN(8) == 0 {
		r.VLAN = pointer(uint16(g.IntN(4096)))
	}
	return r
}

// overlapping are rules that no field divides well.
func (g *generator) overlapping() Rule {
	r := Rule{Src: g.prefix(8, 9, 10, 11, 12, 13), Dst: g.prefix(8, 9, 10, 11, 12, 13)}
	wide := func() *Ports {
		first := uint16(g.IntN(40000))
		return &Ports{first, first + uint16(g.IntN(25000))}
	}
	r.SrcPort, r.DstPort = wide(), wide()
	return r
}

// ranges are rules on ports alone, each of which overlaps most others.
func (g *generator) ranges() Rule {
	wide := func() *Ports {
		first := uint16(g.IntN(32768))
		return &Ports{first, 32768 + uint16(g.IntN(32768))}
	}
	return Rule{SrcPort: wide(), DstPort: wide()}
}

// singles are rules on one field each, so that no field divides more than some of them.
func (g *generator) singles() Rule {
	switch g.IntN(8) {
	case 0:
		return Rule{Src: g.prefix(16, 24, 32)}
	case 1:
		return Rule{Dst: g.prefix(16, 24, 32)}
	case 2:
		return Rule{SrcPort: g.ranged()}
	case 3:
		return Rule{DstPort: g.ranged()}
	case 4:
		return Rule{SrcMAC: g.mac()}
	case 5:
		return Rule{DstMAC: g.mac()}
	case 6:
		return Rule{VLAN: pointer(uint16(g.IntN(4096)))}
	}
	return Rule{Src: g.prefix6(48, 64, 128)}
}

// wildcards are rules that match any of the fields, and leave any of them open: all combinations.
func (g *generator) wildcards() Rule {
	all := g.acl()
	all.SrcPort, all.Protocol = g.ranged(), g.transport()
	var r Rule
	for r == (Rule{}) {
		if g.IntN(2) == 0 {
			r.Src = g.prefix(4, 8, 12, 16, 20)
		}
		if g.IntN(2) == 0 {
			r.Dst = g.prefix(4, 8, 12, 16, 20)
		}
		if g.IntN(2) == 0 {
			r.SrcPort = all.SrcPort
		}
		if g.IntN(2) == 0 {
			r.DstPort = g.ranged()
		}
	}
	if g.IntN(2) == 0 {
		r.Protocol = all.Protocol
	}
	return r
}

// masks are rules on bits of a MAC address that no range has.
func (g *generator) masks() Rule {
	var mask, mac [6]byte
	binary.BigEndian.PutUint32(mask[2:], g.Uint32()&g.Uint32())
	binary.BigEndian.PutUint32(mac[2:], g.Uint32()&binary.BigEndian.Uint32(mask[2:]))
	return Rule{SrcMAC: &mac, SrcMask: &mask}
}

// headers are rules on the fields that few rules match: ICMP, TCP flags, DSCP, EtherTypes.
func (g *generator) headers() Rule {
	var r Rule
	switch g.IntN(4) {
	case 0:
		r.Src = g.prefix(8, 16, 24, 32)
	case 1:
		r.Dst = g.prefix6(32, 48, 64)
	case 2:
		r.VLAN = pointer(uint16(g.IntN(64)))
	default:
		r.DSCP = pointer(uint8(g.IntN(64)))
	}
	switch g.IntN(5) {
	case 0:
		mask := uint8(1 + g.IntN(63))
		r.Flags = &Flags{uint8(g.IntN(64)) & mask, mask}
	case 1:
		r.EtherType = pointer([]uint16{0x0800, 0x0806, 0x86dd, 0x88b5}[g.IntN(4)])
		r.SrcMAC = g.mac()
	case 2:
		r.DSCP, r.Protocol = pointer(uint8(g.IntN(64))), g.transport()
		r.DstPort = g.exact()
	default:
		i := &ICMP{V6: r.Dst.IsValid() || !r.Src.IsValid() && g.IntN(2) == 0, Type: uint8(g.IntN(256)), Last: 255}
		if g.IntN(2) == 0 {
			i.First = uint8(g.IntN(16))
			i.Last = i.First
		}
		r.ICMP = i
	}
	return r
}

// negated are rules with up to three fields that must differ.
func (g *generator) negated() Rule {
	var r Rule
	switch g.IntN(4) {
	case 0:
		r = g.acl()
	case 1:
		r.Src, r.Dst = g.prefix(8, 12, 16), g.prefix(8, 12)
	case 2:
		r.VLAN = pointer(uint16(g.IntN(16)))
	default:
		r.DSCP = pointer(uint8(g.IntN(64)))
	}
	if r.Not = (&Rule{}); g.IntN(4) == 0 && r.SrcPort == nil && r.DstPort == nil {
		i := &ICMP{V6: !r.Src.IsValid() && !r.Dst.IsValid() && g.IntN(2) == 0, Type: uint8(g.IntN(256)), Last: 255}
		r.Not.ICMP = i
		if i.V6 {
			r.Not.Src = g.prefix6(32, 48, 128)
		}
		return r
	}
	for range 1 + g.IntN(3) {
		g.negate(r.Not)
	}
	return r
}

// negate sets one field.
func (g *generator) negate(not *Rule) {
	switch g.IntN(12) {
	case 0:
		not.Src = g.prefix(8, 12, 16, 24, 32)
	case 1:
		not.Dst = g.prefix(8, 12, 16, 24, 32)
	case 2:
		not.Protocol = g.transport()
	case 3:
		not.SrcPort = g.ranged()
	case 4:
		not.DstPort = g.exact()
	case 5:
		not.SrcMAC, not.SrcMask = &[6]byte{0, 0, 0, 0, 0, byte(g.IntN(8))}, &[6]byte{5: 7}
	case 6:
		not.DstMAC = g.mac()
	case 7:
		not.VLAN = pointer(uint16(g.IntN(16)))
	case 8:
		not.InPort = pointer(uint16(g.IntN(4)))
	case 9:
		not.EtherType = pointer([]uint16{0x0800, 0x0806, 0x86dd, 0x88b5}[g.IntN(4)])
	case 10:
		mask := uint8(1 + g.IntN(63))
		not.Flags = &Flags{uint8(g.IntN(64)) & mask, mask}
	case 11:
		not.DSCP = pointer(uint8(g.IntN(64)))
	}
}
