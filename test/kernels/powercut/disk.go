// SPDX-License-Identifier: Apache-2.0

// Package powercut has a disk that can lose its power, and a record of what must be on it afterwards.
//
// A Disk is served to an emulator over NBD. Like a real disk with a volatile write cache, it acknowledges a write at
// once and only keeps it when it is flushed; at a power cut, each unflushed block is kept or lost at random. A Ledger
// records the acknowledged transactions of a machine's store, and checks the data after the next boot.
package powercut

import (
	"errors"
	"math/rand/v2"
	"sync"
)

// BlockSize is the unit that the disk writes atomically, in bytes: the logical block size that the machine sees.
const BlockSize = 4096

// Disk is a disk in memory. Its methods may be called from several goroutines.
type Disk struct {
	// Lies: flushes are acknowledged and nothing is kept, as on some cheap disks. For a test of the test.
	Lies bool

	mu       sync.Mutex // guards all below
	stable   []byte     // data that certainly survives a power cut
	cached   []byte     // data that is read: stable, and all later writes
	written  []write    // since the last flush, oldest first
	requests int        // writes and flushes that are acknowledged before the power cut; negative: no power cut
	off      chan struct{}
	dead     bool
}

type write struct {
	at   int64
	data []byte
}

// NewDisk creates a disk from an image. Its size must be a multiple of BlockSize.
func NewDisk(image []byte) (*Disk, error) {
	if len(image) == 0 || len(image)%BlockSize != 0 {
		return nil, errors.New("the size of a disk is a multiple of its blocks")
	}
	return &Disk{stable: image, cached: append([]byte{}, image...), requests: -1, off: make(chan struct{})}, nil
}

// Size is the disk's, in bytes.
func (d *Disk) Size() int64 { return int64(len(d.stable)) }

// CutAfter has the power go when n more writes and flushes were answered. The channel is closed when it happens.
func (d *Disk) CutAfter(n int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.requests = n
	return d.off
}

var (
	errRange = errors.New("outside of the disk")
	errOff   = errors.New("the disk has no power")
)

// alive counts a request. d.mu is held.
func (d *Disk) alive() bool {
	switch {
	case d.dead:
		return false
	case d.requests == 0:
		d.dead = true
		close(d.off)
		return false
	case d.requests > 0:
		d.requests--
	}
	return true
}

func (d *Disk) inside(at, n int64) bool { return at >= 0 && n >= 0 && at <= d.Size()-n }

func (d *Disk) read(at, n int64) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.dead:
		return nil, errOff
	case !d.inside(at, n):
		return nil, errRange
	}
	return append([]byte{}, d.cached[at:at+n]...), nil
}

// write writes data; with durable, as "force unit access" requests, it is kept before it is acknowledged.
func (d *Disk) write(at int64, data []byte, durable bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.inside(at, int64(len(data))) {
		return errRange
	}
	if !d.alive() {
		// The power cut happens during this write: it may be kept, too.
		d.written = append(d.written, write{at, data})
		return errOff
	}
	copy(d.cached[at:], data)
	d.written = append(d.written, write{at, data})
	if durable && !d.Lies {
		// Earlier writes to these blocks must not reappear.
		copy(d.stable[at:], data)
		d.forget(at, at+int64(len(data)))
	}
	return nil
}

// forget removes the bytes between from and to from the list of unflushed data.
func (d *Disk) forget(from, to int64) {
	var rest []write
	for _, w := range d.written {
		end := w.at + int64(len(w.data))
		if before := min(from, end); w.at < before {
			rest = append(rest, write{w.at, w.data[:before-w.at]})
		}
		if after := max(to, w.at); after < end {
			rest = append(rest, write{after, w.data[after-w.at:]})
		}
	}
	d.written = rest
}

// flush keeps everything that was written.
func (d *Disk) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.alive() {
		return errOff
	}
	if d.Lies {
		return nil
	}
	for _, w := range d.written {
		copy(d.stable[w.at:], w.data)
	}
	d.written = nil
	return nil
}

// Cut is the power cut, and the return of power. Each unflushed block is kept with the probability kept; of several
// writes to one block any may be the last one kept. It returns how many blocks were kept and lost.
func (d *Disk) Cut(r *rand.Rand, kept float64) (keptBlocks, lostBlocks int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range d.written {
		for from := int64(0); from < int64(len(w.data)); {
			to := min((w.at+from)/BlockSize*BlockSize+BlockSize-w.at, int64(len(w.data)))
			if r.Float64() < kept {
				copy(d.stable[w.at+from:], w.data[from:to])
				keptBlocks++
			} else {
				lostBlocks++
			}
			from = to
		}
	}
	d.written, d.requests, d.dead, d.off = nil, -1, false, make(chan struct{})
	copy(d.cached, d.stable)
	return keptBlocks, lostBlocks
}
