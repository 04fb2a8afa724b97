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

// Callers name what a Plane is given and what it returns as types of the Plane.
type (
	// CubeID identifies a cube in the fast path.
	CubeID = graph.CubeID
	// LogLevel orders what a cube logs.
	LogLevel = graph.LogLevel
	// Graph is the desired state of the data plane.
	Graph = graph.Graph
	// Node is a cube in the graph.
	Node = graph.Node
	// Port is a standard cube's port.
	Port = graph.Port
	// Peer is the other end of a port.
	Peer = graph.Peer
	// Netdev is a network device that the graph uses.
	Netdev = graph.Netdev
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
	// Spec is what a cube needs to come into being.
	Spec = state.Spec
	// Replacement is a cube that ReplaceCube opened anew.
	Replacement = state.Replacement
	// MapUsage is how full one of a cube's maps is.
	MapUsage = state.MapUsage
	// PortCounters are totals since the port was made.
	PortCounters = counters.PortCounters
	// Fate is one way that packets ended in a cube, with its counter.
	Fate = counters.Fate
)

// FirstReason is the first reason that is a cube's own (PCN_REASON_FIRST).
const FirstReason = counters.FirstReason

// FrameworkReasons are the labels of the reasons that belong to no cube, from 0 on.
func FrameworkReasons() []string { return counters.FrameworkReasons() }

// Loop is a veth pair by which copies of packets come back into XDP programs.
type Loop = framework.Loop

// OpenLoop makes the pair, named name and name+"i", or takes the one that is there.
func OpenLoop(name string) (Loop, error) { return framework.OpenLoop(name) }

// GoneError is that of a change which could not be made since netdevs of its graph have gone.
type GoneError = netdevs.GoneError

// Mode says how components are linked.
type Mode = segments.Mode

// The modes: automatic is call mode at once, then inline in the background.
const (
	ModeAuto   = segments.ModeAuto
	ModeCall   = segments.ModeCall
	ModeInline = segments.ModeInline
)

// Activity is what the linker has done since the plane was opened.
type Activity = segments.Activity

// Injection is a packet of which somebody wants to know what would become of it.
type Injection = inject.Injection

type (
	// Trial says which programs of a service to load on trial.
	Trial = trial.Trial
	// TrialReport is what a trial came to.
	TrialReport = trial.Report
	// TrialLoad is a program that was loaded on trial.
	TrialLoad = trial.Load
	// TrialError is a program that could not be linked or that the kernel refused.
	TrialError = trial.Error
)

// ErrUntried marks a trial that came to nothing for reasons that are not the service's.
var ErrUntried = trial.ErrUntried

// Try loads the programs of a service on trial, without a Plane; the first that is refused is a TrialError.
func Try(ctx context.Context, t Trial) (TrialReport, error) { return trial.Try(ctx, t) }
