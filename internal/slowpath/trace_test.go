// SPDX-License-Identifier: Apache-2.0

package slowpath

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
)

// steps collects steps, and refuses everything else.
type steps struct {
	t   *testing.T
	got []Step
}

func (s *steps) Packet(uint16, *cube.PacketIn, Meta) { s.t.Error("a packet came up") }
func (s *steps) Log(uint16, uint32, string)          { s.t.Error("a log line came up") }
func (s *steps) Flood(uint16, *cube.PacketIn, Meta)  { s.t.Error("a flood came up") }
func (s *steps) Notify(uint16, uint32, []byte)       {}
func (s *steps) Trace(step *Step) {
	one := *step
	one.Data = bytes.Clone(step.Data)
	s.got = append(s.got, one)
}

// stepBytes makes a record with struct pcn_trace.
func stepBytes(frame []byte, change func(b []byte)) []byte {
	b := make([]byte, traceHead, traceHead+len(frame))
	e := binary.NativeEndian
	e.PutUint64(b, uint64(7*time.Second))
	for i, v := range []uint16{3, 1, 2, 32} {
		e.PutUint16(b[8+2*i:], v)
	}
	e.PutUint32(b[16:], 99)
	e.PutUint16(b[20:], 0xabc)
	copy(b[22:], []byte{1, 2, 4, 1, 5})
	return recordBytes(recordTrace, 0, append(b, frame...), func(r []byte) {
		set32(12, uint32(len(frame)))(r)
		if change != nil {
			change(r)
		}
	})
}

func TestStepsComeUpAsTheyWere(t *testing.T) {
	want := Step{Time: 7 * time.Second, Cube: 3, InPort: 1, OutPort: 2, Reason: 32, Extra: 99, ID: 0xabc, Stage: 1,
		Verdict: 2, Program: 4, Egress: true, Sessions: 5, Length: 60, Data: frame(60)}
	tagged := want
	tagged.Data = pkt.Tagged(frame(60), 0x8100000a)
	tagged.Length, tagged.XDP = 1504, true
	none := want
	none.Data = []byte{}
	for name, test := range map[string]struct {
		rec  []byte
		want Step
	}{
		"whole": {stepBytes(frame(60), nil), want},
		"with a tag, cut, at XDP": {stepBytes(frame(60), func(b []byte) {
			set32(8, flagVLAN|flagXDP)(b)
			set32(12, 1500)(b)
			copy(b[40:], []byte{0x81, 0})
			binary.NativeEndian.PutUint16(b[42:], 10)
		}), tagged},
		"without bytes": {stepBytes(nil, set32(12, 60)), none},
	} {
		r := fakeRing(1 << 20)
		r.put(uint32(len(test.rec)), test.rec)
		got := &steps{t: t}
		r.drain(got)
		if len(got.got) != 1 || !reflect.DeepEqual(got.got[0], test.want) || r.Stats() != (Stats{Steps: 1}) {
			t.Errorf("%s: %+v, %+v, want %+v", name, got.got, r.Stats(), test.want)
		}
	}
}

func TestStepsThatContradictThemselvesAreDropped(t *testing.T) {
	for name, rec := range map[string][]byte{
		"shorter than its head": recordBytes(recordTrace, 0, make([]byte, traceHead-1), nil),
		"no Ethernet header":    stepBytes(frame(13), nil),
		"more than there was":   stepBytes(frame(60), set32(12, 59)),
	} {
		r := fakeRing(1 << 20)
		r.put(uint32(len(rec)), rec)
		got := &steps{t: t}
		if r.drain(got); len(got.got) != 0 || r.Stats() != (Stats{Malformed: 1}) {
			t.Errorf("%s: %+v, %+v", name, got.got, r.Stats())
		}
	}
}

// TestStepsNeedNobody: a handler that does not trace leaves them.
func TestStepsNeedNobody(t *testing.T) {
	r := fakeRing(1 << 20)
	rec := stepBytes(frame(60), nil)
	r.put(uint32(len(rec)), rec)
	var got collector
	if n := r.drain(&got); n != 1 || len(got.all()) != 0 || r.Stats() != (Stats{Steps: 1}) {
		t.Errorf("%d records, %+v, %+v", n, got.all(), r.Stats())
	}
}
