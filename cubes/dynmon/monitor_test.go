// SPDX-License-Identifier: Apache-2.0

package dynmon_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// old is a monitor of the first Polycube.
const old = `#include <uapi/linux/if_ether.h>
#include <bcc/helpers.h>

#include <linux/string.h>
BPF_ARRAY(packets, uint64_t, 1);
BPF_HASH(types, u16, u64, 16); // by EtherType
BPF_TABLE_SHARED("percpu_array", int, u64, shared, 1);
BPF_QUEUE(lengths, u32, 8);

static __always_inline void count(void)
{
	uint32_t zero;
	uint64_t *n;

	memset(&zero, 0, sizeof(zero));
	n = packets.lookup(&zero);
	if (n)
		lock_xadd(n, 1);
}

int handle_rx(struct CTXTYPE *ctx, struct pkt_metadata *md)
{
	void *data = (void *)(long)ctx->data, *data_end = (void *)(long)ctx->data_end;
	struct ethhdr *eth = data;
	u32 length = md->packet_len;
	int zero = 0;
	u64 none = 0, *n;

	if (data + sizeof(*eth) > data_end)
		return RX_DROP;
	count();
	types.increment(ntohs(eth->h_proto));
	n = shared.lookup_or_init(&zero, &none);
	if (n)
		*n += 1;
	lengths.push(&length);
	return eth->h_dest[5] == 9 ? RX_DROP : RX_OK;
}
`

// oldOut imports the shared table.
const oldOut = `BPF_TABLE("extern", int, u64, shared, 0);
static int handle_rx(struct CTXTYPE *ctx, struct pkt_metadata *md)
{
	int zero = 0;
	u64 *n = shared.lookup(&zero);

	if (n)
		*n += 100;
	return RX_OK;
}
`

func TestMonitorsOfTheFirstPolycubeRun(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		r.Set("PUT", "dm dataplane-config", config(path{Code: old, Metrics: []metric{{Name: "packets", Map: "packets"}, {Name: "types", Map: "types"},
			{Name: "shared", Map: "shared"}, {Name: "lengths", Map: "lengths"}}}, path{Code: oldOut}))
		r.in(udp4)
		r.in(udp6)
		r.out(udp4)
		r.want("packets", r.value("ingress-metrics packets"), "[2]")
		if got := r.value("ingress-metrics types"); !strings.Contains(got, `{"key":2048,"value":1}`) || !strings.Contains(got, `{"key":34525,"value":1}`) {
			t.Errorf("types are %s", got)
		}
		if n := sum(t, r.value("ingress-metrics shared")); n != 102 {
			t.Errorf("both paths counted %d, want 102", n)
		}
		r.want("lengths", r.value("ingress-metrics lengths"), fmt.Sprintf("[%d,%d]", len(udp4), len(udp6)))
		r.want("lengths, popped", r.value("ingress-metrics lengths"), "[]")
		last := append([]byte(nil), udp4...)
		last[5] = 9
		if got := r.Run("veth1", last); got != (bpftest.Outcome{Verdict: "drop", Fate: "dm monitor"}) {
			t.Errorf("RX_DROP: %+v", got)
		}
		if fates := r.Fates("dm"); fates["monitor"] != 1 || len(fates) != 1 {
			t.Errorf("fates are %v", fates)
		}
	})
}

// objectOf is testdata/both.bpf.c, compiled, in base64.
func objectOf(t *testing.T, h cube.Hook) string {
	t.Helper()
	object, err := os.ReadFile("testdata/both." + h.String() + ".o")
	if err != nil {
		t.Fatalf("%v (run make generate)", err)
	}
	return base64.StdEncoding.EncodeToString(object)
}

func TestACompiledObjectServesBothPaths(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		object := objectOf(t, l.Type.Hook())
		r.Set("PUT", "dm dataplane-config", config(path{Object: object, Metrics: []metric{{Name: "n", Map: "passed"}, {Name: "all", Map: "all"}}},
			path{Object: object, Metrics: []metric{{Name: "n", Map: "passed"}}}))
		for range 3 {
			r.in(udp4)
		}
		r.out(udp4)
		r.want("in", r.value("ingress-metrics n"), "[3]")
		r.want("out", r.value("egress-metrics n"), "[10]")
		r.want("both", r.value("ingress-metrics all"), "[4]")
		if l.Type.Hook() == cube.XDP {
			r.Set("PATCH", "dm dataplane-config ingress-path", encoded(map[string]any{"object-tc": objectOf(t, cube.TC)}))
			r.in(udp4)
		} else {
			r.refused(encoded(map[string]any{"ingress-path": map[string]any{"object": object, "object-tc": object}}), "object-tc is only for cubes at XDP")
		}
	})
}

// wrong are bodies of dataplane-config that are refused, with words of the error.
func wrong(t *testing.T) map[string][]string {
	monitor := func(body string) string {
		return config(path{Code: "#include <pcn/monitor.h>\nPCN_MAP(m, BPF_MAP_TYPE_HASH, __u32, __u64, 8);\n" + body}, path{})
	}
	with := func(m metric) string { return config(path{Code: counting, Metrics: []metric{m}}, path{}) }
	open := func(of string, meta map[string]any) string { return with(metric{Name: of, Map: "counts", Open: meta}) }
	forbidden, err := os.ReadFile("../../cube/foreign/testdata/forbidden.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		config(path{Code: counting}, path{Code: "int x = y;"}): {"egress-path", "egress.c:1:9", "undeclared identifier 'y'"},
		monitor("PCN_MONITOR { __u32 k = 0; __u64 *v = bpf_map_lookup_elem(&m, &k); *v += 1; return pcn_pkt_pass(ctx, md); }"): {
			"pcn_monitor at ", "ingress.c:3", "map_value_or_null"},
		monitor("PCN_MONITOR { return bpf_redirect(1, 0); }"):                                               {"bpf_redirect", "ingress.c:3"},
		monitor("int counter; PCN_MONITOR { return counter++; }"):                                           {"global variables"},
		monitor("static int nothing(void) { return 0; }"):                                                   {"no program", "PCN_MONITOR"},
		monitor("PCN_MAP_SHARED(x, s, BPF_MAP_TYPE_HASH, __u32, __u64, 8); PCN_MONITOR { return 0; }"):      {"shared between services"},
		monitor("PCN_MAP_PUBLIC(s, BPF_MAP_TYPE_HASH, __u32, __u64, 8); PCN_MONITOR { return 0; }"):         {"cannot share maps"},
		monitor("PCN_MAP(big, BPF_MAP_TYPE_HASH, __u32, __u64, 9000000); PCN_MONITOR { return 0; }"):        {"9000000 entries"},
		monitor("#include <pcn/ring.h>\nPCN_RING(r, 4096); PCN_MONITOR { return 0; }"):                      {"ring buffer"},
		monitor("PCN_MAP(a, BPF_MAP_TYPE_ARRAY, __u32, __u64[64], 1 << 19); PCN_MONITOR { return 0; }"):     {""},
		config(path{Object: "?"}, path{}):                                                                   {"not base64"},
		config(path{Object: "aGVsbG8="}, path{}):                                                            {"read it"},
		config(path{Object: base64.StdEncoding.EncodeToString(forbidden)}, path{}):                          {"tc object"},
		config(path{Object: "aGVsbG8=", Code: counting}, path{}):                                            {"both code and object"},
		config(path{Metrics: []metric{{Name: "x", Map: "counts"}}}, path{}):                                 {"no code or object"},
		with(metric{Name: "x", Map: "nothing"}):                                                             {"the code has no map nothing; its maps are counts"},
		open("x y", map[string]any{"type": "Gauge"}):                                                        {"not a valid metric name"},
		open("x", map[string]any{"type": "Gauge", "scale": "zero"}):                                         {"scale"},
		open("x", map[string]any{"type": "Gauge", "buckets": []string{"1"}}):                                {"buckets are for"},
		open("x", map[string]any{"type": "Histogram"}):                                                      {"a Histogram needs"},
		open("x", map[string]any{"type": "Summary"}):                                                        {"a Summary needs"},
		open("x", map[string]any{"type": "Gauge", "labels": []map[string]any{{"name": "le", "value": ""}}}): {"not a valid label name"},
		config(path{Code: counting, Metrics: []metric{{Name: "a", Map: "counts", Options: swap}, {Name: "b", Map: "counts"}}}, path{}): {
			"different extraction-options"},
		config(path{Code: counting, Metrics: []metric{{Name: "a", Map: "counts", Open: map[string]any{"type": "Gauge"}}}},
			path{Code: counting, Metrics: []metric{{Name: "a", Map: "counts", Open: map[string]any{"type": "Counter"}}}}): {"different type or help"},
		`{"ingress-path":{"code":7}}`: {""},
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l)
	r.Set("PUT", "dm dataplane-config", config(path{Name: "probe", Code: counting, Metrics: []metric{{Name: "types", Map: "counts"}}}, path{}))
	n := 0
	for body, words := range wrong(t) {
		r.refused(body, words...)
		n++
		r.in(udp4)
	}
	r.want("the monitor that runs", r.value("ingress-metrics types"), fmt.Sprintf(`[{"key":2048,"value":{"packets":%d,"bytes":%d}}]`, n, n*len(udp4)))
	if err := l.TryCreate("dynmon", "dm2", `{"dataplane-config":{"ingress-path":{"code":"int"}}}`); err == nil {
		t.Error("a cube with a wrong monitor was created")
	}
}

func TestMapsLiveAsLongAsTheCodeThatUsesThem(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l)
	types := []metric{{Name: "types", Map: "counts"}}
	set := func(code string, metrics []metric) {
		t.Helper()
		r.Set("PUT", "dm dataplane-config", config(path{Code: code, Metrics: metrics}, path{}))
	}
	one := fmt.Sprintf(`[{"key":2048,"value":{"packets":1,"bytes":%d}}]`, len(udp4))
	set(counting, types)
	r.in(udp4)
	r.want("one packet", r.value("ingress-metrics types"), one)
	set(counting, append(types, metric{Name: "again", Map: "counts", Open: map[string]any{"type": "Counter"}}))
	r.want("with other metrics", r.value("ingress-metrics again"), one)
	r.Set("PATCH", "dm dataplane-config ingress-path name", `"another"`)
	r.want("with another name", r.value("ingress-metrics types"), one)
	pins := r.Pins("dm")
	set(counting+"// other code\n", types)
	r.want("with other code", r.value("ingress-metrics types"), "[]")
	if now := r.Pins("dm"); len(now) != len(pins) {
		t.Errorf("%v are pinned, before %v", now, pins)
	}
	set(counting, types)
	r.want("with the code from before", r.value("ingress-metrics types"), "[]")
	r.refused(config(path{Code: "#include <pcn/monitor.h>\nPCN_MAP(m, BPF_MAP_TYPE_HASH, __u32, __u64, 8);\n" +
		"PCN_MONITOR { __u32 k = 0; __u64 *v = bpf_map_lookup_elem(&m, &k); *v += 1; return pcn_pkt_pass(ctx, md); }"}, path{}), "map_value_or_null")
	if now := r.Pins("dm"); len(now) != len(pins) {
		t.Errorf("after a refusal %v are pinned, before %v", now, pins)
	}
	r.Set("PUT", "dm dataplane-config", `{}`)
	r.want("without monitors", r.Read("dm metrics"), `{"ingress-metrics":[],"egress-metrics":[]}`)
	r.want("without monitors, OpenMetrics", r.open(), "# EOF\n")
	r.in(udp4)
}

func TestMonitorsAndTheirCountsSurviveARestart(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		r.Set("PUT", "dm dataplane-config", bothPaths())
		r.in(udp4)
		r.value("ingress-metrics all") // the others are split now
		r.in(udp4)
		wires := r.Wires()
		r.Restart(func() { // packets count while no daemon runs
			wires[0].Puts(udp4)
			wires[1].Gets(udp4)
		})
		r.in(udp4)
		for where, want := range map[string]uint64{"ingress-metrics in": 4, "ingress-metrics all": 3, "egress-metrics out": 0} {
			if got := sum(t, r.value(where)); got != want {
				t.Errorf("%s is %d, want %d", where, got, want)
			}
		}
	})
}

func TestTheWholeCubeIsShownWithoutReadingItsMaps(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l)
	m := metric{Name: "types", Map: "counts", Options: map[string]any{"empty-on-read": true}}
	r.Set("PUT", "dm dataplane-config", config(path{Code: counting, Metrics: []metric{m}}, path{}))
	r.in(udp4)
	var whole map[string]json.RawMessage
	if err := json.Unmarshal([]byte(r.Read("dm")), &whole); err != nil || whole["metrics"] != nil || whole["dataplane-config"] == nil {
		t.Errorf("%v, %s", err, r.Read("dm"))
	}
	if got := r.value("ingress-metrics types"); got == "[]" {
		t.Error("reading the cube has emptied the map")
	}
	r.want("after reading", r.value("ingress-metrics types"), "[]")
	if _, err := r.TryRead("dm metrics ingress-metrics nothing"); err == nil {
		t.Error("a metric that does not exist was read")
	}
}
