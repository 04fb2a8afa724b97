// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/lint/reference"
	"github.com/polycube/polycube/test/netns"
)

// unmeasured are helpers without a cost of their own, or which need something that the benchmark lacks.
var unmeasured = []string{
	"pcn_pkt_drop",             // the reference for others
	"pcn_pkt_namespace",        // requires a cube with a namespace; then it is the kernel's redirect
	"pcn_data", "pcn_data_end", // one load each
	"pcn_tag_proto", "pcn_tag_tci", "pcn_tag_vid", // a shift or a mask
	"pcn_opaque", // two XORs
	// In monitors, which TestTimedCostOfACounter of cubes/dynmon measures: a constant, a verdict, two atomic additions and a clock.
	"pcn_monitor_seed", "pcn_monitor_drop", "pcn_histogram_add", "pcn_get_time_epoch",
	// They change how long the packet is, which a test run keeps for its next one.
	"pcn_vlan_push", "pcn_vlan_pop", "pcn_vlan_set",
	"pcn_pkt_flood_set",         // as many copies as ports: a separate part
	"pcn_pkt_offer",             // a tail call, for a port with a cube that takes offers; see ADR 41
	"pcn_offered", "pcn_turned", // one load each
	"pcn_hostfib_ask", "pcn_hostfib_lookup", // the kernel's lookup of routes
	"pcn_bypass", "pcn_bypass_find", "pcn_bypass_exit", "pcn_bypass_retag", "pcn_bypass_send", "pcn_bypass_not", // only in transparent cubes; mostly that lookup
	"pcn_address_type_of",                               // one lookup in a hash
	"pcn_address_kind",                                  // a few comparisons
	"pcn_address_set4_whole",                            // two stores
	"pcn_pkt_redirect", "pcn_pkt_mirror", "pcn_outputs", // only in transparent cubes; see ADR 55
	"pcn_pkt_redirect_netdev", "pcn_netdevs", // the same, in cubes at the host
	"pcn_hostfib_frame", "pcn_hostfib_write", // stores, and the checksum of a word
	"pcn_pkt_redirect_neigh",       // the same, and then it is the kernel's look-up of a route and a neighbour
	"pcn_pkt_turn",                 // only in the egress program of a transparent cube, where no other verdict ends a packet this way
	"pcn_pkt_reply", "pcn_replies", // only in the ingress program of a transparent cube; see ADR 60
	// Not functions, or other names of measured ones.
	"pcn_log_level", "pcn_instance", "pcn_shadow", "pcn_span", "pcn_offers", "pcn_pkt_redirect_ns", "pcn_pkt_controller_with_metadata",
	// Measured in the bridges, by the part "bridge": what they cost depends on the stations.
	"pcn_fdb_now", "pcn_fdb_learn", "pcn_fdb_find",
	// Measured in the forwarder, by the part "pbforwarder": what a search costs depends on the rules;
	// the reader and the counter are part of it.
	"pcn_classify_set", "pcn_classify_fields", "pcn_classify_read", "pcn_classify", "pcn_classify_packet",
	"pcn_classify_after", "pcn_classify_key", "pcn_classify_key_of", "pcn_classify_state", "pcn_count_rule", "pcn_count_rule_packets",
	// Measured by BenchmarkCost of package sketch: what they cost depends on the keys.
	"pcn_hash_mix", "pcn_hash_words", "pcn_hash_address", "pcn_trailing_zeros",
	"pcn_sketch_add", "pcn_sketch_rate", "pcn_sketch_distinct_add", "pcn_sketch_top_add",
	// A bucket and pcn_notify_notice, which are measured.
	"pcn_report",
	"pcn_bucket_cost",                                                     // a part of pcn_bucket_take
	"pcn_is_superframe",                                                   // a load
	"pcn_fragment_key_of", "pcn_fragment_offset", "pcn_fragment_overlaps", // stores, a load, a comparison
	"pcn_on_the_wire",            // the same, and arithmetic for a superframe
	"pcn_set_dscp", "pcn_set_ce", // the packet is another one after that
	// Parts of BenchmarkPackets of cubes/lbdsr: what they cost depends on the services and flows.
	"pcn_balance_service", "pcn_balance_hash", "pcn_balance_server", "pcn_balance_slotted", "pcn_balance_turn", "pcn_balance_open", "pcn_balance_number", "pcn_balance_members",
	// Parts of the packet path of cubes/lbrp: what they cost depends on the sessions.
	"pcn_balance_least", "pcn_session_find", "pcn_session_fetch", "pcn_session_await", "pcn_session_twin", "pcn_session_is_active", "pcn_session_follow", "pcn_session_delta", "pcn_session_mirror", "pcn_session_write",
	"pcn_pin_get", "pcn_pin_by_hash", "pcn_pin_seen", "pcn_pin_add", "pcn_pin_word", "pcn_set_macs",
	"pcn_encap", "pcn_encap_overhead", "pcn_gtpu_encap", "pcn_gtpu_overhead", "pcn_gtpu_read", "pcn_gtpu_strip", "pcn_gtpu_strip_frame", "pcn_gtpu_encap_frame", // the packet is another one after that
	// Parts of the packet path of cubes/gtphandler: what they cost depends on the message.
	"pcn_gtpu_end_is_for", "pcn_gtpu_end_read", "pcn_gtpu_end_read_all", "pcn_gtpu_end_up", "pcn_gtpu_end_learn", "pcn_gtpu_end_fits", "pcn_gtpu_end_port", "pcn_gtpu_end_macs",
	"pcn_sdf_of_flow", // loads and shifts
	"pcn_sdf_search",  // a part of BenchmarkPackets of cubes/classifier: what it costs depends on the flows
	// For packets to the cube itself.
	"pcn_arp_reply", "pcn_nd_sum", "pcn_nd_advertise", "pcn_csum_words", "pcn_check_is_answer",
	"pcn_reach", "pcn_header", "pcn_csum_inner", // parts of BenchmarkSession of cubes/nat
	"pcn_load_some", // as pcn_load_first, which is measured
	// Measured by BenchmarkPacket of cubes/packetcapture: what it costs depends on the expression.
	"PCN_FILTER_PROGRAM",
	// Measured by the part "slowpath": what it costs depends on the length of the copy.
	"pcn_ring_packet", "pcn_ring_packet_later",
	// Measured by BenchmarkTable of package conntrack/table: what they cost depends on the connections.
	"pcn_conntrack_key", "pcn_conntrack_entry", "pcn_conntrack_generation", "pcn_conntrack_end", "pcn_conntrack_find",
	"pcn_conntrack_open", "pcn_conntrack_begin", "pcn_conntrack_track", "pcn_conntrack_known", "pcn_conntrack_accept",
	"pcn_conntrack_refuse", "pcn_conntrack_account", "pcn_conntrack_event",
	"pcn_conntrack_zone_of", // nothing, or a lookup in an array
	// Measured by BenchmarkSets of cubes/iptables: what they cost depends on the set.
	"pcn_elements_test", "pcn_elements_add", "pcn_elements_end",
}

// TestEveryHelperIsMeasured compares bpf/helpers.bpf.c with the headers: every function has a case.
func TestEveryHelperIsMeasured(t *testing.T) {
	files := map[string][]byte{}
	names, err := filepath.Glob("../../" + reference.Headers + "*.h")
	if err != nil || len(names) == 0 {
		t.Fatalf("no headers: %v", err)
	}
	for _, name := range names {
		if files[reference.Headers+filepath.Base(name)], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		cases, err := helperCases(hook)
		if err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, c := range cases[1:] {
			left = append(left, c.name)
		}
		for _, h := range reference.Parse(files) {
			for _, helper := range h.Helpers {
				at := slices.Index(left, helper.Name)
				switch {
				case at >= 0:
					left = slices.Delete(left, at, at+1)
				case strings.HasPrefix(helper.Name, "pcn_") && !slices.Contains(unmeasured, helper.Name):
					t.Errorf("%s: no case measures %s of %s: add one to test/perf/bpf/helpers.bpf.c", hook, helper.Name, h.Name)
				}
			}
		}
		if len(left) > 0 {
			t.Errorf("%s: %v are measured, but no header has them", hook, left)
		}
	}
}

func TestEachHelperHasACostAtBothHooks(t *testing.T) {
	netns.NeedRoot(t)
	r := &Run{Config: Config{Rounds: 1, Quick: true, Progress: t.Output()}}
	if err := r.Do(t.Context(), []string{"helpers"}); err != nil {
		t.Fatal(err)
	}
	cases, err := helperCases(cube.TC)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Costs) != len(cases)-1 {
		t.Errorf("%d costs, want %d: %v", len(r.Costs), len(cases)-1, r.Costs)
	}
	for name, cost := range r.Costs {
		if !strings.Contains(cost, "ns at TC") || !strings.Contains(cost, "ns at XDP") || strings.Contains(cost, "NaN") {
			t.Errorf("%s costs %q", name, cost)
		}
	}
}
