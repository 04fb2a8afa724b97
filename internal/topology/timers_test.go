// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/unit"
)

func (l *lab) envOf(name string) cube.Env { return l.view.Load().Units[name].Env() }

func TestTimersTakeTurnsWithHandlers(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	var inside, together atomic.Int32
	alone := func() {
		if inside.Add(1) != 1 {
			together.Add(1)
		}
		inside.Add(-1)
	}
	l.b.setFail(func(string) error { alone(); return nil })
	var every, once atomic.Int32
	e := l.envOf("br1")
	stop := e.Every(time.Millisecond, func() { alone(); every.Add(1) })
	e.After(0, func() { alone(); once.Add(1) })
	for i := range 200 {
		l.PacketIn(1, &cube.PacketIn{Data: []byte{byte(i)}})
	}
	l.must(`patch br1 note <<< "n"`)
	eventually(t, "the timer runs 20 times", func() bool { return every.Load() >= 20 })
	eventually(t, "the packets come back", func() bool { return l.sentPackets() == 200 })
	stop()
	l.quiet()
	n := every.Load()
	l.quiet()
	if once.Load() != 1 || together.Load() != 0 || every.Load() != n {
		t.Errorf("once ran %d times, %d calls ran together, and after its end the other ran %d times",
			once.Load(), together.Load(), every.Load()-n)
	}
}

func TestACallThatIsDueWhileTheLastOneRunsIsLeftOut(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	release, n := make(chan struct{}), atomic.Int32{}
	e := l.envOf("br1")
	stop := e.Every(time.Millisecond, func() { n.Add(1); <-release })
	eventually(t, "it runs", func() bool { return n.Load() == 1 })
	// Others that are due meanwhile run when it has ended.
	var other atomic.Int32
	for range 50 {
		e.After(time.Millisecond, func() { other.Add(1) })
	}
	u := l.view.Load().Units["br1"]
	eventually(t, "the others wait", func() bool {
		_, _, calls := u.Queued()
		return calls == 50
	})
	if n.Load() != 1 {
		t.Errorf("it ran %d times at once", n.Load())
	}
	stop()
	close(release)
	eventually(t, "the others run", func() bool { return other.Load() == 50 })
	if n.Load() > 2 {
		t.Errorf("calls piled up: %d", n.Load())
	}
}

func TestTimersStopThemselvesAndEndWithTheirCube(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`, `create toybridge br2`)
	var self, deleted, closed atomic.Int32
	e := l.envOf("br1")
	var stop func()
	ready := make(chan struct{})
	stop = e.Every(time.Millisecond, func() { <-ready; self.Add(1); stop() })
	close(ready)
	e.Every(time.Millisecond, func() { deleted.Add(1) })
	l.envOf("br2").Every(time.Millisecond, func() { closed.Add(1) })
	eventually(t, "all run", func() bool { return self.Load() > 0 && deleted.Load() > 0 && closed.Load() > 0 })
	l.must(`delete br1`)
	l.stop()
	a, b := deleted.Load(), closed.Load()
	e.Every(time.Millisecond, func() { deleted.Add(1) }) // too late
	<-time.After(20 * time.Millisecond)
	if self.Load() != 1 || deleted.Load() != a || closed.Load() != b {
		t.Errorf("the one that stops itself ran %d times; after the end the others ran %d and %d times",
			self.Load(), deleted.Load()-a, closed.Load()-b)
	}
}

func TestAPanicInATimerDegradesTheCube(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`, `create toybridge br2`)
	var n atomic.Int32
	l.envOf("br1").Every(time.Millisecond, func() { n.Add(1); panic("bad timer") })
	eventually(t, "br1 is degraded", func() bool { return l.Degraded("br1") == "timer: bad timer" })
	<-time.After(10 * time.Millisecond)
	if n.Load() != 1 || l.Degraded("br2") != "" {
		t.Errorf("it ran %d times; br2: %q", n.Load(), l.Degraded("br2"))
	}
	l.must(`patch br2 note <<< "n"`, `delete br1`)
}

// A timer that is set while a cube is created does not run before the cube exists, and never if it is not created.
func TestTimersOfACubeThatIsBeingMade(t *testing.T) {
	l := newLab(t)
	for _, fails := range []bool{true, false} {
		var n atomic.Int32
		var early atomic.Bool
		l.b.setFail(func(call string) error {
			if call == "br1 Commit" {
				u, ok := l.byID.Load(l.units.lastID)
				if !ok {
					t.Error("no unit")
					return nil
				}
				u.(*unit.Unit).Env().After(0, func() { n.Add(1) })
				<-time.After(20 * time.Millisecond)
				early.Store(n.Load() > 0)
				if fails {
					return errInjected
				}
			}
			return nil
		})
		err := l.do(`create toybridge br1`)
		if (err != nil) != fails || early.Load() {
			t.Errorf("creation: %v, a timer ran early: %v", err, early.Load())
		}
		if !fails {
			eventually(t, "the timer runs", func() bool { return n.Load() == 1 })
		}
		<-time.After(5 * time.Millisecond)
		if fails && n.Load() != 0 {
			t.Error("a timer of a cube that never was ran")
		}
	}
}
