// SPDX-License-Identifier: Apache-2.0

// Package fdb is the filtering database of a bridge: the port of each station. Programs learn into the map `fdb` by
// themselves; this package keeps configured entries in it, removes expired ones, and makes every change reversible. Its
// keys are defined by the cube: an address, or an address in a VLAN.
package fdb

import (
	"time"

	"github.com/polycube/polycube/aging"
)

// Entry is the map's value; struct pcn_fdb_entry of the programs.
type Entry struct {
	Seen  uint64 // nanoseconds, on the clock of cube.TimeCoarse
	Port  uint16 // index
	Fixed uint8  // 1 for a configured entry
	_     [5]uint8
}

// Age is the time since the entry was last seen.
func (e Entry) Age(now uint64) time.Duration { return aging.Age(now, e.Seen) }

// Aged reports whether the entry has expired; with a limit of 0 none ever does.
func (e Entry) Aged(now uint64, limit time.Duration) bool {
	return e.Fixed == 0 && aging.Aged(now, e.Seen, limit)
}
