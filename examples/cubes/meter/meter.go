// SPDX-License-Identifier: Apache-2.0

// Package meter limits the rates of classes of packets in each direction. Its instances share programs and maps: each has
// the rows of its number, which belong to the cube with the UUID there.
package meter

import (
	"context"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// files are the model and the compiled programs.
//
//go:embed meter.yang meter.tc.o meter.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newMeter}) }

// bucketsOf is struct meter_buckets.
type bucketsOf struct{ Of [classes]uint64 }

// owner is struct meter_owner.
type owner struct{ UUID [16]byte }

type meter struct {
	env      cube.Env
	sides    table.Table[uint32, side]
	buckets  *table.Mapped[bucketsOf]
	owners   table.Table[uint32, owner]
	counters *counter.Rules
	// taken are the counters of each limit: of packets that conform and that exceed.
	taken map[place][2]uint32
}

func newMeter(env cube.Env) (cube.Instance, error) {
	p := &meter{
		env: env, sides: table.New[uint32, side](env, "sides"), buckets: table.NewMapped[bucketsOf](env, "buckets"),
		owners: table.New[uint32, owner](env, "owners"), counters: counter.NewRules(env, 0), taken: map[place][2]uint32{},
	}
	return cube.Instance{Prepare: cube.Typed(p.prepare), State: p.state, Close: p.close}, nil
}

// row is the number of a direction's rows.
func (p *meter) row(d Direction) uint32 {
	return uint32(p.env.Instance())*uint32(directions) + uint32(d)
}

func (p *meter) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	sides, limited, err := c.New.sides()
	if err != nil {
		return cube.Plan{}, err
	}
	change := &change{meter: p, sides: sides, limited: limited}
	return cube.Plan{Before: []cube.Step{cube.Effect(change.commit)}, After: []cube.Step{cube.Effect(change.free)}}, nil
}

// change is a prepared change.
type change struct {
	*meter
	sides   [directions]side
	limited map[place]bool
	// freed are the counters of limits that are gone.
	freed []uint32
}

// commit gives limits their counters, fits the buckets to the limits, and writes the rows.
func (c *change) commit() (func() error, error) {
	var undo cube.Undo
	if err := errors.Join(c.counters.Open(), c.own()); err != nil {
		return nil, err
	}
	if err := errors.Join(c.count(&undo), c.fit()); err != nil {
		return nil, errors.Join(err, undo.Run())
	}
	steps := []cube.Step{table.Put(c.meter.sides, c.row(Ingress), c.sides[Ingress]), table.Put(c.meter.sides, c.row(Egress), c.sides[Egress])}
	if err := cube.Carry(steps, &undo); err != nil {
		return nil, errors.Join(err, undo.Run())
	}
	return undo.Run, nil
}

// own makes the rows of the cube's number its own: those of an earlier cube with the number had other packets.
func (p *meter) own() error {
	var me owner
	if _, err := hex.Decode(me.UUID[:], []byte(strings.ReplaceAll(p.env.UUID(), "-", ""))); err != nil {
		return fmt.Errorf("UUID %s: %w", p.env.UUID(), err)
	}
	number := uint32(p.env.Instance())
	was, _, err := p.owners.Get(number)
	if err != nil || was == me {
		return err
	}
	for d := range directions { // without limits, so that all limits of this cube are new
		if err := p.sides.Set(p.row(d), side{}); err != nil {
			return err
		}
	}
	return p.owners.Set(number, me)
}

// fit fits the buckets to limits that change, before programs get these.
func (c *change) fit() error {
	buckets, err := c.buckets.Values()
	if err != nil {
		return err
	}
	now, err := cube.Time()
	if err != nil {
		return err
	}
	for d := range directions {
		was, _, err := c.meter.sides.Get(c.row(d))
		if err != nil {
			return err
		}
		for class := range was.Limits {
			word := &buckets[c.row(d)].Of[class]
			for changed := false; !changed; { // packets change it at the same time
				before := atomic.LoadUint64(word)
				changed = atomic.CompareAndSwapUint64(word, before, fitted(before, &was.Limits[class], &c.sides[d].Limits[class], time.Duration(now)))
			}
		}
	}
	return nil
}

// fitted returns a bucket after a change of its limit. It has no more tokens than before, unless it was full: packets that
// found it empty find it empty after the change, too. That of a new limit is full.
func fitted(word uint64, was, is *row, now time.Duration) uint64 {
	switch {
	case was.Unit == 0, was.Unit == is.Unit && was.Rate != is.Rate && was.Rate.Left(word, now) == was.Rate.Burst:
		return 0
	case was.Unit == counted || is.Unit <= counted || was.Rate == is.Rate:
		return word
	case was.Unit != is.Unit: // other tokens
		is.Rate.Take(&word, is.Rate.Left(word, now), now)
		return word
	}
	if moved := was.Rate.Moved(word, is.Rate, now); int64(moved-word) > 0 {
		return moved
	}
	return word // the rate falls
}

// count gives new limits counters, and all limits the numbers of theirs.
func (c *change) count(undo *cube.Undo) error {
	was := maps.Clone(c.taken)
	undo.Push(func() error {
		c.taken = was
		return nil
	})
	for at := range c.limited {
		if _, ok := c.taken[at]; ok {
			continue
		}
		indexes, untake, err := c.counters.Take(at.counters())
		if err != nil {
			return fmt.Errorf("limit %d %s: %w", at.class, directionNames[at.direction], err)
		}
		undo.Push(untake)
		c.taken[at] = [2]uint32(indexes)
	}
	for at, indexes := range c.taken {
		if !c.limited[at] {
			c.freed = append(c.freed, indexes[:]...)
			delete(c.taken, at)
			continue
		}
		limit := &c.sides[at.direction].Limits[at.class]
		limit.Conforming, limit.Exceeding = indexes[0], indexes[1]
	}
	return nil
}

// free frees the counters of limits that are gone, after a restart also those that went while no daemon ran.
func (c *change) free() (func() error, error) {
	return nil, errors.Join(c.counters.Free(c.freed), c.counters.Abandon())
}

// limitState is the state of an entry of the list `limit`.
type limitState struct {
	Class             uint8     `json:"class"`
	Direction         Direction `json:"direction"`
	ConformingPackets uint64    `json:"conforming-packets"`
	ConformingBytes   uint64    `json:"conforming-bytes"`
	ExceedingPackets  uint64    `json:"exceeding-packets"`
	ExceedingBytes    uint64    `json:"exceeding-bytes"`
}

// state reads the counters of all limits: there are sixteen at most.
func (p *meter) state(_ context.Context, path []string) (any, error) {
	if len(path) > 0 && path[0] != "limit" {
		return nil, nil
	}
	places := slices.SortedFunc(maps.Keys(p.taken), func(a, b place) int { return int(a.counters()[0]) - int(b.counters()[0]) })
	var state struct {
		Limits []limitState `json:"limit,omitempty"`
	}
	for _, at := range places {
		var n []inet.Count
		indexes := p.taken[at]
		n, err := p.counters.Counts(indexes[:])
		if err != nil {
			return nil, err
		}
		state.Limits = append(state.Limits, limitState{at.class, at.direction, n[0].Packets, n[0].Bytes, n[1].Packets, n[1].Bytes})
	}
	return state, nil
}

func (p *meter) close() {
	if err := errors.Join(p.counters.Close(), p.buckets.Close()); err != nil {
		p.env.Logger().Error("close the counters and buckets", "error", err)
	}
}
