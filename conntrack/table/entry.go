// SPDX-License-Identifier: Apache-2.0

package table

import (
	"encoding/binary"
	"net/netip"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// Key is struct pcn_conntrack_key: what all packets of a connection have in common, its ends sorted.
type Key struct {
	Address  [2]inet.Address
	Port     [2]flow.Port
	Zone     uint16
	Protocol uint8
	IPv6     uint8
}

// keyWords is the number of words of a key.
const keyWords = 5

var _ [keyWords * 8]byte = [unsafe.Sizeof(Key{})]byte{}

// word returns a word of the key as programs read it.
func (k *Key) word(i int) uint64 {
	return binary.NativeEndian.Uint64((*[keyWords * 8]byte)(unsafe.Pointer(k))[8*i:])
}

// Protocols whose ports are not ports, or which have none before a fragment's first.
const (
	icmp, tcp, udp, dccp, icmpv6, sctp, udplite = 1, 6, 17, 33, 58, 132, 136
)

// KeyOf returns the key of a packet's connection and the side that sent the packet, 0 or 1; false if it has none: later
// fragments, and ICMP other than queries and replies to them. It is pcn_conntrack_key.
func KeyOf(f *flow.Flow, zone uint16) (k Key, side uint8, ok bool) {
	k = Key{[2]inet.Address{f.Source, f.Destination}, [2]flow.Port{f.SourcePort, f.DestinationPort}, zone, f.Protocol, 0}
	query := uint8(icmp)
	if f.Has&flow.IPv6 != 0 {
		k.IPv6, query = 1, icmpv6
	}
	if f.Has&flow.L4 == 0 || f.Fragment == flow.Later {
		return Key{}, 0, false
	}
	switch f.Protocol {
	case query:
		request, reply, ok := icmpQuery(f.ICMPType, k.IPv6 == 1)
		if !ok || f.Has&flow.ICMP == 0 {
			return Key{}, 0, false
		}
		at := 1
		if reply {
			at = 0
		}
		k.Port[at] = flow.Port{0, request}
	case tcp, udp, dccp, sctp, udplite:
		if f.Has&flow.Ports == 0 {
			return Key{}, 0, false
		}
	}
	return k, k.sort(), true
}

// Between returns the key of the connection that one end opened to another, and the side of the one that opened it. Of
// ICMP, the port of the one is the id of the query, and that of the other the type of the request.
func Between(from, to netip.AddrPort, protocol uint8, zone uint16) (k Key, side uint8) {
	k = Key{[2]inet.Address{inet.AddressOf(from.Addr()), inet.AddressOf(to.Addr())}, [2]flow.Port{}, zone, protocol, 0}
	for i, end := range []netip.AddrPort{from, to} {
		binary.BigEndian.PutUint16(k.Port[i][:], end.Port())
		if end.Addr().Is6() {
			k.IPv6 = 1
		}
	}
	return k, k.sort()
}

// sort sorts the ends, and returns the side that was the first.
func (k *Key) sort() (side uint8) {
	if k.first() {
		return 0
	}
	k.Address[0], k.Address[1] = k.Address[1], k.Address[0]
	k.Port[0], k.Port[1] = k.Port[1], k.Port[0]
	return 1
}

// first reports whether the first end is not after the second, in an order that is the same for programs.
func (k *Key) first() bool {
	for i := range 2 {
		if a, b := k.word(i), k.word(i+2); a != b {
			return a < b
		}
	}
	return binary.NativeEndian.Uint16(k.Port[0][:]) <= binary.NativeEndian.Uint16(k.Port[1][:])
}

// icmpQuery returns the type of the query to which a packet belongs, and whether the packet is the reply.
func icmpQuery(kind uint8, ipv6 bool) (request uint8, reply, ok bool) {
	switch {
	case ipv6:
		return 128, kind == 129, kind == 128 || kind == 129
	case kind == 0 || kind == 8:
		return 8, kind == 0, true
	}
	return (kind - 1) | 1, kind&1 == 0, kind >= 13 && kind <= 18
}

// Entry is struct pcn_conntrack_entry: a connection. Mark, Rule and User belong to the cube that opened it.
type Entry struct {
	Key        Key
	Status     uint32 // internal
	Generation uint32 // of the zone's rules when they accepted it
	Seen       uint64 // monotonic nanoseconds of its last packet
	Mark       uint32
	Rule       uint32
	State      conntrack.State
	User       [2]uint64
}

// Idle returns the time since the last packet, at a monotonic time.
func (e *Entry) Idle(now time.Duration) time.Duration {
	return max(now-time.Duration(atomic.LoadUint64(&e.Seen)), 0)
}

// Values of Status: enum pcn_conntrack_status.
const (
	free uint32 = iota
	open
	tentative
	outbid
	withdrawn
	ended
)

// line is struct pcn_conntrack_line.
type line struct {
	word   [15]uint32
	beyond uint32
}

const (
	numberBits = 24
	numberMask = 1<<numberBits - 1
	takes      = 16 // numbers that a CPU takes at a time
	// partEntries is PCN_CONNTRACK_PART.
	partEntries = 1 << 15
	// entriesOfLine is how many entries there are for each line.
	entriesOfLine = 8
	// minSize is the least size of a table: lines of two, and numbers for a CPU.
	minSize = 2*takes - 1
)

// taken is struct pcn_conntrack_taken.
type taken struct {
	Left   uint32
	Zero   [15]uint32
	Number [takes]uint32
}

// control is struct pcn_conntrack_control.
type control struct {
	seed  [keyWords]uint64
	lines uint64
	ring  uint32
	size  uint32
	_     uint64
	head  uint32
	_     [15]uint32
	tail  uint32
	_     [15]uint32
}

// Members of control.lines: PCN_CONNTRACK_LINES_MASK and PCN_CONNTRACK_LINES_SECOND.
const (
	linesMask   = 0xffffff
	linesSecond = 1 << 31
)

// zone is struct pcn_conntrack_zone.
type zone struct {
	count, limit, generation, owner uint32
}

func mix(x uint64) uint64 {
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	x = (x ^ x>>32) * 0xd6e8feb86659fd93
	return x ^ x>>32
}

// hash is the hash of a key in this table.
func (c *control) hash(k *Key) uint64 {
	sum := uint64(0)
	for i, seed := range c.seed {
		sum += mix(k.word(i) ^ seed)
	}
	return mix(sum)
}

// wordOf is a line's word for an entry with a hash.
func wordOf(hash uint64, number uint32) uint32 {
	return max(uint32(hash>>56), 1)<<numberBits | number
}
