// SPDX-License-Identifier: Apache-2.0

// Package read answers requests that read the topology: configuration and state of cubes, lists in pages, connections
// of cubes, netdevs and counters. It loads the current snapshot, changes nothing and waits only for the code of the
// cube whose state is requested.
package read

// Reads of the current snapshot, without waiting for others.

import (
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Datapath is the part of the data plane that is read.
type Datapath interface {
	// PortCounters reads the counters of a slot.
	PortCounters(slot uint16) (datapath.PortCounters, error)
	// Fates reads what happened to packets in a cube.
	Fates(id datapath.CubeID) ([]datapath.Fate, error)
	// Status says how a cube's programs run.
	Status(id datapath.CubeID) datapath.CubeStatus
}

// Netdevs is the part of the kernel's network devices that is read.
type Netdevs interface {
	List() ([]netdev.Info, error)
	// Get returns an error wrapping netdev.ErrNotFound for a device that does not exist.
	Get(name string) (netdev.Info, error)
}

// Reader answers read requests. Its methods may be called from any goroutine and change nothing.
type Reader struct {
	view    *atomic.Pointer[unit.Snapshot]
	loaded  *atomic.Pointer[service.Registry]
	dp      Datapath
	netdevs Netdevs
	// notes knows what prevents packets from passing, nil if the data plane does not.
	notes world.Notes
	// namespace is the name of the network namespace of a shadow cube.
	namespace func(cube string) string
}

// New returns a reader of snapshots and services, which others replace as they change. notes may be nil; namespace,
// which returns the name of the network namespace of a shadow cube, may be nil if such cubes do not exist.
func New(view *atomic.Pointer[unit.Snapshot], loaded *atomic.Pointer[service.Registry], dp Datapath,
	netdevs Netdevs, notes world.Notes, namespace func(cube string) string) *Reader {
	return &Reader{view: view, loaded: loaded, dp: dp, netdevs: netdevs, notes: notes, namespace: namespace}
}

// Services lists the loaded services, in order of registration.
func (rd *Reader) Services() []service.Info {
	r := rd.loaded.Load()
	list := make([]service.Info, 0, len(r.Order))
	for _, name := range r.Order {
		list = append(list, r.ByName[name].Describe())
	}
	return list
}

// Schema returns a service's model. It can be used until Close, and for some minutes after the service was removed.
func (rd *Reader) Schema(name string) (*yang.Schema, error) {
	s, err := rd.LoadedService(name)
	if err != nil {
		return nil, err
	}
	return s.Schema, nil
}

// LoadedService returns a service; the error wraps [cube.ErrNotFound].
func (rd *Reader) LoadedService(name string) (*service.Service, error) {
	if s := rd.loaded.Load().ByName[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("service %.80q: %w", name, cube.ErrNotFound)
}

// Revision returns the number of the last change of the configuration, counted from the start of the daemon.
func (rd *Reader) Revision() uint64 { return rd.view.Load().Revision }

// CubeRevision returns the number of the last change that affected a cube's configuration.
func (rd *Reader) CubeRevision(name string) (uint64, error) {
	w := rd.view.Load()
	if rec := w.Cubes[name]; rec != nil {
		return rec.Revision, nil
	}
	return 0, fmt.Errorf("cube %.80s: %w", name, w.Missing(name))
}

// BrokenCube is a stored cube that could not be restored. It can be deleted.
type BrokenCube struct{ Name, Service, Reason string }

// Broken lists the stored cubes that could not be restored, by name.
func (rd *Reader) Broken() []BrokenCube {
	w := rd.view.Load()
	var list []BrokenCube
	for _, name := range slices.Sorted(maps.Keys(w.Broken)) {
		list = append(list, BrokenCube{Name: name, Service: w.Broken[name].Stored.Service, Reason: w.Broken[name].Reason})
	}
	return list
}

// CubeRef names a cube and its service.
type CubeRef struct{ Name, Service string }

// Cubes lists the running cubes, in order of creation.
func (rd *Reader) Cubes() []CubeRef {
	recs := rd.view.Load().InOrder()
	list := make([]CubeRef, 0, len(recs))
	for _, rec := range recs {
		list = append(list, CubeRef{Name: rec.Name, Service: rec.Service})
	}
	return list
}

// ServiceOf returns the service of a cube.
func (rd *Reader) ServiceOf(name string) (string, bool) {
	rec := rd.view.Load().Cubes[name]
	if rec == nil {
		return "", false
	}
	return rec.Service, true
}

// Degraded says why a cube's code is no longer called, or why a stored cube does not run; "" if neither or if the cube
// does not exist.
func (rd *Reader) Degraded(name string) string {
	w := rd.view.Load()
	if b := w.Broken[name]; b != nil {
		return b.String()
	}
	if u := w.Units[name]; u != nil {
		return u.Trouble()
	}
	return ""
}

// find returns a cube as readers see it; an empty service matches any.
func (rd *Reader) find(serviceName, name string) (*world.Cube, *unit.Unit, error) {
	w := rd.view.Load()
	return w.Find(serviceName, name)
}

// CubeID returns the number of a cube in the fast path.
func (rd *Reader) CubeID(name string) (datapath.CubeID, error) {
	rec, _, err := rd.find("", name)
	if err != nil {
		return 0, err
	}
	return rec.ID, nil
}
