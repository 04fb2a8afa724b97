// SPDX-License-Identifier: Apache-2.0

package datapath

// exitKind says how a copy gets to its port.
type exitKind uint16

const (
	asItIs         exitKind = iota // to a netdev
	untagged                       // to a netdev, without the tag that other members want
	byLoop                         // back by the loop
	byLoopUntagged                 // back by the loop, without the tag
	forTC                          // to a netdev, without the tag; TC makes these of one copy that comes back by the loop
)

// way is where a group leads.
type way struct {
	ifindex uint32 // of the netdev or the loop
	kind    exitKind
	port    uint16 // of copies that come back by the loop
}
