// SPDX-License-Identifier: Apache-2.0

// Records that no honest program writes, in a ring in plain memory.

package slowpath

import (
	"encoding/binary"
	"reflect"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/ring"
)

// fake is a ring without a kernel. It is as long as what a test writes, so nothing wraps.
type fake struct {
	*Ring
	ring.Memory
}

func fakeRing(size int) *fake {
	m := ring.Memory{Consumer: new(uint64), Producer: new(uint64), Data: make([]byte, 2*size)}
	r := newRing()
	r.records, r.shares = ring.Over(m), make(shares, 4)
	return &fake{r, m}
}

// put appends a record with the head word given.
func (f *fake) put(head uint32, body []byte) {
	at := *f.Producer
	binary.NativeEndian.PutUint32(f.Data[at:], head)
	copy(f.Data[at+ring.HeadSize:], body)
	*f.Producer += uint64(ring.HeadSize+len(body)+7) &^ 7
}

// drain handles the finished records.
func (r *Ring) drain(h Handler) int {
	defer r.report()
	return r.records.Drain(func(b []byte) { r.deliver(b, h) })
}

// recordBytes makes struct pcn_record with a frame.
func recordBytes(kind, id uint16, frame []byte, change func(b []byte)) []byte {
	b := make([]byte, recordHead+len(frame))
	e := binary.NativeEndian
	e.PutUint16(b, kind)
	e.PutUint16(b[2:], id)
	e.PutUint32(b[12:], uint32(len(frame)))
	e.PutUint32(b[16:], uint32(len(frame)))
	e.PutUint32(b[20:], uint32(len(b)))
	copy(b[recordHead:], frame)
	if change != nil {
		change(b)
	}
	return b
}

func set32(at int, v uint32) func([]byte) {
	return func(b []byte) { binary.NativeEndian.PutUint32(b[at:], v) }
}

func TestHostileRecordsAreDropped(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  []byte
	}{
		{"empty", nil},
		{"a byte short of its head", recordBytes(1, 1, nil, nil)[:recordHead-1]},
		{"no frame", recordBytes(1, 1, nil, nil)},
		{"a frame of 13 bytes", recordBytes(1, 1, frame(13), nil)},
		{"more captured than there is", recordBytes(1, 1, frame(60), set32(16, 61))},
		{"4 GB captured", recordBytes(1, 1, frame(60), set32(16, 1<<32-1))},
		{"a tag and 11 bytes", recordBytes(1, 1, frame(11), set32(8, flagVLAN))},
		{"shorter than captured", recordBytes(1, 1, frame(60), set32(12, 59))},
		{"longer than any class", recordBytes(1, 1, frame(maxCapture+1), nil)},
		{"segments of 64 KB", recordBytes(1, 1, frame(60), set32(32, 1<<16))},
		{"65536 segments", recordBytes(1, 1, frame(60), set32(36, 1<<16))},
		{"kind 0", recordBytes(0, 1, frame(60), nil)},
		{"kind 7", recordBytes(7, 1, frame(60), nil)},
		{"a cube that cannot be", recordBytes(1, 4, frame(60), nil)},
		{"cube 65535", recordBytes(1, 0xffff, frame(60), nil)},
		{"a short log", recordBytes(2, 1, logArgs(1, "x")[:127], nil)},
		{"a long log", recordBytes(2, 1, append(logArgs(1, "x"), 0), nil)},
	} {
		r := fakeRing(1 << 20)
		r.put(uint32(len(c.rec)), c.rec)
		r.put(recordHead+60, recordBytes(1, 1, frame(60), nil))
		var got collector
		if n := r.drain(&got); n != 2 || len(got.all()) != 1 || r.Stats() != (Stats{Packets: 1, Malformed: 1}) {
			t.Errorf("%s: %d records, %+v, %+v", c.name, n, got.all(), r.Stats())
		}
		if !r.records.Empty() || *r.Consumer != *r.Producer {
			t.Errorf("%s: the ring is not read to its end", c.name)
		}
	}
}

func TestCutPacketsKeepTheirLength(t *testing.T) {
	r := fakeRing(1 << 20)
	rec := recordBytes(1, 1, frame(69632), set32(12, 200000))
	r.put(uint32(len(rec)), rec)
	tagged := recordBytes(1, 1, frame(60), func(b []byte) {
		set32(8, flagVLAN)(b)
		set32(12, 100)(b)
		copy(b[40:], []byte{0x88, 0xa8})
		binary.NativeEndian.PutUint16(b[42:], 0xe064)
	})
	r.put(uint32(len(tagged)), tagged)
	var got collector
	r.drain(&got)
	e := got.all()
	if len(e) != 2 || e[0].Packet.Length != 200000 || len(e[0].Packet.Data) != 69632 {
		t.Fatalf("%+v", r.Stats())
	}
	p := e[1].Packet
	if p.Length != 104 || len(p.Data) != 64 || [4]byte(p.Data[12:]) != [4]byte{0x88, 0xa8, 0xe0, 0x64} || [2]byte(p.Data[16:]) != [2]byte{0x88, 0xb5} {
		t.Errorf("%+v", p)
	}
}

func TestASharesCreditIsNeverMoreThanItsDebt(t *testing.T) {
	s := shares{{Produced: 100, Consumed: 90}}
	if s.credit(0, 8); s[0].Consumed != 98 {
		t.Errorf("%+v", s[0])
	}
	if s.credit(0, 1<<32-1); s[0].Consumed != 100 {
		t.Errorf("%+v", s[0])
	}
}

func TestSharesSettleOnlyWhileTheRingIsEmpty(t *testing.T) {
	s := shares{{Produced: 100, Consumed: 90}, {Produced: 7, Consumed: 1 << 60}}
	if s.settle(func() bool { s[0].Produced += 50; return false }) || s[0].Consumed != 90 || s[1].Consumed != 1<<60 {
		t.Errorf("%+v", s)
	}
	s[0].Produced = 100
	if !s.settle(func() bool { return true }) || s[0].Consumed != 100 || s[1].Consumed != 7 {
		t.Errorf("%+v", s)
	}
}

func TestARecordIsNotHandedTwiceToAHandlerThatPanics(t *testing.T) {
	r := fakeRing(1 << 16)
	rec := recordBytes(1, 1, frame(60), nil)
	r.put(uint32(len(rec)), rec)
	r.put(uint32(len(rec)), rec)
	r.shares[1].Produced = uint64(2 * len(rec))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the handler did not panic")
			}
		}()
		r.drain(panics{})
	}()
	var got collector
	if n := r.drain(&got); n != 1 || r.shares[1].Consumed != r.shares[1].Produced || !r.records.Empty() {
		t.Errorf("%d records were left, %+v", n, r.shares[1])
	}
}

type panics struct{ *counter }

func (panics) Packet(uint16, *cube.PacketIn, Meta) { panic("a cube's handler") }

func FuzzRecord(f *testing.F) {
	f.Add(recordBytes(1, 1, frame(60), nil), false)
	f.Add(recordBytes(3, 2, frame(14), set32(8, flagVLAN|flagEgress|flagXDP)), true)
	f.Add(recordBytes(2, 3, logArgs(1, "%d", 5), nil), false)
	f.Fuzz(func(t *testing.T, b []byte, discard bool) {
		if len(b) > 1<<17 {
			return
		}
		r := fakeRing(1 << 18)
		head := uint32(len(b))
		if discard {
			head |= ring.Discarded
		}
		r.put(head, b)
		var got collector
		n := r.drain(&got)
		s := r.Stats()
		if n != 1 || !r.records.Empty() || s.Damaged != 0 || s.Packets+s.Floods+s.Logs != uint64(len(got.all())) {
			t.Fatalf("%d records, %+v, %d calls", n, s, len(got.all()))
		}
		if !discard && s.Malformed+s.Steps+uint64(len(got.all())) != 1 {
			t.Errorf("neither handled nor counted: %+v", s)
		}
		for _, e := range got.all() {
			if e.What != "log" && (len(e.Packet.Data) < ethernetHead || e.Packet.Length < len(e.Packet.Data)) {
				t.Errorf("%+v", e)
			}
		}
	})
}

// The structs here are those of the compiled programs.
func TestLayoutsAreThoseOfThePrograms(t *testing.T) {
	entry := loadSpec(t, "down.tc.o")
	core := loadSpec(t, "core.tc.o")
	value := func(spec *ebpf.CollectionSpec, name string) btf.Type { return spec.Maps[name].Value }
	resumes := value(entry, "pcn_resumes").(*btf.Struct)
	for _, c := range []struct {
		c   btf.Type
		typ reflect.Type
	}{
		{value(entry, "pcn_down"), reflect.TypeFor[down]()},
		{resumes, reflect.TypeFor[resume]()},
		{resumes.Members[0].Type, reflect.TypeFor[md]()},
		{value(core, "pcn_shares"), reflect.TypeFor[share]()},
		{value(core, "pcn_control"), reflect.TypeFor[control]()},
	} {
		s, ok := btf.UnderlyingType(c.c).(*btf.Struct)
		if !ok || int(s.Size) != int(c.typ.Size()) || len(s.Members) != c.typ.NumField() {
			t.Errorf("%v is not %v", c.c, c.typ)
			continue
		}
		for i, m := range s.Members {
			size, err := btf.Sizeof(m.Type)
			f := c.typ.Field(i)
			if err != nil || int(m.Offset.Bytes()) != int(f.Offset) || size != int(f.Type.Size()) {
				t.Errorf("%s.%s is at %d with %d bytes, %s at %d with %d", s.Name, m.Name, m.Offset.Bytes(), size, f.Name, f.Offset, f.Type.Size())
			}
		}
	}
	if n := core.Maps["pcn_shares"].MaxEntries; n != maxCubes {
		t.Errorf("%d cubes, want %d", n, maxCubes)
	}
	if n := core.Maps["pcn_exits"].MaxEntries; n != maxCubes*maxPorts {
		t.Errorf("%d exits, want %d", n, maxCubes*maxPorts)
	}
}

func TestMessagesArriveAsTheyWereSent(t *testing.T) {
	for _, c := range []struct {
		kind    uint32
		message string
	}{{7, "five!"}, {0, ""}, {1<<32 - 1, string(frame(128))}} {
		r := fakeRing(1 << 16)
		rec := recordBytes(recordNotify, 2, []byte(c.message), set32(48, c.kind))
		r.put(uint32(len(rec)), rec)
		var got collector
		r.drain(&got)
		want := []event{{What: "notify", Cube: 2, Level: c.kind, Line: c.message}}
		if !reflect.DeepEqual(got.all(), want) || r.Stats() != (Stats{Notices: 1}) {
			t.Errorf("kind %d: %+v, %+v", c.kind, got.all(), r.Stats())
		}
	}
}
