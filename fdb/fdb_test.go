// SPDX-License-Identifier: Apache-2.0

package fdb

import (
	"errors"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/netns"
)

func TestAges(t *testing.T) {
	now := uint64(time.Hour)
	for _, tt := range []struct {
		name  string
		e     Entry
		aging time.Duration
		want  bool
	}{
		{"just seen", Entry{Seen: now}, time.Second, false},
		{"as old as may be", Entry{Seen: now - uint64(time.Second)}, time.Second, false},
		{"older", Entry{Seen: now - uint64(time.Second) - 1}, time.Second, true},
		{"older, but nothing ages", Entry{}, 0, false},
		{"configured", Entry{Fixed: 1}, time.Second, false},
		{"seen later, by another clock tick", Entry{Seen: now + 1}, time.Second, false},
	} {
		if got := tt.e.Aged(now, tt.aging); got != tt.want {
			t.Errorf("%s: aged is %v", tt.name, got)
		}
	}
}

// database is one with a map for `room` entries, without a cube. Ports below 8 are there.
func database(t *testing.T, room uint32) *Database[inet.MAC] {
	t.Helper()
	netns.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Hash, KeySize: 8, ValueSize: 16, MaxEntries: room})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	d := New(nil, func(_ inet.MAC, e Entry) bool { return e.Port < 8 })
	if d.table, err = table.Of[inet.MAC, Entry]("fdb", m); err != nil {
		t.Fatal(err)
	}
	cache, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 32, MaxEntries: 3})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cache.Close() })
	if d.cache, err = CacheOf(cache); err != nil {
		t.Fatal(err)
	}
	d.room = int(room)
	return d
}

// is compares the contents of the map.
func is(t *testing.T, d *Database[inet.MAC], what string, want map[inet.MAC]Entry) {
	t.Helper()
	got := map[inet.MAC]Entry{}
	var err error
	for a, e := range d.table.All(&err) {
		got[a] = e
	}
	if err != nil {
		t.Fatal(err)
	}
	for a, e := range got {
		if w, ok := want[a]; !ok || w.Port != e.Port || w.Fixed != e.Fixed {
			t.Errorf("%s: %s is %+v, want %+v", what, a, e, w)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: the map holds %v, want %v", what, got, want)
	}
}

func TestEditsAreTakenBack(t *testing.T) {
	d := database(t, 8)
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	begin := map[inet.MAC]Entry{1: {Seen: now, Port: 1}, 3: {Seen: now, Port: 2}}
	for a, e := range begin {
		if err := d.set(a, e); err != nil {
			t.Fatal(err)
		}
	}
	e := &cube.Undo{}
	for i, err := range []error{
		d.put(e, 1, Entry{Port: 2, Fixed: 1}), d.put(e, 2, Entry{Port: 1, Fixed: 1}),
		d.remove(e, 1), d.remove(e, 9),
		d.Forget(e, func(inet.MAC, Entry) bool { return true }),
	} {
		if err != nil {
			t.Fatalf("edit %d: %v", i, err)
		}
	}
	is(t, d, "edited", map[inet.MAC]Entry{2: {Port: 1, Fixed: 1}})
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	is(t, d, "taken back", begin)
	for i, err := range []error{d.put(nil, 5, Entry{Fixed: 1}), d.Forget(nil, func(a inet.MAC, _ Entry) bool { return a == 1 })} {
		if err != nil {
			t.Fatalf("without an edit, %d: %v", i, err)
		}
	}
	is(t, d, "for good", map[inet.MAC]Entry{3: {Port: 2}, 5: {Fixed: 1}})
}

func TestAConfiguredEntryTakesThePlaceOfTheOldest(t *testing.T) {
	d := database(t, 3)
	for a, seen := range map[inet.MAC]uint64{1: 30, 2: 1<<64 - 10 /* before the machine booted */, 3: 20} {
		if err := d.set(a, Entry{Seen: seen}); err != nil {
			t.Fatal(err)
		}
	}
	for _, a := range []inet.MAC{7, 8, 9} {
		if err := d.put(nil, a, Entry{Fixed: 1, Port: 1}); err != nil {
			t.Fatal(err)
		}
		if a == 7 {
			is(t, d, "the first", map[inet.MAC]Entry{1: {}, 3: {}, 7: {Fixed: 1, Port: 1}})
		}
	}
	if err := d.put(nil, 10, Entry{Fixed: 1}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a fourth: %v", err)
	}
	is(t, d, "in the end", map[inet.MAC]Entry{7: {Fixed: 1, Port: 1}, 8: {Fixed: 1, Port: 1}, 9: {Fixed: 1, Port: 1}})
	d.static = map[inet.MAC]uint16{7: 1, 8: 1, 9: 1}
	_, err := Prepare(d, Change{Room: 2}, func(*struct{}) (inet.MAC, string) { return 0, "" })
	if !errors.Is(err, cube.ErrFull) {
		t.Errorf("room for two where three are configured: %v", err)
	}
}

func TestASweepMendsTheTable(t *testing.T) {
	d := database(t, 8)
	d.aging, d.static = time.Minute, map[inet.MAC]uint16{1: 1, 2: 2, 3: 3}
	now, err := cube.TimeCoarse()
	if err != nil {
		t.Fatal(err)
	}
	for a, e := range map[inet.MAC]Entry{
		1: {Seen: now, Port: 1, Fixed: 1}, // right; 3 is missing
		2: {Seen: now, Port: 0},           // a frame was faster
		4: {Seen: now, Port: 4, Fixed: 1}, // not configured
		5: {Seen: now, Port: 8},           // its port is gone
		6: {Seen: now - uint64(2*time.Minute), Port: 1},
		7: {Seen: now, Port: 7},
	} {
		if err := d.set(a, e); err != nil {
			t.Fatal(err)
		}
	}
	learned := map[inet.MAC]Entry{}
	for a, e := range d.AllLearned(&err) {
		learned[a] = e
	}
	if len(learned) != 1 || learned[7].Port != 7 || err != nil {
		t.Errorf("before: %v was learned (%v)", learned, err)
	}
	if err := d.sweep(); err != nil {
		t.Fatal(err)
	}
	is(t, d, "swept", map[inet.MAC]Entry{1: {Port: 1, Fixed: 1}, 2: {Port: 2, Fixed: 1}, 3: {Port: 3, Fixed: 1}, 7: {Port: 7}})
	for a, want := range map[inet.MAC]bool{7: true, 1: false, 6: false} {
		if _, ok, err := d.Learned(a); ok != want || err != nil {
			t.Errorf("%s: learned is %v (%v)", a, ok, err)
		}
	}
}
