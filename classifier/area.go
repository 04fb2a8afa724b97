// SPDX-License-Identifier: Apache-2.0

package classifier

// The memory of a set of addresses: blocks of one part, so that a reference between them is a block number. It grows by
// regions of that part.

import "errors"

// area is memory in one part.
type area struct {
	in      *part
	p       *pool
	regions []*region
	count   int      // blocks
	free    []uint32 // blocks
	used    []uint32 // freed blocks that packets in flight may still read
}

const (
	// moreShare is the share of its blocks that an area grows by, and from which freed blocks are worth waiting for.
	moreShare = 4
	// An area of at least sparseBlocks is sparse if less than a sparseShare is in use.
	sparseBlocks = 1 << 12
	sparseShare  = 8
)

// newArea allocates an area with room for a number of blocks.
func (p *pool) newArea(blocks int) (*area, error) {
	r, err := p.take(min(blocks+blocks/moreShare, maxBlocks))
	if err != nil {
		return nil, err
	}
	a := &area{in: r.in, p: p}
	a.add(r)
	return a, nil
}

// add adds a region.
func (a *area) add(r *region) {
	a.regions = append(a.regions, r)
	blocks := r.units * unit
	a.count += blocks
	for i := blocks - 1; i >= 0; i-- {
		a.free = append(a.free, r.base()+uint32(i))
	}
}

// take allocates blocks; nil if the part has no room.
func (a *area) take(count int) ([]uint32, error) {
	if count > len(a.free) && len(a.used) > a.count/moreShare {
		if err := a.settle(); err != nil {
			return nil, err
		}
	}
	if count > len(a.free) && !a.grow(count-len(a.free)) && count <= len(a.free)+len(a.used) {
		if err := a.settle(); err != nil {
			return nil, err
		}
	}
	at := len(a.free) - count
	if at < 0 {
		return nil, nil
	}
	taken := append([]uint32(nil), a.free[at:]...)
	a.free = a.free[:at]
	return taken, nil
}

// settle makes freed blocks available, after packets in flight.
func (a *area) settle() error {
	if err := a.p.wait(); err != nil {
		return err
	}
	a.free, a.used = append(a.free, a.used...), nil
	return nil
}

// grow adds a region with at least a number of blocks, and some more if there is room; false if there is none.
func (a *area) grow(blocks int) bool {
	for _, n := range [...]int{blocks + a.count/moreShare, blocks} {
		if r := a.p.takeIn(a.in, n); r != nil {
			a.add(r)
			return true
		}
	}
	return false
}

// give frees blocks that packets in flight may still read.
func (a *area) give(blocks []uint32) { a.used = append(a.used, blocks...) }

// isSparse reports whether the area is much larger than its use.
func (a *area) isSparse(blocks int) bool {
	return a.count >= sparseBlocks && blocks*sparseShare < a.count
}

func (a *area) at(block uint32) []byte { return a.in.mem[int(block)*blockSize:][:blockSize] }

// reference is what to publish for a block.
func (a *area) reference(block uint32) uint64 { return uint64(a.in.index)<<32 | uint64(block) }

// homes are its regions.
func (a *area) homes() (all []home) {
	for _, r := range a.regions {
		all = append(all, r)
	}
	return all
}

// close frees the area, which no packet reads any more.
func (a *area) close() error {
	var errs []error
	for _, r := range a.regions {
		errs = append(errs, r.close())
	}
	return errors.Join(errs...)
}
