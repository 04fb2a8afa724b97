// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/polycube/polycube/internal/datapath/graph"

// The graph is what a Plane is given: callers name its types as those of the Plane.
type (
	CubeID   = graph.CubeID
	LogLevel = graph.LogLevel
	Graph    = graph.Graph
	Node     = graph.Node
	Port     = graph.Port
	Peer     = graph.Peer
	Netdev   = graph.Netdev
	Shadow   = graph.Shadow
)

// The levels, in the order of the model's enum loglevel.
const (
	LogTrace    = graph.LogTrace
	LogDebug    = graph.LogDebug
	LogInfo     = graph.LogInfo
	LogWarn     = graph.LogWarn
	LogErr      = graph.LogErr
	LogCritical = graph.LogCritical
	LogOff      = graph.LogOff
)

// Limits of the fast path.
const (
	// MaxCubeID is the largest CubeID.
	MaxCubeID = graph.MaxCubeID
	// MaxPorts is the number of ports that one cube can have.
	MaxPorts = graph.MaxPorts
	// MaxSlot is the largest counter slot.
	MaxSlot = graph.MaxSlot
	// SlotsPerPage is the number of counter slots in one page of per-CPU memory.
	SlotsPerPage = graph.SlotsPerPage
)
