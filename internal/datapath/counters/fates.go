// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// Fate is one way that packets ended in a cube, with its counter.
type Fate struct {
	// Name is the verdict or drop reason: "pass", "slowpath", "no-peer", "hop-limit", or
	// one of the cube's own.
	Name string
	// Drop tells reasons of drops from other fates.
	Drop    bool
	Packets uint64
}

// frameworkFates are the labels of enum pcn_reason below PCN_REASON_FIRST.
var frameworkFates = []Fate{
	{Name: "unspecified", Drop: true},
	{Name: "pass"},
	{Name: "slowpath"},
	{Name: "flood"},
	{Name: "no-peer", Drop: true},
	{Name: "bad-port", Drop: true},
	{Name: "bad-verdict", Drop: true},
	{Name: "hop-limit", Drop: true},
	{Name: "slowpath-shed", Drop: true},
	{Name: "no-program", Drop: true},
	{Name: "malformed", Drop: true},
	{Name: "copy-failed", Drop: true},
	{Name: "namespace"},
	{Name: "notify-shed"},
	{Name: "too-long", Drop: true},
}

const firstReason = 32 // PCN_REASON_FIRST

// Fates count how packets ended, by cube.
type Fates struct{ counts *ebpf.Map }

// NewFates are those that the framework's map holds.
func NewFates(counts *ebpf.Map) *Fates { return &Fates{counts} }

// Clear empties the counters of a number that another cube may have had.
func (f *Fates) Clear(id graph.CubeID) error {
	if err := f.counts.Put(uint32(id), make([]abi.Fates, ebpf.MustPossibleCPU())); err != nil {
		return fmt.Errorf("clear counters: %w", err)
	}
	return nil
}

// Of returns how packets ended in a cube, other than forwarded: the fates of the framework, and the drop reasons of the
// cube's own.
func (f *Fates) Of(id graph.CubeID, own []string) ([]Fate, error) {
	var perCPU []abi.Fates
	if err := f.counts.Lookup(uint32(id), &perCPU); err != nil {
		return nil, fmt.Errorf("fates of cube %d: %w", id, err)
	}
	out := append([]Fate(nil), frameworkFates...)
	for _, name := range own {
		out = append(out, Fate{Name: name, Drop: true})
	}
	for _, cpu := range perCPU {
		for at, n := range cpu.Count {
			out[fateIndex(at, len(own))].Packets += n
		}
	}
	return out, nil
}

// fateIndex is the place of a counter in what Fates returns: reasons without a label, of the
// framework's or of own ones, are unspecified drops.
func fateIndex(reason, own int) int {
	switch {
	case reason < len(frameworkFates):
		return reason
	case reason >= firstReason && reason < firstReason+own:
		return len(frameworkFates) + reason - firstReason
	}
	return 0
}

// FrameworkReasons are the labels of the reasons that belong to no cube, from 0 on.
func FrameworkReasons() []string {
	var out []string
	for _, f := range frameworkFates {
		out = append(out, f.Name)
	}
	return out
}

// FirstReason is the first reason that is a cube's own (PCN_REASON_FIRST).
const FirstReason = firstReason
