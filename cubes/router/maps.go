// SPDX-License-Identifier: Apache-2.0

package router

// The map entries, with the layout of the program's structs; a test compares the two.

import (
	"encoding/binary"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// addrOf returns the address; the zero Addr for the program's "none".
func addrOf(a inet.Address) netip.Addr {
	if a == (inet.Address{}) {
		return netip.Addr{}
	}
	return a.Addr()
}

// ownBit returns the position of an address in ownBits, as router_own_bit does.
func ownBit(a inet.Address) uint32 {
	var folded uint32
	for i := 0; i < len(a); i += 4 {
		folded ^= binary.NativeEndian.Uint32(a[i:])
	}
	return folded * 0x9e3779b1 >> 19
}

// ownBits is struct router_own.
type ownBits struct{ Bits [8192 / 64]uint64 }

// portEntry is struct router_port.
type portEntry struct {
	Mac      inet.MAC
	Mtu      uint32
	RpFilter uint8
	HasIp4   uint8
	HasIp6   uint8
	_        uint8
	Address4 uint32
	_        uint32
	Address6 inet.Address
}

// addressKey is struct router_address_key.
type addressKey struct {
	Address inet.Address
	Port    uint16
	_       uint16
}

// addressEntry is struct router_address.
type addressEntry struct {
	Tentative uint8
	Length    uint8
	_         [2]uint8
}

// neighbourEntry is struct router_neighbour.
type neighbourEntry struct {
	Confirmed uint64
	Mac       inet.MAC
	State     uint8
	Queued    uint8
	_         [6]uint8
}

// The states of neighbours: enum router_neighbour_state.
const (
	neighbourIncomplete uint8 = 1 + iota
	neighbourReachable
	neighbourStale
	neighbourProbe
	neighbourFailed
	neighbourPermanent
)

// usable reports whether packets are sent to the neighbour.
func (n neighbourEntry) usable() bool {
	return n.State != 0 && n.State != neighbourIncomplete && n.State != neighbourFailed
}

// The kinds of routes: enum router_kind.
const (
	kindNone uint16 = iota
	kindUnicast
	kindLocal
	kindBroadcast
	kindBlackhole
	kindUnreachable
	kindProhibit
	kindMultipath
)

// The next hops that every router has, by ROUTER_HOP_...
const (
	hopNone uint32 = iota
	hopLocal
	hopBroadcast
	hopBlackhole
	hopUnreachable
	hopProhibit
	hopFirst
)

// hopEntry is struct router_next_hop.
type hopEntry struct {
	To      inet.MAC
	From    inet.MAC
	Gateway inet.Address
	Mtu     uint32
	Port    uint16
	Kind    uint16
	Group   uint32
	Members uint32
}

// groupMax is ROUTER_GROUP_MAX.
const groupMax = 32

// groupEntry is struct router_group.
type groupEntry struct{ Member [groupMax]uint32 }

// prefix6 is the key of the trie of IPv6 routes.
type prefix6 struct {
	Length  uint32
	Address inet.Address
}

func prefix6Of(p netip.Prefix) prefix6 {
	return prefix6{uint32(p.Bits()), inet.AddressOf(p.Addr())}
}

func (p prefix6) prefix() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom16(p.Address), int(p.Length))
}

// tables are the maps of the data plane.
type tables struct {
	ports      table.Table[uint32, portEntry]
	addresses  table.Table[addressKey, addressEntry]
	owners     table.Table[inet.Address, uint32]
	own        table.Table[uint32, ownBits]
	neighbours table.Table[addressKey, neighbourEntry]
	hops       table.Table[uint32, hopEntry]
	groups     table.Table[uint32, groupEntry]
	fib4       fib4
	routes6    table.Table[prefix6, uint32]
}

func newTables(env cube.Env) tables {
	return tables{
		ports:      table.New[uint32, portEntry](env, "ports"),
		addresses:  table.New[addressKey, addressEntry](env, "addresses"),
		owners:     table.New[inet.Address, uint32](env, "owners"),
		own:        table.New[uint32, ownBits](env, "own"),
		neighbours: table.New[addressKey, neighbourEntry](env, "neighbours"),
		hops:       table.New[uint32, hopEntry](env, "next_hops"),
		groups:     table.New[uint32, groupEntry](env, "groups"),
		fib4:       fib4{table.New[uint32, chunkEntry](env, "fib4"), table.NewMapOf[uint32, uint32, chunkEntry](env, "fib4_pages")},
		routes6:    table.New[prefix6, uint32](env, "routes6"),
	}
}
