// SPDX-License-Identifier: Apache-2.0

package counters

import (
	"fmt"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/graph"
)

// Fate is one fate of packets in a cube, with its counter.
type Fate struct {
	// Name is the verdict or drop reason: "pass", "slowpath", "no-peer", "hop-limit", or
	// one of the cube's own.
	Name string
	// Drop distinguishes drop reasons from other fates.
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
	{Name: "redirected"},
	{Name: "no-output", Drop: true},
}

const firstReason = 32 // PCN_REASON_FIRST

// Fates reads the fates of packets, by cube.
type Fates struct{ counts *ebpf.Map }

// NewFates reads the framework's map.
func NewFates(counts *ebpf.Map) *Fates { return &Fates{counts} }

// Clear clears the counters of a number that another cube may have had.
func (f *Fates) Clear(id graph.CubeID) error {
	if err := f.counts.Put(uint32(id), make([]abi.Fates, ebpf.MustPossibleCPU())); err != nil {
		return fmt.Errorf("clear counters: %w", err)
	}
	return nil
}

// Of returns the fates of packets in a cube, except forwarding: the framework's fates, and the cube's own drop reasons.
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

// fateIndex returns the index of a counter in the result of Fates: reasons without a label count as unspecified drops.
func fateIndex(reason, own int) int {
	switch {
	case reason < len(frameworkFates):
		return reason
	case reason >= firstReason && reason < firstReason+own:
		return len(frameworkFates) + reason - firstReason
	}
	return 0
}

// FrameworkReasons returns the labels of the reasons of the framework, starting at 0.
func FrameworkReasons() []string {
	var out []string
	for _, f := range frameworkFates {
		out = append(out, f.Name)
	}
	return out
}

// FirstReason is the first of a cube's own reasons (PCN_REASON_FIRST).
const FirstReason = firstReason
