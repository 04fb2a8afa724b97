// SPDX-License-Identifier: Apache-2.0

package cube

// A cube's programs flood to all of its ports (pcn_pkt_flood), or to a set of them (pcn_pkt_flood_set): the members of a
// VLAN, of a multicast group. The kernel makes the copies, each with or without the frame's VLAN tag as its port wants it.

// MaxFloodSet is the largest index of a set.
const MaxFloodSet = 1<<16 - 1

// FloodMember is a port of a set.
type FloodMember struct {
	// Port is its index; see Env.PortIndex.
	Port uint16
	// Tagged members get the frame with the tag that the program names, others without it.
	Tagged bool
}

// Floods are the cube's sets of ports. They are data like the entries of maps: they belong to the cube, outlive relinks and
// the daemon, and a packet sees a set as it was before a change or as it is after, never a part. A set may name ports that
// do not exist or lead nowhere yet; they are left out until they do. The port where a packet came in is left out always.
//
// Methods may be called from the steps of the first plan on: from steps and their undo, handlers and timers, and from goroutines of
// the cube's own; not from Prepare. An error is ErrInvalid for an index or a port out of range, ErrFull where the daemon
// has no room for more sets; then nothing has changed.
type Floods interface {
	// Set replaces a set; one without members goes.
	Set(index uint32, members []FloodMember) error
	// SetAll replaces several sets, each in one step, and leaves the others as they are.
	SetAll(sets map[uint32][]FloodMember) error
	// Reset makes these sets the only ones that the cube has.
	Reset(sets map[uint32][]FloodMember) error
}
