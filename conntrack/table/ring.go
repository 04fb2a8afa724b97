// SPDX-License-Identifier: Apache-2.0

package table

// Free numbers: in the ring, from which programs take them, in the lists of CPUs, and a few that are in neither.

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/grace"
)

// ring is the ring of free numbers. The one who removes entries uses it.
type ring struct {
	control *control
	places  parts[uint32]
	taken   *ebpf.Map // the lists of CPUs
	spare   []uint32  // numbers that are too few for a block
}

// capacity is how many numbers fit into the ring.
func (r *ring) capacity() uint32 { return (atomic.LoadUint32(&r.control.ring) + 1) * takes }

// give puts free numbers into the ring: whole blocks, and the rest with the next ones. Those beyond the size are not used
// any more.
func (r *ring) give(numbers []uint32) {
	size := atomic.LoadUint32(&r.control.size)
	r.spare = slices.DeleteFunc(append(r.spare, numbers...), func(n uint32) bool { return n > size })
	tail, mask := atomic.LoadUint32(&r.control.tail), r.capacity()-1
	whole := len(r.spare) / takes * takes
	for i, n := range r.spare[:whole] {
		*r.places.at((tail + uint32(i)) & mask) = n
	}
	atomic.StoreUint32(&r.control.tail, tail+uint32(whole))
	r.spare = append([]uint32(nil), r.spare[whole:]...)
}

// listed returns which numbers of a number of entries are in the ring or in a CPU's own list, in this order: a number goes
// from the ring to a CPU and from there to an entry, each within one run of a program. When it returns, a grace period has
// passed since, so numbers that are not listed are in entries that are not free, or in no use.
func (r *ring) listed(entries int) (func(n uint32) bool, error) {
	known := make([]uint64, entries/64)
	set := func(n uint32) {
		if int(n/64) < len(known) {
			known[n/64] |= 1 << (n % 64)
		}
	}
	head, tail, mask := atomic.LoadUint32(&r.control.head), atomic.LoadUint32(&r.control.tail), r.capacity()-1
	for at := head; at != tail; at++ {
		set(*r.places.at(at & mask))
	}
	for _, n := range r.spare {
		set(n)
	}
	if err := grace.Wait(); err != nil {
		return nil, err
	}
	var all []taken
	if err := r.taken.Lookup(uint32(0), &all); err != nil {
		return nil, fmt.Errorf("map %s: %w", takenMap, err)
	}
	for _, cpu := range all {
		for _, n := range cpu.Number[takes-min(cpu.Left, takes):] {
			set(n)
		}
	}
	return func(n uint32) bool { return known[n/64]>>(n%64)&1 == 1 }, grace.Wait()
}

// grow makes room for more free numbers. Those whose place is another one in the larger ring are copied there, into
// memory that programs do not read before.
func (r *ring) grow(capacity int) error {
	was := r.capacity()
	if atomic.LoadUint32(&r.control.ring) != 0 && uint32(capacity) <= was {
		return nil
	}
	if err := r.places.extend(capacity); err != nil {
		return err
	}
	head, tail, mask := atomic.LoadUint32(&r.control.head), atomic.LoadUint32(&r.control.tail), uint32(capacity-1)
	for at := head; at != tail; at++ {
		if at&mask >= was {
			*r.places.at(at & mask) = *r.places.at(at & (was - 1))
		}
	}
	atomic.StoreUint32(&r.control.ring, uint32(capacity/takes-1))
	return grace.Wait() // before the places of the smaller ring are used for other numbers
}

// take takes some numbers from the ring; fewer if it is empty.
func (r *ring) take(most int) (numbers []uint32) {
	mask := r.capacity() - 1
	for len(numbers) < most {
		head := atomic.LoadUint32(&r.control.head)
		if int32(atomic.LoadUint32(&r.control.tail)-head) < takes {
			return numbers
		}
		if !atomic.CompareAndSwapUint32(&r.control.head, head, head+takes) {
			continue
		}
		for i := range uint32(takes) {
			numbers = append(numbers, *r.places.at((head + i) & mask))
		}
	}
	return numbers
}
