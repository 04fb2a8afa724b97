// SPDX-License-Identifier: Apache-2.0

package dynmon_test

import (
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// total counts packets of both paths in one map, and those of a path in another.
const total = `#include <pcn/monitor.h>
PCN_BOTH_PATHS PCN_MAP(all, BPF_MAP_TYPE_ARRAY, __u32, __u64, 1);
PCN_MAP(here, BPF_MAP_TYPE_PERCPU_ARRAY, __u32, __u64, 1);
PCN_MONITOR
{
	__u32 zero = 0;
	__u64 *n = bpf_map_lookup_elem(&all, &zero);

	if (n)
		__sync_fetch_and_add(n, 1);
	pcn_count(&here, 0);
	return pcn_pkt_pass(ctx, md);
}
`

var swap = map[string]any{"swap-on-read": true}

func swapped(name, of string) metric {
	return metric{Name: name, Map: of, Options: swap, Open: map[string]any{"type": "Gauge"}}
}

// bothPaths has metrics all, of both paths, and in and out of one.
func bothPaths() string {
	return config(path{Code: total, Metrics: []metric{swapped("all", "all"), swapped("in", "here")}}, path{Code: total, Metrics: []metric{swapped("out", "here")}})
}

// sum adds the values of a metric of an array with one entry.
func sum(t *testing.T, value string) (n uint64) {
	t.Helper()
	var one []uint64
	var cpus [][]uint64
	if json.Unmarshal([]byte(value), &one) != nil {
		if err := json.Unmarshal([]byte(value), &cpus); err != nil {
			t.Fatalf("%v in %s", err, value)
		}
		one = cpus[0]
	}
	for _, v := range one {
		n += v
	}
	return n
}

func TestSwappedMapsOfBothPathsAreReadAndEmptied(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		r.Set("PUT", "dm dataplane-config", bothPaths())
		for round := range uint64(3) {
			for range round + 1 {
				r.in(udp4)
				r.out(udp6)
				r.out(udp6)
			}
			for where, want := range map[string]uint64{"ingress-metrics all": 3 * (round + 1), "ingress-metrics in": round + 1, "egress-metrics out": 2 * (round + 1)} {
				if got := sum(t, r.value(where)); got != want {
					t.Errorf("round %d: %s is %d, want %d", round, where, got, want)
				}
			}
		}
		r.in(udp4)
		r.want("one moment", r.open(), `# TYPE all gauge
all{cube="dm",path="ingress"} 1
# TYPE in gauge
in{cube="dm",path="ingress"} 1
# TYPE out gauge
out{cube="dm",path="egress"} 0
# EOF
`)
	})
}

// TestNothingIsLostOrCountedTwice: a reader reads all the time, of metrics together and alone, while packets cross.
func TestNothingIsLostOrCountedTwice(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		r := newRig(t, l)
		r.Set("PUT", "dm dataplane-config", bothPaths())
		var stop atomic.Bool
		var writers sync.WaitGroup
		for range 2 {
			writers.Go(func() {
				for !stop.Load() {
					r.Flood("veth1", udp4, 1000)
				}
			})
		}
		var all, in uint64
		read := func() {
			all += sum(t, r.value("ingress-metrics all"))
			in += sum(t, r.value("ingress-metrics in"))
			var m struct {
				Metrics []struct {
					Name  string
					Value json.RawMessage
				} `json:"ingress-metrics"`
			}
			if err := json.Unmarshal([]byte(r.Read("dm metrics")), &m); err != nil || len(m.Metrics) != 2 {
				t.Fatalf("%v, %+v", err, m)
			}
			all += sum(t, string(m.Metrics[0].Value))
			in += sum(t, string(m.Metrics[1].Value))
		}
		netns.Eventually(t, bpftest.Patience, func() error { // on a busy machine, writers begin late
			if r.Counters("f", "p1").RxPackets == 0 {
				return errors.New("no packet has come")
			}
			return nil
		})
		for range 8 {
			read()
		}
		stop.Store(true)
		writers.Wait()
		late := all
		read()
		packets := r.Counters("f", "p1").RxPackets
		if all != packets || in != packets || late == 0 {
			t.Errorf("%d and %d packets, %d of them while they came, want %d", all, in, late, packets)
		}
	})
}
