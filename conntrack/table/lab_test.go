// SPDX-License-Identifier: Apache-2.0

package table

import (
	"bytes"
	_ "embed"
	"fmt"
	"runtime"
	"testing"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

var (
	//go:embed testdata/table.tc.o
	tableTC []byte
	//go:embed testdata/table.xdp.o
	tableXDP []byte
)

var objects = map[string][]byte{"TC": tableTC, "XDP": tableXDP}

// job is struct job: what the programs do, and how often which result came out.
type job struct {
	Next, Keys, Stride, Base uint64
	Found, Opened            uint64
	Refused                  [8]uint64 // by -enum pcn_conntrack_refusal
	Zone, Number             uint32
	Flow                     flow.Flow
	Key                      Key
	Side                     int64
}

// Refusals.
const (
	full = 1 + iota
	limit
	crowded
	busy
)

func TestTheStructsAreAlike(t *testing.T) {
	bpftest.InnerLayout(t, tableTC, entriesMap, Entry{})
	bpftest.InnerLayout(t, tableTC, linesMap, line{})
	bpftest.Layout(t, tableTC, takenMap, taken{})
	bpftest.Layout(t, tableTC, zonesMap, zone{})
	bpftest.Layout(t, tableTC, controlMap, control{})
	bpftest.Layout(t, tableTC, "jobs", job{})
	bpftest.Layout(t, packetTC, "verdicts", verdict{})
	bpftest.Layout(t, packetTC, embryosMap, Entry{})
	bpftest.InnerLayout(t, packetTC, countsMap, sides{})
	bpftest.Layout(t, packetTC, embryoRingMap, embryoRing{})
}

// lab is a table in the kernel with the programs that use it.
type lab struct {
	*Table
	t     testing.TB
	progs map[string]*ebpf.Program
	maps  map[string]*ebpf.Map
	specs map[string]*ebpf.MapSpec
	size  int
	job   *job
}

// newLab creates a table for a number of entries.
func newLab(t testing.TB, object []byte, entries uint32) *lab {
	t.Helper()
	l := load(t, object, entries)
	l.job = mappedOf[job](l, "jobs")
	return l
}

// load loads an object, and creates its table.
func load(t testing.TB, object []byte, entries uint32) *lab {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	return loadSpec(t, spec, entries)
}

// loadSpec does that for an object whose constants are set.
func loadSpec(t testing.TB, spec *ebpf.CollectionSpec, entries uint32) *lab {
	t.Helper()
	netns.NeedRoot(t)
	spec.Maps[embryosMap].MaxEntries = min(entries, 1<<14)
	spec.Maps[embryoLinesMap].MaxEntries = min(entries, 1<<14) / 8
	c, err := ebpf.NewCollection(spec)
	if err != nil {
		t.Fatalf("%+v", err)
	}
	t.Cleanup(c.Close)
	l := &lab{t: t, progs: c.Programs, maps: c.Maps, specs: spec.Maps, size: int(entries) - 1}
	l.open()
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// mappedOf maps the only element of a map into memory.
func mappedOf[T any](l *lab, name string) *T {
	l.t.Helper()
	var one T
	mem, err := unix.Mmap(l.maps[name].FD(), 0, int(unsafe.Sizeof(one)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = unix.Munmap(mem) })
	return (*T)(unsafe.Pointer(&mem[0]))
}

// open opens the table, as a new daemon does.
func (l *lab) open() {
	l.t.Helper()
	t, err := Open(l, l.size)
	if err != nil {
		l.t.Fatal(err)
	}
	l.Table = t
}

func (l *lab) Map(name string) (*ebpf.Map, error) {
	if m := l.maps[name]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("map %s: %w", name, cube.ErrNotFound)
}

func (l *lab) Inner(name string) (*ebpf.MapSpec, error) { return l.specs[name].InnerMap.Copy(), nil }

// run runs a program on the connections with the numbers from to to-1, and returns the results.
func (l *lab) run(program string, zone uint32, from, to uint64) job {
	l.t.Helper()
	*l.job = job{Base: from, Keys: to - from, Stride: 1, Zone: zone}
	l.repeat(program, int(to-from))
	return *l.job
}

// repeat runs a program some times.
func (l *lab) repeat(program string, times int) {
	l.t.Helper()
	for ; times > 0; times -= 10000 {
		var verdict uint32
		err := netns.Uninterrupted(func() (err error) { // else some may run twice
			verdict, err = l.progs[program].Run(&ebpf.RunOptions{Data: make([]byte, 64), Repeat: uint32(min(times, 10000))})
			return err
		})
		if err != nil || verdict != 0 {
			l.t.Fatalf("run %s: %d, %v", program, int32(verdict), err)
		}
	}
}

// remove removes connections.
func (l *lab) remove(selected func(*Entry) bool) int {
	l.t.Helper()
	n, err := l.Remove(selected)
	if err != nil {
		l.t.Fatal(err)
	}
	return n
}

func all(*Entry) bool  { return true }
func none(*Entry) bool { return false }

// check verifies what is always true while no program runs: each number is in one place, each open entry is found by its
// word, no key is open twice, and zones are counted. It returns the number of open entries.
func (l *lab) check() int {
	l.t.Helper()
	words := map[uint32]int{}
	lines, also := l.inUse()
	if also != 0 {
		l.t.Errorf("the lines are %#x and %#x, but the size does not change", lines, also)
	}
	for i := range lines&linesMask + 1 {
		for _, w := range l.lines[lines>>31].at(i).word {
			if w != 0 {
				words[w&(1<<numberBits-1)]++
			}
		}
	}
	places := map[uint32]int{}
	for at := l.control.head; at != l.control.tail; at++ {
		places[*l.ring.places.at(at & (l.ring.capacity() - 1))]++
	}
	for _, n := range l.ring.spare {
		places[n]++
	}
	var cpus []taken
	if err := l.ring.taken.Lookup(uint32(0), &cpus); err != nil {
		l.t.Fatal(err)
	}
	for _, cpu := range cpus {
		for _, n := range cpu.Number[takes-cpu.Left:] {
			places[n]++
		}
	}
	keys, counts := map[Key]int{}, map[uint16]int{}
	for n := uint32(1); int(n) < len(l.entries.elem)*partEntries; n++ {
		e := l.entry(n)
		want := 0
		switch e.Status {
		case open:
			want = 1
			counts[e.Key.Zone]++
			if keys[e.Key]++; keys[e.Key] > 1 {
				l.t.Errorf("%v is open twice", e.Key)
			}
		case ended:
			want = 1
		case tentative, outbid:
			l.t.Errorf("entry %d is in state %d, but no program runs", n, e.Status)
		}
		if words[n] != want {
			l.t.Errorf("entry %d in state %d has %d words, want %d", n, e.Status, words[n], want)
		}
		if e.Status != free {
			places[n]++
		}
		if places[n] != 1 && (int(n) <= l.Size() || places[n] > 1) {
			l.t.Errorf("number %d is in %d places, want 1", n, places[n])
		}
	}
	for zone := range l.zones {
		if got, want := l.Count(uint16(zone)), counts[uint16(zone)]; got != want {
			l.t.Errorf("zone %d has %d connections, counted are %d", zone, want, got)
		}
	}
	return len(keys)
}

// pin binds the calling goroutine to a CPU.
func pin(t testing.TB, cpu int) {
	runtime.LockOSThread()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
	}
}
