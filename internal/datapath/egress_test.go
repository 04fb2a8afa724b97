// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/cilium/ebpf/ringbuf"

	"github.com/polycube/polycube/test/netns"
)

func TestEgressProgramsRunBehindTheIngressProgramOfTheSameCube(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		one, two := b.cube("twoway", 2, nil), b.cube("twoway", 2, nil)
		b.link(one, 1, two, 0)
		one.Ports[1].Tcubes = b.gates("g")
		a, z := b.host("a", "", one, 0), b.host("z", "", two, 1)
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "iogio" {
			t.Errorf("there: %q, want iogio", got)
		}
		if got := marks(b.passes(z, a, frame(""))); got != "iogio" {
			t.Errorf("back: %q, want iogio", got)
		}
		one.Constants = map[string]any{"what": uint32(6)}
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "iwgio" {
			t.Errorf("with a word from ingress to egress: %q, want iwgio", got)
		}
	})
}

func TestEgressProgramsEndPackets(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("twoway", 2, map[string]any{"what": uint32(2)})
		a := b.host("a", "", c, 0)
		b.host("z", "", c, 1)
		b.commit()
		b.stops(a, c, "out")
		c.Constants = map[string]any{"what": uint32(3)}
		b.commit()
		b.stops(a, c, "slowpath")
		r := b.records()[0]
		if r.cube != uint16(c.ID) || r.port != 1 || r.reason != 33 || r.flags&recordEgress == 0 {
			t.Errorf("the slow path got %+v, want the egress of port 1, reason 33", r)
		}
		b.packets(c, 1, 0, 0)
	})
}

func TestCopiesOfAFloodPassTheEgressProgram(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		c := b.cube("twoway", 3, map[string]any{"what": uint32(1)})
		var hosts []*netns.Node
		for i := range uint16(3) {
			hosts = append(hosts, b.host(fmt.Sprint("h", i), "", c, i))
		}
		b.commit()
		ls := b.listeners(hosts...)
		b.send(hosts[0], frame(""))
		for i, r := range ls[1:] {
			want := frame("")
			copy(want[14:], "io")
			b.receives(r, hosts[i+1].Outer, want)
		}
		b.packets(c, 1, 0, 1)
		b.packets(c, 2, 0, 1)
	})
}

// record is the header of a record in the ring; struct pcn_record.
type record struct {
	kind, cube, port, reason uint16
	flags, length, ifindex   uint32
	words                    [4]uint32
	data                     []byte
}

// Kinds and flags of records (bpf/core/abi.h).
const (
	recordPacket, recordLog = 1, 2
	recordEgress            = 2
	recordHead              = 72
)

// records reads the records in the ring.
func (b *bench) records() []record {
	b.t.Helper()
	r, err := ringbuf.NewReader(b.plane.FrameworkMap("pcn_ring"))
	if err != nil {
		b.t.Fatal(err)
	}
	defer r.Close()
	r.SetDeadline(time.Now().Add(-time.Second)) // read what is there
	var out []record
	for {
		raw, err := r.Read()
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return out
		}
		if err != nil {
			b.t.Fatal(err)
		}
		s, n := raw.RawSample, binary.NativeEndian
		caplen := n.Uint32(s[16:])
		out = append(out, record{
			kind: n.Uint16(s), cube: n.Uint16(s[2:]), port: n.Uint16(s[4:]), reason: n.Uint16(s[6:]),
			flags: n.Uint32(s[8:]), length: n.Uint32(s[12:]), ifindex: n.Uint32(s[24:]), data: s[recordHead : recordHead+caplen],
			words: [4]uint32{n.Uint32(s[48:]), n.Uint32(s[52:]), n.Uint32(s[56:]), n.Uint32(s[60:])},
		})
	}
}

func TestCopiesReachTheRingAndTheOriginalGoesOn(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("twoway", 2, map[string]any{"what": uint32(4)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		b.commit()
		if got := marks(b.passes(a, z, frame(""))); got != "io" {
			t.Errorf("the original arrives as %q, want io", got)
		}
		rs := b.records()
		if len(rs) != 2 {
			t.Fatalf("%d records, want one of each program", len(rs))
		}
		for i, want := range []struct {
			port, reason uint16
			flags        uint32
			marks        string
		}{{0, 32, 0, "i"}, {1, 33, recordEgress, "io"}} {
			r := rs[i]
			if r.kind != recordPacket || r.cube != uint16(c.ID) || r.port != want.port || r.reason != want.reason ||
				r.flags&recordEgress != want.flags || r.length != 64 || len(r.data) != 64 || marks(r.data) != want.marks {
				t.Errorf("record %d is %+v, want %+v with 64 bytes", i, r, want)
			}
		}
		if b.fate(c, "slowpath")+b.fate(c, "slowpath-shed") != 0 {
			t.Error("copies were counted as originals")
		}
	})
}

func TestLogLinesReachTheRingFromTheLevelOn(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("twoway", 2, map[string]any{"what": uint32(5)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		for level, want := range map[LogLevel]int{LogDebug: 2, LogInfo: 2, LogWarn: 1, LogErr: 0, LogOff: 0} {
			c.LogLevel = level
			b.commit()
			b.passes(a, z, frame(""))
			rs := b.records()
			if len(rs) != want {
				t.Errorf("level %d: %d records, want %d", level, len(rs), want)
			}
			for _, r := range rs {
				if r.kind != recordLog || r.cube != uint16(c.ID) || len(r.data) != 128 {
					t.Errorf("level %d: record %+v, want a line of cube %d", level, r, c.ID)
				}
			}
			if len(rs) == 2 { // level, count, args, format
				if n := binary.NativeEndian; n.Uint32(rs[0].data) != uint32(LogInfo) || n.Uint64(rs[0].data[16:]) != 64 ||
					string(rs[0].data[40:59]) != "in on %d, %u bytes\x00" || n.Uint64(rs[1].data[8:]) != 1 {
					t.Errorf("lines % x and % x", rs[0].data, rs[1].data)
				}
			}
		}
	})
}
