// SPDX-License-Identifier: Apache-2.0

package tables

// ExitKind says how a copy of a flooded packet reaches its port.
type ExitKind uint16

// The kinds of exits.
const (
	AsItIs         ExitKind = iota // to a netdev
	Untagged                       // to a netdev, without the tag that other members need
	ByLoop                         // back through the loop
	ByLoopUntagged                 // back through the loop, without the tag
	ForTC                          // to a netdev, without the tag; TC makes these from one copy that comes back through the loop
)

// Way is the destination of a group.
type Way struct {
	Ifindex uint32 // of the netdev or the loop
	Kind    ExitKind
	Port    uint16 // of copies that come back through the loop
}
