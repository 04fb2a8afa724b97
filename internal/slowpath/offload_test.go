// SPDX-License-Identifier: Apache-2.0

// The virtio header of frames of all kinds.

package slowpath

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

// vnet is struct virtio_net_hdr.
type vnet struct {
	Flags, Type                       byte
	HeadLen, Size, SumStart, SumPlace uint16
}

func vnetOf(h [virtioHead]byte) vnet {
	e := binary.NativeEndian
	return vnet{h[0], h[1], e.Uint16(h[2:]), e.Uint16(h[4:]), e.Uint16(h[6:]), e.Uint16(h[8:])}
}

func TestVirtioHeader(t *testing.T) {
	const q, ad = 0x8100, 0x88a8
	const other = "fd09::9"
	segments := slices.Concat([]byte{6, 4, 4, 1, 1, 0, 0, 0}, netip.MustParseAddr(other).AsSlice(), netip.MustParseAddr(v6dst).AsSlice())
	arrived := slices.Clone(segments)
	arrived[3] = 0
	gso := cube.Offload{GSOSize: 1000, GSOSegs: 5}
	for _, c := range []struct {
		name string
		l    layout
		off  cube.Offload
		want vnet
		err  error
	}{
		{"finished TCP", layout{payload: 99}, cube.Offload{}, vnet{}, nil},
		{"unfinished TCP", layout{payload: 99, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 34, 16}, nil},
		{"unfinished UDP", layout{udp: true, payload: 98, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 34, 6}, nil},
		{"UDP without a checksum", layout{udp: true, payload: 98, sum: none}, cube.Offload{}, vnet{}, nil},
		{"damaged UDP", layout{udp: true, payload: 98, sum: wrong}, cube.Offload{}, vnet{}, nil},
		{"unfinished, zeros behind", layout{udp: true, payload: 2, sum: pseudo, padding: make([]byte, 16)}, cube.Offload{}, vnet{1, 0, 0, 0, 34, 6}, nil},
		{"unfinished, garbage behind", layout{udp: true, payload: 2, sum: pseudo, padding: []byte{0, 0, 9}}, cube.Offload{}, vnet{}, nil},
		{"unfinished behind a tag", layout{tags: []uint16{q}, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 38, 16}, nil},
		{"unfinished behind two tags", layout{tags: []uint16{ad, q}, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 42, 16}, nil},
		{"unfinished behind nine tags", layout{tags: slices.Repeat([]uint16{q}, 9), payload: 9, sum: pseudo}, cube.Offload{}, vnet{}, nil},
		{"unfinished behind IPv4 options", layout{options: 40, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 74, 16}, nil},
		{"first fragment", layout{frag: 0x2000, payload: 9, sum: pseudo}, cube.Offload{}, vnet{}, nil},
		{"later fragment", layout{frag: 0x00b9, payload: 9, sum: pseudo}, cube.Offload{}, vnet{}, nil},
		{"must not be fragmented", layout{frag: 0x4000, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 34, 16}, nil},
		{"unfinished TCP in IPv6", layout{v6: true, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 54, 16}, nil},
		{"behind a hop-by-hop header", layout{v6: true, ext: pkt.IPv6Extension(6), payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 62, 16}, nil},
		{"behind two headers", layout{v6: true, ext: append(pkt.IPv6Extension(60), pkt.IPv6Extension(17)...), udp: true, payload: 9, sum: pseudo},
			cube.Offload{}, vnet{1, 0, 0, 0, 70, 6}, nil},
		{"behind a segment routing header", layout{v6: true, first: 43, ext: segments, final: other, payload: 9, sum: pseudo},
			cube.Offload{}, vnet{1, 0, 0, 0, 94, 16}, nil},
		{"behind one that has been followed", layout{v6: true, first: 43, ext: arrived, payload: 9, sum: pseudo}, cube.Offload{}, vnet{1, 0, 0, 0, 94, 16}, nil},
		{"fragment of IPv6", layout{v6: true, first: 44, ext: []byte{6, 0, 0, 1, 0, 0, 0, 1}, payload: 9, sum: pseudo}, cube.Offload{}, vnet{}, nil},
		{"TCPv4 superframe", layout{payload: 5000, sum: pseudo}, gso, vnet{1, 1, 66, 1000, 34, 16}, nil},
		{"with congestion window reduced", layout{payload: 5000, sum: pseudo, flags: 0x80}, gso, vnet{1, 0x81, 66, 1000, 34, 16}, nil},
		{"TCPv6 superframe behind a tag", layout{v6: true, tags: []uint16{q}, payload: 5000, sum: pseudo}, gso, vnet{1, 4, 90, 1000, 58, 16}, nil},
		{"UDP superframe", layout{udp: true, payload: 5000, sum: pseudo}, gso, vnet{1, 5, 42, 1000, 34, 6}, nil},
		{"UDP superframe, segments unknown", layout{udp: true, payload: 5000, sum: pseudo}, cube.Offload{GSOSize: 900}, vnet{1, 5, 42, 900, 34, 6}, nil},
		{"UDP superframe of another number of segments", layout{udp: true, payload: 5001, sum: pseudo}, gso, vnet{}, errGSOSegs},
		{"UDP tunnel", layout{udp: true, payload: 5000, sum: none}, gso, vnet{}, errGSOSum},
		{"fragment as superframe", layout{frag: 0x2000, payload: 5000, sum: pseudo}, gso, vnet{}, errGSOKind},
	} {
		h := [virtioHead]byte{9, 9, 9, 9, 9, 9, 9, 9, 9, 9}
		err := virtioHeader(&h, c.l.frame(), c.off)
		if got := vnetOf(h); !errors.Is(err, c.err) || (c.err == nil) != (err == nil) || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v, %v", c.name, got, err, c.want, c.err)
		}
	}
}

func TestCutSuperframesAreRefused(t *testing.T) {
	whole := layout{payload: 5000, sum: pseudo}.frame()
	for n := range whole {
		var h [virtioHead]byte
		if err := virtioHeader(&h, whole[:n], cube.Offload{GSOSize: 1000}); err == nil {
			t.Fatalf("%d of %d bytes: accepted", n, len(whole))
		}
		if err := virtioHeader(&h, whole[:n], cube.Offload{}); err != nil || h != [virtioHead]byte{} {
			t.Fatalf("%d of %d bytes: %x, %v, want a plain frame", n, len(whole), h, err)
		}
	}
}

// Whatever a cube sends, the kernel is notified of nothing outside the frame.
func FuzzVirtioHeader(f *testing.F) {
	for _, l := range []layout{{payload: 9, sum: pseudo}, {v6: true, ext: pkt.IPv6Extension(17), udp: true, sum: pseudo}, {options: 8, tags: []uint16{0x8100}}} {
		f.Add(l.frame(), uint16(0), uint16(0))
		f.Add(l.frame(), uint16(4), uint16(3))
	}
	f.Fuzz(func(t *testing.T, frame []byte, size, segs uint16) {
		var h [virtioHead]byte
		err := virtioHeader(&h, frame, cube.Offload{GSOSize: size, GSOSegs: segs})
		v := vnetOf(h)
		switch {
		case err != nil && (size == 0 || v != vnet{}):
			t.Errorf("%+v and an error: %v", v, err)
		case err == nil && (v.Size != size || (v.Type == 0) != (size == 0)):
			t.Errorf("segments of %d: %+v", size, v)
		case v.Flags == 1 && int(v.SumStart)+int(v.SumPlace)+2 > len(frame), int(v.HeadLen) > len(frame):
			t.Errorf("beyond the %d bytes of the frame: %+v", len(frame), v)
		}
	})
}
