// SPDX-License-Identifier: Apache-2.0

package floods

// The copies of a flood to a set that the kernel could not make: frames in several buffers, and those that did not
// enter from their port's netdev in the current run.

import (
	"encoding/binary"
	"iter"

	"github.com/polycube/polycube/internal/datapath/graph"
)

// Words of the metadata of a packet for a set, as written by pcn_core_to_set_for: the set, with this bit if the frame
// has the tag, and the tag.
const (
	HasTag     = 1 << 16
	WordOfSet  = 0
	wordOfTag  = 1
	macs       = 12 // bytes before a tag
	tagLength  = 4
	headLength = 14
)

// Copies returns the frames for the ports of a set of a packet received on a port, by port. A frame is valid until the
// next one. words are the packet's metadata.
func (s *Sets) Copies(id graph.CubeID, in uint16, words [4]uint32, frame []byte) iter.Seq2[uint16, []byte] {
	members := s.Members(id, words[WordOfSet]&0xffff)
	has, tag := words[WordOfSet]&HasTag != 0, words[wordOfTag]
	other := retag(frame, tag, !has)
	return func(yield func(uint16, []byte) bool) {
		for _, m := range members {
			if m.Port == in {
				continue
			}
			f := frame
			if tag != 0 && m.Tagged != has {
				f = other
			}
			if f != nil && !yield(m.Port, f) {
				return
			}
		}
	}
}

// retag returns a copy of a frame with the tag pushed, or with the outer tag popped; nil if it is too short.
func retag(frame []byte, tag uint32, tagged bool) []byte {
	if len(frame) < headLength || !tagged && len(frame) < headLength+tagLength {
		return nil
	}
	out := append(make([]byte, 0, len(frame)+tagLength), frame[:macs]...)
	if tagged {
		return append(binary.BigEndian.AppendUint32(out, tag), frame[macs:]...)
	}
	return append(out, frame[macs+tagLength:]...)
}
