// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"iter"

	"github.com/polycube/polycube/cube"
)

// SetFloods replaces sets of a cube; a set without members is deleted, and with only also every set that is not named.
// On an error everything stays as before. It does not wait for a change that is being prepared.
func (p *Plane) SetFloods(id CubeID, sets map[uint32][]cube.FloodMember, only bool) error {
	return p.sets.Set(id, sets, only)
}

// Floods returns the sets of a cube. It waits for a change that is being committed.
func (p *Plane) Floods(id CubeID) map[uint32][]cube.FloodMember { return p.sets.All(id) }

// FloodCopies returns the copies of a packet for the ports of a set, by port, if the packet came in at a port. A frame
// is valid until the next one. words are the packet's metadata.
func (p *Plane) FloodCopies(id CubeID, in uint16, words [4]uint32, frame []byte) iter.Seq2[uint16, []byte] {
	return p.sets.Copies(id, in, words, frame)
}
