// SPDX-License-Identifier: Apache-2.0

package topology

// Units are created for new cubes, for stored cubes, and for cubes that another version of a service takes over. Numbers of
// cubes are not reused at once, so the last ones given out are kept.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// units creates units, and gives cubes their numbers.
type units struct {
	parts *parts
	// seq and lastID are the last numbers given out. Only the holder of the writer's token reads and changes them.
	seq    uint64
	lastID datapath.CubeID
}

// staged is a stored cube that is being restored.
type staged struct {
	stored world.Stored
	unit   *unit.Unit
	rec    *world.Cube
}

// checkName refuses a name that a cube cannot have.
func (n *units) checkName(name string) error {
	if !world.ValidName(name) {
		return fmt.Errorf("cube name %.80q: a name must have 1 to 64 characters from A-Z a-z 0-9 . _ + -, and begin with a letter or digit: %w",
			name, cube.ErrInvalid)
	}
	if world.Reserved[name] || n.parts.loaded.Load().ByName[name] != nil {
		return fmt.Errorf("cube name %q is reserved for the command line, choose another one: %w", name, cube.ErrInvalid)
	}
	return nil
}

// free returns a number that no cube of a snapshot has.
func (n *units) free(w *unit.Snapshot) (datapath.CubeID, error) { return w.FreeID(n.lastID) }

// create returns the unit and the record of a new cube with a free number.
func (n *units) create(svc *service.Service, name string, id datapath.CubeID) (*unit.Unit, *world.Cube) {
	n.lastID = id
	n.seq++
	u := n.make(svc, name, world.NewUUID(), id)
	return u, &world.Cube{Name: name, Service: svc.Info.Name, UUID: u.UUID, ID: id, Seq: n.seq,
		Transparent: svc.Info.Transparent, Ports: map[string]*world.Port{}}
}

// make returns a unit without an instance.
func (n *units) make(svc *service.Service, name, uuid string, id datapath.CubeID) *unit.Unit {
	p := n.parts
	return unit.New(unit.Options{Service: svc, Name: name, UUID: uuid, ID: id, Datapath: p.dp, Plane: p.inUse, Log: p.log,
		Compile: p.compile, OwnStation: p.neighbours.OwnStation, Handlers: p.tallies.handlers, Waits: p.tallies.waits,
		Announce:    func(reason string) { p.events.Cube(name, svc.Info.Name, "degraded", reason) },
		Tell:        func(state, what string) { p.events.Told(name, svc.Info.Name, state, what) },
		TellSession: func(state, what string) { p.events.Session(name, svc.Info.Name, state, what) },
		Advertise:   func(prefixes []netip.Prefix) error { return advertise(p.shadows, uuid, prefixes) },
		Edit:        func(wanted func() ([]cube.Edit, error)) error { return p.editOwn(name, uuid, wanted) }})
}

// stage returns the tree, unit and record of a stored cube; its code is not called yet.
func (n *units) stage(s world.Stored) (*staged, error) {
	svc := n.parts.loaded.Load().ByName[s.Service]
	if svc == nil {
		return nil, fmt.Errorf("service %s is not loaded: %w", s.Service, cube.ErrNotFound)
	}
	if err := n.checkName(s.Name); err != nil {
		return nil, err
	}
	if s.ID == 0 || s.ID > datapath.MaxCubeID || s.UUID == "" {
		return nil, fmt.Errorf("its record has no valid number or UUID: %w", cube.ErrInvalid)
	}
	u := n.make(svc, s.Name, s.UUID, s.ID)
	u.TakeOver()
	if err := unit.RestoreTree(&s, u); err != nil {
		u.Tree.Close()
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	rec := &world.Cube{Name: s.Name, Service: s.Service, UUID: s.UUID, ID: s.ID, Seq: s.Seq, Type: s.Type, Blob: s.Blob,
		Transparent: svc.Info.Transparent, Ports: map[string]*world.Port{}}
	for _, p := range s.Ports {
		rec.Ports[p.Name] = &world.Port{Name: p.Name, UUID: p.UUID, Index: p.Index, Slot: p.Slot, OwnMAC: p.OwnMAC}
	}
	if s.Entries != nil {
		u.Restored = s.Entries
	}
	n.seq = max(n.seq, s.Seq)
	n.lastID = max(n.lastID, s.ID)
	return &staged{stored: s, unit: u, rec: rec}, nil
}
