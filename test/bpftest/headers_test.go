// SPDX-License-Identifier: Apache-2.0

package bpftest_test

// The parsers of pcn/ip.h compared with Go ones, on valid and on malformed packets.

import (
	"context"
	_ "embed"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/headers.tc.o
	headersTC []byte
	//go:embed testdata/headers.xdp.o
	headersXDP []byte
)

// bareModel is the model of a service that has nothing but ports.
const bareModel = `module NAME {
  yang-version 1.1;
  namespace "http://polycube.network/NAME";
  prefix NAME;
  import polycube-base { prefix polycube-base; }
  import polycube-standard-base { prefix polycube-standard-base; }
  revision 2026-01-01;
  polycube-base:service-name "NAME";
  polycube-base:service-description "For a test";
  polycube-base:service-version "1.0.0";
  uses polycube-standard-base:standard-base-yang-module;
}`

func bareCube(cube.Env) (cube.Instance, error) {
	return cube.Instance{Prepare: func(context.Context, cube.Change) (cube.Plan, error) { return cube.Plan{}, nil }}, nil
}

// bare is a service with an empty control plane.
func bare(name string, tc, xdp []byte) cube.Service {
	return cube.Service{
		Model: strings.ReplaceAll(bareModel, "NAME", name), Objects: map[cube.Hook][]byte{cube.TC: tc, cube.XDP: xdp},
		New: bareCube,
	}
}

// headers is struct headers_found.
type headers struct {
	Kind, Check, Protocol, Fragment, ID, Routing, HopByHop, Offset, Source, Destination uint32
}

// reader is a cursor without its own bounds check.
type reader struct {
	frame []byte
	at    int
}

func (r *reader) take(n int) []byte {
	if r.at+n > len(r.frame) {
		return nil
	}
	r.at += n
	return r.frame[r.at-n : r.at]
}

func parse(frame []byte) (h headers) {
	r := &reader{frame, 14}
	defer func() { h.Offset = uint32(r.at) }()
	switch binary.BigEndian.Uint16(frame[12:]) {
	case 0x0806:
		if a := r.take(28); a != nil && binary.BigEndian.Uint64(a)>>16 == 0x000108000604 {
			h = headers{Kind: 1, Protocol: uint32(binary.BigEndian.Uint16(a[6:])), Source: binary.BigEndian.Uint32(a[14:]), Destination: binary.BigEndian.Uint32(a[24:])}
		}
	case 0x0800:
		ip := r.take(20)
		if ip == nil || ip[0]>>4 != 4 || ip[0]&15 < 5 || int(binary.BigEndian.Uint16(ip[2:])) < int(ip[0]&15)*4 {
			return h
		}
		h.Kind, h.Protocol, h.ID = 4, uint32(ip[9]), uint32(binary.BigEndian.Uint16(ip[4:]))
		if flags := binary.BigEndian.Uint16(ip[6:]); flags&0x1fff != 0 {
			h.Fragment = 2
		} else if flags&0x2000 != 0 {
			h.Fragment = 1
		}
		options := r.take(int(ip[0]&15)*4 - 20)
		if options == nil {
			return h
		}
		if sum16(slices.Concat(ip, options)) == 0xffff {
			h.Check = 1
		}
		r.transport(&h)
	case 0x86dd:
		if ip := r.take(40); ip != nil && ip[0]>>4 == 6 {
			r.extensions(ip[6], &h)
		}
	}
	return h
}

func sum16(b []byte) (sum uint32) {
	for i := 0; i < len(b); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(b[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return sum
}

func (r *reader) extensions(next byte, h *headers) {
	f, start := headers{Kind: 6}, r.at
	for n := 0; slices.Contains([]byte{0, 43, 44, 51, 60, 135, 139, 140}, next) && f.Fragment != 2; n++ {
		e := r.take(8)
		if e == nil {
			return
		}
		r.at -= 8
		size := (int(e[1]) + 1) * 8
		switch next {
		case 51:
			size = (int(e[1]) + 2) * 4
		case 44:
			size = 8
		}
		if n == 8 || r.at+size-start > 256 || r.take(size) == nil {
			return
		}
		switch next {
		case 0:
			f.HopByHop = 1
		case 43:
			if e[2] != 255 {
				f.Routing = uint32(e[2]) + 1
			}
		case 44:
			offset := binary.BigEndian.Uint16(e[2:])
			f.ID = binary.BigEndian.Uint32(e[4:])
			if offset&0xfff8 != 0 {
				f.Fragment = 2
			} else if offset&1 != 0 {
				f.Fragment = 1
			}
		}
		next = e[0]
	}
	f.Protocol = uint32(next)
	*h = f
	r.transport(h)
}

func (r *reader) transport(h *headers) {
	if h.Fragment == 2 {
		return
	}
	switch h.Protocol {
	case 6, 17, 33, 132, 136:
		if p := r.take(4); p != nil {
			h.Source, h.Destination = uint32(binary.BigEndian.Uint16(p)), uint32(binary.BigEndian.Uint16(p[2:]))
		}
	case 1, 58:
		p := r.take(8)
		if p == nil {
			return
		}
		h.Source = uint32(binary.BigEndian.Uint16(p))
		ids, errs := []byte{0, 8, 13, 14, 15, 16, 17, 18}, []byte{3, 4, 5, 11, 12}
		if h.Protocol == 58 {
			ids, errs = []byte{128, 129}, nil
		}
		if slices.Contains(ids, p[0]) {
			h.Destination = uint32(binary.BigEndian.Uint16(p[4:]))
		} else if slices.Contains(errs, p[0]) || h.Protocol == 58 && p[0] < 128 {
			h.Destination = 0xffffffff
		}
	}
}

// samples are packets of all kinds; the test changes them at random.
func samples() [][]byte {
	ip6 := func(payload ...byte) []byte { // starts with the protocol of the first extension header
		f := pkt.Eth(one, two).IPv6("2001:db8::1", "2001:db8::2").Data(slices.Concat(payload[1:], make([]byte, 24))).Bytes()
		f[20] = payload[0]
		return f
	}
	options := pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").UDP(7, 9).Payload(40).Bytes()
	options[14] = 0x49 // four words of the UDP header are options now
	return [][]byte{
		pkt.Eth(one, pkt.Broadcast).ARPRequest(one, "10.0.0.1", "10.0.0.2").Bytes(),
		pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(20).Bytes(),
		pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.0.2").Echo(7, 9).Payload(20).Bytes(),
		options,
		pkt.Eth(one, two).IPv6("2001:db8::1", "2001:db8::2").UDP(1000, 53).Payload(20).Bytes(),
		ip6(58, 128, 0, 0, 0, 0, 5), ip6(59), ip6(50, 1, 2, 3),
		ip6(0, 60, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 0, 80, 1, 187),
		ip6(44, 17, 0, 0, 1, 0, 0, 0, 9, 0, 53, 1, 0), ip6(44, 60, 0, 0x10, 1, 0, 0, 0, 9),
		ip6(43, 44, 0, 4, 0, 0, 0, 0, 0, 132, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4),
		ip6(51, 17, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3, 4),
		ip6(append([]byte{60}, slices.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, 9)...)...),
		ip6(append(append([]byte{60}, slices.Repeat([]byte{60, 0, 1, 4, 0, 0, 0, 0}, 7)...), 17, 0, 1, 4, 0, 0, 0, 0, 0, 1, 0, 2)...),
		ip6(0, 17, 32), ip6(135, 139, 0, 0, 0, 0, 0, 0, 0, 140, 0, 0, 0, 0, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 1, 1, 2, 2),
	}
}

func TestParsersOfIPAreRight(t *testing.T) {
	services := []cube.Service{bare("headers", headersTC, headersXDP)}
	seed := repeat.Seed(t)
	bpftest.Each(t, bpftest.Options{Hosts: 1, Services: services}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("headers", "h", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
		table, err := table.Of[uint32, headers]("found", l.Map("h", "found"))
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, headersTC, "found", headers{})
		rnd := rand.New(rand.NewPCG(seed, 0))
		for i := range 60 {
			for _, frame := range samples() {
				frame = slices.Clone(frame)
				if i > 0 {
					for range rnd.IntN(3) {
						frame[14+rnd.IntN(min(60, len(frame)-14))] = byte([]int{rnd.IntN(256), rnd.IntN(8), 44, 60}[rnd.IntN(4)])
					}
					least := 15
					if l.Type == cube.TypeTC { // a test run requires a complete IP header
						least = 14 + 40
					}
					frame = frame[:max(min(least, len(frame)), len(frame)-rnd.IntN(4)*rnd.IntN(30))]
				}
				l.Run("veth1", frame)
				got, _, err := table.Get(0)
				if err != nil {
					t.Fatal(err)
				}
				if want := parse(frame); got.Kind != want.Kind || want.Kind != 0 && got != want {
					t.Fatalf("frame %x:\n got %+v\nwant %+v", frame, got, want)
				}
			}
		}
	})
}
