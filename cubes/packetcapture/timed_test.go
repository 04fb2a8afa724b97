// SPDX-License-Identifier: Apache-2.0

package packetcapture_test

import (
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

// TestTimedCostOfARejectedPacket compares packets that filters reject with those of a cube that captures nothing, in turns.
func TestTimedCostOfARejectedPacket(t *testing.T) {
	const runs = 20_000
	filters := map[string]string{
		"off":               `,"capture":"OFF"`,
		"by tcp port":       `,"capture":"INGRESS","filter":"tcp port 80"`,
		"by host":           `,"capture":"INGRESS","filter":"host 10.9.9.9 and udp port 53"`,
		"by the last bytes": `,"capture":"INGRESS","filter":"udp and udp[100] = 255"`,
	}
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		labs := map[string]*rig{}
		for what, body := range filters {
			labs[what] = newRig(t, bpftest.New(t, bpftest.Options{Type: typ, Hosts: 2}), body)
		}
		best := map[string]float64{}
		for range 150 {
			for what, r := range labs {
				began := time.Now()
				r.Flood("veth1", udp4, runs)
				took := float64(time.Since(began).Nanoseconds()) / runs
				if best[what] == 0 || took < best[what] {
					best[what] = took
				}
			}
		}
		t.Logf("%s: %v", typ, best)
		limit := max(10, 0.2*best["off"]) // an old processor takes longer for everything
		for what, r := range labs {
			if more := best[what] - best["off"]; more > limit {
				t.Errorf("%s: a packet that is rejected %s takes %.1f ns more than with capture=OFF, the limit is %.1f: %v", typ, what, more, limit, best)
			}
			if s := r.settled(); s != (statistics{}) {
				t.Errorf("%s: a filter that rejects %s: %+v, want no packet captured", typ, what, s)
			}
		}
	}
}
