// SPDX-License-Identifier: Apache-2.0

package rest

// Services that are added while the daemon runs. The host of the tests has one, lodger, at "home".

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/rest/services"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/topology/service"
)

// lodging starts the service lodger, a tap by another name.
type lodging struct{}

type lodger struct{ done chan struct{} }

func (lodging) Start(_ context.Context, r topology.Registration, _ service.Life) (service.Life, error) {
	if r.URI != "home" && r.URI != "elsewhere" {
		return nil, fmt.Errorf("nobody is at %s: %w", r.URI, cube.ErrUnavailable)
	}
	return &lodger{make(chan struct{})}, nil
}

func (*lodger) Service() cube.Service {
	return cube.Service{Model: strings.NewReplacer("module tap", "module lodger", `"tap"`, `"lodger"`).Replace(tapModel),
		Objects: map[cube.Hook][]byte{cube.TC: {1}, cube.XDP: {1}},
		New:     newTap}
}

func (l *lodger) Done() <-chan struct{} { return l.done }
func (*lodger) Err() error              { return nil }
func (*lodger) Close()                  {}

// Series are figures, one of them twice, and with labels that not all have.
func (*lodger) Series() []topology.Series {
	return []topology.Series{{Service: "lodger", Cube: "a", Name: "doors", Value: 1}, {Service: "lodger", Cube: "a", Name: "doors", Value: 2},
		{Service: "lodger", Cube: "b", Name: "doors", Labels: map[string]string{"colour": "red \"\n"}, Value: 3}}
}

func (*lodger) Drops() (undelivered, refused uint64) { return 4, 5 }

func TestServicesAreAddedUpdatedAndRemoved(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 400, "POST", "/services", `{"type":"lib","uri":"nowhere","name":"lodger"}`)
	l.must(t, 200, "POST", "/services", `{"type":"grpc","uri":"home","name":"lodger"}`)
	l.must(t, 409, "POST", "/services", `{"type":"grpc","uri":"home","name":"lodger"}`)
	if list := l.must(t, 200, "GET", "/services", "").body; !strings.Contains(list, `{"name":"lodger","servicecontroller":"home",`) {
		t.Errorf("the services are %s", list)
	}
	shown := func() (d services.Detail) {
		t.Helper()
		var all []services.Detail
		if err := json.Unmarshal([]byte(l.must(t, 200, "GET", "/services/lodger", "").body), &all); err != nil || len(all) != 1 {
			t.Fatalf("%v, %v", all, err)
		}
		return all[0]
	}
	if d := shown(); d.Controller != "home" || d.Type != "grpc" || d.Status != "running" || d.Since == nil || !strings.HasPrefix(d.Model, "//") {
		t.Errorf("it is shown as %+v", d)
	}
	l.must(t, 201, "POST", "/lodger/g1", `{}`)
	if refused := l.must(t, 409, "DELETE", "/services/lodger", "").body; !strings.Contains(refused, "delete them first: g1") {
		t.Errorf("a service with cubes: %s", refused)
	}
	l.must(t, 200, "DELETE", "/lodger/g1", "")
	for body, status := range map[string]int{`{"uri":"elsewhere","type":"lib"}`: 200, `{"uri":"nowhere"}`: 400, `{"type":"x"}`: 400, `{"name":"y"}`: 400, ``: 200} {
		l.must(t, status, "PATCH", "/services/lodger", body)
	}
	l.must(t, 400, "PATCH", "/services/lab", `{"uri":"home"}`)
	l.must(t, 400, "PATCH", "/services/none", ``)
	if d := shown(); d.Controller != "elsewhere" || d.Type != "lib" {
		t.Errorf("after its update it is shown as %+v", d)
	}
	l.must(t, 204, "DELETE", "/services/lodger", "")
	l.must(t, 400, "DELETE", "/services/lodger", "")
	l.must(t, 404, "GET", "/services/lodger", "")
}
