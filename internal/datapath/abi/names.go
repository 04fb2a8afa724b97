// SPDX-License-Identifier: Apache-2.0

package abi

import "github.com/polycube/polycube/cube"

// Names of the framework's maps (bpf/core/maps.h, bpf/core/trace.h) that Go code uses.
const (
	MapEntries    = "pcn_entries"
	MapFar        = "pcn_far_entries"
	MapOutEntries = "pcn_out_entries"
	MapExits      = "pcn_exits"
	MapStacks     = "pcn_stacks"
	MapParents    = "pcn_parents"
	MapDevices    = "pcn_devices"
	MapShadows    = "pcn_shadows"
	MapCounters   = "pcn_counters"
	MapFates      = "pcn_fates"
	MapFloods     = "pcn_floods"
	MapFloodSets  = "pcn_flood_sets"
	MapGroups     = "pcn_groups"
	MapCopies     = "pcn_copies"
	MapDown       = "pcn_down"
	MapCubes      = "pcn_cubes"
	MapReturns    = "pcn_returns"
	MapGeneric    = "pcn_generic"
	MapTCIngress  = "pcn_tc_ingress"
	MapLoopExit   = "pcn_loop_exit"
	MapLoopBack   = "pcn_loop_back"
	MapRing       = "pcn_ring"
	MapTracing    = "pcn_tracing"
	MapTraceLost  = "pcn_trace_lost"
	MapAccounts   = "accounts"
)

// Hooks are the hooks that programs are compiled for.
var Hooks = []cube.Hook{cube.TC, cube.XDP}
