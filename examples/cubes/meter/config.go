// SPDX-License-Identifier: Apache-2.0

package meter

// The configuration in Go, which a test compares with the model, and in the form of the program.

import (
	"fmt"
	"math"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
)

// Config is the decoded configuration.
type Config struct {
	DSCP   []DSCP  `json:"dscp"`
	Limits []Limit `json:"limit"`
}

// DSCP is an entry of the list `dscp`.
type DSCP struct {
	Value uint8 `json:"value"`
	Class uint8 `json:"class"`
}

// Limit is an entry of the list `limit`.
type Limit struct {
	Class        uint8     `json:"class"`
	Direction    Direction `json:"direction"`
	Rate         uint64    `json:"rate"`
	Unit         Unit      `json:"unit"`
	Burst        uint32    `json:"burst"`
	ExceedAction Action    `json:"exceed-action"`
	ExceedDSCP   uint8     `json:"exceed-dscp"`
}

// Direction is an enumeration of the model, with the numbers of the program.
type Direction uint32

// Unit is what a rate counts.
type Unit uint32

// Action is what happens to packets above the rate, with the numbers of enum meter_action.
type Action uint32

// Values of these.
const (
	Ingress Direction = iota
	Egress
	directions

	Bits    Unit = 0
	Packets Unit = 1
)

var directionNames = []string{"INGRESS", "EGRESS"}

// UnmarshalText parses the model's value.
func (d *Direction) UnmarshalText(text []byte) (err error) {
	*d, err = cube.Enum[Direction]("direction", text, directionNames...)
	return err
}

// MarshalText writes it.
func (d Direction) MarshalText() ([]byte, error) { return []byte(directionNames[d]), nil }

// UnmarshalText parses the model's value.
func (u *Unit) UnmarshalText(text []byte) (err error) {
	*u, err = cube.Enum[Unit]("unit", text, "BITS", "PACKETS")
	return err
}

// UnmarshalText parses the model's value.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("exceed-action", text, "DROP", "PASS", "MARK")
	return err
}

// classes is the number of classes.
const classes = 8

// place is where a limit is: a class and a direction.
type place struct {
	class     uint8
	direction Direction
}

// counters are the ids of the counters of a place.
func (p place) counters() []uint32 {
	first := (uint32(p.direction)*classes + uint32(p.class)) * 2
	return []uint32{first, first + 1}
}

// row is struct meter_limit.
type row struct {
	Rate                  bucket.Limit
	Conforming, Exceeding uint32
	Unit, Action, DSCP    uint8
	_                     [5]uint8
}

// What takes tokens: enum meter_unit.
const (
	counted = iota + 1
	bytes
	packets
)

// side is struct meter_side.
type side struct {
	ClassOf [64]uint8
	Limits  [classes]row
}

// Bursts that are chosen for a rate.
const (
	burstTime    = 250 * time.Millisecond // longer than TCP waits at least before it repeats a segment
	burstBytes   = 128 << 10              // more than a superframe has
	burstPackets = 100
)

// row returns the limit in the form of the program, without its counters.
func (l *Limit) row() (row, error) {
	r := row{Unit: counted, Action: uint8(l.ExceedAction), DSCP: l.ExceedDSCP}
	if l.Rate == 0 {
		return r, nil
	}
	tokens, period, least := l.Rate, time.Second, uint64(burstPackets)
	r.Unit = packets
	if l.Unit == Bits {
		r.Unit, period, least = bytes, 8*time.Second, burstBytes
	}
	burst := l.Burst
	if burst == 0 {
		burst = uint32(min(max(tokens/uint64(period/burstTime), least), math.MaxUint32))
	}
	var err error
	if r.Rate, err = bucket.New(tokens, period, burst); err != nil {
		return row{}, fmt.Errorf("limit %d %s: rate: %w", l.Class, directionNames[l.Direction], err)
	}
	return r, nil
}

// sides returns the rows of both directions, without counters, and the places that have a limit.
func (c *Config) sides() (out [directions]side, limited map[place]bool, err error) {
	limited = map[place]bool{}
	for _, d := range c.DSCP {
		for i := range out {
			out[i].ClassOf[d.Value] = d.Class
		}
	}
	for _, l := range c.Limits {
		if out[l.Direction].Limits[l.Class], err = l.row(); err != nil {
			return out, nil, err
		}
		limited[place{l.Class, l.Direction}] = true
	}
	return out, limited, nil
}
