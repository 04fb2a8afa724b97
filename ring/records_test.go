// SPDX-License-Identifier: Apache-2.0

// Records that no honest program writes, in a ring in plain memory.

package ring

import (
	"encoding/binary"
	"errors"
	"testing"
	"time"
)

// fakeRing is a ring without a kernel. It is as long as what a test writes, so nothing wraps.
func fakeRing(size int) *Records {
	return Over(Memory{Consumer: new(uint64), Producer: new(uint64), Data: make([]byte, 2*size)})
}

// put appends a record with the head word given.
func (r *Records) put(head uint32, body []byte) {
	at := *r.Producer
	binary.NativeEndian.PutUint32(r.Data[at:], head)
	copy(r.Data[at+HeadSize:], body)
	*r.Producer += uint64(HeadSize+len(body)+7) &^ 7
}

func TestUnfinishedAndDiscardedRecords(t *testing.T) {
	rec := make([]byte, 60)
	n := uint32(len(rec))
	r := fakeRing(1 << 16)
	r.put(n|Discarded, rec)
	r.put(n, rec)
	r.put(n|Busy, rec)
	r.put(n, rec)
	delivered := 0
	deliver := func(b []byte) {
		if delivered++; len(b) != len(rec) {
			t.Errorf("a record of %d bytes", len(b))
		}
	}
	if took := r.Drain(deliver); took != 2 || delivered != 1 || r.Empty() {
		t.Errorf("took %d, delivered %d", took, delivered)
	}
	step := (*r.Producer) / 4
	if *r.Consumer != 2*step || r.Used() != 2*step {
		t.Errorf("released %d bytes, want %d", *r.Consumer, 2*step)
	}
	if err := r.Skip(time.Millisecond, deliver); err == nil {
		t.Error("skipping a record that is being written")
	}
	binary.NativeEndian.PutUint32(r.Data[2*step:], n)
	if took := r.Drain(deliver); took != 2 || delivered != 3 || !r.Empty() {
		t.Errorf("then took %d, delivered %d", took, delivered)
	}
}

func TestADamagedRingIsLeftBehind(t *testing.T) {
	rec := make([]byte, 60)
	for _, c := range []struct {
		name   string
		damage func(r *Records)
	}{
		{"a record beyond the end", func(r *Records) { binary.NativeEndian.PutUint32(r.Data, 1<<29) }},
		{"a reader ahead of the writers", func(r *Records) { r.next = *r.Producer + 8 }},
		{"a reader far behind", func(r *Records) { *r.Producer = r.size + 8 }},
	} {
		r := fakeRing(1 << 16)
		r.put(uint32(len(rec)), rec)
		c.damage(r)
		r.Drain(func([]byte) { t.Errorf("%s: a record was delivered", c.name) })
		if !r.Empty() || *r.Consumer != *r.Producer || r.Damaged() != 1 {
			t.Errorf("%s: %d, %d; damaged %d times", c.name, *r.Consumer, *r.Producer, r.Damaged())
		}
	}
}

func TestTheSpaceOfLongReadingIsReleasedInBetween(t *testing.T) {
	r := fakeRing(1 << 18)
	for range 200 {
		r.put(1000, make([]byte, 1000))
	}
	most := uint64(0)
	r.Drain(func([]byte) { most = max(most, r.next-*r.Consumer) })
	if most > publishEvery+2000 || *r.Consumer != *r.Producer {
		t.Errorf("%d bytes were read and not released, %d at the end", most, *r.Producer-*r.Consumer)
	}
}

func TestAReaderThatWasReplacedReleasesNothing(t *testing.T) {
	r := fakeRing(1 << 16)
	r.owner, r.token = new(uint64), 5
	*r.owner = 5
	r.put(8, make([]byte, 8))
	r.put(8, make([]byte, 8))
	r.Drain(func([]byte) { *r.owner = 6 })
	if *r.Consumer != 0 {
		t.Errorf("it released %d bytes of the other reader", *r.Consumer)
	}
	if err := r.Run(t.Context(), Handler{}); !errors.Is(err, ErrTaken) {
		t.Errorf("it continues: %v", err)
	}
}

func TestSizesThatNoRingHasAreRefused(t *testing.T) {
	for _, size := range []uint64{0, 1, 4095, 12288, 2 << 30, 1<<64 - 1} {
		if r, err := Map(-1, size, nil); err == nil {
			t.Errorf("%d bytes: %v", size, r.Close())
		}
	}
}

// record makes struct pcn_ring_record with a frame.
func record(frame []byte, change func(b []byte)) []byte {
	b := make([]byte, recordHead+len(frame))
	e := binary.NativeEndian
	e.PutUint32(b[8:], uint32(len(frame)))
	e.PutUint32(b[12:], uint32(len(frame)))
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
		{"a byte short of its head", record(nil, nil)[:recordHead-1]},
		{"more captured than there is", record(make([]byte, 60), set32(12, 61))},
		{"4 GB captured", record(make([]byte, 60), set32(12, 1<<32-1))},
		{"longer than any class", record(make([]byte, maxCapture+1), nil)},
		{"shorter than captured", record(make([]byte, 60), set32(8, 59))},
	} {
		r := &Reader{records: fakeRing(1 << 20), buf: make([]byte, maxCapture+vlanTag)}
		r.records.put(uint32(len(c.rec)), c.rec)
		good := record(make([]byte, 60), nil)
		r.records.put(uint32(len(good)), good)
		r.records.Drain(func(b []byte) {
			r.deliver(b, func(p *Packet) {
				if len(p.Data) != 60 {
					t.Errorf("%s: %+v", c.name, p)
				}
			})
		})
		if got, want := r.Stats(), (Stats{Packets: 1, Malformed: 1}); got != want {
			t.Errorf("%s: %+v, want %+v", c.name, got, want)
		}
	}
}

func FuzzPacket(f *testing.F) {
	f.Add(record(make([]byte, 60), nil))
	f.Add(record(make([]byte, 14), set32(16, flagVLAN<<16)))
	f.Fuzz(func(t *testing.T, b []byte) {
		var p Packet
		if p.decode(b, make([]byte, maxCapture+vlanTag)) == nil && (p.Length < len(p.Data) || len(p.Data) > len(b)) {
			t.Errorf("%+v", p)
		}
	})
}
