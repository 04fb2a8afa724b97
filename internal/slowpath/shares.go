// SPDX-License-Identifier: Apache-2.0

// The cubes' shares of the ring. The fast path counts what each cube wrote and sheds packets of a cube that has too
// much in the ring; the reader counts what it read.

package slowpath

import "sync/atomic"

type shares []share

// credit returns to a cube what a record had cost it. It never returns more than was charged: the counter would wrap,
// and the cube would be blocked.
func (s shares) credit(cube uint16, size uint32) {
	sh := &s[cube]
	now := atomic.LoadUint64(&sh.Consumed) + uint64(size)
	if most := atomic.LoadUint64(&sh.Produced); now > most {
		now = most
	}
	atomic.StoreUint64(&sh.Consumed, now)
}

// settle corrects the counters while the ring is empty, after a reader was killed in the middle of its work. It
// returns false, without changes, if the ring did not stay empty. That is exact: a program reserves before it counts,
// so what is counted here belongs to records that are gone, unless empty sees a new one.
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
