// SPDX-License-Identifier: Apache-2.0

// The cubes' shares of the ring. The fast path counts what each cube put in and sheds a cube that has too much there;
// the reader counts what it took out.

package slowpath

import "sync/atomic"

type shares []share

// credit gives a cube back what a record had cost it. It never gives more than was taken: the difference would wrap
// round, and the cube would be shut out.
func (s shares) credit(cube uint16, size uint32) {
	sh := &s[cube]
	now := atomic.LoadUint64(&sh.Consumed) + uint64(size)
	if most := atomic.LoadUint64(&sh.Produced); now > most {
		now = most
	}
	atomic.StoreUint64(&sh.Consumed, now)
}

// settle makes the books agree while the ring is empty, after a reader has died in the middle of its work. It returns
// false, having changed nothing, when the ring did not stay empty. That is exact: a program reserves before it
// counts, so what is counted here belongs to records that are gone, unless empty sees a new one.
func (s shares) settle(empty func() bool) bool {
	produced := make([]uint64, len(s))
	for i := range s {
		produced[i] = atomic.LoadUint64(&s[i].Produced)
	}
	if !empty() {
		return false
	}
	for i := range s {
		atomic.StoreUint64(&s[i].Consumed, produced[i])
	}
	return true
}
