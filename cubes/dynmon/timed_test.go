// SPDX-License-Identifier: Apache-2.0

package dynmon_test

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// many counts packets by source in a hash.
const many = `#include <pcn/monitor.h>
struct source { pcn_ipv4 address; __be16 port; __u16 zero; };
PCN_MAP(sources, BPF_MAP_TYPE_HASH, struct source, struct pcn_count, 131072);
PCN_MONITOR
{
	struct source s = {};
	struct pcn_count one = { 1, 1 };

	bpf_map_update_elem(&sources, &s, &one, BPF_NOEXIST);
	return pcn_pkt_pass(ctx, md);
}
`

const entries = 100_000

// fill writes 100,000 entries of many.
func fill(t *testing.T, m *ebpf.Map) {
	t.Helper()
	keys, values := make([][8]byte, entries), make([][16]byte, entries)
	for i := range keys {
		keys[i] = [8]byte{10, byte(i >> 16), byte(i >> 8), byte(i), byte(i), byte(i >> 8)}
		values[i] = [16]byte{byte(i), byte(i >> 8), 1}
	}
	if n, err := m.BatchUpdate(keys, values, nil); err != nil || n != entries {
		t.Fatal(n, err)
	}
}

func TestTimedReadingOfManyEntries(t *testing.T) {
	const limit = 100 * time.Millisecond
	for _, options := range []map[string]any{nil, {"empty-on-read": true}, swap} {
		l := bpftest.New(t, bpftest.Options{Hosts: 2})
		r := newRig(t, l)
		r.Set("PUT", "dm dataplane-config", config(path{Code: many, Metrics: []metric{{Name: "sources", Map: "sources", Options: options,
			Open: map[string]any{"type": "Counter"}}}}, path{}))
		r.value("ingress-metrics sources")
		best := map[string]time.Duration{}
		for round := range 5 {
			for _, what := range []string{"ingress-metrics sources", "open-metrics"} {
				fill(t, r.inUse("sources", many, options != nil && options["swap-on-read"] == true))
				began := time.Now()
				var raw string
				if what == "open-metrics" {
					raw = r.Read("dm open-metrics")
				} else {
					raw = r.Read("dm metrics " + what)
				}
				if took := time.Since(began); round == 0 || took < best[what] {
					best[what] = took
				}
				if len(raw) < entries*50 {
					t.Fatalf("%s has %d bytes", what, len(raw))
				}
			}
		}
		t.Logf("%v: %v", options, best)
		for what, took := range best {
			limit := limit
			if what == "open-metrics" { // it has two samples for each entry, of a hundred bytes
				limit = 4 * best["ingress-metrics sources"]
			}
			if took > limit {
				t.Errorf("%s with %v takes %v, the limit is %v", what, options, took, limit)
			}
		}
		var all []json.RawMessage
		fill(t, r.inUse("sources", many, options != nil && options["swap-on-read"] == true))
		if err := json.Unmarshal([]byte(r.value("ingress-metrics sources")), &all); err != nil || len(all) != entries {
			t.Errorf("%d entries (%v), want %d", len(all), err, entries)
		}
	}
}

// mapName returns the name of a map of the ingress path in the data plane.
func mapName(name, code string) string {
	sum := sha256.Sum256([]byte(code))
	return name + ".i" + hex.EncodeToString(sum[:4])
}

// inUse returns the map in which packets count.
func (r *rig) inUse(name, code string, isSwapped bool) *ebpf.Map {
	r.t.Helper()
	var side uint32
	if err := r.Map("dm", "dynmon_side").Lookup(uint32(0), &side); err != nil {
		r.t.Fatal(err)
	}
	name = mapName(name, code)
	if isSwapped && side == 1 {
		name += ".2"
	}
	return r.Map("dm", name)
}

// counter is testdata/byhand.bpf.c as a monitor.
const counter = `#include <pcn/monitor.h>
PCN_MAP(counts, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, struct pcn_count, 1);
PCN_MONITOR
{
	__u32 zero = 0;

	pcn_count_packet(&counts, &zero, md->packet_len);
	return pcn_pkt_pass(ctx, md);
}
`

//go:embed testdata/byhand.tc.o testdata/byhand.xdp.o
var objects embed.FS

// byHand is a service with the counter as its own program.
func byHand(t *testing.T) cube.Service {
	t.Helper()
	model, err := os.ReadFile("testdata/byhand.yang")
	if err != nil {
		t.Fatal(err)
	}
	s := cube.Service{Model: string(model), Objects: map[cube.Hook][]byte{}, New: func(cube.Env) (cube.Instance, error) {
		return cube.Instance{Prepare: func(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }}, nil
	}}
	for _, h := range []cube.Hook{cube.TC, cube.XDP} {
		if s.Objects[h], err = objects.ReadFile("testdata/byhand." + h.String() + ".o"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestTimedCostOfACounter compares a counter as a monitor, swapped and not, with the same in a hand-written cube.
func TestTimedCostOfACounter(t *testing.T) {
	const runs = 20_000
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		labs := map[string]*bpftest.Lab{}
		for _, what := range []string{"by hand", "monitor", "swapped"} {
			l := bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2, Services: append(cube.Services(), byHand(t))})
			labs[what] = l
			r := newRig(t, l)
			if what == "by hand" {
				l.Detach("dm", "f:p1")
				l.Create("byhand", "bh", "")
				l.Attach("bh", "f:p1")
				continue
			}
			m := metric{Name: "counts", Map: "counts"}
			if what == "swapped" {
				m.Options = swap
			}
			r.Set("PUT", "dm dataplane-config", config(path{Code: counter, Metrics: []metric{m}}, path{}))
		}
		best := map[string]float64{}
		for range 150 {
			for what, l := range labs {
				began := time.Now()
				l.Flood("veth1", udp4, runs)
				took := float64(time.Since(began).Nanoseconds()) / runs
				if best[what] == 0 || took < best[what] {
					best[what] = took
				}
			}
		}
		t.Logf("%s: %v", typ, best)
		// A swapped monitor is behind a call of a program for the side, which takes longer on an old processor.
		for what, limit := range map[string]float64{"monitor": 3, "swapped": max(5, 0.15*best["by hand"])} {
			if more := best[what] - best["by hand"]; more > limit {
				t.Errorf("%s, %s: %.1f ns more than by hand, the limit is %.1f: %v", typ, what, more, limit, best)
			}
		}
	}
}
