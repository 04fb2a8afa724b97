// SPDX-License-Identifier: Apache-2.0

package cube

// A configuration change, and the plan that carries it out.
//
// The framework carries out the plans of a transaction in three phases. Before: the steps of each plan, in their
// order, while packets still run the old programs. The flip: constants, map sizes and programs take effect for all
// cubes at once. After: once the transaction is on disk and no packet runs the old programs any more, the steps that
// free what only these used. If anything fails up to the end of the flip, the steps are undone in reverse order.
//
// A step sets absolute values and can be repeated. After a crash no plan is resumed: the daemon prepares the stored
// configuration again, as a creation, and the steps find the maps as they were left.

import (
	"encoding/json"
)

// Change is a change from one configuration to another.
type Change struct {
	// Old and New are the whole configuration as JSON of the model, with defaults. Old is nil when the cube is created or
	// restored. Both are nil if only Entries change.
	Old, New json.RawMessage
	// Entries are the changes of lists marked `bulk`, no two of the same entry; the entries of these lists are in
	// neither Old nor New. When the cube is created or restored, they are all entries.
	Entries []EntryChange
}

// Created reports whether the change creates or restores the cube: its maps may contain data of a previous run of the
// cube.
func (c Change) Created() bool { return c.Old == nil && c.New != nil }

// Plan carries out a prepared change.
type Plan struct {
	// Before are carried out while packets still run the programs with the old constants.
	Before []Step
	// Constants are new values of the program's PCN_CONFIG variables, by C name; a value is a Go integer, bool or a
	// struct with the layout of the C type. Nil leaves them unchanged. A change of constants relinks the programs.
	Constants map[string]any
	// MapSizes overrides max_entries of the instance's own maps by name; 0 leaves one unchanged. If a map of that
	// name has another size, a new one replaces it, with its entries as far as an array reaches; a change is
	// refused if a hash has more. Steps use the new map. Packets write to the old one until they see the new
	// programs. Their changes are carried over just before that, except to entries that a step has changed in the
	// new map. Entries that they add after that are carried over at once after the new programs are in use.
	MapSizes map[string]uint32
	// Spaces says, by the name of one of the instance's own maps, in which space that is. All cubes of the service with
	// the same space have the same map, which exists as long as one of them. Spaces are chosen when a cube is created,
	// and the plans that restore it name them again; in other plans they have no effect.
	Spaces map[string]string
	// Programs changes which programs the cube consists of, in one swap with the rest of the change; nil removes a
	// program. A cube that has more than pcn_ingress and pcn_egress names the others in the plan of its creation.
	Programs map[ProgramSlot]*Program
	// After are carried out once the change is durable and no packet runs the old programs. They free resources
	// that are no longer used, and cannot refuse the change: an error is logged, and the next step is carried out.
	// They do not run if the daemon dies before.
	After []Step
}

// Step is a step of a plan: Put, Delete, Replace or Swap of package table, or an Effect.
type Step interface {
	// Do carries out the step, or changes nothing and returns an error. undo reverses it; nil means that there is
	// nothing to undo.
	Do() (undo func() error, err error)
}

// Effect is a step of the cube's own. It must be repeatable after its undo.
type Effect func() (undo func() error, err error)

// Do implements Step.
func (e Effect) Do() (undo func() error, err error) { return e() }

// Carry carries out steps in order, up to the first that fails. The undo of those that were carried out is pushed to u.
func Carry(steps []Step, u *Undo) error {
	for _, s := range steps {
		undo, err := s.Do()
		if err != nil {
			return err
		}
		if undo != nil {
			u.Push(undo)
		}
	}
	return nil
}
