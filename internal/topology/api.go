// SPDX-License-Identifier: Apache-2.0

package topology

// Names of other packages that are part of the manager's API, so that callers need no other import.

import (
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// Arguments and results of the manager's methods.
type (
	// Configuration is the whole configuration at one point in time.
	Configuration = document.Configuration
	// DocumentErrors are all errors of a document, in its order.
	DocumentErrors = document.Errors //nolint:errname // a list of errors, as the type itself
	// Origin says where a change comes from. The zero Origin is the daemon itself.
	Origin = history.Origin
	// History is a part of the history, newest first.
	History = history.History
	// RevisionDetail is a revision with its effect.
	RevisionDetail = history.Detail
	// Registration is an external service in the form of the request.
	Registration = service.Registration
	// ServiceInfo describes a service.
	ServiceInfo = service.Info
	// ServiceState is the state of an external service.
	ServiceState = service.State
	// Series is a figure that a service reported for one of its cubes.
	Series = service.Series
	// CubeRef names a cube and its service.
	CubeRef = read.CubeRef
	// PortRef is a port and its peer.
	PortRef = read.PortRef
	// ParentRef is a transparent cube and where it is attached.
	ParentRef = read.ParentRef
	// ListCount is the number of entries of a list.
	ListCount = read.ListCount
	// CubeNumbers are the counters of a cube.
	CubeNumbers = read.CubeNumbers
	// PortNumbers are the counters of a port.
	PortNumbers = read.PortNumbers
	// NetdevNumbers describes a netdev that is a port's peer or has transparent cubes.
	NetdevNumbers = read.NetdevNumbers
	// AbsentError is the error of a request that names an object that does not exist.
	AbsentError = world.AbsentError
)

// HostStack is the place between the netdevs and the host's stack, where transparent cubes get the packets of all netdevs.
const HostStack = world.HostStack
