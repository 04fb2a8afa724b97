// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"

	"github.com/polycube/polycube/internal/datapath/counters"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/inject"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/internal/datapath/segments"
	"github.com/polycube/polycube/internal/datapath/state"
	"github.com/polycube/polycube/internal/datapath/trial"
)

// Names for the arguments and results of a Plane, so that callers need no other import.
type (
	// CubeID identifies a cube in the fast path.
	CubeID = graph.CubeID
	// LogLevel is the log level of a cube.
	LogLevel = graph.LogLevel
	// Graph is the desired state of the data plane.
	Graph = graph.Graph
	// Node is a cube in the graph.
	Node = graph.Node
	// Port is a standard cube's port.
	Port = graph.Port
	// Peer is the other end of a port.
	Peer = graph.Peer
	// Output is the destination of packets that a transparent cube redirects.
	Output = graph.Output
	// Netdev is a network device that the graph uses.
	Netdev = graph.Netdev
	// Host contains the transparent cubes between the netdevs and the host's stack (TC).
	Host = graph.Host
	// HostNetdev is a netdev that leads to the host's stack.
	HostNetdev = graph.HostNetdev
	// Shadow is a cube's namespace.
	Shadow = graph.Shadow
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

type (
	// Spec is what is needed to create a cube.
	Spec = state.Spec
	// Replacement is a cube that ReplaceCube opened with other programs or maps.
	Replacement = state.Replacement
	// MapUsage is how full one of a cube's maps is.
	MapUsage = state.MapUsage
	// PortCounters are totals since the port was created.
	PortCounters = counters.PortCounters
	// Fate is one way in which packets ended in a cube, with its counter.
	Fate = counters.Fate
)

// FirstReason is the first reason that a cube defines itself (PCN_REASON_FIRST).
const FirstReason = counters.FirstReason

// FrameworkReasons are the labels of the reasons that belong to no cube, starting with 0.
func FrameworkReasons() []string { return counters.FrameworkReasons() }

// Loop is a veth pair through which copies of packets re-enter XDP programs.
type Loop = framework.Loop

// OpenLoop creates the pair, named name and name+"i", or opens the existing one.
func OpenLoop(name string) (Loop, error) { return framework.OpenLoop(name) }

// GoneError is the error of a change that failed because netdevs of its graph were deleted.
type GoneError = netdevs.GoneError

// Mode says how components are linked.
type Mode = segments.Mode

// The modes: automatic is call mode at first, then inline in the background.
const (
	ModeAuto   = segments.ModeAuto
	ModeCall   = segments.ModeCall
	ModeInline = segments.ModeInline
)

// Activity are counters of the linker since the plane was opened.
type Activity = segments.Activity

// Injection is a packet to be traced without sending it.
type Injection = inject.Injection

type (
	// Trial says which programs of a service to load in a trial.
	Trial = trial.Trial
	// TrialReport is the result of a trial.
	TrialReport = trial.Report
	// TrialLoad is a program that was loaded in a trial.
	TrialLoad = trial.Load
	// TrialError is a program that could not be linked or that the kernel refused.
	TrialError = trial.Error
)

// ErrUntried marks a trial that came to nothing for reasons that are not the service's.
var ErrUntried = trial.ErrUntried

// Try loads the programs of a service in a trial, without a Plane; the first one refused is returned as a TrialError.
func Try(ctx context.Context, t Trial) (TrialReport, error) { return trial.Try(ctx, t) }
