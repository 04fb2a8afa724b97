// SPDX-License-Identifier: Apache-2.0

package fdb

// The programs' cache of the table: a station's port for at most a second. A lease ends by itself before its entry
// expires, with or without this process; what this package changes in the table ends all leases, by a new generation.

import (
	"fmt"
	"math/bits"
	"time"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// cacheSet is struct pcn_fdb_set of the programs.
type cacheSet struct {
	Way [2]struct{ Check, Lease uint64 }
}

// cacheMap is the map's name. Its first element holds the generation, in Check of the first slot.
const cacheMap = "fdb_cache"

// generationShift is where a lease has its generation.
const generationShift = 48

// largest is the number of entries from which on the cache does not grow: a larger one is slower than the table.
const largest = 1 << 17

// sets is the number of sets of the cache for a table: two slots for each entry, so that few stations share a set with
// more than one other.
func sets(room uint32) uint32 { return max(2, uint32(1)<<bits.Len32(min(room, largest)-1)) }

// MapSizes returns the sizes of the programs' maps for a maximum number of entries.
func MapSizes(room uint32) map[string]uint32 {
	return map[string]uint32{"fdb": room, cacheMap: sets(room) + 1}
}

// Constants returns the values of the constants of <pcn/fdb_cache.h> for an aging time and a maximum number of entries.
func Constants(limit time.Duration, room uint32) map[string]any {
	return map[string]any{
		"aging_ns": uint64(limit), "refresh_ns": uint64(aging.Refresh(limit)),
		"tick_ns": tick(), "cache_shift": uint32(32 - bits.TrailingZeros32(sets(room))),
	}
}

// longestTick is the period of the kernel's tick at the lowest frequency that it can be built with.
const longestTick = uint64(10 * time.Millisecond)

// tick is the period of the kernel's tick in nanoseconds: the resolution of the coarse clock.
func tick() uint64 {
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC_COARSE, &ts); err != nil || ts.Nano() <= 0 {
		return longestTick
	}
	return uint64(ts.Nano())
}

// Cache is the map `fdb_cache` of one cube.
type Cache struct{ table table.Table[uint32, cacheSet] }

// NewCache returns the cache of a cube.
func NewCache(env cube.Env) Cache { return Cache{table.New[uint32, cacheSet](env, cacheMap)} }

// CacheOf returns the cache in a map.
func CacheOf(m *ebpf.Map) (Cache, error) {
	t, err := table.Of[uint32, cacheSet](cacheMap, m)
	return Cache{t}, err
}

// EndLeases makes programs read the table again. It must follow each change of the table by others than programs.
func (c Cache) EndLeases() error {
	first, _, err := c.table.Get(0)
	if err == nil {
		first.Way[0].Check += 1 << generationShift
		err = c.table.Set(0, first)
	}
	if err != nil {
		return fmt.Errorf("end the leases of the filtering database: %w", err)
	}
	return nil
}

// EndLeasesStep is EndLeases as a step of a plan, for After: leases that the old programs gave end with them.
func (d *Database[K]) EndLeasesStep() cube.Step {
	return cube.Effect(func() (func() error, error) { return nil, d.cache.EndLeases() })
}
