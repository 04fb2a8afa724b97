// SPDX-License-Identifier: Apache-2.0

package classifier

// The conditions of a rule, as the words that the fast path compares.

import (
	"fmt"
	"net/netip"
	"unique"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
)

// The words of a key: enum pcn_classify_word.
const (
	wordLink = iota
	wordSource
	wordDestination
	wordPorts
	wordSourceLow
	wordDestinationLow
	wordSourceMAC
	wordDestinationMAC
	wordMark
	words
)

// The lowest byte of the first word: the headers of the packet, and whether it is a fragment.
const (
	kindIPv6     = uint64(flow.IPv6)
	kindIP       = uint64(flow.IP)
	kindProtocol = uint64(flow.L4)
	kindPorts    = uint64(flow.Ports)
	kindTCP      = uint64(flow.TCP)
	kindICMP     = uint64(flow.ICMP)
	kindFragment = 1 // PCN_CLASSIFY_FRAGMENT
)

// enum pcn_classify_fields: the fields that the fast path must read.
const (
	readMAC = 1 << iota
	readIP
)

// The protocols of ICMP.
const (
	protocolICMP   = 1
	protocolICMPv6 = 58
)

// Match contains the conditions of a rule: all of them must hold. The zero value matches every packet. Equal conditions
// give equal values.
type Match struct {
	conditions
	except unique.Handle[exception] // the last one that was added; zero: none
}

// conditions are those of a rule, or of an exception.
type conditions struct {
	value, mask         [words]uint64
	source, destination ports
	sets                [2]string // of source and of destination addresses; "": any address
}

// ports is a range of ports; not set: any.
type ports struct {
	first, last uint16
	set         bool
}

// span returns the range in the fast path's form: the first port, and the number of ports after it.
func (p ports) span() (first, more uint16) {
	if !p.set {
		return 0, 0xffff
	}
	return p.first, p.last - p.first
}

func (m *conditions) set(word int, value, mask uint64) {
	m.value[word] = m.value[word]&^mask | value&mask
	m.mask[word] |= mask
}

// InPort matches packets that entered at a port, by its index.
func (m *Match) InPort(index uint16) { m.set(wordLink, uint64(index)<<48, 0xffff<<48) }

// InPortBits matches packets by some bits of what is in the place of the port's index, where a cube without ports can have
// something else.
func (m *Match) InPortBits(value, mask uint16) {
	m.set(wordLink, uint64(value&mask)<<48, uint64(mask)<<48)
}

// VLAN matches packets by the id of their outer tag.
func (m *Match) VLAN(id uint16) { m.set(wordLink, uint64(id)<<32, 0xffff<<32) }

// Ethertype matches packets by the EtherType after their VLAN tags.
func (m *Match) Ethertype(t uint16) { m.set(wordLink, uint64(t)<<16, 0xffff<<16) }

// Protocol matches IP packets by protocol: for IPv6, the one after the extension headers.
func (m *Match) Protocol(p uint8) {
	m.set(wordLink, uint64(p)<<8|kindProtocol, 0xff<<8|kindProtocol)
}

// Fragment matches fragments of IP packets, or packets that are not fragments.
func (m *Match) Fragment(is bool) {
	m.set(wordLink, kindIP, kindIP)
	var value uint64
	if is {
		value = kindFragment
	}
	m.set(wordLink, value, kindFragment)
}

// Source matches IP packets by a prefix of their source address.
func (m *Match) Source(p netip.Prefix) error { return m.address(wordSource, wordSourceLow, p) }

// Destination matches IP packets by a prefix of their destination address.
func (m *Match) Destination(p netip.Prefix) error {
	return m.address(wordDestination, wordDestinationLow, p)
}

// address sets an address and its family.
func (m *Match) address(high, low int, p netip.Prefix) error {
	if !p.IsValid() || p.Addr().Is4In6() {
		return fmt.Errorf("address %s: %w", p, cube.ErrInvalid)
	}
	kind := kindIP | kindIPv6
	if p.Addr().Is4() {
		kind = kindIP
	}
	if m.mask[wordLink]&kindIPv6 != 0 && (m.value[wordLink]^kind)&kindIPv6 != 0 {
		return fmt.Errorf("address %s: the other address has another IP version: %w", p, cube.ErrInvalid)
	}
	m.set(wordLink, kind, kindIP|kindIPv6)
	bits := p.Bits()
	if p.Addr().Is4() {
		a := p.Addr().As4()
		m.set(high, number(a[:])<<32, prefixMask(bits))
		return nil
	}
	a := p.Addr().As16()
	m.set(high, number(a[:8]), prefixMask(min(bits, 64)))
	m.set(low, number(a[8:]), prefixMask(max(bits-64, 0)))
	return nil
}

// SourceSet matches IP packets whose source address is in a set of addresses (Addresses), by its name. A set that does not
// exist is empty.
func (m *Match) SourceSet(name string) error { return m.addressSet(0, name) }

// DestinationSet is SourceSet for the destination.
func (m *Match) DestinationSet(name string) error { return m.addressSet(1, name) }

func (m *Match) addressSet(which int, name string) error {
	if name == "" || m.sets[which] != "" && m.sets[which] != name {
		return fmt.Errorf("set of addresses %q: a rule matches one set for each address: %w", name, cube.ErrInvalid)
	}
	m.set(wordLink, kindIP, kindIP)
	m.sets[which] = name
	return nil
}

// prefixMask returns a mask of the uppermost bits.
func prefixMask(bits int) uint64 { return ^(^uint64(0) >> bits) }

// number reads bytes in big-endian order.
func number(b []byte) (n uint64) {
	for _, x := range b {
		n = n<<8 | uint64(x)
	}
	return n
}

// SourcePorts matches packets with a source port in a range. A packet without ports never matches.
func (m *Match) SourcePorts(first, last uint16) error { return m.ports(&m.source, first, last) }

// DestinationPorts matches packets with a destination port in a range. A packet without ports never matches.
func (m *Match) DestinationPorts(first, last uint16) error {
	return m.ports(&m.destination, first, last)
}

func (m *Match) ports(p *ports, first, last uint16) error {
	if first > last {
		return fmt.Errorf("ports %d-%d: the first port is greater than the last: %w", first, last, cube.ErrInvalid)
	}
	if m.mask[wordLink]&kindICMP != 0 {
		return fmt.Errorf("ports %d-%d: ICMP has no ports: %w", first, last, cube.ErrInvalid)
	}
	m.set(wordLink, kindPorts, kindPorts)
	*p = ports{first, last, first != 0 || last != 0xffff}
	return nil
}

// ICMP matches ICMP messages by type, and by a range of codes: 0 to 255 for any code. Later fragments have no type.
func (m *Match) ICMP(kind, firstCode, lastCode uint8) error {
	return m.icmp(protocolICMP, kind, firstCode, lastCode)
}

// ICMPv6 is ICMP for IPv6.
func (m *Match) ICMPv6(kind, firstCode, lastCode uint8) error {
	return m.icmp(protocolICMPv6, kind, firstCode, lastCode)
}

// icmp sets a range of codes. A message has its type and code in place of the destination port.
func (m *Match) icmp(protocol, kind, first, last uint8) error {
	family := kindIP
	if protocol == protocolICMPv6 {
		family |= kindIPv6
	}
	switch {
	case first > last:
		return fmt.Errorf("ICMP codes %d-%d: the first code is greater than the last: %w", first, last, cube.ErrInvalid)
	case m.mask[wordLink]&kindPorts != 0:
		return fmt.Errorf("ICMP type %d: ICMP has no ports: %w", kind, cube.ErrInvalid)
	case m.mask[wordLink]&kindIPv6 != 0 && (m.value[wordLink]^family)&kindIPv6 != 0:
		return fmt.Errorf("ICMP type %d: an address has another IP version: %w", kind, cube.ErrInvalid)
	}
	m.Protocol(protocol)
	m.set(wordLink, family|kindICMP, kindIP|kindIPv6|kindICMP)
	m.destination = ports{uint16(kind)<<8 | uint16(first), uint16(kind)<<8 | uint16(last), true}
	return nil
}

// SourceMAC matches packets by their source MAC address, in the bits of a mask.
func (m *Match) SourceMAC(address, mask [6]byte) {
	m.set(wordSourceMAC, number(address[:]), number(mask[:]))
}

// DestinationMAC is SourceMAC for the destination.
func (m *Match) DestinationMAC(address, mask [6]byte) {
	m.set(wordDestinationMAC, number(address[:]), number(mask[:]))
}

// TCPFlags matches TCP segments by their flags (the header's 14th byte), in the bits of mask.
func (m *Match) TCPFlags(value, mask uint8) {
	m.Protocol(6)
	m.set(wordLink, kindTCP, kindTCP)
	m.set(wordPorts, uint64(value)<<24, uint64(mask)<<24)
}

// DSCP matches IP packets by their differentiated services code point (RFC 2474).
func (m *Match) DSCP(d uint8) {
	m.set(wordLink, kindIP, kindIP)
	m.set(wordPorts, uint64(d)<<16, 0xff<<16)
}

// State matches a connection state in the bits of a mask: the value that a cube with connection tracking wrote to the
// key's byte for it.
func (m *Match) State(value, mask uint8) {
	m.set(wordPorts, uint64(value)<<8, uint64(mask)<<8)
}

// Mark matches the traffic class (the skb mark, at TC) in the bits of a mask.
func (m *Match) Mark(value, mask uint32) { m.set(wordMark, uint64(value), uint64(mask)) }

// Matches reports whether a packet matches the conditions, if all sets of addresses are empty. The fast path must give the
// same result for each rule.
func (m *Match) Matches(k *Key) bool {
	return m.MatchesIn(k, func(string, netip.Addr) bool { return false })
}

// MatchesIn is Matches with sets of addresses.
func (m *Match) MatchesIn(k *Key, contains func(set string, address netip.Addr) bool) bool {
	if !m.conditions.matches(k, contains) {
		return false
	}
	for e := range m.exceptions {
		if e.matches(k, contains) {
			return false
		}
	}
	return true
}

func (m *conditions) matches(k *Key, contains func(set string, address netip.Addr) bool) bool {
	for w := range k {
		if k[w]&m.mask[w] != m.value[w] {
			return false
		}
	}
	for i, set := range m.sets {
		if set != "" && !contains(set, k.address(wordSource+i)) {
			return false
		}
	}
	source, destination := uint16(k[wordPorts]>>48), uint16(k[wordPorts]>>32)
	return (!m.source.set || m.source.first <= source && source <= m.source.last) &&
		(!m.destination.set || m.destination.first <= destination && destination <= m.destination.last)
}

// reads returns the fields that the fast path must read.
func (m *Match) reads() uint32 {
	f := m.conditions.reads()
	for e := range m.exceptions {
		f |= e.reads()
	}
	return f
}

func (m *conditions) reads() uint32 {
	var f uint32
	if m.mask[wordSourceMAC]|m.mask[wordDestinationMAC] != 0 {
		f |= readMAC
	}
	if m.mask[wordLink]&0xffff != 0 {
		f |= readIP
	}
	return f
}

// isLong reports whether the rule needs further blocks.
func (m *Match) isLong() bool {
	if m.except != (unique.Handle[exception]{}) || m.sets != [2]string{} {
		return true
	}
	rest := m.mask[wordPorts]
	for w := wordSourceLow; w < words; w++ {
		rest |= m.mask[w]
	}
	return rest != 0
}

// field is a part of a key that trees branch on: the word, shifted left, then right, so that it is below 2^63.
type field struct{ word, left, right uint8 }

// fields are the fields that a rule can constrain.
var fields = [...]field{
	{wordSource, 0, 1}, {wordDestination, 0, 1},
	{wordPorts, 16, 48}, {wordPorts, 0, 48}, // destination, source
	{wordLink, 48, 56}, {wordLink, 0, 48}, {wordLink, 16, 48}, {wordLink, 32, 48}, {wordLink, 56, 56}, // protocol, port, VLAN, type, kind
	{wordSourceLow, 0, 1}, {wordDestinationLow, 0, 1},
	{wordSourceMAC, 16, 16}, {wordDestinationMAC, 16, 16},
	{wordPorts, 32, 56}, {wordPorts, 40, 56}, {wordPorts, 48, 56}, // flags, DSCP, state
	{wordMark, 32, 32},
}

// cut extracts the field from a word.
func (f field) cut(word uint64) uint64 { return word << f.left >> f.right }

// box is a range for each field.
type box struct{ lo, hi [len(fields)]uint64 }

// everything is the box of all packets.
func everything() *box {
	var b box
	for i, f := range fields {
		b.hi[i] = f.cut(^uint64(0))
	}
	return &b
}

// box returns the smallest box that contains all packets that match, without regard to exceptions.
func (m *conditions) box() *box {
	var b box
	for i, f := range fields {
		b.lo[i] = f.cut(m.value[f.word])
		b.hi[i] = f.cut(m.value[f.word] | ^m.mask[f.word])
	}
	for i, p := range map[int]ports{2: m.destination, 3: m.source} {
		if p.set {
			b.lo[i], b.hi[i] = uint64(p.first), uint64(p.last)
		}
	}
	return &b
}
