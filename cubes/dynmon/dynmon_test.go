// SPDX-License-Identifier: Apache-2.0

package dynmon_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }

const macA, macB = "02:00:00:00:00:01", "02:00:00:00:00:02"

var (
	udp4 = pkt.Eth(macA, macB).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(58).Bytes()
	udp6 = pkt.Eth(macA, macB).IPv6("fd00::1", "fd00::2").UDP(1000, 53).Payload(30).Bytes()
)

// counting counts packets and their bytes by EtherType.
const counting = `#include <pcn/monitor.h>
PCN_MAP(counts, BPF_MAP_TYPE_HASH, __be16, struct pcn_count, 16);
PCN_MONITOR
{
	struct pcn_count one = { 1, md->packet_len }, *count;
	struct pcn_cursor c;
	struct ethhdr *eth;
	__be16 type;

	pcn_cursor_open(&c, ctx, sizeof(*eth));
	eth = pcn_cursor_take(&c, sizeof(*eth));
	if (!eth)
		return pcn_pkt_pass(ctx, md);
	type = eth->h_proto;
	count = bpf_map_lookup_elem(&counts, &type);
	if (count) {
		__sync_fetch_and_add(&count->packets, 1);
		__sync_fetch_and_add(&count->bytes, md->packet_len);
	} else {
		bpf_map_update_elem(&counts, &type, &one, BPF_NOEXIST);
	}
	return pcn_pkt_pass(ctx, md);
}
`

// path is a path of dataplane-config.
type path struct {
	Name    string   `json:"name,omitempty"`
	Code    string   `json:"code,omitempty"`
	Object  string   `json:"object,omitempty"`
	Metrics []metric `json:"metric-configs,omitempty"`
}

type metric struct {
	Name    string         `json:"name"`
	Map     string         `json:"map-name"`
	Options map[string]any `json:"extraction-options,omitempty"`
	Open    map[string]any `json:"open-metrics-metadata,omitempty"`
}

func encoded(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

// config is dataplane-config.
func config(ingress, egress path) string {
	return encoded(map[string]any{"ingress-path": ingress, "egress-path": egress})
}

// rig is a cube on the first port of a forwarder.
type rig struct {
	*bpftest.Lab
	t testing.TB
}

func newRig(t testing.TB, l *bpftest.Lab) *rig {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("dynmon", "dm", "")
	l.Attach("dm", "f:p1")
	return &rig{l, t}
}

// in and out send a frame through the cube, which it must not stop.
func (r *rig) in(frame []byte)  { r.passes("veth1", "f:p2", frame) }
func (r *rig) out(frame []byte) { r.t.Helper(); r.passes("veth2", "f:p1", frame) }

func (r *rig) passes(from, to string, frame []byte) {
	r.t.Helper()
	got, sent := r.RunBytes(from, frame)
	if want := (bpftest.Outcome{Verdict: "send", Sent: to}); got != want || string(sent) != string(frame) {
		r.t.Errorf("from %s: %+v with %x, want %+v with %x", from, got, sent, want, frame)
	}
}

// value reads a metric.
func (r *rig) value(where string) string {
	r.t.Helper()
	var m struct {
		Value     json.RawMessage
		Timestamp int64
	}
	raw := r.Read("dm metrics " + where)
	if err := json.Unmarshal([]byte(raw), &m); err != nil || m.Timestamp < 1e15 {
		r.t.Fatalf("%s: %v, time %d in %s", where, err, m.Timestamp, raw)
	}
	return string(m.Value)
}

// open reads the metrics in OpenMetrics.
func (r *rig) open() string {
	r.t.Helper()
	var text string
	if err := json.Unmarshal([]byte(r.Read("dm open-metrics")), &text); err != nil {
		r.t.Fatal(err)
	}
	return text
}

func (r *rig) want(what, got, want string) {
	r.t.Helper()
	if got != want {
		r.t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
	}
}

// refused makes a change that must be refused with words, and change nothing.
func (r *rig) refused(body string, words ...string) {
	r.t.Helper()
	before := r.Read("dm dataplane-config")
	err := r.Try("PUT", "dm dataplane-config", body)
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			r.t.Errorf("%v, want %q in it", err, w)
		}
	}
	if after := r.Read("dm dataplane-config"); after != before {
		r.t.Errorf("the configuration is %s, want %s", after, before)
	}
}

func TestAMonitorCountsAndIsRead(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		r.in(udp4)
		r.Set("PUT", "dm dataplane-config", config(path{Name: "probe", Code: counting, Metrics: []metric{{Name: "types", Map: "counts",
			Open: map[string]any{"type": "Counter", "help": "Frames by type."}}}}, path{}))
		r.want("before", r.value("ingress-metrics types"), "[]")
		r.in(udp4)
		r.in(udp4)
		r.out(udp6)
		r.want("counts", r.value("ingress-metrics types"), fmt.Sprintf(`[{"key":2048,"value":{"packets":2,"bytes":%d}}]`, 2*len(udp4)))
		r.want("OpenMetrics", r.open(), `# HELP types_packets Frames by type.
# TYPE types_packets counter
types_packets_total{cube="dm",path="ingress",key="2048"} 2
# HELP types_bytes Frames by type.
# TYPE types_bytes counter
types_bytes_total{cube="dm",path="ingress",key="2048"} 200
# EOF
`)
	})
}

// sketched finds the heaviest sources and the number of sources.
const sketched = `#include <pcn/monitor.h>
#include <pcn/sketch.h>
PCN_SKETCH_TOP(talkers, 4);
PCN_SKETCH_DISTINCT(sources);
PCN_MAP(sizes, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_histogram, 1);
PCN_MONITOR
{
	struct pcn_sketch_key key = {};
	__u32 zero = 0;
	__be32 source;
	__u64 hash;

	if (pcn_load_bytes(ctx, 26, &source, sizeof(source)))
		return pcn_pkt_pass(ctx, md);
	pcn_address_set4(key.address, source);
	key.number = 7;
	hash = pcn_hash_address(pcn_monitor_seed(), key.address, key.number);
	pcn_sketch_top_add(&talkers, hash, &key, md->packet_len);
	pcn_sketch_distinct_add(&sources, hash);
	pcn_histogram_add(bpf_map_lookup_elem(&sizes, &zero), md->packet_len);
	return pcn_pkt_pass(ctx, md);
}
`

func TestSketchesAndHistogramsAreShownAsWhatTheyStandFor(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		gauge := map[string]any{"type": "Gauge"}
		r.Set("PUT", "dm dataplane-config", config(path{Code: sketched, Metrics: []metric{
			{Name: "talkers", Map: "talkers", Options: swap, Open: gauge}, {Name: "sources", Map: "sources", Options: swap, Open: gauge},
			{Name: "sizes", Map: "sizes", Options: swap, Open: map[string]any{"type": "Histogram", "scale": "0.001"}}}}, path{}))
		send := func() {
			for i := range 5 {
				for range i + 1 {
					r.in(pkt.Eth(macA, macB).IPv4(fmt.Sprintf("10.0.0.%d", i+1), "10.0.0.2").UDP(1000, 53).Payload(58).Bytes())
				}
			}
		}
		send()
		var heavy []struct {
			Key struct {
				Address string
				Number  int
			}
			Sum, Error int
		}
		raw := r.value("ingress-metrics talkers")
		if err := json.Unmarshal([]byte(raw), &heavy); err != nil || len(heavy) != 5 || heavy[0].Key.Address != "10.0.0.5" || heavy[0].Key.Number != 7 || heavy[0].Sum != 500 {
			t.Errorf("%v, %s", err, raw)
		}
		r.want("sources", r.value("ingress-metrics sources"), "5")
		send()
		text := r.open()
		for _, line := range []string{
			`talkers{cube="dm",path="ingress",address="10.0.0.5",number="7"} 500`, `sources{cube="dm",path="ingress"} 5`,
			`sizes_bucket{cube="dm",path="ingress",le="0.127"} 30`, `sizes_bucket{cube="dm",path="ingress",le="0.063"} 0`,
			`sizes_sum{cube="dm",path="ingress"} 3`, `sizes_count{cube="dm",path="ingress"} 30`,
		} {
			if !strings.Contains(text, line+"\n") {
				t.Errorf("no %s in\n%s", line, text)
			}
		}
	})
}
