// SPDX-License-Identifier: Apache-2.0

package balance

// Pins: the flows that have been seen, and their servers. Programs add them and refresh them; the control plane removes
// those of removed servers, and those whose time is over before the clock of pins, of one byte, comes round.

import (
	"fmt"
	"math/bits"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

const (
	// Unit is the unit of time of pins.
	Unit = 1 << 33 * time.Nanosecond
	// MaxTimeout is the longest time that they can express.
	MaxTimeout = 200 * Unit
	pinWays    = 4
)

// The bits of struct pcn_pin.
const (
	pinServer    = 1<<20 - 1
	pinService   = 20
	pinPair      = 1<<40 - 1
	pinSeen      = 40
	pinConfirmed = 1 << 48
	pinBusy      = 1 << 49
)

// bucket is struct pcn_pins.
type bucket struct {
	way [pinWays]struct{ hash, word uint64 }
}

// Buckets returns how many buckets the map `pins` needs for a number of flows, a power of two, so that these fill at most 70 % of
// it: then 99.99 % find a place in one of their two buckets, or another one moves for them.
func Buckets(flows uint32) uint32 {
	need := (uint64(flows)*10/7 + pinWays - 1) / pinWays
	return uint32(1) << bits.Len64(max(need, 2)-1)
}

// Timeout returns a time in units, rounded up.
func Timeout(d time.Duration) uint8 {
	return uint8((min(d, MaxTimeout) + Unit - 1) / Unit)
}

// Now returns the time of the fast path, pcn_time_coarse of programs.
func Now() time.Duration {
	now, err := cube.TimeCoarse()
	if err != nil {
		panic(err) // every supported kernel has it
	}
	return time.Duration(now)
}

// Clock returns the unit of time of a time of cube.TimeCoarse.
func Clock(now uint64) uint32 { return uint32(now / uint64(Unit)) }

// Pins are the pins of a cube.
type Pins struct {
	buckets *table.Mapped[bucket]
}

// NewPins returns the pins of a cube.
func NewPins(env cube.Env) *Pins { return &Pins{table.NewMapped[bucket](env, "pins")} }

// Plan adds to the plan of a cube's creation how many flows can be pinned. It is the same when the cube is restored.
func (p *Pins) Plan(plan *cube.Plan, flows uint32) {
	if plan.MapSizes == nil {
		plan.MapSizes = map[string]uint32{}
	}
	plan.MapSizes["pins"] = Buckets(flows)
	plan.Constants["pins_mask"] = Buckets(flows) - 1
}

// Count is a number of pins.
type Count struct {
	// Flows were seen within their timeout; Confirmed are those of them that are established.
	Flows, Confirmed int
}

// Pair is a service and one of its servers, by number.
type Pair struct{ Service, Server uint32 }

// swept is what a sweep knows about a pair.
type swept struct {
	count   Count
	timeout uint8
	gone    bool
}

// Sweep removes pins that are older than the timeout of their service, in units, and pins of pairs that are gone. It
// returns how many are left of each pair.
func (p *Pins) Sweep(now uint32, timeout func(service uint32) uint8, gone func(Pair) bool) (map[Pair]Count, error) {
	buckets, err := p.buckets.Values()
	if err != nil {
		return nil, err
	}
	pairs := map[uint64]*swept{}
	for i := range buckets {
		for w := range buckets[i].way {
			at := &buckets[i].way[w].word
			word := atomic.LoadUint64(at)
			if word == 0 || word&pinBusy != 0 {
				continue
			}
			is := pairs[word&pinPair]
			if is == nil {
				pair := pairOf(word)
				is = &swept{timeout: timeout(pair.Service), gone: gone(pair)}
				pairs[word&pinPair] = is
			}
			if uint8(now)-uint8(word>>pinSeen) > is.timeout || is.gone {
				atomic.CompareAndSwapUint64(at, word, 0)
				continue
			}
			is.count.Flows++
			is.count.Confirmed += int(word / pinConfirmed % 2)
		}
	}
	left := map[Pair]Count{}
	for word, is := range pairs {
		if is.count.Flows > 0 {
			left[pairOf(word)] = is.count
		}
	}
	return left, nil
}

// pairOf returns the pair of a pin.
func pairOf(word uint64) Pair {
	return Pair{Service: uint32(word >> pinService & pinServer), Server: uint32(word & pinServer)}
}

// Capacity returns how many flows can be pinned.
func (p *Pins) Capacity() (int, error) {
	buckets, err := p.buckets.Values()
	if err != nil {
		return 0, fmt.Errorf("pins of flows: %w", err)
	}
	return len(buckets) * pinWays, nil
}

// Close ends the use of the memory.
func (p *Pins) Close() error { return p.buckets.Close() }
