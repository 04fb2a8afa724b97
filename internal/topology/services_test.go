// SPDX-License-Identifier: Apache-2.0

package topology

// Services that start and end while the daemon runs: a host that a test kills, cubes that are taken over.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/unit"
)

// fakeHost has services in memory.
type fakeHost struct {
	mu sync.Mutex
	// there are the services that can be started, by URI; others fail to start.
	there map[string]cube.Service
	lives []*fakeLife
}

type fakeLife struct {
	service cube.Service
	uri     string
	done    chan struct{}
	once    sync.Once
}

func (h *fakeHost) Start(_ context.Context, r service.Registration, _ service.Life) (service.Life, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s, ok := h.there[r.URI]
	if !ok {
		return nil, fmt.Errorf("nothing is at %s: %w", r.URI, cube.ErrUnavailable)
	}
	l := &fakeLife{service: s, uri: r.URI, done: make(chan struct{})}
	h.lives = append(h.lives, l)
	return l, nil
}

func (l *fakeLife) Service() cube.Service { return l.service }
func (l *fakeLife) Done() <-chan struct{} { return l.done }
func (l *fakeLife) Err() error            { return errors.New("killed by signal 9") }
func (l *fakeLife) Close()                { l.once.Do(func() { close(l.done) }) }

// set changes the service at a URI, nil for none.
func (h *fakeHost) set(uri string, s *cube.Service) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.there, uri)
	if s != nil {
		h.there[uri] = *s
	}
}

// kill ends all runs of the service at a URI.
func (h *fakeHost) kill(uri string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range h.lives {
		if l.uri == uri {
			l.Close()
		}
	}
}

// living counts the runs that have not ended.
func (h *fakeHost) living() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for _, l := range h.lives {
		select {
		case <-l.done:
		default:
			n++
		}
	}
	return n
}

// outer is a bridge of an external service; its calls are logged as who's.
func outer(t testing.TB, b *behaviour, change ...string) cube.Service {
	s := toyServices(t, b)[0]
	s.Model = strings.NewReplacer(append([]string{"toybridge", "outer"}, change...)...).Replace(s.Model)
	return s
}

// newHosted returns a lab with a host and the service outer, at the URI "here".
func newHosted(t *testing.T, devs ...string) (*lab, *fakeHost) {
	t.Helper()
	h := &fakeHost{there: map[string]cube.Service{}}
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs(devs...), b: &behaviour{learned: map[string]string{}},
		records: map[string][]byte{}, host: h}
	s := outer(t, l.b)
	h.set("here", &s)
	l.start()
	t.Cleanup(func() { l.stop() })
	if _, err := l.AddService(context.Background(), service.Registration{Name: "outer", Type: "grpc", URI: "here"}); err != nil {
		t.Fatal(err)
	}
	return l, h
}

// wantService checks the state of a service.
func (l *lab) wantService(running bool, uri string) {
	l.t.Helper()
	eventually(l.t, fmt.Sprintf("outer is at %s, running %t", uri, running), func() bool {
		states := l.ServiceStates()
		return len(states) == 1 && states[0].Name == "outer" && states[0].Running == running && states[0].URI == uri
	})
}

func TestServicesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		uri  string
		fail string // a step of the data plane or the store
		want error
		says string
	}{
		{"outer", "here", "", cube.ErrExists, "the name is in use by another service"},
		{"toybridge", "here", "", cube.ErrExists, "the name is in use by another service"},
		{"connect", "here", "", cube.ErrInvalid, "reserved for the command line"},
		{"a b", "here", "", cube.ErrInvalid, "a name must have 1 to 64"},
		{"br1", "here", "", cube.ErrExists, "a toybridge has that name"},
		{"other", "nowhere", "", cube.ErrUnavailable, "nothing is at nowhere"},
		{"other", "here", "", cube.ErrInvalid, "the name in its model is outer"},
		{"other", "broken", "", nil, "its model"},
		{"newer", "newer", "", cube.ErrUnsupported, "it requires kernel 99.1 or newer"},
		{"fine", "fine", "Try", errInjected, ""},
		{"fine", "fine", "CheckObject", errInjected, "programs of service fine"},
		{"fine", "fine", "store", errInjected, "write the configuration to disk"},
	} {
		l, h := newHosted(t)
		l.must("create toybridge br1")
		fine, newer, broken := outer(t, l.b, "outer", "fine"), outer(t, l.b, "outer", "newer", "6.1", "99.1"), outer(t, l.b)
		fine.Model = strings.ReplaceAll(fine.Model, "outer", "fine")
		newer.Model = strings.ReplaceAll(newer.Model, "outer", "newer")
		broken.Model = "module broken {"
		h.set("fine", &fine)
		h.set("newer", &newer)
		h.set("broken", &broken)
		before, living := l.state(), h.living()
		l.plane.setFail(func(step string) error {
			if step == c.fail {
				return errInjected
			}
			return nil
		})
		_, err := l.AddService(context.Background(), service.Registration{Name: c.name, Type: "grpc", URI: c.uri})
		l.plane.setFail(nil)
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s at %s: %v, want %v with %q", c.name, c.uri, err, c.want, c.says)
		}
		l.wantState(before)
		if n := h.living(); n != living {
			t.Errorf("%s at %s: %d services run, %d did before", c.name, c.uri, n, living)
		}
		if n := len(l.Services()); n != 3 {
			t.Errorf("%s at %s: %d services are loaded", c.name, c.uri, n)
		}
		l.wantService(true, "here")
		// The name is free again.
		if c.fail != "" {
			if _, err := l.AddService(context.Background(), service.Registration{Name: c.name, Type: "grpc", URI: c.uri}); err != nil {
				t.Errorf("%s again: %v", c.name, err)
			}
		}
	}
}

// TestATrialHoldsNobodyUp: programs are tried while others make changes. A cancelled request ends the trial and leaves
// nothing.
func TestATrialHoldsNobodyUp(t *testing.T) {
	l, h := newHosted(t)
	fine := outer(t, l.b)
	fine.Model = strings.ReplaceAll(fine.Model, "outer", "fine")
	h.set("fine", &fine)
	next := outer(t, l.b, "1.2.3", "1.3.0")
	h.set("there", &next)
	for name, request := range map[string]func(context.Context) error{
		"add": func(ctx context.Context) error {
			_, err := l.AddService(ctx, service.Registration{Name: "fine", Type: "grpc", URI: "fine"})
			return err
		},
		"update": func(ctx context.Context) error {
			_, err := l.UpdateService(ctx, service.Registration{Name: "outer", URI: "there"})
			return err
		},
	} {
		before := l.state()
		ctx, cancel := context.WithCancel(context.Background())
		begun, done := make(chan bool), make(chan error)
		l.plane.setFail(func(step string) error {
			if step != "Try" {
				return nil
			}
			close(begun)
			<-ctx.Done()
			return ctx.Err()
		})
		go func() { done <- request(ctx) }()
		<-begun
		l.must("create toybridge br1", `patch br1 <<< {"note":"meanwhile"}`, "delete br1")
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s of a service that was given up: %v", name, err)
		}
		l.plane.setFail(nil)
		l.wantState(before)
		l.wantService(true, "here")
		if n := h.living(); n != 1 {
			t.Errorf("%s: %d services run", name, n)
		}
	}
}

// TestAPanicWhileAServiceIsAdmittedLeavesNothing: the name is free, nothing of the service runs, and a
// waiting request to remove it fails, as it does not exist.
func TestAPanicWhileAServiceIsAdmittedLeavesNothing(t *testing.T) {
	l, h := newHosted(t)
	fine, next := outer(t, l.b), outer(t, l.b, "1.2.3", "1.3.0")
	fine.Model = strings.ReplaceAll(fine.Model, "outer", "fine")
	h.set("fine", &fine)
	h.set("there", &next)
	add := func() error {
		_, err := l.AddService(context.Background(), service.Registration{Name: "fine", Type: "grpc", URI: "fine"})
		return err
	}
	update := func() error {
		_, err := l.UpdateService(context.Background(), service.Registration{Name: "outer", URI: "there"})
		return err
	}
	for _, step := range []string{"Try", "CheckObject"} {
		for name, request := range map[string]func() error{"add": add, "update": update} {
			before := l.state()
			removed := make(chan error, 1)
			l.plane.setFail(func(at string) error {
				if at != step {
					return nil
				}
				if name == "add" {
					go func() { removed <- l.RemoveService(context.Background(), "fine") }()
				} else {
					removed <- nil
				}
				panic("a malformed object")
			})
			err := request()
			l.plane.setFail(nil)
			if p := (*unit.PanicError)(nil); !errors.As(err, &p) {
				t.Errorf("%s, panic in %s: %v", name, step, err)
			}
			if err := <-removed; name == "add" && !errors.Is(err, cube.ErrNotFound) {
				t.Errorf("panic in %s: removing the service meanwhile: %v", step, err)
			}
			l.wantState(before)
			l.wantService(true, "here")
			if n := h.living(); n != 1 {
				t.Errorf("%s, panic in %s: %d services run", name, step, n)
			}
		}
	}
	if err := add(); err != nil {
		t.Errorf("the name is not free: %v", err)
	}
}

// TestServicesAreTriedAsWhatTheyAre: the trial gets all that it needs, and its result is the answer.
func TestServicesAreTriedAsWhatTheyAre(t *testing.T) {
	l, h := newHosted(t)
	fine := outer(t, l.b)
	fine.Model = strings.ReplaceAll(fine.Model, "outer", "fine")
	fine.Objects = map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {2}}
	h.set("fine", &fine)
	r, err := l.AddService(context.Background(), service.Registration{Name: "fine", Type: "grpc", URI: "fine"})
	if err != nil || r.Programs != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := l.UpdateService(context.Background(), service.Registration{Name: "fine"}); err != nil {
		t.Error(err)
	}
	l.plane.mu.Lock()
	defer l.plane.mu.Unlock()
	if len(l.plane.tried) != 3 {
		t.Fatalf("tried are %+v", l.plane.tried)
	}
	for _, is := range l.plane.tried[1:] {
		if is.Service != "fine" || is.Transparent || !is.External || is.Brief || len(is.Objects) != 2 || is.Hooks != nil {
			t.Errorf("tried is %+v", is)
		}
	}
}

func TestADaemonWithoutAHostTakesNoServices(t *testing.T) {
	l := newLab(t)
	_, err := l.AddService(context.Background(), service.Registration{Name: "outer", Type: "grpc", URI: "here"})
	if !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("a service is added: %v", err)
	}
	if err := l.RemoveService(context.Background(), "toybridge"); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("a service of the daemon is removed: %v", err)
	}
	if err := l.RemoveService(context.Background(), "none"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("no service is removed: %v", err)
	}
}

func TestCubesOfAServiceThatIsLostAreTakenOverByTheNextLife(t *testing.T) {
	l, h := newHosted(t, "veth1")
	l.must(`create outer o1 <<< {"ports":[{"name":"p1","peer":"veth1"}],"note":"kept"}`, `create toybridge br1`)
	before := l.state()
	there := h.there["here"]
	h.set("here", nil)
	h.kill("here")
	eventually(t, "o1 is degraded", func() bool { return strings.Contains(l.Degraded("o1"), "killed by signal 9") })
	l.wantService(false, "here")
	if err := l.do(`patch o1 <<< {"note":"new"}`); !errors.Is(err, cube.ErrUnavailable) || !strings.Contains(err.Error(), "takes it over again") {
		t.Errorf("a change of a cube whose service is lost: %v", err)
	}
	l.must(`patch br1 <<< {"note":"others work"}`)
	l.must(`patch br1 <<< {"note":""}`, `del br1 note`)
	if err := l.RemoveService(context.Background(), "outer"); !errors.Is(err, cube.ErrInUse) || !strings.Contains(err.Error(), "o1") {
		t.Errorf("a service with cubes is removed: %v", err)
	}
	l.b.calls()
	h.set("here", &there)
	eventually(t, "o1 is taken over", func() bool { return l.Degraded("o1") == "" })
	calls := l.b.calls()
	for _, want := range []string{"o1 New", "o1 Prepare", "o1 Commit"} {
		if !slices.Contains(calls, want) {
			t.Errorf("the new life was not asked for %s: %v", want, calls)
		}
	}
	after := l.state()
	if after.trees != before.trees {
		t.Errorf("its configuration is %s, was %s", after.trees, before.trees)
	}
	l.must(`patch o1 <<< {"note":"new"}`, `delete o1`)
	if err := l.RemoveService(context.Background(), "outer"); err != nil {
		t.Fatal(err)
	}
	if len(l.Services()) != 2 || h.living() != 0 || l.records["service/outer"] != nil {
		t.Errorf("of a service that was removed stay %d lives, %v, %s", h.living(), l.Services(), l.records["service/outer"])
	}
	if err := l.do(`create outer o2`); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a cube of a service that is gone: %v", err)
	}
}

func TestARestartWaitsForServicesAndTakesCubesOverLater(t *testing.T) {
	for _, holds := range []bool{true, false} {
		l, h := newHosted(t, "veth1")
		l.plane.holds = holds
		l.must(`create outer o1 <<< {"ports":[{"name":"p1","peer":"veth1"}],"note":"kept"}`)
		before := l.state()
		l.restart()
		l.wantState(before)
		l.wantService(true, "here")

		there := h.there["here"]
		h.set("here", nil)
		l.restart()
		l.wantService(false, "here")
		if b := l.Broken(); len(b) != 1 || b[0].Name != "o1" {
			t.Errorf("broken are %v", b)
		}
		if (l.plane.now().Cubes[1] != nil) != holds {
			t.Errorf("held %t: the cube is in the graph as %v", holds, l.plane.now().Cubes[1])
		}
		if err := l.RemoveService(context.Background(), "outer"); !errors.Is(err, cube.ErrInUse) {
			t.Errorf("a service with a stored cube is removed: %v", err)
		}
		h.set("here", &there)
		eventually(t, "o1 is taken over", func() bool { return len(l.Broken()) == 0 })
		l.wantRead(`"kept"`, "o1", "note")
		l.must(`patch o1 <<< {"note":"new"}`)
		if l.plane.now().Cubes[1].Ports[1] == nil && l.plane.now().Cubes[1].Ports[0] == nil {
			t.Errorf("its ports are %v", l.plane.now().Cubes[1].Ports)
		}
	}
}

func TestAnUpdateTakesAllCubesOrNone(t *testing.T) {
	for _, c := range []struct {
		fail string // a step of the data plane, or of the cubes' code
		says string
	}{
		{"Try", errInjected.Error()}, {"CheckObject", "programs of service outer"}, {"o2 New", "o2"}, {"o2 Prepare", "o2"}, {"ReplaceCube o2", "o2"}, {"Prepare", "data plane"},
		{"o2 Commit", "o2"}, {"Commit", "data plane"}, {"store", "to disk"},
	} {
		l, h := newHosted(t, "veth1")
		l.must(`create outer o1 <<< {"ports":[{"name":"p1","peer":"veth1"}]}`, `create outer o2 <<< {"note":"kept"}`)
		next := outer(t, l.b, "1.2.3", "1.3.0")
		h.set("there", &next)
		before, graphs := l.state(), l.plane.now()
		fail := func(step string) error {
			if step == c.fail {
				return errInjected
			}
			return nil
		}
		l.plane.setFail(fail)
		l.b.setFail(fail)
		_, err := l.UpdateService(context.Background(), service.Registration{Name: "outer", URI: "there"})
		l.plane.setFail(nil)
		l.b.setFail(nil)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("fails at %s: %v, want %q", c.fail, err, c.says)
		}
		l.wantState(before)
		if graphs != nil && len(l.plane.now().Cubes) != 2 {
			t.Errorf("fails at %s: the graph has %d cubes", c.fail, len(l.plane.now().Cubes))
		}
		l.wantService(true, "here")
		if n := h.living(); n != 1 {
			t.Errorf("fails at %s: %d services run", c.fail, n)
		}
		l.must(`patch o1 <<< {"note":"goes on"}`, `patch o2 <<< {"note":"goes on"}`)

		if _, err := l.UpdateService(context.Background(), service.Registration{Name: "outer", URI: "there"}); err != nil {
			t.Fatalf("an update after one that failed at %s: %v", c.fail, err)
		}
		l.wantService(true, "there")
		l.wantRead(`"goes on"`, "o2", "note")
		if s := l.Services(); s[2].Version != "1.3.0" || s[2].Controller != "there" || h.living() != 1 {
			t.Errorf("after the update %+v, %d services run", s[2], h.living())
		}
		l.must(`patch o1 <<< {"note":"new"}`)
		l.restart()
		l.wantService(true, "there")
	}
}

func TestAnUpdateWhoseModelRefusesACubeChangesNothing(t *testing.T) {
	l, h := newHosted(t)
	l.must(`create outer o1`, `create outer o2 <<< {"note":"kept"}`)
	next := outer(t, l.b, "leaf note", "leaf remark")
	h.set("there", &next)
	before := l.state()
	_, err := l.UpdateService(context.Background(), service.Registration{Name: "outer", URI: "there"})
	if err == nil || !strings.Contains(err.Error(), "o2") || !strings.Contains(err.Error(), "note") {
		t.Errorf("an update whose model has no leaf note: %v", err)
	}
	l.wantState(before)
	l.wantRead(`"kept"`, "o2", "note")
	// A service that returned with another version waits for an update.
	h.set("here", &next)
	h.kill("here")
	eventually(t, "the other version is refused", func() bool {
		return strings.Contains(l.ServiceStates()[0].Error, "services update outer to accept it")
	})
	if l.Degraded("o2") == "" {
		t.Error("a cube of a service that came back as another one is not degraded")
	}
	l.must("delete o2")
	if _, err := l.UpdateService(context.Background(), service.Registration{Name: "outer"}); err != nil {
		t.Fatal(err)
	}
	l.wantService(true, "here")
	if why := l.Degraded("o1"); why != "" {
		t.Errorf("after the update o1 is degraded: %s", why)
	}
	l.must(`patch o1 <<< {"remark":"new"}`)
}

func TestKernels(t *testing.T) {
	for _, c := range []struct {
		least string
		want  error
	}{{"", nil}, {"3.0", nil}, {"5.15.3", nil}, {"99.0", cube.ErrUnsupported}, {"new", cube.ErrInvalid}} {
		if err := service.KernelIs(c.least); !errors.Is(err, c.want) {
			t.Errorf("a kernel from %q on: %v, want %v", c.least, err, c.want)
		}
	}
}
