// SPDX-License-Identifier: Apache-2.0

// Package policy compiles the table nat of iptables to the rows with which the program of the cube nat compares the first
// packet of a connection: policy.h.
package policy

import (
	"encoding/binary"
	"fmt"
	"math"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/hostaddr"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/language"
)

// ports is NAT_ROW_PORTS.
const ports = 16

// does is enum nat_row_does.
type does uint8

const (
	next does = iota
	accept
	snat
	masquerade
	dnat
	redirect
)

// The conditions of a row: NAT_ROW_SOURCE, ...
const (
	hasSource uint16 = 1 << iota
	hasDestination
	hasProtocol
	hasIn
	hasOut
	hasSPort
	hasDPort
	hasEitherPort
	hasMark
	hasChance
	hasNth
	hasSourceType
	hasDestinationType
	hasSourceRange
	hasDestinationRange
)

// span is struct nat_span.
type span struct{ First, Last [16]byte }

// portRange is struct nat_row_port.
type portRange struct{ First, Last uint16 }

// name is struct nat_name.
type name struct{ Value, Mask [16]byte }

// Row is struct nat_row.
type Row struct {
	Hit, Miss                     uint32
	Has, Negated                  uint16
	Does                          does
	Protocol                      uint8
	SPorts, DPorts                uint8
	Source, Destination           span
	SourceRange, DestinationRange span
	In, Out                       name
	Port                          [ports]portRange
	Mark, MarkMask                uint32
	Chance                        uint32
	Every, Behind, Seen           uint32
	RandomPort                    uint32
	SourceType, DestinationType   uint32
	State                         uint32
	To                            inet.Address
	Count                         uint32
	PortFirst, PortLast           uint16

	// Packets and Bytes of IP in them, which matched.
	Packets, Bytes uint64
}

// same reports whether two rows say the same, whatever they have counted.
func (r Row) same(s Row) bool {
	r.Packets, r.Bytes, r.Seen = 0, 0, 0
	s.Packets, s.Bytes, s.Seen = 0, 0, 0
	return r == s
}

// condition adds a condition, or its opposite.
func (r *Row) condition(is uint16, not bool) {
	r.Has |= is
	if not {
		r.Negated |= is
	}
}

// rowOf returns the row of a rule, without what is behind it.
func rowOf(r *language.Rule) (Row, error) {
	var row Row
	if r.Fragment != language.AnyFragment {
		return row, fmt.Errorf("-f: the table nat sees the first fragment alone")
	}
	if !r.Source.Any() {
		row.Source = maskOf(r.Source)
		row.condition(hasSource, r.Source.Not)
	}
	if !r.Destination.Any() {
		row.Destination = maskOf(r.Destination)
		row.condition(hasDestination, r.Destination.Not)
	}
	if row.Protocol = r.Protocol.Number; row.Protocol != 0 {
		row.condition(hasProtocol, r.Protocol.Not)
	}
	if r.In != (language.Interface{}) {
		row.In = nameOf(r.In)
		row.condition(hasIn, r.In.Not)
	}
	if r.Out != (language.Interface{}) {
		row.Out = nameOf(r.Out)
		row.condition(hasOut, r.Out.Not)
	}
	for _, m := range r.Matches {
		if err := row.match(m); err != nil {
			return row, fmt.Errorf("-m %s: %w", m.Name(), err)
		}
	}
	return row, nil
}

// maskOf returns an address in the form of maps, and which of its bits count.
func maskOf(a language.Address) (s span) {
	s.First = a.Addr.As16()
	if s.Last = a.Mask.As16(); a.Addr.Is4() {
		copy(s.First[:12], make([]byte, 12)) // rows are of one family
		copy(s.Last[:12], make([]byte, 12))
	}
	return s
}

func nameOf(i language.Interface) (n name) {
	length := copy(n.Value[:], i.Name)
	if !i.Prefix {
		length = len(n.Mask)
	}
	for j := range length {
		n.Mask[j] = 0xff
	}
	return n
}

// match adds the condition of one -m.
func (r *Row) match(m language.Match) error {
	switch m := m.(type) {
	case language.Comment:
		return nil
	case language.TCP:
		if m.Flags != (language.TCPFlags{}) || m.Option != 0 {
			return fmt.Errorf("the table nat sees the first packet of a connection: --tcp-flags, --syn and --tcp-option are not supported here")
		}
		return r.ports(m.SPort, m.DPort)
	case language.Ports:
		return r.ports(m.SPort, m.DPort)
	case language.Multiport:
		return r.multiport(m)
	case language.Mark:
		r.Mark, r.MarkMask = m.Value, m.Mask
		r.condition(hasMark, m.Not)
		return nil
	case language.IPRange:
		r.addresses(&r.SourceRange, hasSourceRange, m.Source)
		r.addresses(&r.DestinationRange, hasDestinationRange, m.Destination)
		return nil
	case language.AddrType:
		return r.types(m)
	case language.Statistic:
		r.statistic(m)
		return nil
	case language.Conntrack:
		return news(m)
	}
	return fmt.Errorf("not supported in the table nat")
}

// ports adds conditions about one range of ports for each side.
func (r *Row) ports(source, destination language.PortRange) error {
	if !source.Any() {
		if err := r.list(hasSPort, source.Not, source); err != nil {
			return err
		}
	}
	if !destination.Any() {
		return r.list(hasDPort, destination.Not, destination)
	}
	return nil
}

func (r *Row) multiport(m language.Multiport) error {
	is := map[string]uint16{"sports": hasSPort, "dports": hasDPort, "ports": hasEitherPort}[m.Of]
	return r.list(is, m.Not, m.Ports...)
}

// list adds a condition about ports. Those of sources come first.
func (r *Row) list(is uint16, not bool, all ...language.PortRange) error {
	at, n := int(r.SPorts), &r.DPorts
	if is == hasSPort {
		at, n = 0, &r.SPorts
	}
	if r.Has&is != 0 || is != hasSPort && r.DPorts > 0 || int(r.SPorts)+int(r.DPorts)+len(all) > ports {
		return fmt.Errorf("a rule of the table nat has one list for source ports and one for the others, with at most %d ranges in all", ports)
	}
	copy(r.Port[at+len(all):], slices.Clone(r.Port[at:ports-len(all)]))
	for i, p := range all {
		r.Port[at+i] = portRange{p.First, p.Last}
	}
	*n = uint8(len(all))
	r.condition(is, not)
	return nil
}

// addresses adds a condition about a range of addresses.
func (r *Row) addresses(to *span, is uint16, a language.AddressRange) {
	if a == (language.AddressRange{}) {
		return
	}
	to.First, to.Last = wordsOf(a.First), wordsOf(a.Last)
	r.condition(is, a.Not)
}

// wordsOf returns an address as words in host byte order.
func wordsOf(a netip.Addr) (out [16]byte) {
	b := a.As16()
	for i := 0; i < len(b); i += 4 {
		binary.NativeEndian.PutUint32(out[i:], binary.BigEndian.Uint32(b[i:]))
	}
	return out
}

func (r *Row) types(m language.AddrType) error {
	if m.LimitIn || m.LimitOut {
		return fmt.Errorf("--limit-iface-in and --limit-iface-out are not supported: an address is local on all netdevs of the host")
	}
	for _, side := range []struct {
		to    *uint32
		is    uint16
		names []string
		not   bool
	}{{&r.SourceType, hasSourceType, m.Source, m.SourceNot}, {&r.DestinationType, hasDestinationType, m.Destination, m.DestinationNot}} {
		bits, err := hostaddr.TypesOf(side.names)
		if err != nil {
			return err
		}
		*side.to = bits
		if len(side.names) > 0 {
			r.condition(side.is, side.not)
		}
	}
	return nil
}

func (r *Row) statistic(m language.Statistic) {
	if m.Every != 0 {
		r.Every, r.Behind = m.Every, m.Packet
		r.condition(hasNth, m.Not)
		return
	}
	r.Chance = uint32(math.Round(m.Probability * (1 << 31)))
	r.condition(hasChance, m.Not)
}

// news accepts the one condition about connections that holds in the table nat.
func news(m language.Conntrack) error {
	state := m.State
	m.State, m.Short = nil, false
	if m.StateNot || !slices.Equal(state, []string{"NEW"}) || fmt.Sprint(m) != fmt.Sprint(language.Conntrack{}) {
		return fmt.Errorf("the table nat sees the first packet of a connection, whose state is NEW: no other condition is supported here")
	}
	return nil
}

// translate fills in what the target of a rule makes of a packet.
func (r *Row) translate(t language.NAT) error {
	r.Does = map[string]does{"SNAT": snat, "MASQUERADE": masquerade, "DNAT": dnat, "REDIRECT": redirect}[t.Kind]
	if t.Random || t.RandomFully {
		r.RandomPort = 1
	}
	if t.Ports != nil {
		r.PortFirst, r.PortLast = t.Ports.First, t.Ports.Last
		if r.PortFirst == 0 {
			return fmt.Errorf("port 0 is not a port to translate to")
		}
	}
	if !t.First.IsValid() {
		return nil
	}
	first, last := t.First.As16(), t.Last.As16()
	if !slices.Equal(first[:12], last[:12]) {
		return fmt.Errorf("%s-%s: a range may have up to 2^32 addresses, which differ in their last 32 bits", t.First, t.Last)
	}
	n := binary.BigEndian.Uint32(last[12:]) - binary.BigEndian.Uint32(first[12:])
	if n == math.MaxUint32 {
		return fmt.Errorf("%s-%s: a range may have less than 2^32 addresses", t.First, t.Last)
	}
	r.To, r.Count = first, n+1
	return nil
}
