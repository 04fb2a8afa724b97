// SPDX-License-Identifier: Apache-2.0

package metrics

import "slices"

// The table of all families of the daemon itself: name, labels, description, and the number of series. A test compares
// it with the table in the guide.

// Kind of a family.
type Kind string

// The kinds.
const (
	Counter   Kind = "counter"
	Gauge     Kind = "gauge"
	Histogram Kind = "histogram"
	// unknown is a counter of a model whose name is not valid for a counter in OpenMetrics.
	unknown Kind = "unknown"
)

// Family is a metric with all its series.
type Family struct {
	Name string
	Kind Kind
	// Labels are in alphabetical order. cubeName is spelled as in the first Polycube.
	Labels []string
	Help   string
	// Series describes the number of series.
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

// table has the families in output order.
var table = []Family{
	{Name: "polycube_build_info", Kind: Gauge, Labels: []string{"version"}, Series: one, Help: "Version of the daemon; the value is always 1."},
	{Name: "polycube_cubes", Kind: Gauge, Labels: []string{"service"}, Series: "services", Help: "Number of running cubes."},
	{Name: "polycube_cube_healthy", Kind: Gauge, Labels: []string{"cubeName", "service"}, Series: perCube,
		Help: "1 for a cube whose control plane works, 0 for one that is degraded or could not be restored."},
	{Name: "polycube_configuration_revision", Kind: Gauge, Series: one, Help: "Revision of the configuration."},
	{Name: "polycube_trial_seconds_left", Kind: Gauge, Series: one, Help: "Time until the change on trial is taken back; 0 if there is none."},

	{Name: "polycube_port_packets_total", Kind: Counter, Labels: []string{"cubeName", "direction", "port"}, Series: "2 × ports", Help: "Packets through a port."},
	{Name: "polycube_port_bytes_total", Kind: Counter, Labels: []string{"cubeName", "direction", "port"}, Series: "2 × ports", Help: "Bytes through a port."},
	{Name: "polycube_port_up", Kind: Gauge, Labels: []string{"cubeName", "port"}, Series: perPort, Help: "1 for a port that is UP."},
	{Name: "polycube_netdev_up", Kind: Gauge, Labels: []string{"netdev"}, Series: perNetdev, Help: "1 if a netdev of a port or transparent cube exists, is up and usable."},
	{Name: "polycube_netdev_carrier", Kind: Gauge, Labels: []string{"netdev"}, Series: perNetdev, Help: "1 if the other end of a netdev works."},
	{Name: "polycube_packets_total", Kind: Counter, Labels: []string{"cubeName", "fate"}, Series: "cubes × 5", Help: "Packets by their fate in a cube, other than drops."},
	{Name: "polycube_drops_total", Kind: Counter, Labels: []string{"cubeName", "reason"}, Series: perReason,
		Help: "Packets dropped by a cube, by reason; cube framework stands for drops outside any cube."},

	{Name: "polycube_segment_cubes", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Number of cubes in one linked program, by the name of the first."},
	{Name: "polycube_segment_inlined", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "1 for a linked program in inline mode, 0 in call mode."},
	{Name: "polycube_segment_instructions", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Size of a linked program."},
	{Name: "polycube_segment_verified_instructions", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment,
		Help: "Instructions that the verifier processed for a linked program; it refuses more than 1000000."},
	{Name: "polycube_segment_stack_bytes", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment,
		Help: "Stack of a linked program; the kernel allows 512 bytes."},
	{Name: "polycube_segment_maps", Kind: Gauge, Labels: []string{"cubeName"}, Series: perSegment, Help: "Number of maps of a linked program; the kernel allows 64."},
	{Name: "polycube_relink_duration_seconds", Kind: Histogram, Labels: []string{"mode"}, Series: "2", Help: "Time to link and load programs, by mode."},
	{Name: "polycube_relink_failures_total", Kind: Counter, Labels: []string{"reason"}, Series: "5",
		Help: "Programs that could not be linked or loaded: too-large, verifier, resources, canceled, other."},
	{Name: "polycube_map_entries", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Number of entries of a cube's map, counted up to 262144."},
	{Name: "polycube_map_max_entries", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Maximum number of entries of a cube's map."},
	{Name: "polycube_map_memory_bytes", Kind: Gauge, Labels: []string{"cubeName", "map"}, Series: perMap, Help: "Memory of a cube's map in the kernel."},
	{Name: "polycube_ring_packets_total", Kind: Counter, Labels: []string{"cubeName", "outcome", "ring"}, Series: "2 × rings of cubes",
		Help: "Packets that programs copied to a ring of their own: written, or lost because the ring was full."},
	{Name: "polycube_ring_waiting_bytes", Kind: Gauge, Labels: []string{"cubeName", "ring"}, Series: "rings of cubes", Help: "Bytes of a cube's ring that wait to be read."},
	{Name: "polycube_map_oldest_look_seconds", Kind: Gauge, Series: one, Help: "Age of the oldest metrics about maps: one scrape updates only some of them."},

	{Name: "polycube_slowpath_records_total", Kind: Counter, Labels: []string{"kind"}, Series: "5", Help: "Records from the fast path: packet, flood, log, notice, step."},
	{Name: "polycube_slowpath_bad_records_total", Kind: Counter, Labels: []string{"reason"}, Series: "3",
		Help: "Records that were not handled: stale (from before a restart), malformed, stray (of a deleted cube)."},
	{Name: "polycube_slowpath_ring_bytes", Kind: Gauge, Series: one, Help: "Size of the ring to user space."},
	{Name: "polycube_slowpath_ring_used_bytes", Kind: Gauge, Series: one, Help: "Bytes of the ring that wait to be read."},
	{Name: "polycube_slowpath_ring_resets_total", Kind: Counter, Series: one, Help: "Number of times that the content of the ring was discarded."},
	{Name: "polycube_slowpath_sleeps_total", Kind: Counter, Series: one, Help: "Number of times that the reader of the ring waited for a wakeup."},
	{Name: "polycube_slowpath_handler_duration_seconds", Kind: Histogram, Series: one, Help: "Time to handle a batch of at most 64 packets in a cube's code."},
	{Name: "polycube_slowpath_wait_seconds", Kind: Histogram, Series: one, Help: "Time that the first packet of a batch waited for its cube's code."},
	{Name: "polycube_slowpath_waiting_packets", Kind: Gauge, Labels: []string{"cubeName"}, Series: perCube, Help: "Number of packets that wait for a cube's code."},
	{Name: "polycube_slowpath_shed_total", Kind: Counter, Labels: []string{"cubeName"}, Series: perCube,
		Help: "Packets in user space that were not handled: too many waited, or the cube is degraded. Packets shed before are counted as drops, slowpath-shed."},

	{Name: "polycube_transaction_duration_seconds", Kind: Histogram, Series: one, Help: "Duration of a transaction, without the time in the queue."},
	{Name: "polycube_transaction_group_changes", Kind: Histogram, Series: one, Help: "Number of waiting changes that were applied together."},
	{Name: "polycube_transaction_failures_total", Kind: Counter, Labels: []string{"reason"}, Series: "11",
		Help: "Transactions that were refused or undone: invalid, not-found, exists, in-use, unsupported, full, stale, canceled, timeout, stopping, internal."},
	{Name: "polycube_store_commit_duration_seconds", Kind: Histogram, Series: one, Help: "Time to write a change to disk."},
	{Name: "polycube_store_commit_failures_total", Kind: Counter, Series: one, Help: "Changes that could not be written to disk."},
	{Name: "polycube_store_journal_bytes", Kind: Gauge, Series: one, Help: "Size of the journal since the last snapshot."},
	{Name: "polycube_store_journal_records", Kind: Gauge, Series: one, Help: "Records of the journal since the last snapshot."},
	{Name: "polycube_store_state_bytes", Kind: Gauge, Series: one, Help: "Size of the configuration in the store."},
	{Name: "polycube_store_snapshots_total", Kind: Counter, Series: one, Help: "Snapshots since the start."},
	{Name: "polycube_store_snapshot_failures_total", Kind: Counter, Series: one, Help: "Snapshots that failed."},
	{Name: "polycube_store_healthy", Kind: Gauge, Series: one, Help: "0 while changes cannot be written, or would be lost at the next start."},

	{Name: "polycube_api_request_duration_seconds", Kind: Histogram, Labels: []string{"method", "route", "status"},
		Series: "at most 500", Help: "Duration of a request, by the pattern of its path, without streams."},
	{Name: "polycube_api_requests_in_flight", Kind: Gauge, Series: one, Help: "Requests in progress, including streams."},
	{Name: "polycube_api_denied_total", Kind: Counter, Labels: []string{"reason"}, Series: "7", Help: "Requests that were refused before processing: no-credentials, forbidden, rate, body, tls, busy, other."},
	{Name: "polycube_api_connections_dropped_total", Kind: Counter, Labels: []string{"reason"}, Series: "4",
		Help: "Connections closed by a limit: too-many, silent (no request in time), slow-request (header or body), slow-answer (not read in time)."},
	{Name: "polycube_service_up", Kind: Gauge, Labels: []string{"service"}, Series: "added services", Help: "1 if an external service is running."},
	{Name: "polycube_service_restarts_total", Kind: Counter, Labels: []string{"service"}, Series: "added services", Help: "Number of times that an external service returned."},
	{Name: "polycube_service_packets_dropped_total", Kind: Counter, Labels: []string{"direction", "service"}, Series: "2 × added services",
		Help: "Packets lost on the way to an external service (in), or refused on the way from it (out), since it started."},
	{Name: "polycube_events_total", Kind: Counter, Series: one, Help: "Events since the start."},
	{Name: "polycube_event_subscribers", Kind: Gauge, Series: one, Help: "Number of clients that follow events."},
	{Name: "polycube_scrape_duration_seconds", Kind: Gauge, Series: one, Help: "Time to collect the metrics of this response, without writing it."},
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
