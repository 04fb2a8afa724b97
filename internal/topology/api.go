// SPDX-License-Identifier: Apache-2.0

package topology

// Names of other packages that are part of the manager's API, for those who import nothing else.

import (
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// What Manager's methods take and answer of documents.
type (
	// Configuration is the whole configuration as it was at one moment.
	Configuration = document.Configuration
	// DocumentErrors is all that is wrong with a document, in its order.
	DocumentErrors = document.Errors
)

// What the manager's methods take and answer of services.
type (
	// Registration is a service that is not part of the daemon, as a request names it.
	Registration = service.Registration
	// ServiceInfo describes a service.
	ServiceInfo = service.Info
	// ServiceState says how a service is that is not part of the daemon.
	ServiceState = service.State
	// Series is a figure that a service gave of one of its cubes.
	Series = service.Series
)

// AbsentError is a request that names what does not exist.
type AbsentError = world.AbsentError

// What the manager's methods answer of cubes, ports and netdevs.
type (
	// CubeRef names a cube and its service.
	CubeRef = read.CubeRef
	// PortRef is a port and what it is connected with.
	PortRef = read.PortRef
	// ParentRef is a transparent cube and where it is attached.
	ParentRef = read.ParentRef
	// BrokenCube is a stored cube that could not be restored.
	BrokenCube = read.BrokenCube
	// ListCount is how many entries a list has.
	ListCount = read.ListCount
	// CubeNumbers are what is counted of a cube.
	CubeNumbers = read.CubeNumbers
	// PortNumbers are what is counted of a port.
	PortNumbers = read.PortNumbers
	// NetdevNumbers are what is known of a netdev that cubes have to do with.
	NetdevNumbers = read.NetdevNumbers
)
