// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"context"
	"errors"
	"log/slog"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology"
)

// errNoDataPlane is what a build without a data plane says at start.
var errNoDataPlane = errors.New("this build of polycubed has no data plane")

// wire chooses the real parts.
func wire() parts {
	return parts{
		services:  cube.Services,
		openPlane: func(planeOptions) (plane, error) { return nil, errNoDataPlane },
		startSlowPath: func(context.Context, plane, *topology.Manager, *slog.Logger) (func() error, error) {
			return nil, errNoDataPlane
		},
		watch:       netdev.Watch,
		ensureBPFFS: ensureBPFFS,
	}
}
