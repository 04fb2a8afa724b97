// SPDX-License-Identifier: Apache-2.0

package lbrp

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"testing"
)

// reference is what services are together, from all of them.
func reference(all map[ServiceKey]*wanted) (clash bool, sum tally, echoes map[netip.Addr]ServiceKey, silent map[netip.Addr]bool) {
	echoes, silent = map[netip.Addr]ServiceKey{}, map[netip.Addr]bool{}
	taken := map[string]bool{}
	for key, w := range all {
		sum.count(w, 1)
		for _, id := range w.conf.ids() {
			for port := int(key.VPort); port <= max(int(key.VPort), int(w.conf.LastPort)) && key.Proto != protoICMP; port++ {
				at := fmt.Sprint(id.VIP, id.Proto, port)
				clash = clash || taken[at] && id.Port != 0
				taken[at] = true
			}
		}
		is, known := echoes[key.VIP]
		if key.Proto == protoICMP || key.Proto == protoAll && (!known || is.Proto == protoAll && key.VPort < is.VPort) {
			echoes[key.VIP] = key
		}
	}
	for key := range all {
		if _, known := echoes[key.VIP]; !known {
			silent[key.VIP] = true
		}
	}
	return clash, sum, echoes, silent
}

// A change looks at few services; the result is what looking at all gives.
func TestAChangeIsComparedWithTheServicesOfItsAddresses(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	b := &balancer{wanted: map[ServiceKey]*wanted{}, addresses: map[netip.Addr]*address{}, echoes: map[netip.Addr]ServiceKey{}, silent: map[netip.Addr]bool{}}
	refused, made := 0, 0
	for range 3000 {
		c := &change{services: map[ServiceKey]*wanted{}, tally: b.tally}
		for range 1 + r.IntN(3) + r.IntN(2)*r.IntN(30) {
			s := Service{VIP: netip.AddrFrom4([4]byte{10, 0, 0, byte(r.IntN(3))}), VPort: uint16(1 + r.IntN(30)), Proto: Proto(r.IntN(5))}
			if s.Proto == protoICMP {
				s.VPort = 0
			} else if r.IntN(4) == 0 {
				s.LastPort = s.VPort + uint16(r.IntN(5))
			}
			s.Select = Select(r.IntN(2))
			if c.services[s.key()] = nil; r.IntN(3) > 0 {
				c.services[s.key()] = &wanted{conf: s}
			}
		}
		vips, after := map[netip.Addr]bool{}, maps.Clone(b.wanted)
		for key, w := range c.services {
			c.tally.count(b.wanted[key], -1)
			c.tally.count(w, 1)
			vips[key.VIP] = true
			if delete(after, key); w != nil {
				after[key] = w
			}
		}
		clash, sum, echoes, silent := reference(after)
		if err := c.checkPorts(b); (err != nil) != clash {
			t.Fatalf("the error is %v, ports are given twice: %v", err, clash)
		}
		if clash {
			refused++
			continue
		}
		made++
		for key, w := range c.services {
			b.record(key, w)
		}
		b.tally = c.tally
		b.findEchoes(vips)
		if b.tally != sum || !maps.Equal(b.echoes, echoes) || !maps.Equal(b.silent, silent) || len(b.wanted) != len(after) {
			t.Fatalf("%+v, %v, %v; of all services %+v, %v, %v", b.tally, b.echoes, b.silent, sum, echoes, silent)
		}
	}
	if refused < 200 || made < 200 {
		t.Errorf("%d changes were made, %d refused", made, refused)
	}
}
