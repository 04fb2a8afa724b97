// SPDX-License-Identifier: Apache-2.0

package datapath

import "github.com/polycube/polycube/cube"

// Names of the framework's maps (bpf/core/maps.h, bpf/core/trace.h) that Go code uses.
const (
	mapEntries    = "pcn_entries"
	mapFar        = "pcn_far_entries"
	mapOutEntries = "pcn_out_entries"
	mapExits      = "pcn_exits"
	mapDevices    = "pcn_devices"
	mapShadows    = "pcn_shadows"
	mapCounters   = "pcn_counters"
	mapFates      = "pcn_fates"
	mapFloods     = "pcn_floods"
	mapFloodSets  = "pcn_flood_sets"
	mapGroups     = "pcn_groups"
	mapCopies     = "pcn_copies"
	mapDown       = "pcn_down"
	mapCubes      = "pcn_cubes"
	mapReturns    = "pcn_returns"
	mapGeneric    = "pcn_generic"
	mapLoopExit   = "pcn_loop_exit"
	mapLoopBack   = "pcn_loop_back"
	mapRing       = "pcn_ring"
	mapTracing    = "pcn_tracing"
	mapTraceLost  = "pcn_trace_lost"
	mapAccounts   = "accounts"
)

// hooks are the hooks that programs are compiled for.
var hooks = []cube.Hook{cube.TC, cube.XDP}
