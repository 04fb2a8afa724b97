// SPDX-License-Identifier: Apache-2.0

package metrics

import "slices"

// Every family that the daemon itself has is in this table: its name, its labels, what it means, and how many series it
// can have. The guide's table is held to it by a test.

// Kind of a family.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	// unknown is a counter of a model whose name OpenMetrics does not take for one.
	unknown Kind = "unknown"
)

// Family is a metric with all its series.
type Family struct {
	Name string
	Kind Kind
	// Labels are in alphabetical order. cubeName is spelled as the first Polycube did.
	Labels []string
	Help   string
	// Series says how many there are.
	Series string
	// exact keeps six decimals, whatever the value.
	exact bool
}

const (
	one        = "1"
	perCube    = "cubes"
	perSegment = "segments"
	perPort    = "ports"
	perReason  = "cubes × their reasons"
	perMap     = "cubes × their maps"
	perNetdev  = "netdevs in use"
)

// table has them in the order in which they are written.
var table = []Family{
	{Name: "polycube_build_info", Kind: Gauge, Labels: []string{"version"}, Series: one, Help: "The daemon's version; the value is 1."},
	{Name: "polycube_cubes", Kind: Gauge, Labels: []string{"service"}, Series: "services", Help: "Cubes that run."},
	{Name: "polycube_cube_healthy", Kind: Gauge, Labels: []string{"cubeName", "service"}, Series: perCube,
		Help: "1 for a cube whose control plane works, 0 for one that is degraded or could not be restored."},
	{Name: "polycube_configuration_revision", Kind: Gauge, Series: one, Help: "Number of the configuration's last change."},

	{Name: "polycube_port_packets_total", Kind: Counter, Labels: []string{"cubeName", "direction", "port"}, Series: "2 × ports", Help: "Packets through a port."},
	{Name: "polycube_port_bytes_total", Kind: Counter, Labels: []string{"cubeName", "direction", "port"}, Series: "2 × ports", Help: "Bytes through a port."},
	{Name: "polycube_port_up", Kind: Gauge, Labels: []string{"cubeName", "port"}, Series: perPort, Help: "1 for a port that is UP."},
	{Name: "polycube_netdev_up", Kind: Gauge, Labels: []string{"netdev"}, Series: perNetdev, Help: "1 for a netdev of a port or transparent cube that is there, up and usable."},
	{Name: "polycube_netdev_carrier", Kind: Gauge, Labels: []string{"netdev"}, Series: perNetdev, Help: "1 while the other end of a netdev works."},
	{Name: "polycube_packets_total", Kind: Counter, Labels: []string{"cubeName", "fate"}, Series: "cubes × 5", Help: "Packets by their fate in a cube, other than drops."},
	{Name: "polycube_drops_total", Kind: Counter, Labels: []string{"cubeName", "reason"}, Series: perReason,
		Help: "Packets dropped by a cube, by reason; the cube framework has what belongs to none."},

	{Name: "polycube_segment_cubes", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Cubes in one linked program, by the name of its first."},
	{Name: "polycube_segment_inlined", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "1 for a linked program in inline mode, 0 in call mode."},
	{Name: "polycube_segment_instructions", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Size of a linked program."},
	{Name: "polycube_segment_maps", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Maps that a linked program uses; the kernel allows 64."},
	{Name: "polycube_relink_duration_seconds", Kind: Histogram, Labels: []string{"mode"}, Series: "2", Help: "Time to link and load programs, by mode."},
	{Name: "polycube_relink_failures_total", Kind: Counter, Labels: []string{"reason"}, Series: "5",
		Help: "Programs that could not be linked or loaded: too-large, verifier, resources, canceled, other."},
	{Name: "polycube_map_entries", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Entries of a cube's map, counted to 262144."},
	{Name: "polycube_map_max_entries", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Entries that a cube's map can have."},
	{Name: "polycube_map_memory_bytes", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Memory of a cube's map in the kernel."},
	{Name: "polycube_map_oldest_look_seconds", Kind: Gauge, Series: one, Help: "Age of the oldest of the figures about maps: only so many are looked at in one scrape."},

	{Name: "polycube_slowpath_records_total", Kind: Counter, Labels: []string{"kind"}, Series: "5", Help: "Records from the fast path: packet, flood, log, notice, step."},
	{Name: "polycube_slowpath_bad_records_total", Kind: Counter, Labels: []string{"reason"}, Series: "3",
		Help: "Records that were not handled: stale (of before a start), malformed, stray (of a cube that is gone)."},
	{Name: "polycube_slowpath_ring_bytes", Kind: Gauge, Series: one, Help: "Size of the ring by which packets come up."},
	{Name: "polycube_slowpath_ring_used_bytes", Kind: Gauge, Series: one, Help: "How much of the ring waits to be read."},
	{Name: "polycube_slowpath_ring_resets_total", Kind: Counter, Series: one, Help: "How often what was in the ring was given up."},
	{Name: "polycube_slowpath_sleeps_total", Kind: Counter, Series: one, Help: "How often the ring's reader waited to be woken."},
	{Name: "polycube_slowpath_handler_duration_seconds", Kind: Histogram, Series: one, Help: "Time that a batch of at most 64 packets took in a cube's code."},
	{Name: "polycube_slowpath_wait_seconds", Kind: Histogram, Series: one, Help: "Time that the first packet of a batch waited for its cube's code."},
	{Name: "polycube_slowpath_waiting_packets", Kind: Gauge, Labels: []string{"cubeName"}, Series: perCube, Help: "Packets that wait for a cube's code."},
	{Name: "polycube_slowpath_shed_total", Kind: Counter, Labels: []string{"cubeName"}, Series: perCube,
		Help: "Packets that came up and were not handled: too many waited, or the cube is degraded. What does not come up is a drop, slowpath-shed."},

	{Name: "polycube_transaction_duration_seconds", Kind: Histogram, Series: one, Help: "Time of a transaction, from its turn to its end."},
	{Name: "polycube_transaction_group_changes", Kind: Histogram, Series: one, Help: "Changes that waited at the same time and were made together."},
	{Name: "polycube_transaction_failures_total", Kind: Counter, Labels: []string{"reason"}, Series: "11",
		Help: "Transactions that were refused or undone: invalid, not-found, exists, in-use, unsupported, full, stale, canceled, timeout, stopping, internal."},
	{Name: "polycube_store_commit_duration_seconds", Kind: Histogram, Series: one, Help: "Time until a change was on disk."},
	{Name: "polycube_store_commit_failures_total", Kind: Counter, Series: one, Help: "Changes that the disk refused."},
	{Name: "polycube_store_journal_bytes", Kind: Gauge, Series: one, Help: "Size of the journal since the last snapshot."},
	{Name: "polycube_store_journal_records", Kind: Gauge, Series: one, Help: "Records of the journal since the last snapshot."},
	{Name: "polycube_store_state_bytes", Kind: Gauge, Series: one, Help: "Size of the configuration in the store."},
	{Name: "polycube_store_snapshots_total", Kind: Counter, Series: one, Help: "Snapshots made since the start."},
	{Name: "polycube_store_snapshot_failures_total", Kind: Counter, Series: one, Help: "Snapshots that could not be made."},
	{Name: "polycube_store_healthy", Kind: Gauge, Series: one, Help: "0 while changes cannot be written, or would be lost at the next start."},

	{Name: "polycube_api_request_duration_seconds", Kind: Histogram, Labels: []string{"method", "route", "status"},
		Series: "at most 500", Help: "Time of a request, by the pattern of its path. Streams are not in it."},
	{Name: "polycube_api_requests_in_flight", Kind: Gauge, Series: one, Help: "Requests under way, streams too."},
	{Name: "polycube_api_denied_total", Kind: Counter, Labels: []string{"reason"}, Series: "7", Help: "Requests that were refused before anything looked at them: no-credentials, forbidden, rate, body, tls, busy, other."},
	{Name: "polycube_api_connections_dropped_total", Kind: Counter, Labels: []string{"reason"}, Series: "4",
		Help: "Connections closed by a limit: too-many, silent (no request in time), slow-request (header or body), slow-answer (not read in time)."},
	{Name: "polycube_service_up", Kind: Gauge, Labels: []string{"service"}, Series: "added services", Help: "1 while an external service runs."},
	{Name: "polycube_service_restarts_total", Kind: Counter, Labels: []string{"service"}, Series: "added services", Help: "How often such a service came back."},
	{Name: "polycube_service_packets_dropped_total", Kind: Counter, Labels: []string{"direction", "service"}, Series: "2 × added services",
		Help: "Packets that did not reach such a service (in), or that it sent and that were refused (out), since it began."},
	{Name: "polycube_events_total", Kind: Counter, Series: one, Help: "Events since the start."},
	{Name: "polycube_event_subscribers", Kind: Gauge, Series: one, Help: "Clients that follow events."},
	{Name: "polycube_scrape_duration_seconds", Kind: Gauge, Series: one, Help: "Time that collecting took for this answer, without writing it."},
}

// Table lists the daemon's own families; models add theirs, and the Go library go_ and process_.
func Table() []Family { return slices.Clone(table) }

// index finds families by their name.
var index = func() map[string]*Family {
	out := make(map[string]*Family, len(table))
	for i := range table {
		out[table[i].Name] = &table[i]
	}
	return out
}()
