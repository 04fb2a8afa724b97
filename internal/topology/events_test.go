// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/history"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/yang"
)

// watched follows a lab's events.
func (l *lab) watched() *events.Reader {
	l.t.Helper()
	r, err := l.events.Follow("")
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

// short returns the events since the last call, one per line.
func short(r *events.Reader) []string {
	list, _ := r.Next(1000)
	out := []string{}
	for _, e := range list {
		line := string(e.Type)
		switch e.Type {
		case events.Config:
			for _, c := range e.Changes {
				line += " " + c.Cube + c.Netdev + ":" + c.Op
				if len(c.Paths) > 0 {
					line += "(" + strings.Join(c.Paths, ",") + ")"
				}
			}
			if e.More > 0 {
				line += fmt.Sprintf(" +%d", e.More)
			}
		default:
			line += " " + strings.Trim(e.Cube+":"+e.Port+e.Netdev, ":") + " " + e.State
		}
		out = append(out, line)
	}
	return out
}

// TestEventsOfChanges: each change is reported once, with what it changed, and the ports that went up or down. Requests that
// were refused or changed nothing are not reported.
func TestEventsOfChanges(t *testing.T) {
	tests := []struct {
		name     string
		setup    []string
		line     string
		want     []string
		refusals bool
	}{
		{"a cube comes", nil, `create toybridge br <<< {}`, []string{"config br:created"}, false},
		{"a cube comes with a port that is linked", nil, `create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`,
			[]string{"config br:created", "port br:p1 UP"}, false},
		{"a port is linked", []string{`create toybridge br <<< {"ports":[{"name":"p1"}]}`}, `connect br:p1 veth1`,
			[]string{"config br:changed(ports/p1/peer)", "port br:p1 UP"}, false},
		{"a link between cubes", []string{`create toybridge a <<< {"ports":[{"name":"p"}]}`, `create toybridge b <<< {"ports":[{"name":"p"}]}`},
			`connect a:p b:p`, []string{"config a:changed(ports/p/peer) b:changed(ports/p/peer)", "port a:p UP", "port b:p UP"}, false},
		{"the cube of a peer goes", []string{`create toybridge a <<< {"ports":[{"name":"p"}]}`, `create toybridge b <<< {"ports":[{"name":"p"}]}`, `connect a:p b:p`},
			`delete b`, []string{"config a:changed(ports/p/peer) b:deleted", "port a:p DOWN"}, false},
		{"a port loses its link", []string{`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`}, `disconnect br:p1 veth1`,
			[]string{"config br:changed(ports/p1/peer)", "port br:p1 DOWN"}, false},
		{"a cube goes", []string{`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`}, `delete br`, []string{"config br:deleted"}, false},
		{"a cube on a netdev", []string{`create toyfilter f <<< {}`}, `attach f veth1`, []string{"config veth1:changed(tcubes)"}, false},
		{"the same again", []string{`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`}, `connect br:p1 veth1`, []string{}, false},
		{"what is refused", []string{`create toybridge br <<< {}`}, `create toybridge br <<< {}`, []string{}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, "veth1")
			l.must(tt.setup...)
			r := l.watched()
			if err := l.do(tt.line); (err != nil) != tt.refusals {
				t.Fatal(err)
			}
			got := short(r)
			slices.Sort(got[min(1, len(got)):])
			if !slices.Equal(got, tt.want) {
				t.Errorf("events %q, want %q", got, tt.want)
			}
		})
	}
}

// TestEventsTellWho: a change names who requested it. Requests beyond the number that an event lists are counted, and can
// still be found by their names.
func TestEventsTellWho(t *testing.T) {
	l := newLab(t)
	r := l.watched()
	ctx := WithOrigin(context.Background(), history.Origin{Who: "alice", From: "pid 7", What: "POST /cubes"})
	var all []string
	for i := range events.MaxListed + 3 {
		all = append(all, fmt.Sprintf(`{"service-name":"toybridge","name":"c%02d"}`, i))
	}
	if err := l.CreateMany(ctx, []byte("["+strings.Join(all, ",")+"]")); err != nil {
		t.Fatal(err)
	}
	list, _ := r.Next(9)
	if len(list) != 1 {
		t.Fatalf("%d events, want 1", len(list))
	}
	e := list[0]
	if want := (events.Origin{Who: "alice", From: "pid 7", What: "POST /cubes"}); len(e.Origins) != 1 || e.Origins[0] != want {
		t.Errorf("origins %+v, want %+v", e.Origins, want)
	}
	if len(e.Changes) != events.MaxListed || e.More != 3 || e.Revision != l.Revision() || !strings.HasSuffix(e.Message, "by alice") {
		t.Errorf("%d changes, %d more, revision %d, %q", len(e.Changes), e.More, e.Revision, e.Message)
	}
	if !e.Concerns("c34") || e.Concerns("c99") {
		t.Error("the event is not found by the names of its cubes")
	}
}

// TestEventsOfNetdevs: what happens to a device is reported, and what that does to a port.
func TestEventsOfNetdevs(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`)
	r := l.watched()
	info, err := l.devs.Get("veth1")
	if err != nil {
		t.Fatal(err)
	}
	down := info
	down.Up = false
	steps := []struct {
		event netdev.Event
		want  []string
	}{
		{netdev.Event{Kind: netdev.Changed, Info: down, Old: &info}, []string{"netdev veth1 down", "port br:p1 DOWN"}},
		{netdev.Event{Kind: netdev.Changed, Info: info, Old: &down}, []string{"netdev veth1 up", "port br:p1 UP"}},
		{netdev.Event{Kind: netdev.Changed, Info: info, Old: &info}, []string{}},
		{netdev.Event{Kind: netdev.Removed, Info: info}, []string{"netdev veth1 went", "port br:p1 DOWN"}},
		{netdev.Event{Kind: netdev.Added, Info: info}, []string{"netdev veth1 appeared", "port br:p1 UP"}},
		{netdev.Event{Kind: netdev.Added, Info: netdev.Info{Name: "eth9", Index: 99, Up: true, Kind: "veth"}}, []string{"netdev eth9 appeared"}},
	}
	for i, s := range steps {
		l.NetdevEvent(s.event)
		if got := short(r); !slices.Equal(got, s.want) {
			t.Errorf("step %d: events %q, want %q", i, got, s.want)
		}
	}
}

// TestEventOfDegradedCube: a cube whose code panics in a handler is reported with the reason.
func TestEventOfDegradedCube(t *testing.T) {
	l := newLab(t)
	l.must(`create toybridge br <<< {}`)
	r := l.watched()
	l.view.Load().Units["br"].Degrade("PacketIn: it broke")
	if got := short(r); !slices.Equal(got, []string{"cube br degraded"}) {
		t.Errorf("events %q", got)
	}
}

// TestActivity: transactions are counted, by how they failed, and cubes with their ports.
func TestActivity(t *testing.T) {
	l := newLab(t, "veth1")
	before := l.Activity()
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
	for _, line := range []string{`create toybridge br <<< {}`, `create toybridge b2 <<< {"nonsense":1}`, `connect br:p2 nothere`} {
		if l.do(line) == nil {
			t.Fatalf("%s was not refused", line)
		}
	}
	a := l.Activity()
	if n := a.Transactions.Count - before.Transactions.Count; n != 4 {
		t.Errorf("%d transactions, want 4", n)
	}
	for class, want := range map[string]uint64{"exists": 1, "invalid": 1, "not-found": 1} {
		if a.Failures[class] != want {
			t.Errorf("%d failed as %s, want %d of %v", a.Failures[class], class, want, a.Failures)
		}
	}
	numbers := l.Numbers()
	if len(numbers) != 1 || numbers[0].Name != "br" || len(numbers[0].Ports) != 2 ||
		!numbers[0].Ports[0].Up || numbers[0].Ports[1].Up || len(numbers[0].Fates) == 0 {
		t.Errorf("numbers %+v", numbers)
	}
	if devs := l.NetdevNumbers(); len(devs) != 1 || devs[0].Name != "veth1" || !devs[0].Up {
		t.Errorf("netdevs %+v", devs)
	}
}

// TestFailureClasses: every error of a transaction has a class.
func TestFailureClasses(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want string
	}{
		{unit.ErrDegraded, "unsupported"}, {fmt.Errorf("x: %w", context.DeadlineExceeded), "timeout"}, {service.ErrClosed, "stopping"},
		{&yang.Error{Tag: yang.InvalidValue}, "invalid"}, {errors.New("disk full"), "internal"},
		{fmt.Errorf("x: %w", cube.ErrRefused), "refused"},
	} {
		if got := failure(tt.err); got != tt.want {
			t.Errorf("%v: %s, want %s", tt.err, got, tt.want)
		}
	}
}
