// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
)

func TestSessionsArePartOfTheGraphAndNotOfTheConfiguration(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge t1 <<< {"ports":[{"name":"p1","peer":"veth1"}]}`)
	want := &fuse.Trace{Sessions: []fuse.Session{{Bit: 1}}}
	before := l.state()
	if err := l.Trace(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	if got := l.plane.now().Trace; got != want {
		t.Errorf("the data plane has the sessions %v, want %v", got, want)
	}
	l.must(`post t1 ports p2`)
	if got := l.plane.now().Trace; got != want {
		t.Errorf("after a change the data plane has the sessions %v, want %v", got, want)
	}
	l.must(`del t1 ports p2`)
	if err := l.Trace(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if got := l.plane.now().Trace; got != nil {
		t.Errorf("the data plane still has the sessions %v", got)
	}
	l.wantState(before)
}

func TestASessionDoesNotStandInTheWayOfAChange(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge t1`)
	tooLarge := func(g *datapath.Graph) error {
		if g.Trace != nil && len(g.Cubes) > 1 {
			return cube.ErrFull
		}
		return nil
	}
	l.plane.refuse = tooLarge
	if err := l.Trace(t.Context(), &fuse.Trace{Sessions: []fuse.Session{{}}}); err != nil {
		t.Fatal(err)
	}
	l.must(`create toybridge t2`)
	if g := l.plane.now(); g.Trace != nil || len(g.Cubes) != 2 {
		t.Errorf("%d cubes, sessions %v; want two cubes and no session", len(g.Cubes), g.Trace)
	}
	if err := l.Trace(t.Context(), &fuse.Trace{Sessions: []fuse.Session{{}}}); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a session that does not fit: %v, want %v", err, cube.ErrFull)
	}
}

func TestPlacesOfCapturesAreFoundByName(t *testing.T) {
	l := newLab(t, "veth1", "veth2", "veth3")
	l.must(`create toybridge t1 <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}]}`, `create toyfilter g1`, `attach g1 veth2`)
	id := func(name string) uint16 {
		n, err := l.CubeID(name)
		if err != nil {
			t.Fatal(err)
		}
		return uint16(n)
	}
	for name, want := range map[string]fuse.Capture{
		"t1:p1": {Cube: id("t1"), Port: 0}, "t1:p2": {Cube: id("t1"), Port: 1}, "veth1": {Cube: id("t1"), Port: 0},
		"g1": {Cube: id("g1")}, "veth2": {Cube: id("g1")},
	} {
		if got, err := l.CapturePlace(name); err != nil || got != want {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	for name, want := range map[string]error{
		"t1": cube.ErrInvalid, "t1:p9": cube.ErrNotFound, "t9:p1": cube.ErrNotFound, "veth3": cube.ErrInvalid,
		"a/b": cube.ErrInvalid, "": cube.ErrInvalid,
	} {
		if _, err := l.CapturePlace(name); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", name, err, want)
		}
	}
	if got := l.PortName(datapath.CubeID(id("t1")), 1); got != "p2" {
		t.Errorf("port 1 is called %q", got)
	}
	if got := l.PortName(datapath.CubeID(id("g1")), 0) + l.CubeName(datapath.CubeID(id("g1"))) + l.CubeName(999); got != "g1cube 999" {
		t.Errorf("names %q", got)
	}
}

// TestAPacketIsSentToThePortThatItReaches: to the port's configured address, if the model says that packets are sent to the
// addresses of ports.
func TestAPacketIsSentToThePortThatItReaches(t *testing.T) {
	l := newLab(t, "veth1", "veth2")
	model := strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "station")
	model = strings.Replace(model, "leaf mac { type string; }", "leaf mac { type string; polycube-base:port-mac; }", 1)
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, WholeLists: true, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&toyBridge{toy{e, l.b}}), nil
	}}}
	l.restart()
	l.must(`create station s1 <<< {"ports":[{"name":"p1","peer":"veth1","mac":"02:00:00:00:01:01"},{"name":"p2","mac":"nonsense"},{"name":"p3"},{"name":"p4"}]}`,
		`create station s2 <<< {"ports":[{"name":"p1","mac":"02:00:00:00:02:01"}]}`, `connect s1:p4 s2:p1`,
		`create toybridge br1 <<< {"ports":[{"name":"p1","mac":"02:00:00:00:03:01"}]}`,
		`create toyfilter wire`, `attach wire veth1`, `create toyfilter port`, `attach port s1:p4`, `create toyfilter far`, `attach far veth2`, `create toyfilter free`)
	for at, want := range map[string]string{
		"s1:p1": "02:00:00:00:01:01", "veth1": "02:00:00:00:01:01", "wire": "02:00:00:00:01:01", "s2:p1": "02:00:00:00:02:01",
		"s1:p2": "", "s1:p3": "", "s1:p4": "", "s1:p9": "", "br1:p1": "", "nobody": "", "s1": "", "port": "", "far": "", "free": "", "a/b": "",
		"egress port": "02:00:00:00:02:01", "egress wire": "", "egress far": "", "egress free": "",
	} {
		name, egress := strings.CutPrefix(at, "egress ")
		if got := l.StationAt(t.Context(), name, egress); got.String() != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}
