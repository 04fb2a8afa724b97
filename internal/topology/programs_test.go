// SPDX-License-Identifier: Apache-2.0

package topology

// Programs that change with plans and alone, also when a transaction and a handler of the same cube change them at once.

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/service"
)

func ingressSlot(i int) cube.ProgramSlot { return cube.ProgramSlot{Index: i} }

func (l *lab) programsOf(name string) cube.Programs {
	return l.view.Load().Units[name].Env().Programs()
}

// inPlane are the functions that the data plane was given for a cube.
func (l *lab) inPlane(id datapath.CubeID) map[cube.ProgramSlot]string {
	got := map[cube.ProgramSlot]string{}
	for slot, p := range l.plane.now().Cubes[id].Programs {
		got[slot] = p.Function
	}
	return got
}

func (l *lab) wantPrograms(step string, want map[cube.ProgramSlot]string) {
	l.t.Helper()
	if got := l.inPlane(1); !reflect.DeepEqual(got, want) {
		l.t.Errorf("%s: the data plane has %v, want %v", step, got, want)
	}
}

func TestProgramsChangeWholeOrNotAtAll(t *testing.T) {
	l := newLab(t)
	l.b.programs = map[cube.ProgramSlot]*cube.Program{ingressSlot(1): {Function: "one"}}
	l.must(`create toybridge br1`)
	want := map[cube.ProgramSlot]string{ingressSlot(1): "one"}
	l.wantPrograms("creation", want)
	p := l.programsOf("br1")
	for _, step := range []string{"Prepare", "Commit"} {
		l.plane.setFail(failAt(step, nil))
		if err := p.Reload(ingressSlot(2), cube.Program{Function: "two"}); !errors.Is(err, errInjected) {
			t.Errorf("the data plane fails in %s: %v", step, err)
		}
		l.plane.setFail(nil)
		l.wantPrograms(step, want)
		if got := len(p.List()); got != 2 {
			t.Errorf("after a failure in %s there are %d programs, want 2", step, got)
		}
	}
	l.b.programs = map[cube.ProgramSlot]*cube.Program{ingressSlot(1): nil, ingressSlot(3): {Function: "three"}}
	for _, step := range []string{"Prepare", "Commit", "store"} {
		l.plane.setFail(failAt(step, nil))
		if err := l.do(`patch br1 note <<< "n"`); !errors.Is(err, errInjected) {
			t.Errorf("a change fails in %s: %v", step, err)
		}
		l.plane.setFail(nil)
		l.wantPrograms("a change that fails in "+step, want)
	}
	l.must(`patch br1 note <<< "n"`)
	l.wantPrograms("a change", map[cube.ProgramSlot]string{ingressSlot(3): "three"})
	l.b.programs = map[cube.ProgramSlot]*cube.Program{ingressSlot(0): nil}
	if err := l.do(`patch br1 note <<< "m"`); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("a plan that takes the entrance away: %v", err)
	}
	if l.plane.open != 0 {
		t.Errorf("%d changes are neither committed nor aborted", l.plane.open)
	}
}

func TestProgramsOfACubeThatIsGone(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	p := l.programsOf("br1")
	l.must(`delete br1`)
	if err := p.DelProgram(ingressSlot(1)); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("deleted: %v", err)
	}
	l.must(`create toybridge br2`)
	p = l.programsOf("br2")
	l.stop()
	if err := p.Reload(ingressSlot(1), cube.Program{Function: "f"}); !errors.Is(err, service.ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// A handler of the cube that a transaction waits for changes its programs: neither waits for the other.
func TestAHandlerChangesProgramsWhileATransactionWaitsForIt(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	p := l.programsOf("br1")
	inside, patched := make(chan struct{}), make(chan error, 1)
	var reloaded error
	l.b.setFail(func(call string) error {
		if call == "br1 PacketIn" {
			close(inside)
			// The writer's token is gone once the transaction has begun.
			eventually(t, "the transaction begins", func() bool { return len(l.token) == 0 })
			reloaded = p.Reload(ingressSlot(1), cube.Program{Function: "from the handler"})
		}
		return nil
	})
	l.PacketIn(1, &cube.PacketIn{Data: []byte("p")})
	<-inside
	go func() { patched <- l.do(`patch br1 fdb aging-time <<< 77`) }()
	if err := <-patched; err != nil || reloaded != nil {
		t.Fatalf("the change %v, the handler's %v", err, reloaded)
	}
	l.wantPrograms("both", map[cube.ProgramSlot]string{ingressSlot(1): "from the handler"})
	if got := l.plane.now().Cubes[1].Constants["aging_time"]; got != uint32(77) {
		t.Errorf("the constant is %v, want 77", got)
	}
}

func TestProgramsCannotChangeFromWithinACommit(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	p := l.programsOf("br1")
	var from error
	l.b.setFail(func(call string) error {
		if call == "br1 Commit" {
			from = p.Reload(ingressSlot(1), cube.Program{Function: "f"})
		}
		return nil
	})
	l.must(`patch br1 note <<< "n"`)
	if !errors.Is(from, cube.ErrInUse) || !strings.Contains(from.Error(), "Plan.Programs") {
		t.Errorf("from Commit: %v", from)
	}
	l.wantPrograms("a refused change", map[cube.ProgramSlot]string{})
}

func TestMessagesWaitWithPackets(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br1`)
	l.b.calls()
	data := []byte("first")
	l.Notify(1, 7, data)
	copy(data, "xxxxx") // the reader reuses its buffer
	l.PacketIn(1, &cube.PacketIn{Data: []byte("second")})
	l.Notify(1, 8, nil)
	want := []string{"br1 Notify 7 first", "br1 PacketIn second", "br1 Notify 8 "}
	var got []string
	eventually(t, "all are handled", func() bool { got = append(got, l.b.calls()...); return len(got) == len(want) })
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the cube got %q, want %q", got, want)
	}
	l.b.setFail(failAt("br1 Notify", "bad message"))
	l.Notify(1, 9, nil)
	eventually(t, "a panic is the last", func() bool { return l.Degraded("br1") == "Notify: bad message" })
	l.Notify(99, 1, nil)
	if l.StrayPackets() != 1 {
		t.Errorf("%d strays, want 1", l.StrayPackets())
	}
}
