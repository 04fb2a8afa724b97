// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"context"
	"encoding/binary"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/pcapfilter"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// traces sets the graph's trace sessions, for a minute.
func (b *bench) traces(sessions ...link.Session) {
	b.t.Helper()
	b.g.Trace = nil
	if len(sessions) > 0 {
		b.g.Trace = &link.Trace{Sessions: sessions}
	}
	b.must(func() error { return b.plane.TraceUntil(time.Minute) })
	b.commit()
}

func compile(t *testing.T, expression string) *pcapfilter.Filter {
	t.Helper()
	f, err := pcapfilter.Compile(context.Background(), expression)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// step is a record of a traced packet.
type step struct {
	cube, in, out, reason uint16
	extra                 uint32
	id                    uint16
	stage, verdict        uint8
	egress                bool
	sessions              uint8
	length                uint32
	vlan                  uint32 // 1 if the tag is beside the frame
	data                  []byte
}

const recordTrace, traceHead = 5, 32

// steps reads the records of traced packets from the ring.
func (b *bench) steps() []step {
	b.t.Helper()
	var out []step
	for _, r := range b.records() {
		if r.kind != recordTrace {
			continue
		}
		n, h := binary.NativeEndian, r.data
		out = append(out, step{
			cube: n.Uint16(h[8:]), in: n.Uint16(h[10:]), out: n.Uint16(h[12:]), reason: n.Uint16(h[14:]),
			extra: n.Uint32(h[16:]), id: n.Uint16(h[20:]), stage: h[22], verdict: h[23], egress: h[25] != 0,
			sessions: h[26], length: r.length, vlan: r.flags & recordVLAN, data: h[traceHead:],
		})
	}
	return out
}

// show writes a step as test tables do: cube, verdict and so on.
func (b *bench) show(s step) string {
	name := "framework"
	if n := b.g.Cubes[CubeID(s.cube)]; n != nil {
		name = n.Name
	}
	dir := "in"
	if s.egress {
		dir = "out"
	}
	switch s.stage {
	case link.StageProgram:
		verdict := [...]string{"pass", "send", "drop", "flood", "up", "call", "namespace", "flood", "turn", "offer", "redirect"}[s.verdict]
		switch verdict {
		case "send", "offer", "redirect":
			verdict = fmt.Sprintf("%s %d", verdict, s.out)
		case "drop", "up":
			verdict = fmt.Sprintf("%s %d", verdict, s.reason)
		}
		return fmt.Sprintf("%s:%d %s %s", name, s.in, dir, verdict)
	case link.StageEnd:
		return fmt.Sprintf("%s %s", name, FrameworkReasons()[s.extra])
	case link.StageLeave:
		for _, d := range b.g.Netdevs {
			if uint32(d.Index) == s.extra {
				return fmt.Sprintf("%s leaves by %s", name, d.Name)
			}
		}
		return fmt.Sprintf("%s leaves by %d", name, s.extra)
	case link.StageIn:
		return fmt.Sprintf("%s gets by %d", name, s.extra)
	case link.StageOut:
		return fmt.Sprintf("%s sends by %d", name, s.extra)
	}
	return fmt.Sprintf("stage %d", s.stage)
}

// story is the text of the steps in the ring, which must all belong to one packet or its copies.
func (b *bench) story(packets int) string {
	b.t.Helper()
	var lines []string
	ids := map[uint16]bool{}
	for _, s := range b.steps() {
		lines, ids[s.id] = append(lines, b.show(s)), true
	}
	if len(ids) != packets {
		b.t.Errorf("%d packets, want %d: %v", len(ids), packets, lines)
	}
	return strings.Join(lines, "; ")
}

func TestATraceTellsEachStepOfAPacket(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, two, a, z := b.chain()
		one.Ports[1].Tcubes = b.gates("g")
		b.traces(link.Session{Bit: 2})
		b.passes(a, z, frame("there"))
		want := "probe1:0 in send 1; gate3:0 out pass; probe2:0 in send 1; probe2 leaves by z"
		if got := b.story(1); got != want {
			t.Errorf("there:\n%s, want\n%s", got, want)
		}
		b.passes(z, a, frame("back"))
		want = "probe2:1 in send 0; gate3:1 in pass; probe1:1 in send 0; probe1 leaves by a"
		if got := b.story(1); got != want {
			t.Errorf("back:\n%s, want\n%s", got, want)
		}
		two.Constants = map[string]any{"what": uint32(1)}
		b.commit()
		b.stops(a, two, "told-to")
		if got, want := b.story(1), "probe1:0 in send 1; gate3:0 out pass; probe2:0 in drop 32"; got != want {
			t.Errorf("dropped:\n%s, want\n%s", got, want)
		}
		two.Constants, two.Ports[1].Peer = map[string]any{"what": uint32(6)}, Peer{}
		b.commit()
		b.stops(a, two, "no-peer")
		if got, want := b.story(1), "probe1:0 in send 1; gate3:0 out pass; probe2:0 in send 1; probe2 no-peer"; got != want {
			t.Errorf("without a peer:\n%s, want\n%s", got, want)
		}
	})
}

func TestTracingEndsWithItsSessionAndWithItsLease(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		_, _, a, z := b.chain()
		before := b.plane.Status(1).Instructions
		b.traces(link.Session{Bit: 0})
		if traced := b.plane.Status(1).Instructions; traced <= before {
			t.Errorf("%d instructions when traced, %d before", traced, before)
		}
		b.passes(a, z, frame("traced"))
		if len(b.steps()) == 0 {
			t.Error("nothing was traced")
		}
		b.must(func() error { return b.plane.TraceUntil(-time.Second) })
		b.passes(a, z, frame("lease is over"))
		if got := b.steps(); len(got) != 0 {
			t.Errorf("after the lease: %v", got)
		}
		b.traces()
		b.passes(a, z, frame("session is over"))
		if got := b.steps(); len(got) != 0 {
			t.Errorf("after the session: %v", got)
		}
		if after := b.plane.Status(1).Instructions; after != before {
			t.Errorf("%d instructions after the session, %d before", after, before)
		}
	})
}

func TestFiltersChooseInTheFastPathWhatTheyChooseOnBytes(t *testing.T) {
	frames := map[string][]byte{
		"ping":  pkt.Eth("02:aa:00:00:00:01", "02:aa:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").Echo(1, 2).Payload(40).Bytes(),
		"get":   pkt.Eth("02:aa:00:00:00:01", "02:aa:00:00:00:02").IPv4("10.0.0.2", "10.0.0.1").TCP(1000, 80, pkt.TCPFlags{}).Data([]byte("GET / HTTP/1.1")).Bytes(),
		"vlan":  pkt.Eth("02:aa:00:00:00:01", "02:aa:00:00:00:02").VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(40).Bytes(),
		"short": frame("short")[:20],
	}
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(1)})
		a := b.host("a", "", c, 0)
		b.commit()
		for _, expression := range []string{
			"icmp", "tcp port 80", "vlan 10", "vlan and udp port 53", "not ip", "len > 60", "greater 82",
			"tcp[((tcp[12:1] & 0xf0) >> 2):4] = 0x47455420", "ip[2:2] * 2 / 3 + 7 - 1 > 60 and ip[8] % 3 == 1",
			"ether[12:4] == 0x8100000a", "ether[10:4] == 0x00028100", "udp[1000] == 3", "ip[0] << (ip[0] & 0xf) > 3",
		} {
			f := compile(t, expression)
			b.traces(link.Session{Bit: 1, Filter: f})
			for name, data := range frames {
				n := b.fate(c, "told-to")
				b.send(a, data)
				b.eventually(c, "told-to", n+1)
				if got, want := len(b.steps()) > 0, f.Match(data, len(data)); got != want {
					t.Errorf("%s, %q: %t, on its bytes it is %t", name, expression, got, want)
				}
			}
		}
	})
}

func TestCopiesOfATracedFloodAreFollowed(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		hub := b.cube("probe", 3, map[string]any{"what": uint32(2)})
		var hosts []*netns.Node
		for i := range uint16(2) {
			leaf := b.cube("probe", 2, map[string]any{"what": uint32(6)})
			b.link(hub, i+1, leaf, 0)
			hosts = append(hosts, b.host(fmt.Sprint("h", i), "", leaf, 1))
		}
		a := b.host("a", "", hub, 0)
		b.traces(link.Session{Bit: 0, Filter: compile(t, "ether proto 0x88b5")})
		ls := b.listeners(hosts...)
		b.send(a, frame("copies"))
		for i, r := range ls {
			b.receives(r, hosts[i].Outer, frame("copies"))
		}
		story := b.story(3 - btoi(b.typ.Hook() == 0)) // at TC, the last copy is the packet itself
		for _, want := range []string{"probe1:0 in flood", "probe2:0 in send 1", "probe3:0 in send 1",
			"probe2 leaves by h0", "probe3 leaves by h1"} {
			if strings.Count(story, want) != 1 {
				t.Errorf("%q is not told once in %s", want, story)
			}
		}
	})
}

func btoi(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// recordVLAN is the flag of a record whose tag is beside the frame.
const recordVLAN = 1
