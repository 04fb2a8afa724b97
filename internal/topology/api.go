// SPDX-License-Identifier: Apache-2.0

package topology

// Names of other packages that are part of the manager's API, for those who import nothing else.

import (
	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/read"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// What the manager's methods take and answer.
type (
	// Configuration is the whole configuration as it was at one moment.
	Configuration = document.Configuration
	// DocumentErrors is all that is wrong with a document, in its order.
	DocumentErrors = document.Errors //nolint:errname // a list of errors, as the type itself
	// Origin says where a change comes from. The zero Origin is the daemon itself.
	Origin = history.Origin
	// History is a part of the past, newest first.
	History = history.History
	// RevisionDetail is a revision with what it did.
	RevisionDetail = history.Detail
	// Registration is an external service, as a request names it.
	Registration = service.Registration
	// ServiceInfo describes a service.
	ServiceInfo = service.Info
	// ServiceState says how a service is that is not part of the daemon.
	ServiceState = service.State
	// Series is a figure that a service gave of one of its cubes.
	Series = service.Series
	// CubeRef names a cube and its service.
	CubeRef = read.CubeRef
	// PortRef is a port and what it is connected with.
	PortRef = read.PortRef
	// ParentRef is a transparent cube and where it is attached.
	ParentRef = read.ParentRef
	// ListCount is how many entries a list has.
	ListCount = read.ListCount
	// CubeNumbers are what is counted of a cube.
	CubeNumbers = read.CubeNumbers
	// PortNumbers are what is counted of a port.
	PortNumbers = read.PortNumbers
	// NetdevNumbers are what is known of a netdev that cubes have to do with.
	NetdevNumbers = read.NetdevNumbers
	// AbsentError is a request that names what does not exist.
	AbsentError = world.AbsentError
)
