// SPDX-License-Identifier: Apache-2.0

package cube

// A cube's programs flood to all of its ports (pcn_pkt_flood), or to a set of them (pcn_pkt_flood_set): the members of
// a VLAN, or of a multicast group. The kernel makes the copies, each with or without the frame's VLAN tag as its port
// requires.

// MaxFloodSet is the largest index of a set.
const MaxFloodSet = 1<<16 - 1

// FloodMember is a port of a set.
type FloodMember struct {
	// Port is its index; see Env.PortIndex.
	Port uint16
	// Tagged members get the frame with the tag that the program specifies, others without it.
	Tagged bool
}

// Floods are the cube's sets of ports. They are data like map entries: they belong to the cube, survive relinks and
// restarts of the daemon, and a packet sees either the old or the new version of a set, never a mixture. A set may
// contain ports that do not exist or have no peer yet; they are skipped until they do. The ingress port is always
// skipped.
//
// Methods may be called from the steps of the first plan on: from steps and their undo, handlers and timers, and from
// goroutines of the cube's own; not from Prepare. An error is ErrInvalid for an index or a port out of range, or
// ErrFull if the daemon has no room for more sets; then nothing has changed.
type Floods interface {
	// Set replaces a set; without members, it is deleted.
	Set(index uint32, members []FloodMember) error
	// SetAll replaces several sets, each in one step, and leaves the others unchanged.
	SetAll(sets map[uint32][]FloodMember) error
	// All returns the sets, as programs see them.
	All() map[uint32][]FloodMember
	// Reset replaces all sets of the cube by these.
	Reset(sets map[uint32][]FloodMember) error
}
