// SPDX-License-Identifier: Apache-2.0

// Package elements is the memory in which programs find the elements of named sets that are no plain prefixes:
// <pcn/elements.h>. Cubes of service ipset write it, and others refer to sets by their numbers.
package elements

import (
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/ipset"
)

// Kind is what elements consist of: enum pcn_elements_kind.
type Kind uint32

// The kinds.
const (
	IP Kind = iota + 1
	IPPort
	IPPortIP
	MAC
	Port
	Sets
)

// kinds are those of the types of sets.
var kinds = map[string]Kind{
	"hash:ip": IP, "hash:net": IP, "hash:ip,port": IPPort, "hash:net,port": IPPort, "hash:ip,port,ip": IPPortIP,
	"hash:mac": MAC, "bitmap:port": Port, "list:set": Sets,
}

// KindOf returns the kind of a type of sets; 0 if there is no such type.
func KindOf(name string) Kind { return kinds[name] }

// The flags of a slot.
const (
	IPv6 = 1 << iota
	Counted
	Expiring
)

// MaxMembers is how many sets a set of sets may have.
const MaxMembers = 64

// Slot is struct pcn_elements_slot.
type Slot struct {
	Owner, Count uint64
	// Refused is the number of packets that a rule would have added, but there was no room. Ended is not 0 if programs
	// have ended elements.
	Refused, Ended uint64
	Lengths        [2]uint64
	Kind           Kind
	Flags          uint32
	Timeout        uint32
	Most           uint32
	First, Last    uint32
	Member         [MaxMembers]uint16
}

// Key is struct pcn_element_key.
type Key struct {
	Slot     uint32
	Address  [16]byte
	Second   [16]byte
	Port     uint16
	Protocol uint8
	Length   uint8
}

// The flags of a value.
const (
	NoMatch = 1 << iota
	// Added is an element that a program has added.
	Added
)

// Value is struct pcn_element.
type Value struct {
	Expires, Packets, Bytes uint64
	Flags                   uint32
	_                       uint32
}

// Over reports whether the element has expired; now is cube.TimeCoarse.
func (v *Value) Over(now uint64) bool { return v.Expires != 0 && now >= v.Expires }

// Left returns the seconds until the element expires, rounded up; 0 if it never does, or has.
func (v *Value) Left(now uint64) uint32 {
	if v.Expires <= now {
		return 0
	}
	return uint32((v.Expires - now + uint64(time.Second) - 1) / uint64(time.Second))
}

// Expiry returns the time at which an element expires that lives for so many seconds from now on.
func Expiry(seconds uint32) (uint64, error) {
	if seconds == 0 {
		return 0, nil
	}
	now, err := cube.TimeCoarse()
	return now + uint64(seconds)*uint64(time.Second), err
}

// KeyOf returns the key of an element with one address or prefix, and one port; it lacks the slot.
func KeyOf(e ipset.Element) (k Key) {
	switch p := e.Net; {
	case p.IsValid():
		k.address(p)
	case e.First.IsValid():
		k.address(netip.PrefixFrom(e.First, e.First.BitLen()))
	case e.MAC != 0:
		mac := e.MAC.Bytes()
		copy(k.Address[:], mac[:])
	}
	if e.Second.IsValid() {
		k.Second = e.Second.As16()
	}
	k.Port, k.Protocol = e.FirstPort, e.Protocol
	return k
}

// address fills in a prefix: IPv4 addresses have 96 bits before them.
func (k *Key) address(p netip.Prefix) {
	k.Address, k.Length = p.Addr().As16(), uint8(p.Bits()+128-p.Addr().BitLen())
}

// Element returns the element of a set with a key.
func (k *Key) Element(h ipset.Header) (e ipset.Element) {
	kind := kinds[h.Type]
	e.FirstPort, e.LastPort, e.Protocol = k.Port, k.Port, k.Protocol
	if kind == MAC {
		e.MAC = inet.MACOf(k.Address[:6])
		return e
	}
	if kind >= MAC {
		return e
	}
	a, length := addressOf(k.Address, h), int(k.Length)
	if a.Is4() {
		length -= 96
	}
	e.First, e.Last = a, a
	if h.Type == "hash:net" || h.Type == "hash:net,port" {
		e.First, e.Last, e.Net = netip.Addr{}, netip.Addr{}, netip.PrefixFrom(a, length)
	}
	if kind == IPPortIP {
		e.Second = addressOf(k.Second, h)
	}
	return e
}

func addressOf(b [16]byte, h ipset.Header) netip.Addr {
	a := netip.AddrFrom16(b)
	if h.Family == 4 {
		return a.Unmap()
	}
	return a
}

// Bit returns the word of Slot.Lengths, and the bit there, of the key's length.
func (k *Key) Bit() (word int, bit uint64) {
	if k.Length > 64 {
		return 0, 1 << (128 - k.Length)
	}
	return 1, 1 << (64 - k.Length)
}
