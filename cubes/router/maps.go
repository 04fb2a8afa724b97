// SPDX-License-Identifier: Apache-2.0

package router

// The entries of the maps, laid out as the program's structs; a test compares the two.

import (
	"encoding/binary"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// addrOf is the address, the zero Addr where the program has none.
func addrOf(a inet.Address) netip.Addr {
	if a == (inet.Address{}) {
		return netip.Addr{}
	}
	return a.Addr()
}

// ownBit is where an address is in ownBits, as router_own_bit finds it.
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

// usable says whether packets are sent to the neighbour.
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
	ports      cube.Table[uint32, portEntry]
	addresses  cube.Table[addressKey, addressEntry]
	owners     cube.Table[inet.Address, uint32]
	own        cube.Table[uint32, ownBits]
	neighbours cube.Table[addressKey, neighbourEntry]
	hops       cube.Table[uint32, hopEntry]
	groups     cube.Table[uint32, groupEntry]
	fib4       fib4
	routes6    cube.Table[prefix6, uint32]
}

// openTables opens the maps; it is of use from the first Commit on.
func openTables(env cube.Env) (t tables, err error) {
	open := func(name string, with func(string) error) {
		if err == nil {
			err = with(name)
		}
	}
	open("ports", func(n string) (err error) { t.ports, err = cube.OpenTable[uint32, portEntry](env, n); return err })
	open("addresses", func(n string) (err error) {
		t.addresses, err = cube.OpenTable[addressKey, addressEntry](env, n)
		return err
	})
	open("owners", func(n string) (err error) { t.owners, err = cube.OpenTable[inet.Address, uint32](env, n); return err })
	open("own", func(n string) (err error) { t.own, err = cube.OpenTable[uint32, ownBits](env, n); return err })
	open("neighbours", func(n string) (err error) {
		t.neighbours, err = cube.OpenTable[addressKey, neighbourEntry](env, n)
		return err
	})
	open("next_hops", func(n string) (err error) { t.hops, err = cube.OpenTable[uint32, hopEntry](env, n); return err })
	open("groups", func(n string) (err error) { t.groups, err = cube.OpenTable[uint32, groupEntry](env, n); return err })
	open("fib4", func(n string) (err error) { t.fib4.root, err = cube.OpenTable[uint32, chunkEntry](env, n); return err })
	open("fib4_pages", func(n string) (err error) {
		t.fib4.pages, err = cube.OpenMapOf[uint32, uint32, chunkEntry](env, n)
		return err
	})
	open("routes6", func(n string) (err error) { t.routes6, err = cube.OpenTable[prefix6, uint32](env, n); return err })
	return t, err
}
