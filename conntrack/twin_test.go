// SPDX-License-Identifier: Apache-2.0

package conntrack

// The functions for programs and those in Go give the same results for random packets.

import (
	_ "embed"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

var (
	//go:embed testdata/state.tc.o
	stateTC []byte
	//go:embed testdata/state.xdp.o
	stateXDP []byte
)

// step is struct state_step.
type step struct {
	State    State
	Segment  Segment
	Protocol uint32
	From     uint32
	Options  uint32
	Class    Class
	Timeout  uint32
	Timeouts [timeouts]uint32
}

// protocols of a step.
const (
	stepTCP = iota
	stepUDP
	stepICMP
	stepOther
	stepFollow
	stepProtocols
)

// inGo does what the program does with a step.
func (s *step) inGo() {
	from := uint8(s.From)
	switch s.Protocol {
	case stepTCP:
		o := Options{Liberal: s.Options&0x100 != 0, PickUp: s.Options&0x200 != 0, MaxRetrans: uint8(s.Options)}
		s.Class = s.State.TCP(from, s.Segment, o)
	case stepUDP:
		s.Class = s.State.UDP(from)
	case stepICMP:
		s.Class = s.State.ICMP(from, s.Options != 0)
	case stepFollow:
		p := s.State.Progress()
		s.Class = p.Follow(from, uint8(s.Options), s.Segment.Flags)
		s.State.set(p)
	default:
		s.Class = s.State.Other(from)
	}
	var all Timeouts
	for i, t := range s.Timeouts {
		all[i] = time.Duration(t) * time.Second
	}
	s.Timeout = uint32(all.Of(&s.State) / time.Second)
}

func TestTheStructsAreAlike(t *testing.T) { bpftest.Layout(t, stateTC, "steps", step{}) }

// dice generates packets near those that a connection would have, and sometimes far from them.
type dice struct{ *rand.Rand }

func (d dice) near(n uint32) uint32 {
	switch d.IntN(12) {
	case 0:
		return n + uint32(d.IntN(4)) - 2
	case 1:
		return n + uint32(d.IntN(200000)) - 100000
	case 2:
		return d.Uint32()
	}
	return n
}

func (d dice) segment(s *State, from uint8) Segment {
	me, peer := s.Side[from], s.Side[1-from]
	p := Segment{Seq: d.near(me.End), Ack: d.near([]uint32{peer.End, me.Ack, s.Syn + 1}[d.IntN(3)]), Scale: NoScale, Flags: ACK}
	p.Seq = []uint32{p.Seq, p.Seq, p.Seq, d.near(peer.Ack), d.near(s.Syn)}[d.IntN(5)]
	p.Window = uint16(d.IntN(1<<16) >> d.IntN(17))
	switch d.IntN(10) {
	case 0, 1:
		p.Flags = SYN
	case 2, 3:
		p.Flags = SYN | ACK
	case 4:
		p.Flags = FIN | ACK
	case 5:
		p.Flags = []Flag{RST, RST | ACK, Flag(d.Uint32()), 0}[d.IntN(4)]
	}
	if p.has(SYN) && d.IntN(2) == 0 {
		p.Scale = uint8(d.IntN(17))
	}
	if d.IntN(2) == 0 {
		p.Length = uint32(d.IntN(1 << d.IntN(17)))
	}
	return p
}

// sequences runs random packets through connections, and returns how often each phase was reached.
func sequences(d dice, connections, packets int, same func(in, want step)) map[Phase]int {
	reached := map[Phase]int{}
	for range connections {
		var s step
		s.Protocol = []uint32{stepTCP, stepTCP, stepTCP, stepTCP, stepFollow, uint32(d.IntN(stepProtocols))}[d.IntN(6)]
		options := Options{Liberal: d.IntN(4) == 0, PickUp: d.IntN(2) == 0, MaxRetrans: uint8(d.IntN(4))}
		followed := []uint32{protoTCP, protoTCP, protoTCP, protoUDP, protoICMP, protoICMPv6, experimental}[d.IntN(7)]
		for i := range s.Timeouts {
			s.Timeouts[i] = uint32(d.IntN(1000))
		}
		for range packets {
			s.From = d.Uint32()
			s.Options = uint32(d.IntN(2))
			switch s.Protocol {
			case stepTCP:
				s.Segment, s.Options = d.segment(&s.State, uint8(s.From&1)), options.Bits()
			case stepFollow:
				s.Segment.Flags, s.Options = 0, followed
				if followed == protoTCP {
					s.Segment.Flags = d.segment(&s.State, uint8(s.From&1)).Flags
				}
			}
			in := s
			s.inGo()
			same(in, s)
			reached[s.State.State]++
		}
	}
	return reached
}

func TestProgramsAndGoComputeTheSame(t *testing.T) {
	seed := repeat.Seed(t)
	for hook, object := range map[string][]byte{"TC": stateTC, "XDP": stateXDP} {
		t.Run(hook, func(t *testing.T) {
			prog := bpftest.Load(t, object).Programs["state"]
			reached := sequences(dice{rand.New(rand.NewPCG(seed, 0))}, 500, 40, func(in, want step) {
				got := in
				bpftest.Exchange(t, prog, &got)
				if got != want {
					t.Fatalf("packet %+v of side %d, options %#x\n   in %+v\n  got %+v %v, %d s\n want %+v %v, %d s", in.Segment, in.From&1,
						in.Options, in.State, got.State, got.Class, got.Timeout, want.State, want.Class, want.Timeout)
				}
			})
			for p := range Closed + 1 {
				if reached[p] == 0 {
					t.Errorf("no packet led to %v (%d)", p, p)
				}
			}
		})
	}
}

// FuzzTCP derives packets from bytes and checks what must be true for all of them.
func FuzzTCP(f *testing.F) {
	f.Add(uint64(1), uint64(2))
	f.Fuzz(func(t *testing.T, a, b uint64) {
		sequences(dice{rand.New(rand.NewPCG(a, b))}, 4, 60, func(in, out step) {
			if err := lawful(in, out); err != nil {
				t.Fatalf("packet %+v of side %d\n   in %+v\n  out %+v %v: %v", in.Segment, in.From&1, in.State, out.State, out.Class, err)
			}
		})
	})
}
