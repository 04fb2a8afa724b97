// SPDX-License-Identifier: Apache-2.0

package nat

// The maps of nat.h in Go; a test compares the types with the C structs.

import (
	"encoding/binary"
	"net/netip"
	"strconv"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// origin is enum nat_origin.
type origin uint8

const (
	originSnat origin = iota
	originMasquerade
	originDnat
	originForwarding
)

// String returns the model's name.
func (o origin) String() string {
	if int(o) < len(originNames) {
		return originNames[o]
	}
	return strconv.Itoa(int(o))
}

var originNames = [...]string{"snat", "masquerade", "dnat", "portforwarding"}

// port is in network byte order.
type port [2]byte

func portOf(n uint16) (p port) {
	binary.BigEndian.PutUint16(p[:], n)
	return p
}

func (p port) number() uint16 { return binary.BigEndian.Uint16(p[:]) }

// sourceKey is struct nat_source_key.
type sourceKey struct {
	Bits uint32
	Addr inet.Address
}

func sourceKeyOf(p netip.Prefix) sourceKey {
	return sourceKey{Bits: bitsOf(p), Addr: inet.AddressOf(p.Masked().Addr())}
}

// bitsOf returns the length of a prefix in 16-byte addresses.
func bitsOf(p netip.Prefix) uint32 {
	if p.Addr().Is4() {
		return uint32(p.Bits()) + 96
	}
	return uint32(p.Bits())
}

// source is struct nat_source.
type source struct {
	Rule                uint32
	Count               uint32
	First               inet.Address
	PortFirst, PortLast uint16
	Origin              origin
	_                   [3]uint8
}

// forwardKey is struct nat_forward_key.
type forwardKey struct {
	Bits  uint32
	Addr  inet.Address
	Proto uint8
	_     uint8
	Port  port
}

// The lengths of keys of the map `forwards`.
const (
	addressBits = 128
	protoBits   = addressBits + 16
	portBits    = protoBits + 16
)

// forward is struct nat_forward.
type forward struct {
	Rule   uint32
	To     inet.Address
	Port   port
	Base   port
	Origin origin
	_      [3]uint8
}

// key4 is struct nat_key4.
type key4 struct {
	Local, Remote         [4]byte
	LocalPort, RemotePort port
	Proto                 uint8
	_                     [3]uint8
}

// key6 is struct nat_key6.
type key6 struct {
	Local, Remote         [16]byte
	LocalPort, RemotePort port
	Proto                 uint8
	_                     [3]uint8
}

// half is the common beginning of struct nat_session4 and nat_session6: one direction of a session.
type half struct {
	Created, Seen        uint64
	Packets, Bytes       uint64
	Rule                 uint32
	State                uint32
	AddrDelta, PortDelta uint16
	Port                 port
	Flags                uint8
	Origin               origin
}

// inbound is the other direction's part of an entry of egress tables with flagMapped.
type inbound struct{ Seen, Packets, Bytes uint64 }

func (in inbound) half() half { return half{Seen: in.Seen, Packets: in.Packets, Bytes: in.Bytes} }

// session4 is struct nat_session4.
type session4 struct {
	Half half
	Addr [4]byte
	_    uint32
	In   inbound
}

// session6 is struct nat_session6.
type session6 struct {
	Half half
	Addr [16]byte
	In   inbound
}

// The bits of half.State: the TCP flags seen; for other protocols only ACK.
const (
	outACK = 1 << 1
	outFIN = 1 << 2
	outRST = 1 << 3
	inACK  = 1 << 5
	inFIN  = 1 << 6
	inRST  = 1 << 7
)

// The bits of half.Flags that matter here.
const (
	// flagMapping: not a session but the claim of an external endpoint.
	flagMapping = 1 << 0
	// flagMapped: packets from outside find the session through its mapping; it has no entry in the ingress table.
	flagMapped = 1 << 5
)

// endpoint is an address with a port, or with the id of ICMP queries.
type endpoint struct {
	addr netip.Addr
	port uint16
}

// session is an entry of an egress table in the control plane's types.
type session struct {
	half
	in                         inbound
	proto                      uint8
	internal, remote, external endpoint
}

// family contains the tables of IPv4 or IPv6.
type family[K comparable, V any] struct {
	egress, ingress table.Table[K, V]
	// session decodes an entry of egress; twin returns the key of the other direction, for entries of both tables,
	// and bare the key of the mapping of a local endpoint.
	session func(K, V) session
	twin    func(K, V) K
	bare    func(K) K
	half    func(V) half
	// key is the inverse of session.
	key func(internal, remote endpoint, proto uint8) K
}

// tables are the maps.
type tables struct {
	sources  table.Table[sourceKey, source]
	forwards table.Table[forwardKey, forward]
	v4       family[key4, session4]
	v6       family[key6, session6]
	// next4 and next6 contain the tables that will replace those above, while their size changes.
	next4    table.MapOf[uint32, key4, session4]
	next6    table.MapOf[uint32, key6, session6]
	counters counter.Set
}

func newTables(env cube.Env) tables {
	return tables{
		sources:  table.New[sourceKey, source](env, "sources"),
		forwards: table.New[forwardKey, forward](env, "forwards"),
		next4:    table.NewMapOf[uint32, key4, session4](env, "next4"),
		next6:    table.NewMapOf[uint32, key6, session6](env, "next6"),
		counters: counters.In(env, "counters"),
		v4: family[key4, session4]{session: session4Of, twin: twin4, bare: bare4, half: func(s session4) half { return s.Half }, key: key4Of,
			egress: table.New[key4, session4](env, "egress4"), ingress: table.New[key4, session4](env, "ingress4")},
		v6: family[key6, session6]{session: session6Of, twin: twin6, bare: bare6, half: func(s session6) half { return s.Half }, key: key6Of,
			egress: table.New[key6, session6](env, "egress6"), ingress: table.New[key6, session6](env, "ingress6")},
	}
}

func session4Of(k key4, v session4) session {
	return session{half: v.Half, in: v.In, proto: k.Proto,
		internal: endpoint{netip.AddrFrom4(k.Local), k.LocalPort.number()},
		remote:   endpoint{netip.AddrFrom4(k.Remote), k.RemotePort.number()},
		external: endpoint{netip.AddrFrom4(v.Addr), v.Half.Port.number()}}
}

func session6Of(k key6, v session6) session {
	return session{half: v.Half, in: v.In, proto: k.Proto,
		internal: endpoint{netip.AddrFrom16(k.Local), k.LocalPort.number()},
		remote:   endpoint{netip.AddrFrom16(k.Remote), k.RemotePort.number()},
		external: endpoint{netip.AddrFrom16(v.Addr), v.Half.Port.number()}}
}

func twin4(k key4, v session4) key4 {
	k.Local, k.LocalPort = v.Addr, v.Half.Port
	return k
}

func twin6(k key6, v session6) key6 {
	k.Local, k.LocalPort = v.Addr, v.Half.Port
	return k
}

func bare4(k key4) key4 { return key4{Local: k.Local, LocalPort: k.LocalPort, Proto: k.Proto} }

func bare6(k key6) key6 { return key6{Local: k.Local, LocalPort: k.LocalPort, Proto: k.Proto} }

func key4Of(internal, remote endpoint, proto uint8) key4 {
	return key4{Local: internal.addr.As4(), Remote: remote.addr.As4(), LocalPort: portOf(internal.port),
		RemotePort: portOf(remote.port), Proto: proto}
}

func key6Of(internal, remote endpoint, proto uint8) key6 {
	return key6{Local: internal.addr.As16(), Remote: remote.addr.As16(), LocalPort: portOf(internal.port),
		RemotePort: portOf(remote.port), Proto: proto}
}
