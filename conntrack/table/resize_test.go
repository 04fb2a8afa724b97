// SPDX-License-Identifier: Apache-2.0

package table

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/cube"
)

// resize changes the size of the table.
func (l *lab) resize(size int) {
	l.t.Helper()
	if err := l.Resize(size); err != nil {
		l.t.Fatal(err)
	}
	if l.Size() != size {
		l.t.Errorf("the size is %d, want %d", l.Size(), size)
	}
}

// numbers are the numbers of the open connections, by key.
func (l *lab) numbers() map[Key]uint32 {
	all := map[Key]uint32{}
	for n := uint32(1); l.entry(n) != nil; n++ {
		if e := l.entry(n); e.Status == open {
			all[e.Key] = n
		}
	}
	return all
}

// TestConnectionsKeepTheirNumbers when the table grows, and there is room for more.
func TestConnectionsKeepTheirNumbers(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 1, 0, 700)
	l.run("end", 1, 100, 200)
	before := l.numbers()
	lines, _ := l.inUse()
	for _, size := range []int{1023, 1500, 100_000, 70_000, 200_000} {
		l.resize(size)
		if n := l.check(); n != 600 {
			t.Fatalf("with a size of %d, %d are open, want 600", size, n)
		}
		for k, n := range l.numbers() {
			if before[k] != n {
				t.Fatalf("with a size of %d, %v has the number %d, and had %d", size, k, n, before[k])
			}
		}
		if got := l.run("find", 1, 0, 700); got.Found != 600 {
			t.Errorf("with a size of %d, %d are found, want 600", size, got.Found)
		}
	}
	if now, _ := l.inUse(); now == lines {
		t.Errorf("the lines are %#x, and were that for the smallest size", now)
	}
	l.remove(none)
	most := uint64(200_000 - 600 - 15 - 2*16*15)
	if got := l.run("pass", 2, 0, 200_000); got.Opened < most-100 {
		t.Errorf("%d are opened where there is room for %d: %v", got.Opened, most, got.Refused)
	}
	l.check()
}

// TestASmallerTableKeepsConnectionsBeyondItsSize until they end, and their memory is free then.
func TestASmallerTableKeepsConnectionsBeyondItsSize(t *testing.T) {
	l := newLab(t, tableTC, 4*partEntries)
	const many = 3*partEntries - 1000
	opened := l.run("pass", 1, 0, many)
	l.resize(1000)
	if got := l.run("find", 1, 0, many); got.Found != opened.Opened || len(l.entries.elem) != 3 {
		t.Errorf("%d connections are found in %d parts, want all of %d in 3", got.Found, len(l.entries.elem), opened.Opened)
	}
	if opened.Opened < many-10 { // some lines of the index, which nobody can foresee, may be full
		t.Errorf("%d of %d connections are opened: %v", opened.Opened, many, opened.Refused)
	}
	if got := l.run("pass", 2, 0, 1000); got.Opened > 16*16 {
		t.Errorf("%d are opened in a table that has more than its size", got.Opened)
	}
	l.check()
	for cpu := range runtime.NumCPU() { // uses the numbers that it keeps
		var wg sync.WaitGroup
		wg.Go(func() {
			pin(t, cpu)
			l.run("pass", 2, uint64(1000+100*cpu), uint64(1016+100*cpu))
		})
		wg.Wait()
	}
	for _, c := range []struct {
		parts    int
		selected func(n uint32) bool
	}{
		{3, func(n uint32) bool { return n < 2*partEntries }},
		{1, func(n uint32) bool { return n > partEntries }},
	} {
		l.run("pass", 1, 0, 500)
		numbers := l.numbers()
		l.remove(func(e *Entry) bool { return e.Key.Zone == 2 || c.selected(numbers[e.Key]) })
		if len(l.entries.elem) != c.parts {
			t.Errorf("there are %d parts of memory, want %d", len(l.entries.elem), c.parts)
		}
	}
	left := l.check()
	if got := l.run("find", 1, 0, many); int(got.Found) != left || left == 0 {
		t.Errorf("%d are found, want %d", got.Found, left)
	}
	l.resize(3 * partEntries)
	if got := l.run("pass", 1, 0, 2*partEntries); got.Opened+got.Found < 2*partEntries-100 {
		t.Errorf("in the table that has grown again, %d are opened and %d found of %d: %v", got.Opened, got.Found, 2*partEntries, got.Refused)
	}
	l.check()
}

func TestSizesThatAreRefused(t *testing.T) {
	l := newLab(t, tableXDP, 1024)
	l.run("pass", 1, 0, 100)
	for _, size := range []int{-1, 0, minSize - 1, 512 * partEntries} {
		if err := l.Resize(size); !errors.Is(err, cube.ErrInvalid) || l.Size() != 1023 {
			t.Errorf("size %d: %v; the size is %d", size, err, l.Size())
		}
	}
	if n := l.check(); n != 100 {
		t.Errorf("%d are open, want 100", n)
	}
}

// TestAProcessIsKilledWhileTheTableGrows: the next one has all connections, at each point.
func TestAProcessIsKilledWhileTheTableGrows(t *testing.T) {
	const larger = linesSecond | 2*partEntries/entriesOfLine - 1
	for name, until := range map[string]func(l *lab){
		"the entries are there": func(l *lab) { l.must(l.entries.extend(3 * partEntries)) },
		"the ring is larger":    func(l *lab) { l.must(l.ring.grow(4 * partEntries)) },
		"both lines are written": func(l *lab) {
			l.must(l.lines[1].extend(2 * partEntries / entriesOfLine))
			l.must(l.use(partEntries/entriesOfLine-1, larger))
		},
		"the new lines are used": func(l *lab) {
			l.must(l.lines[1].extend(2 * partEntries / entriesOfLine))
			l.must(l.use(partEntries/entriesOfLine-1, larger))
			l.must(l.copyLines(larger))
			l.must(l.use(larger, partEntries/entriesOfLine-1))
		},
		"the size is known": func(l *lab) {
			l.must(l.entries.extend(2 * partEntries))
			l.must(l.ring.grow(2 * partEntries))
			atomic.StoreUint32(&l.control.size, 2*partEntries-1)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, tableXDP, partEntries)
			l.t = t
			l.run("pass", 1, 0, 1000)
			until(l)
			l.run("pass", 1, 900, 1100)
			l.must(l.Close())
			l.open()
			if n := l.check(); n != 1100 {
				t.Errorf("%d are open, want 1100", n)
			}
			if got := l.run("pass", 1, 0, 1100); got.Found != 1100 {
				t.Errorf("%d are found, want 1100", got.Found)
			}
			l.resize(2*partEntries - 1)
			if got := l.run("pass", 2, 0, 2*partEntries); got.Opened < 2*partEntries-1100-500-100 {
				t.Errorf("%d are opened: %v", got.Opened, got.Refused)
			}
			l.check()
		})
	}
}

func (l *lab) must(err error) {
	l.t.Helper()
	if err != nil {
		l.t.Fatal(err)
	}
}

// TestTheSizeChangesUnderLoad: while two CPUs open the same connections, and a sweeper removes some, the size changes. None is
// opened twice, no number is lost, and those that nobody removes are always found.
func TestTheSizeChangesUnderLoad(t *testing.T) {
	l := newLab(t, tableXDP, 1<<14)
	l.run("pass", 2, 0, 2000)
	before := l.numbers()
	*l.job = job{Keys: 3000, Stride: 1}
	var stop atomic.Bool
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			pin(t, cpu) // ends with the thread
			for !stop.Load() && !t.Failed() {
				l.repeat("together", 2000)
			}
		})
	}
	removed, round := 0, uint64(0)
	wg.Go(func() {
		for !stop.Load() && !t.Failed() {
			round++
			removed += l.remove(func(e *Entry) bool { return e.Key.Zone == 0 && mix(e.User[0]+round<<32)&3 == 0 })
		}
	})
	listed := 0
	wg.Go(func() {
		for ; !stop.Load() && !t.Failed(); listed++ {
			kept := 0
			for cursor, first := uint32(0), true; first || cursor != 0; first = false {
				var page []Entry
				page, cursor = l.Page(cursor, 500, func(e *Entry) bool { return e.Key.Zone == 2 })
				kept += len(page)
			}
			if kept != 2000 {
				t.Errorf("%d connections are shown, want 2000", kept)
			}
		}
	})
	sizes := []int{1<<15 - 1, 1 << 15, 100_000, 1 << 14, 300_000, 9000, 20_000}
	for range 3 {
		for _, size := range append(sizes, 8000+rand.IntN(100_000)) {
			l.resize(size)
		}
	}
	stop.Store(true)
	wg.Wait()
	l.check()
	l.remove(none)
	l.check()
	t.Logf("%d operations, %d opened, %v refused; %d removed, listed %d times", l.job.Next, l.job.Opened, l.job.Refused, removed, listed)
	if removed == 0 || l.job.Opened == 0 || l.job.Refused[full] != 0 || l.job.Refused[crowded] != 0 {
		t.Errorf("%d removed, %d opened, refused %v", removed, l.job.Opened, l.job.Refused)
	}
	after := l.numbers()
	for k, n := range before {
		if after[k] != n {
			t.Fatalf("%v has the number %d, and had %d", k, after[k], n)
		}
	}
}
