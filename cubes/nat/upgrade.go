// SPDX-License-Identifier: Apache-2.0

package nat

import (
	"sync/atomic"
	"unsafe"

	"github.com/polycube/polycube/conntrack"
)

// adopt converts the progress of a session that an earlier version opened: it was the TCP flags seen from inside, SYN, ACK,
// FIN and RST from the lowest bit on, then those from outside; of other protocols, ACK. A packet that comes before the sweep
// makes a new progress of it, which lacks what had been seen.
func (s *session) adopt() {
	was := s.Progress
	if was.Timeout != conntrack.Unlimited || was.State == conntrack.None {
		return
	}
	var is conntrack.Progress
	opener := s.Flags & flagInbound / flagInbound
	for _, side := range []uint8{opener, 1 - opener} {
		if seen := uint8(was.State) >> (4 * side); seen&7 != 0 {
			is.Follow(side, s.Key.Proto, conntrack.Flag(seen&1<<1|seen&2<<3|seen&4>>2))
		}
	}
	for side := range uint8(2) {
		if uint8(was.State)>>(4*side)&8 != 0 {
			is.Follow(side, s.Key.Proto, conntrack.RST)
		}
	}
	word := func(p *conntrack.Progress) *uint32 { return (*uint32)(unsafe.Pointer(p)) }
	atomic.CompareAndSwapUint32(word(&s.Progress), *word(&was), *word(&is))
}
