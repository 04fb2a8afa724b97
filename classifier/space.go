// SPDX-License-Identifier: Apache-2.0

package classifier

// The free blocks of a set. Runs of any length are allocated and freed in any order for as long as a set exists, so a
// freed run is merged with free neighbours. Short runs, of rules that stay for long, are in separate parts, so that
// they do not fragment the space for long ones. Runs are found by length as in TLSF (Masmano et al., 2004): in a list
// per length, or for lengths that are equal within an eighth.

import "math/bits"

const (
	// exactRuns is the number of lengths with their own list; above them, each doubling has perDoubling lists.
	exactRuns   = 32
	perDoubling = 8
	exactBits   = 6 // of exactRuns
	runLists    = exactRuns + perDoubling*14
	// shortRun is the maximum length in the parts for short runs, which have at least shortPart blocks.
	shortRun  = 8
	shortPart = 64
	// isShort is a bit in the length of a free run in such a part.
	isShort = 1 << 31
)

// space contains the free runs of a set.
type space struct {
	// length is the length of a free run, at its first and its last block, and 0 at all other blocks.
	length []uint32
	// next and prev link the runs of a list, by their first blocks; 0 ends it.
	next, prev  []uint32
	short, long runs
	left        int    // blocks that are free
	base        uint32 // number of the first block for callers; here it is 0
}

// runs contains the free runs of a kind, by length.
type runs struct {
	kind  uint32 // isShort or 0
	first [runLists]uint32
	// some has a bit for each non-empty list.
	some [(runLists + 63) / 64]uint64
}

// newSpace returns a space of count blocks from a number on, all of them free except the first.
func newSpace(count int, base uint32) *space {
	s := &space{base: base, length: make([]uint32, count+1), next: make([]uint32, count), prev: make([]uint32, count)}
	s.short.kind = isShort
	s.left = count - 1
	s.link(&s.long, 1, count-1)
	return s
}

// listOf returns the list of runs of a length.
func listOf(count int) int {
	if count < exactRuns {
		return count
	}
	n := bits.Len(uint(count))
	return exactRuns + (n-exactBits)*perDoubling + count>>(n-4) - perDoubling
}

// leastOf returns the shortest length of a list.
func leastOf(list int) int {
	if list < exactRuns {
		return list
	}
	list -= exactRuns
	return (perDoubling + list%perDoubling) << (list/perDoubling + exactBits - 4)
}

// take allocates a run; 0 if there is none.
func (s *space) take(count int) uint32 {
	from := &s.long
	if count <= shortRun {
		from = &s.short
		for _, part := range [...]int{shortPart, shortRun, count} {
			if s.find(from, count) != 0 {
				break
			}
			if at := s.cut(&s.long, part); at != 0 {
				at, part = s.join(from, at, part) // another part may be adjacent
				s.link(from, at, part)
			}
		}
	}
	at := s.cut(from, count)
	if at == 0 {
		return 0
	}
	s.left -= count
	return s.base + at
}

// cut removes a run from those of a kind.
func (s *space) cut(from *runs, count int) uint32 {
	at := s.find(from, count)
	if at == 0 {
		return 0
	}
	has := s.unlink(from, at)
	if has > count {
		s.link(from, at+uint32(count), has-count)
	}
	return at
}

// find returns a free run of a length or, if there is none, of the next larger one, as far as the lists tell.
func (s *space) find(in *runs, count int) uint32 {
	list := listOf(count)
	for at := in.first[list]; at != 0; at = s.next[at] {
		if int(s.length[at]&^isShort) >= count {
			return at
		}
	}
	list++
	for word := list / 64; word < len(in.some); word++ {
		some := in.some[word]
		if word == list/64 {
			some &= ^uint64(0) << (list % 64)
		}
		if some != 0 {
			return in.first[word*64+bits.TrailingZeros64(some)]
		}
	}
	return 0
}

// longest returns approximately the longest run that can be allocated; it never overestimates.
func (s *space) longest() int {
	for word := len(s.long.some) - 1; word >= 0; word-- {
		if some := s.long.some[word]; some != 0 {
			return leastOf(word*64 + bits.Len64(some) - 1)
		}
	}
	return 0
}

// give frees a run. A long run in a part for short ones becomes available to all again.
func (s *space) give(at uint32, count int) {
	s.left += count
	at -= s.base
	to := &s.long
	if count <= shortRun {
		to = &s.short
	}
	at, count = s.join(to, at, count)
	if to == &s.short && count >= shortPart {
		to = &s.long
		at, count = s.join(to, at, count)
	}
	s.link(to, at, count)
}

// join merges a run with its free neighbours.
func (s *space) join(in *runs, at uint32, count int) (uint32, int) {
	if before := s.length[at-1]; before != 0 && before&isShort == in.kind {
		at -= before &^ isShort
		count += s.unlink(in, at)
	}
	if behind := s.length[int(at)+count]; behind != 0 && behind&isShort == in.kind {
		count += s.unlink(in, at+uint32(count))
	}
	return at, count
}

// link adds a free run to its list.
func (s *space) link(in *runs, at uint32, count int) {
	s.length[at], s.length[int(at)+count-1] = uint32(count)|in.kind, uint32(count)|in.kind
	list := listOf(count)
	head := in.first[list]
	s.next[at], s.prev[at] = head, 0
	if head != 0 {
		s.prev[head] = at
	}
	in.first[list] = at
	in.some[list/64] |= 1 << (list % 64)
}

// unlink removes a free run from its list, and returns its length.
func (s *space) unlink(in *runs, at uint32) int {
	count := s.length[at] &^ isShort
	s.length[at], s.length[at+count-1] = 0, 0
	next, prev := s.next[at], s.prev[at]
	if next != 0 {
		s.prev[next] = prev
	}
	if prev != 0 {
		s.next[prev] = next
		return int(count)
	}
	list := listOf(int(count))
	if in.first[list] = next; next == 0 {
		in.some[list/64] &^= 1 << (list % 64)
	}
	return int(count)
}
