// SPDX-License-Identifier: Apache-2.0

package topology

// The lower layers as interfaces that the topology needs: the data plane and the netdevs. Tests replace both, so that
// every step of a transaction can be made to fail.

import (
	"context"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/align"
	"github.com/polycube/polycube/internal/topology/unit"
)

// Change is a prepared graph. Commit switches to it; if it returns an error, it has undone what it did. Abort discards
// a change that was not committed. It is an alias, so that the data plane does not import this package.
type Change = interface {
	Commit() error
	Abort()
}

// Datapath is the data plane.
type Datapath interface {
	unit.Datapath
	// CreateCube makes the cube's maps, or opens them by UUID after a restart.
	CreateCube(datapath.Spec) error
	// DeleteCube removes the cube's maps permanently.
	DeleteCube(datapath.CubeID) error
	// ResizeMaps makes maps of other sizes for a cube, with the entries of the current ones; the next change uses
	// them. undo is nil if nothing changed, and does nothing once a change uses them.
	ResizeMaps(id datapath.CubeID, sizes map[string]uint32) (undo func() error, err error)
	// HoldCube opens a cube in the state in which an earlier daemon left it, with its programs and constants; a
	// cube that CreateCube opened and that is in no graph is put into this state.
	HoldCube(datapath.Spec) error
	// Keep protects the maps of a cube that is not open from the first commit, which removes maps of cubes that are
	// not open. An empty UUID protects all.
	Keep(uuid string)
	// Forget removes the maps of a cube that is not open.
	Forget(uuid string) error
	// Prepare links and loads what the graph needs; nothing changes for packets yet.
	Prepare(ctx context.Context, g *datapath.Graph) (Change, error)
	// PortCounters reads the counters of a slot.
	PortCounters(slot uint16) (datapath.PortCounters, error)
	// Fates reads what happened to packets in a cube.
	Fates(id datapath.CubeID) ([]datapath.Fate, error)
	// Status says how a cube's programs run.
	Status(id datapath.CubeID) datapath.CubeStatus
	// CheckObject parses a service's compiled programs once, when it registers.
	CheckObject(service string, objects map[cube.Hook][]byte) error
	// AddObjects does the same for a service that is a part of the daemon, when a cube first needs its programs.
	AddObjects(service string, objects map[cube.Hook][]byte)
	// Try loads a service's programs in a trial; the first one refused is returned as a datapath.TrialError.
	Try(ctx context.Context, t datapath.Trial) (datapath.TrialReport, error)
}

// Netdevs is the part of the kernel's network devices that the topology uses.
type Netdevs interface {
	List() ([]netdev.Info, error)
	// Get returns an error wrapping netdev.ErrNotFound for a device that does not exist.
	Get(name string) (netdev.Info, error)
	// Status reads the addresses and settings of a device; errors are the same as for Get.
	Status(name string) (netdev.Status, error)
	// TakesRedirects reports whether frames that native XDP redirects to a device arrive, or would after it has been
	// prepared.
	TakesRedirects(name string) (netdev.Readiness, error)
	// Put changes them, all or none. A device that does not exist is no error.
	Put(index int, d netdev.Settings) error
}

// kernelNetdevs are the devices of the network namespace that the daemon runs in.
type kernelNetdevs struct{}

func (kernelNetdevs) List() ([]netdev.Info, error)              { return netdev.List() }
func (kernelNetdevs) Get(name string) (netdev.Info, error)      { return netdev.Get(name) }
func (kernelNetdevs) Status(name string) (netdev.Status, error) { return netdev.StatusOf(name) }
func (kernelNetdevs) TakesRedirects(name string) (netdev.Readiness, error) {
	return netdev.TakesRedirects(name)
}
func (kernelNetdevs) Put(index int, d netdev.Settings) error { return netdev.Put(index, d) }

// ReleaseNetdevs removes from netdevs what the ports of stored cubes gave them. The records stay as they are, so a daemon
// that starts with them gives the netdevs the addresses of their ports again.
func ReleaseNetdevs(records []store.Record) error { return align.ReleaseAll(records, kernelNetdevs{}) }
