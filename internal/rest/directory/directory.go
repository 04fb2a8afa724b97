// SPDX-License-Identifier: Apache-2.0

package directory

import (
	"context"
	"encoding/json"

	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// Manager is the part of the Manager that the directory reads.
type Manager interface {
	Services() []topology.ServiceInfo
	Schema(service string) (*yang.Schema, error)
	Cubes() []topology.CubeRef
	ServiceOf(cube string) (string, bool)
	Read(ctx context.Context, service, name string, path yang.Path) (json.RawMessage, error)
	Entries(ctx context.Context, service, name string, path yang.Path, after []string, f func(keys []string, entry json.RawMessage) bool) error
	Netdevs(ctx context.Context) (json.RawMessage, error)
	Places() ([]topology.PortRef, []topology.ParentRef)
	History(from uint64, n int) (*topology.History, error)
	Degraded(cube string) string
}

// Directory finds resources by name, and suggests names for a mistyped one. It reads the Manager and keeps no state.
type Directory struct{ manager Manager }

// New returns the directory of the cubes of a Manager.
func New(manager Manager) *Directory { return &Directory{manager} }

// HasService reports whether a service is loaded.
func (dir *Directory) HasService(name string) bool {
	for _, info := range dir.manager.Services() {
		if info.Name == name {
			return true
		}
	}
	return false
}
