// SPDX-License-Identifier: Apache-2.0

package datapath

// The helpers of vlan.h for a single packet, with tags in the bytes (XDP) and beside them (TC), and what a port counts
// if the packet's length has changed.

import (
	"bytes"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

func TestTagsOfAPacketChange(t *testing.T) {
	plain := frame("tags")
	const q, ad, vid = uint32(0x8100 << 16), uint32(0x88a8 << 16), 100
	cases := []struct {
		what       string
		alone      uint32
		send, want []byte // want nil: dropped
	}{
		{"push on a plain frame", 1, plain, pkt.Tagged(plain, ad|vid)},
		{"push on a tagged one", 1, pkt.Tagged(plain, q|7), pkt.Tagged(plain, ad|vid, q|7)},
		{"push on one with two", 1, pkt.Tagged(plain, ad|3, q|7), pkt.Tagged(plain, ad|vid, ad|3, q|7)},
		{"pop the only one", 2, pkt.Tagged(plain, q|7), plain},
		{"pop the outer one", 2, pkt.Tagged(plain, ad|3<<13|3, q|7), pkt.Tagged(plain, q|7)},
		{"pop the outer one of three", 2, pkt.Tagged(plain, ad|3, q|7, q|9), pkt.Tagged(plain, q|7, q|9)},
		{"pop where there is none", 2, plain, nil},
		{"set the only one", 3, pkt.Tagged(plain, q|5<<13|7), pkt.Tagged(plain, q|vid)},
		{"set the outer one", 3, pkt.Tagged(plain, ad|7, q|9), pkt.Tagged(plain, ad|vid, q|9)},
		{"set where there is none", 3, plain, nil},
	}
	in(t, inlined, func(t *testing.T, b *bench) {
		c := b.cube("sets", 2, nil)
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		dropped, was := uint64(0), PortCounters{}
		for _, tt := range cases {
			c.Constants = map[string]any{"alone": tt.alone}
			b.commit()
			if tt.want == nil {
				dropped++
				b.send(a, tt.send)
				b.eventually(c, "tag", dropped)
				continue
			}
			r := b.listeners(z)[0]
			b.send(a, tt.send)
			got, err := r.Recv(isTagged, soon)
			if err != nil || !bytes.Equal(got, tt.want) {
				t.Errorf("%s: got\n% x, want\n% x (%v)", tt.what, got, tt.want, err)
			}
			length := uint64(len(tt.want))
			if b.typ == cube.TypeTC && !isTest(tt.want) {
				length -= 4 // beside the bytes
			}
			is := b.counters(c, 1)
			if sent := is.TxBytes - was.TxBytes; sent != length || is.TxPackets-was.TxPackets != 1 {
				t.Errorf("%s: counted %d bytes, want a packet of %d", tt.what, sent, length)
			}
			was = is
		}
	})
}
