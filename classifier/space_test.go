// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// longestOf is the longest free run of those in which a run of a length may be, by the lists.
func (s *space) longestOf(count int) (most int) {
	in := []*runs{&s.long, &s.short}
	if count > shortRun {
		in = in[:1]
	}
	for _, in := range in {
		for _, at := range in.first {
			for ; at != 0; at = s.next[at] {
				most = max(most, int(s.length[at]&^isShort))
			}
		}
	}
	return most
}

func TestFreeRunsJoin(t *testing.T) {
	seed := repeat.Seed(t)
	for _, blocks := range []int{2, 70, 1 << 10, 1 << 13} {
		rng := rand.New(rand.NewPCG(seed, uint64(blocks)))
		s := newSpace(blocks, 0)
		used := make([]bool, blocks)
		used[0] = true
		var taken []run
		give := func(i int) {
			r := taken[i]
			taken = slices.Delete(taken, i, i+1)
			s.give(r.at, r.count)
			for i := range r.count {
				used[int(r.at)+i] = false
			}
		}
		for step := range 3000 {
			if len(taken) > 0 && rng.IntN(100) < 30+40*(step/500%2) {
				give(rng.IntN(len(taken)))
				continue
			}
			count := 1 + rng.IntN(1+rng.IntN(max(9, blocks/10)))
			if rng.IntN(2) == 0 {
				count = 1 + rng.IntN(shortRun)
			}
			has := s.longestOf(count)
			at := s.take(count)
			if (at != 0) != (count <= has) {
				t.Fatalf("seed %d: a run of %d is at %d, and the longest free one has %d of %d blocks", seed, count, at, has, blocks)
			}
			if at == 0 {
				continue
			}
			for i := range count {
				if used[int(at)+i] {
					t.Fatalf("seed %d: block %d is taken twice", seed, int(at)+i)
				}
				used[int(at)+i] = true
			}
			taken = append(taken, run{at, count})
			if step%100 == 0 {
				if err := s.sound(func(run) {}); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		for len(taken) > 0 {
			give(rng.IntN(len(taken)))
		}
		if err := s.sound(func(run) {}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if s.left != blocks-1 {
			t.Errorf("seed %d: all blocks are given back, and %d of %d are free", seed, s.left, blocks-1)
		}
	}
}

// TestShortRunsLeaveRoomForLongOnes replaces long-lived memory block by block with single blocks that stay.
func TestShortRunsLeaveRoomForLongOnes(t *testing.T) {
	const blocks = 1 << 13
	rng := rand.New(rand.NewPCG(1, 1))
	s := newSpace(blocks, 0)
	var short, long []uint32
	for step := range 200000 {
		of, count := &short, 1
		if step%8 == 0 {
			of, count = &long, 100
		}
		if len(*of)*count < blocks*2/5 {
			at := s.take(count)
			if at == 0 {
				t.Fatalf("step %d: %d of %d blocks are free, but no run of %d", step, s.left, blocks, count)
			}
			*of = append(*of, at)
			continue
		}
		i := rng.IntN(len(*of))
		s.give((*of)[i], count)
		*of = slices.Delete(*of, i, i+1)
	}
	if err := s.sound(func(run) {}); err != nil {
		t.Error(err)
	}
}

// TestPartsForShortRunsJoin: a part that begins next to another one is merged with it.
func TestPartsForShortRunsJoin(t *testing.T) {
	s := newSpace(1<<10, 0)
	for range shortPart {
		s.take(1) // the first part
	}
	between := s.take(shortPart)
	first := s.take(1) // begins a part after it
	for range shortPart - 1 {
		s.take(1)
	}
	s.give(first, 1)
	s.give(between, shortPart)
	if at := s.take(2); at != between {
		t.Fatalf("two blocks are taken at %d, want those of the new part, at %d", at, between)
	}
	if err := s.sound(func(run) {}); err != nil {
		t.Error(err)
	}
}
