// SPDX-License-Identifier: Apache-2.0

package rulesets

import "testing"

func TestBlocksOfPortsAreTheRange(t *testing.T) {
	for _, r := range []Ports{{First: 0, Last: 65535}, {First: 443, Last: 443}, {First: 1024, Last: 65535}, {First: 1, Last: 65534}, {First: 0, Last: 1023}, {First: 65535, Last: 65535}, {First: 999, Last: 1500}} {
		times := map[uint16]int{}
		for _, b := range r.Blocks() {
			for p := range 1 << 16 {
				if uint16(p)&b.Mask == b.First {
					times[uint16(p)]++
				}
			}
		}
		for p := range 1 << 16 {
			want := 0
			if int(r.First) <= p && p <= int(r.Last) {
				want = 1
			}
			if times[uint16(p)] != want {
				t.Fatalf("%v: port %d is in %d blocks, want %d", r, p, times[uint16(p)], want)
			}
		}
	}
	var all *Ports
	if b := all.Blocks(); len(b) != 1 || b[0] != (Block{}) {
		t.Errorf("no range has the blocks %v, want one of all ports", b)
	}
}
