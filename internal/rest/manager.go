// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// Manager owns the cubes; *topology.Manager is the real one. A path is relative to the cube; nil is the cube itself.
// Every method may be called at any time from any goroutine.
type Manager interface {
	// Services lists the loaded services, in order of registration; Schema returns a service's model.
	Services() []topology.ServiceInfo
	Schema(service string) (*yang.Schema, error)
	// Cubes lists the running cubes, in order of creation; ServiceOf finds one.
	Cubes() []topology.CubeRef
	ServiceOf(cube string) (string, bool)

	// AddService, UpdateService and RemoveService are for external services, which ServiceStates lists. The first two
	// return the result of the trial load of its programs.
	AddService(context.Context, topology.Registration) (datapath.TrialReport, error)
	UpdateService(context.Context, topology.Registration) (datapath.TrialReport, error)
	RemoveService(ctx context.Context, name string) error
	ServiceStates() []topology.ServiceState
	ServiceSeries() []topology.Series

	Create(ctx context.Context, service, name string, body []byte) error
	Edit(ctx context.Context, service, name string, op yang.Op, path yang.Path, body []byte) error
	Delete(ctx context.Context, service, name string) error
	Read(ctx context.Context, service, name string, path yang.Path) (json.RawMessage, error)
	// Entries iterates over a list, Page reads a part of one that is marked `paged`, and CountEntries counts;
	// CubeRevision returns the revision for conditional changes.
	Entries(ctx context.Context, service, name string, path yang.Path, after []string, f func(keys []string, entry json.RawMessage) bool) error
	Page(ctx context.Context, service, name string, path yang.Path, q cube.PageQuery) (cube.Page, error)
	CountEntries(ctx context.Context, service, name string, path yang.Path, most int) (topology.ListCount, error)
	CubeRevision(cube string) (uint64, error)
	Action(ctx context.Context, service, name string, path yang.Path, body []byte) (json.RawMessage, error)
	// CreateMany creates every cube of an array, or none.
	CreateMany(ctx context.Context, body []byte) error
	// Configuration returns the whole configuration, and Apply applies a document.
	Configuration() *topology.Configuration
	Apply(ctx context.Context, body []byte, o topology.ApplyOptions) (*topology.Applied, error)
	// History and rollback.
	ConfigurationAt(revision uint64) (*topology.Configuration, error)
	History(from uint64, n int) (*topology.History, error)
	RevisionAt(revision uint64) (*topology.RevisionDetail, error)
	Rollback(ctx context.Context, revision uint64, o topology.ApplyOptions) (*topology.Applied, error)
	// Trial returns the change on trial, EndTrial keeps it or takes it back.
	Trial() *topology.Trial
	EndTrial(ctx context.Context, keep bool) error

	Connect(ctx context.Context, a, b string) error
	Disconnect(ctx context.Context, a, b string) error
	Attach(ctx context.Context, r topology.AttachRequest) error
	Detach(ctx context.Context, cube, port string) error
	Topology(ctx context.Context) (json.RawMessage, error)
	NetdevTopology(ctx context.Context, iface string) (json.RawMessage, error)
	Netdevs(ctx context.Context) (json.RawMessage, error)
	Netdev(ctx context.Context, name string) (json.RawMessage, error)

	// Places lists the ports and the transparent cubes, with what they are connected to.
	Places() ([]topology.PortRef, []topology.ParentRef)
	// PortStats and Fates are the counters of a cube.
	PortStats(cube, port string) (datapath.PortCounters, error)
	Fates(cube string) ([]datapath.Fate, error)
	// CubeNames and FrameworkFates are for monitoring all drops.
	CubeNames() []string
	FrameworkFates() ([]datapath.Fate, error)
	// Status describes how a cube's programs run, Degraded why its code is no longer called, or why it could not be
	// restored.
	Status(cube string) (datapath.CubeStatus, error)
	Degraded(cube string) string

	// Numbers and the rest are for metrics.
	Numbers() []topology.CubeNumbers
	NetdevNumbers() []topology.NetdevNumbers
	Maps(cube string) []datapath.MapUsage
	Activity() topology.Activity
	Revision() uint64
}
