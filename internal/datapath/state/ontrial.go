// SPDX-License-Identifier: Apache-2.0

package state

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Cubes on trial: their maps are not pinned, and nothing else uses them.

// OnTrial returns a State with the same services and without cubes.
func (cs *State) OnTrial() *State {
	next := New(Options{})
	next.services = cs.services.clone()
	return next
}

// AddTried adds a cube with these objects and without maps.
func (cs *State) AddTried(spec Spec, objects map[cube.Hook]*link.Object) {
	cs.byID[spec.ID] = &Instance{spec: spec, objects: objects}
}

// AddTriedService adds a cube of a service that need not be registered. newMap creates its maps.
func (cs *State) AddTriedService(spec Spec, service *Service, newMap func(*ebpf.MapSpec) (*ebpf.Map, error)) error {
	if err := checkService(spec, service); err != nil {
		return err
	}
	in := cs.newInstance(spec, service.objects, service.elfs)
	cs.byID[spec.ID] = in
	if err := in.declare(service.declared); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(in.declared)) {
		d := in.declared[name]
		if owner, err := cs.owned(name, d); err == nil { // otherwise its owner is not registered yet
			d = owner
		}
		m, err := newMap(d.spec)
		if err != nil {
			return fmt.Errorf("map %s: %w", name, err)
		}
		in.maps[name] = m
	}
	return nil
}
