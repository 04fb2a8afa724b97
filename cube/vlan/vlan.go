// SPDX-License-Identifier: Apache-2.0

// Package vlan describes the VLAN netdevs that the framework reports to cubes.
package vlan

// Netdev is a VLAN netdev that does nothing but add and remove a tag, so that a program on the netdev below it may do that in its
// place: it is up and has no master, its frames have no priorities, there is no XDP program, macvlan or the like on it,
// and no cube gets its packets, not even one at `host`. All others are left to the stack.
type Netdev struct {
	// Index is the interface index.
	Index int
	// Protocol is the EtherType of the tag: 0x8100 or 0x88a8.
	Protocol uint16
	// ID is the VLAN id, 1 to 4094.
	ID uint16
	// MAC is the address of the netdev, mostly that of the netdev below.
	MAC [6]byte
}
