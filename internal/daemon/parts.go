// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"log/slog"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology"
)

// The parts of the daemon as functions, so that its life cycle (start, signals, failures at each step, shutdown) can
// be tested without a kernel. wire.go has the real ones.

// plane is the data plane as the daemon opens and closes it.
type plane interface {
	topology.Datapath
	// Close closes the kernel objects; they stay pinned and traffic continues.
	Close() error
	// Cleanup removes everything of the instance from the kernel and closes.
	Cleanup() error
}

// shadowsOf creates the namespaces of cubes: the data plane, if it can.
func shadowsOf(p plane) topology.Shadows {
	if s, ok := p.(interface{ Shadows() topology.Shadows }); ok {
		return s.Shadows()
	}
	return nil
}

// planeOptions say where a data plane keeps its pins.
type planeOptions struct {
	BPFFS, Instance string
	Logger          *slog.Logger
	SegmentCubes    int
	// Relinked is notified of programs that are in use now.
	Relinked func(datapath.Relinked)
	// Mounts is the mount namespace where namespaces of cubes get their names; "" for the daemon's own.
	Mounts string
}

// parts create the daemon's parts.
type parts struct {
	services  func() []cube.Service
	openPlane func(planeOptions) (plane, error)
	// startSlowPath passes packets and log lines from the data plane to the manager, until stop.
	startSlowPath func(context.Context, plane, *topology.Manager, *slog.Logger) (stop func() error, err error)
	// watch reports events of network devices until ctx ends.
	watch func(context.Context, func(netdev.Event)) error
	// ensureBPFFS creates the directory for pins.
	ensureBPFFS func(dir string) error
}
