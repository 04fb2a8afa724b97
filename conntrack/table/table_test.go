// SPDX-License-Identifier: Apache-2.0

package table

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube/grace"
	"github.com/polycube/polycube/test/pace"
)

func TestConnectionsAreFoundUntilTheyEnd(t *testing.T) {
	for hook, object := range objects {
		t.Run(hook, func(t *testing.T) {
			l := newLab(t, object, 4096)
			if got := l.run("pass", 7, 0, 2000); got.Opened != 2000 || got.Found != 0 {
				t.Fatalf("%d of 2000 are opened, %d were there before: %v", got.Opened, got.Found, got.Refused)
			}
			if got := l.run("pass", 7, 0, 2000); got.Found != 2000 || got.Opened != 0 {
				t.Errorf("the second packets find %d of 2000 and open %d", got.Found, got.Opened)
			}
			if got := l.run("find", 8, 0, 2000); got.Found != 0 {
				t.Errorf("%d of another zone are found", got.Found)
			}
			again := l.run("open", 7, 100, 200)
			if again.Opened < 100 || again.Refused != [8]uint64{} { // a run that a signal interrupts is repeated
				t.Errorf("opening again returns %d of 100: %v", again.Opened, again.Refused)
			}
			if n := l.check(); n != 2000 {
				t.Errorf("%d connections are open, want 2000", n)
			}
			l.run("end", 7, 500, 1000)
			if got := l.run("find", 7, 0, 2000); got.Found != 1500 {
				t.Errorf("after 500 have ended, %d are found, want 1500", got.Found)
			}
			if got := l.run("pass", 7, 500, 600); got.Opened != 100 {
				t.Errorf("%d of 100 are opened again before the sweep: %v", got.Opened, got.Refused)
			}
			if n := l.remove(none); n != 500+int(again.Opened) {
				t.Errorf("the sweeper removes %d, want the 500 that ended and the %d that were there", n, again.Opened)
			}
			if n := l.check(); n != 1600 || l.Count(7) != 1600 {
				t.Errorf("%d connections are open, and zone 7 has %d, want 1600", n, l.Count(7))
			}
		})
	}
}

func TestAFullTableRefusesAndRecovers(t *testing.T) {
	l := newLab(t, tableXDP, 1<<14)
	for round := range uint64(3) {
		got := l.run("pass", 1, round<<20, round<<20+20000)
		// The CPUs keep up to 16 numbers each. A few keys find no place in their lines, although the table has room.
		least := uint64(l.Size()) - 15 - 16*15
		if got.Refused[crowded] > 20 || got.Opened < least-20 || got.Opened+got.Refused[full]+got.Refused[crowded] != 20000 {
			t.Fatalf("round %d: %d are opened, want at least %d, and the others refused as full: %v", round, got.Opened, least, got.Refused)
		}
		if n := l.check(); n != int(got.Opened) {
			t.Errorf("%d connections are open, want %d", n, got.Opened)
		}
		if n := l.remove(all); n != int(got.Opened) {
			t.Errorf("%d are removed, want %d", n, got.Opened)
		}
		if n := l.check(); n != 0 {
			t.Errorf("%d are open after all are removed", n)
		}
	}
}

// TestTwoFullLinesRefuse: with two lines, all keys have the same two places.
func TestTwoFullLinesRefuse(t *testing.T) {
	l := newLab(t, tableXDP, 256)
	l.control.lines = 1 // a mask: two lines
	if got := l.run("pass", 0, 0, 50); got.Opened != 30 || got.Refused[crowded] != 20 {
		t.Errorf("%d are opened, want 30: %v", got.Opened, got.Refused)
	}
	if got := l.run("find", 0, 0, 50); got.Found != 30 {
		t.Errorf("%d are found, want 30", got.Found)
	}
	if n := l.remove(all); n != 30 {
		t.Errorf("%d are removed, want 30", n)
	}
	if l.check() != 0 || l.lines[0].at(0).beyond != 0 || l.lines[0].at(1).beyond != 0 {
		t.Errorf("lines of an empty table: %v", l.lines[0].elem[0][:2])
	}
}

func TestAZoneHasAsManyConnectionsAsItMay(t *testing.T) {
	l := newLab(t, tableTC, 1024)
	l.Limit(5, 100)
	if got := l.run("pass", 5, 0, 150); got.Opened != 100 || got.Refused[limit] != 50 {
		t.Errorf("%d are opened, want 100: %v", got.Opened, got.Refused)
	}
	if got := l.run("pass", 6, 0, 150); got.Opened != 150 {
		t.Errorf("%d of another zone are opened, want 150: %v", got.Opened, got.Refused)
	}
	if n := l.remove(func(e *Entry) bool { return e.Key.Zone == 5 && e.User[0]&0x100 != 0 }); n == 0 || l.Count(5) != 100-n {
		t.Errorf("after %d are removed, the zone has %d", n, l.Count(5))
	}
	l.Limit(5, 0)
	if got := l.run("pass", 5, 0, 150); got.Opened+got.Found != 150 {
		t.Errorf("without a limit, %d are opened and %d found, want 150 together: %v", got.Opened, got.Found, got.Refused)
	}
	l.check()
}

func TestIdleConnectionsExpireByTheirState(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	for zone := range uint32(3) {
		l.run("pass", zone, 0, 100)
	}
	const timeout = 30 * time.Second
	limits := map[uint16]*conntrack.Timeouts{1: {conntrack.UDP: timeout}, 2: {conntrack.UDP: time.Hour, conntrack.UDPStream: timeout}}
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{timeout / 2, 0}, {timeout * 2, 100}, {2 * time.Hour, 100}, {200 * time.Hour, 0}} {
		if n := l.remove(expired(monotonic()+c.after, limits)); n != c.want {
			t.Errorf("%d expire after %v, want %d", n, c.after, c.want)
		}
	}
	if n := l.check(); n != 100 || l.Count(0) != 100 {
		t.Errorf("%d are open, want the 100 of the zone without timeouts", n)
	}
}

func TestOneSweepIsForAllUsers(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 1, 0, 100)
	l.SetTimeouts(1, conntrack.Timeouts{conntrack.UDP: time.Nanosecond})
	l.SetTimeouts(2, conntrack.DefaultTimeouts)
	sweep := func(interval time.Duration, want int) {
		t.Helper()
		if n, err := l.Sweep(interval); n != want || err != nil {
			t.Errorf("%d are removed, %v, want %d", n, err, want)
		}
	}
	deadline := time.Now().Add(pace.Stretch(10 * time.Second))
	for n := 0; n < 100; { // the clock of programs ticks every few milliseconds
		m, err := l.Sweep(0)
		if n += m; err != nil || time.Now().After(deadline) {
			t.Fatalf("%d of 100 are removed, %v", n, err)
		}
	}
	l.run("pass", 1, 0, 100)
	l.run("end", 1, 0, 100)
	sweep(time.Hour, 0) // somebody has just done that
	sweep(0, 100)
	l.run("pass", 2, 0, 100)
	sweep(0, 0)
}

func TestEntriesHaveTheGenerationOfTheirZone(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	for generation := range uint32(3) {
		l.run("pass", 9, uint64(generation), uint64(generation)+1)
		if got := l.entry(l.job.Number).Generation; got != generation || l.Generation(9) != generation || l.Generation(8) != 0 {
			t.Errorf("the entry has generation %d, the zone %d, want %d", got, l.Generation(9), generation)
		}
		l.NextGeneration(9)
	}
}

// TestPagesShowEachConnectionOnce: those that exist all the time, while others come and go between the pages.
func TestPagesShowEachConnectionOnce(t *testing.T) {
	l := newLab(t, tableXDP, 4096)
	l.run("pass", 1, 0, 1000)
	l.run("pass", 2, 0, 500)
	seen, extra := map[Key]int{}, uint64(1000)
	for cursor, pages := uint32(0), 0; ; pages++ {
		var page []Entry
		page, cursor = l.Page(cursor, 64, func(e *Entry) bool { return e.Key.Zone == 1 })
		for _, e := range page {
			seen[e.Key]++
		}
		if cursor == 0 {
			break
		}
		if len(page) != 64 || pages > 100 {
			t.Fatalf("page %d has %d connections, want 64", pages, len(page))
		}
		l.remove(func(e *Entry) bool { return e.Key.Zone == 2 })
		l.run("pass", 2, extra, extra+200)
		extra += 200
	}
	for k, n := range seen {
		if n != 1 || k.Zone != 1 {
			t.Errorf("%v is shown %d times", k, n)
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d are shown, want 1000", len(seen))
	}
}

// TestRetiredConnectionsOpenAgain if they are used, and no other has their key.
func TestRetiredConnectionsOpenAgain(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 4, 0, 9)
	numbers := l.numbers()
	var keys []Key
	for k := range numbers {
		keys = append(keys, k)
	}
	err := l.Retire(keys, func(e *Entry) bool {
		if e.Key == keys[0] {
			l.run("pass", 4, 0, 9) // opens the first, and others that were not yet opened again
		}
		return e.Key == keys[0] || e.Key == keys[2]
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := l.check(); n != 9 || l.Count(4) != 9 {
		t.Errorf("%d connections are open, and counted are %d, want 9", n, l.Count(4))
	}
	if now := l.numbers(); now[keys[0]] == numbers[keys[0]] {
		t.Error("a connection that programs have opened is open twice, or the wrong one is")
	}
	if err := l.Retire(keys[2:3], func(*Entry) bool { return true }); err != nil || l.Count(4) != 9 {
		t.Errorf("a connection that is used ends: %v", err)
	}
	if !l.End(keys[2]) || l.End(keys[2]) || l.Count(4) != 8 {
		t.Error("ending one twice")
	}
	if got := l.run("find", 4, 0, 9); got.Found != 8 {
		t.Errorf("%d are found, want 8", got.Found)
	}
	l.check()
}

// TestConnectionsFromElsewhere: they are found, and each is there once.
func TestConnectionsFromElsewhere(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 4, 0, 100)
	var all []Entry
	for cursor := uint32(0); len(all) < 100; {
		var page []Entry
		page, cursor = l.Page(cursor, 30, nil)
		all = append(all, page...)
	}
	l.remove(func(e *Entry) bool { return e.User[0]&0x100 != 0 })
	left := l.Count(4)
	added := 0
	for i := range all {
		ok, err := l.Add(&all[i])
		if err != nil {
			t.Fatal(err)
		}
		if ok {
			added++
		}
	}
	if added != 100-left || l.Count(4) != 100 || l.check() != 100 {
		t.Errorf("%d are added to %d, and counted are %d, want 100 together", added, left, l.Count(4))
	}
	if e, ok := l.Find(all[7].Key); !ok || e != all[7] {
		t.Errorf("%+v is found, want %+v", e, all[7])
	}
	if got := l.run("find", 4, 0, 100); got.Found != 100 {
		t.Errorf("%d are found, want 100", got.Found)
	}
}

// TestAConnectionThatIsUsedWhileItIsRemovedStays, unless a program has opened another one with its key.
func TestAConnectionThatIsUsedWhileItIsRemovedStays(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 3, 0, 100)
	asked := 0
	n, _, err := l.RemoveSome(0, all, func(e *Entry) bool {
		asked++
		if _, ok := l.Find(e.Key); ok {
			t.Error("a connection that has ended is found")
		}
		return asked%2 == 0
	})
	if err != nil || n != 50 || asked != 100 || l.Count(3) != 50 || l.check() != 50 {
		t.Errorf("%d of %d are removed, %d remain, %v; want half of 100", n, asked, l.Count(3), err)
	}
	if got := l.run("pass", 3, 0, 100); got.Found != 50 || got.Opened != 50 {
		t.Errorf("%d are found and %d opened again, want 50 each", got.Found, got.Opened)
	}
	var others uint64
	n, _, err = l.RemoveSome(0, all, func(*Entry) bool {
		if others == 0 {
			others = l.run("pass", 3, 0, 100).Opened
		}
		return false
	})
	if err != nil || n != 1 || others != 1 || l.Count(3) != 100 || l.check() != 100 {
		t.Errorf("%d are removed, programs have opened %d, %d remain, %v; want one, one and 100", n, others, l.Count(3), err)
	}
}

// TestANewProcessFindsTheTable, and what an earlier one left half done when it was killed.
func TestANewProcessFindsTheTable(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 3, 0, 300)
	seed := l.control.seed
	gone := 0
	for n := uint32(50); n < 90; n++ { // killed in its sweep: they are unlinked, some of them free, but not given back
		if l.unlink(n, all, nil) == open {
			gone++
		}
	}
	for n := uint32(50); n < 60; n++ {
		if e := l.entry(n); e.Status == ended {
			e.Status = free
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.open()
	if l.control.seed != seed {
		t.Error("the hash is another one")
	}
	l.remove(none)
	if n := l.check(); gone == 0 || n != 300-gone {
		t.Errorf("%d connections remain, want 300 less the %d that were removed", n, gone)
	}
	if got := l.run("pass", 3, 0, 300); got.Found != uint64(300-gone) || got.Opened != uint64(gone) {
		t.Errorf("%d are found and %d opened again, want %d and %d", got.Found, got.Opened, 300-gone, gone)
	}
	l.check()
}

func TestATableIsOpenedOnce(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	first := l.Table
	l.open()
	if l.Table != first {
		t.Error("the second user has another table")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if got := l.run("pass", 1, 0, 10); got.Opened != 10 || l.remove(all) != 10 {
		t.Errorf("after one of two users has left: %v", got)
	}
}

// TestCPUsOpenTheSameConnections while a sweeper removes some of them, another goroutine lists them, and processes come
// and go: none is opened twice, and no number is lost.
func TestCPUsOpenTheSameConnections(t *testing.T) {
	l := newLab(t, tableXDP, 1<<13)
	*l.job = job{Keys: 3000, Stride: 1}
	var stop atomic.Bool
	var wg sync.WaitGroup
	work := func(f func()) {
		wg.Go(func() {
			for !stop.Load() && !t.Failed() {
				f()
			}
		})
	}
	for cpu := range 2 {
		wg.Go(func() {
			pin(t, cpu) // ends with the thread
			for !stop.Load() && !t.Failed() {
				// Both get each number, so they open the same at about the same time.
				l.repeat("together", 2000)
			}
		})
	}
	removed, round := 0, uint64(0)
	work(func() {
		round++
		removed += l.remove(func(e *Entry) bool { return mix(e.User[0]+round<<32)&3 == 0 })
	})
	listed := 0
	work(func() {
		page, _ := l.Page(uint32(listed)%4096, 100, nil)
		for i := range page {
			if page[i].User[0] != uint64(page[i].Key.Port[0][0])|uint64(page[i].Key.Port[0][1])<<8 {
				t.Errorf("%v has the data of another connection", page[i].Key)
			}
		}
		listed++
	})
	work(func() {
		other, err := Open(l, l.size)
		if err != nil {
			t.Error(err)
			return
		}
		_ = other.Close()
	})
	end := time.Now().Add(pace.Stretch(3 * time.Second))
	for time.Now().Before(end) && !t.Failed() {
		if err := grace.Wait(); err != nil {
			t.Error(err)
		}
	}
	stop.Store(true)
	wg.Wait()
	l.check()
	l.remove(none)
	n := l.check()
	t.Logf("%d operations, %d opened, %v refused; %d removed, %d open", l.job.Next, l.job.Opened, l.job.Refused, removed, n)
	if removed == 0 || l.job.Opened == 0 || l.job.Refused[full] != 0 {
		t.Errorf("%d removed, %d opened, refused %v", removed, l.job.Opened, l.job.Refused)
	}
}
