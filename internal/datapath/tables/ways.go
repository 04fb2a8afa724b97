// SPDX-License-Identifier: Apache-2.0

package tables

// ExitKind says how a copy gets to its port.
type ExitKind uint16

// The kinds of exits.
const (
	AsItIs         ExitKind = iota // to a netdev
	Untagged                       // to a netdev, without the tag that other members want
	ByLoop                         // back by the loop
	ByLoopUntagged                 // back by the loop, without the tag
	ForTC                          // to a netdev, without the tag; TC makes these of one copy that comes back by the loop
)

// Way is where a group leads.
type Way struct {
	Ifindex uint32 // of the netdev or the loop
	Kind    ExitKind
	Port    uint16 // of copies that come back by the loop
}
