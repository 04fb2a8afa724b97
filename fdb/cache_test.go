// SPDX-License-Identifier: Apache-2.0

package fdb

import (
	"bytes"
	_ "embed"
	"encoding/binary"
	"fmt"
	"math/bits"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

var (
	//go:embed testdata/stations.tc.o
	stationsTC []byte
	//go:embed testdata/stations.xdp.o
	stationsXDP []byte
)

// learner is the programs' side of a database: what pcn_fdb_learn and pcn_fdb_find do.
type learner struct {
	t           *testing.T
	learn, find *ebpf.Program
	table       table.Table[inet.MAC, Entry]
	cache       Cache
	slots       table.Table[uint32, cacheSet]
}

// What another CPU does while a station is looked up: enum stations_event of the programs.
const (
	nothing uint32 = iota
	move
	flush
)

// eachHook runs a test with the programs of both hooks, and a cache for some entries.
func eachHook(t *testing.T, limit time.Duration, room uint32, test func(l *learner)) {
	eachHookWhile(t, nothing, limit, room, test)
}

func eachHookWhile(t *testing.T, event uint32, limit time.Duration, room uint32, test func(l *learner)) {
	netns.NeedRoot(t)
	for hook, object := range map[string][]byte{"tc": stationsTC, "xdp": stationsXDP} {
		t.Run(hook, func(t *testing.T) {
			spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range Constants(limit, room) {
				if err := spec.Variables[name].Set(value); err != nil {
					t.Fatal(err)
				}
			}
			if err := spec.Variables["event"].Set(event); err != nil {
				t.Fatal(err)
			}
			spec.Maps[cacheMap].MaxEntries = MapSizes(room)[cacheMap]
			coll, err := ebpf.NewCollection(spec)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(coll.Close)
			l := &learner{t: t, learn: coll.Programs["learn"], find: coll.Programs["find"]}
			entries, err := table.Of[inet.MAC, Entry]("fdb", coll.Maps["fdb"])
			if err != nil {
				t.Fatal(err)
			}
			l.table = entries
			if l.cache, err = CacheOf(coll.Maps[cacheMap]); err != nil {
				t.Fatal(err)
			}
			l.slots = l.cache.table
			test(l)
		})
	}
}

// run runs a program for a station and a port, and returns its result.
func (l *learner) run(p *ebpf.Program, k inet.MAC, port uint16, times uint32) int32 {
	frame := make([]byte, 60)
	binary.LittleEndian.PutUint16(frame[14:], port)
	binary.LittleEndian.PutUint64(frame[16:], uint64(k))
	verdict, err := p.Run(&ebpf.RunOptions{Data: frame, Repeat: times})
	if err != nil {
		l.t.Error(err)
	}
	return int32(verdict)
}

func (l *learner) learns(k inet.MAC, port uint16, want int32) {
	l.t.Helper()
	if got := l.run(l.learn, k, port, 1); got != want {
		l.t.Errorf("learning %s on port %d: %d, want %d", k, port, got, want)
	}
}

func (l *learner) finds(what string, k inet.MAC, want int32) {
	l.t.Helper()
	if got := l.run(l.find, k, 0, 1); got != want {
		l.t.Errorf("%s: %s is on port %d, want %d", what, k, got, want)
	}
}

// write writes an entry, or removes it, as the control plane does.
func (l *learner) write(k inet.MAC, e *Entry) {
	l.t.Helper()
	var err error
	if e == nil {
		_, err = l.table.Delete(k)
	} else {
		err = l.table.Set(k, *e)
	}
	if err == nil {
		err = l.cache.EndLeases()
	}
	if err != nil {
		l.t.Error(err)
	}
}

func (l *learner) now() uint64 {
	now, err := cube.TimeCoarse()
	if err != nil {
		l.t.Error(err)
	}
	return now
}

// seen is when the entry of a station became young.
func (l *learner) seen(k inet.MAC) uint64 {
	l.t.Helper()
	e, ok, err := l.table.Get(k)
	if !ok || err != nil {
		l.t.Fatalf("entry %s: there %v, error %v", k, ok, err)
	}
	return e.Seen
}

// leased are the keys in the cache, whether their leases have ended or not.
func (l *learner) leased() (keys []inet.MAC) {
	l.t.Helper()
	var err error
	for i, set := range l.slots.All(&err) {
		for _, s := range set.Way {
			if i > 0 && s.Lease != 0 {
				keys = append(keys, inet.MAC(s.Check^s.Lease))
			}
		}
	}
	if err != nil {
		l.t.Fatal(err)
	}
	return keys
}

// setOf is pcn_fdb_set of the programs.
func setOf(k inet.MAC, room uint32) uint32 {
	h := uint64(k) * 0x9e3779b97f4a7c15
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15
	return uint32(h>>32) >> (32 - bits.TrailingZeros32(sets(room)))
}

// end is the jiffy when the lease of a station ends.
func (l *learner) end(k inet.MAC) int64 {
	l.t.Helper()
	set, _, err := l.slots.Get(setOf(k, 64) + 1)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, s := range set.Way {
		if s.Check^s.Lease == uint64(k) {
			return int64(s.Lease << 16 >> (16 + 11))
		}
	}
	l.t.Fatalf("%s has no lease", k)
	return 0
}

func TestALeaseReplacesTheTableUntilItEnds(t *testing.T) {
	eachHook(t, time.Minute, 64, func(l *learner) {
		l.learns(1, 3, 0)
		start := time.Now()
		l.finds("in the table", 1, 3)
		if _, err := l.table.Delete(1); err != nil { // behind the back of the cache
			l.t.Fatal(err)
		}
		l.finds("leased", 1, 3)
		netns.Eventually(l.t, pace.Stretch(10*time.Second), func() error {
			if got := l.run(l.find, 1, 0, 1); got != -1 {
				return fmt.Errorf("port %d after %v", got, time.Since(start))
			}
			return nil
		})
		if took := time.Since(start); took < 900*time.Millisecond {
			l.t.Errorf("the lease ended after %v, want a second", took)
		}
		l.learns(1, 4, 0)
		l.finds("again", 1, 4)
		l.write(1, nil)
		l.finds("deleted by the control plane", 1, -1)
	})
}

func TestNoLeaseOutlivesItsEntry(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		const left = 500 * time.Millisecond
		var start time.Time
		netns.Eventually(l.t, pace.Stretch(10*time.Second), func() error {
			l.write(2, &Entry{Seen: l.now(), Port: 4})
			l.finds("a young one", 2, 4)
			start = time.Now()
			l.write(1, &Entry{Seen: l.now() - uint64(time.Hour-left), Port: 3})
			l.finds("a young one", 2, 4)
			if got := l.run(l.find, 1, 0, 1); got != 3 {
				return fmt.Errorf("it expired before the lookup: %d", got)
			}
			return nil
		})
		if young, old := l.end(2), l.end(1); young-old < int64((time.Second-left-20*time.Millisecond)/time.Duration(tick())) {
			l.t.Errorf("leases end at %d and %d, want a difference of half a second", young, old)
		}
		netns.Eventually(l.t, pace.Stretch(10*time.Second), func() error {
			if got := l.run(l.find, 1, 0, 1); got != -1 {
				return fmt.Errorf("port %d after %v", got, time.Since(start))
			}
			return nil
		})
		if took := time.Since(start); took < left-30*time.Millisecond {
			l.t.Errorf("it expired after %v, want %v", took, left)
		}
	})
}

func TestAStationThatWasSilentBecomesYoung(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		old := l.now() - uint64(time.Minute)
		l.write(1, &Entry{Seen: old, Port: 3})
		l.finds("a lease for frames to it", 1, 3)
		if len(l.leased()) != 1 {
			l.t.Errorf("leases of %v, want of one station", l.leased())
		}
		l.learns(1, 3, 0)
		young := l.seen(1)
		if young-old < uint64(50*time.Second) {
			l.t.Error("its frame left the entry old")
		}
		l.learns(1, 3, 0)
		if l.seen(1) != young {
			l.t.Error("another frame wrote to the table")
		}
	})
}

func TestAMoveIsSeenAtOnce(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		l.learns(1, 3, 0)
		l.finds("where it was learned", 1, 3)
		l.learns(1, 4, 2)
		l.finds("where it moved to", 1, 4)
		l.write(1, &Entry{Port: 5, Fixed: 1})
		l.finds("where it is configured", 1, 5)
		l.learns(1, 4, 0)
		l.finds("and stays", 1, 5)
		l.learns(1, 5, 0)
		l.finds("configured", 1, 5)
		l.write(1, &Entry{Seen: l.now() - uint64(2*time.Hour), Port: 6})
		l.learns(1, 7, 0) // an expired entry does not move
		l.finds("learned again", 1, 7)
	})
}

func TestAFullTableIsReported(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		for k := range inet.MAC(64) {
			l.learns(k, 1, 0)
		}
		l.learns(100, 1, 1)
		l.finds("not learned", 100, -1)
		l.learns(5, 1, 0)
	})
}

func TestStationsShareASet(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		var crowd []inet.MAC
		for k := inet.MAC(1); len(crowd) < 4; k++ {
			if setOf(k, 64) == 7 {
				crowd = append(crowd, k)
			}
		}
		for range 3 {
			for i, k := range crowd {
				l.learns(k, uint16(i), 0)
			}
			for i, k := range crowd {
				l.finds("of four", k, int32(i))
			}
		}
		first := l.leased()
		if want := crowd[:2]; fmt.Sprint(first) != fmt.Sprint(want) {
			l.t.Errorf("leases of %v, want of %v, which came first", first, want)
		}
		for i, k := range crowd {
			l.learns(k, uint16(i+10), 2)
			l.finds("moved", k, int32(i+10))
		}
		if err := l.cache.EndLeases(); err != nil {
			l.t.Fatal(err)
		}
		l.finds("the last comes first", crowd[3], 13)
		l.finds("then another", crowd[2], 12)
		if now, want := l.leased(), []inet.MAC{crowd[3], crowd[2]}; fmt.Sprint(now) != fmt.Sprint(want) {
			l.t.Errorf("leases of %v, want of %v: those that have ended make room", now, want)
		}
	})
}

func TestAPortBeyondALeaseIsFound(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		l.write(1, &Entry{Port: 1024, Fixed: 1})
		l.finds("a port of eleven bits", 1, 1024)
		l.finds("and again", 1, 1024)
		l.write(1, &Entry{Port: 1023, Fixed: 1})
		l.finds("one of ten", 1, 1023)
		if len(l.leased()) != 1 {
			l.t.Errorf("leases of %v, want of one station", l.leased())
		}
	})
}

// meanwhile looks a station up on another thread, all the time, until the returned function is called. The number of
// lookups grows while it does.
func (l *learner) meanwhile(k inet.MAC) (lookups *atomic.Int64, end func()) {
	var stop atomic.Bool
	lookups = new(atomic.Int64)
	var wg sync.WaitGroup
	wg.Go(func() {
		for !stop.Load() && !l.t.Failed() {
			l.run(l.find, k, 0, 50)
			lookups.Add(50)
		}
	})
	return lookups, func() { stop.Store(true); wg.Wait() }
}

func TestAFlushAndARefillDoNotRace(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		lookups, end := l.meanwhile(1)
		defer end()
		for round := range 500 {
			l.write(1, &Entry{Seen: l.now(), Port: 3})
			for n := lookups.Load(); round%10 == 0 && lookups.Load() == n && !l.t.Failed(); {
				l.finds("before the flush", 1, 3)
			}
			l.write(1, nil)
			l.finds("flushed", 1, -1)
			if l.t.Failed() {
				l.t.Fatalf("in round %d", round)
			}
		}
	})
}

func TestAMoveDuringALookup(t *testing.T) {
	eachHookWhile(t, move, time.Hour, 64, func(l *learner) {
		l.write(1, &Entry{Seen: l.now(), Port: 3})
		l.finds("before the move", 1, 3)
		l.finds("after it", 1, 9)
	})
}

func TestAFlushDuringALookup(t *testing.T) {
	eachHookWhile(t, flush, time.Hour, 64, func(l *learner) {
		l.write(1, &Entry{Seen: l.now(), Port: 3})
		l.finds("before the flush", 1, 3)
		l.finds("after it", 1, -1)
	})
}

func TestAMoveAndARefillDoNotRace(t *testing.T) {
	eachHook(t, time.Hour, 64, func(l *learner) {
		_, end := l.meanwhile(1)
		defer end()
		l.learns(1, 1, 0)
		for round := range 1500 {
			port := uint16(2 + round%2)
			if err := l.cache.EndLeases(); err != nil {
				l.t.Fatal(err)
			}
			l.learns(1, port, 2)
			l.finds("moved", 1, int32(port))
			if l.t.Failed() {
				l.t.Fatalf("in round %d", round)
			}
		}
	})
}
