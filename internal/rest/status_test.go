// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology"
)

// sickManager is a real one whose cubes have other troubles.
type sickManager struct {
	*topology.Manager
	numbers []topology.CubeNumbers
	lost    string
}

func (m sickManager) ServiceStates() []topology.ServiceState {
	if m.lost == "" {
		return nil
	}
	return []topology.ServiceState{{Registration: topology.Registration{Name: m.lost}, Error: "exit status 1"}}
}

// statsOf is a store with some stats.
type statsOf store.Stats

func (s statsOf) Stats() store.Stats { return store.Stats(s) }

func (m sickManager) Numbers() []topology.CubeNumbers { return m.numbers }

// TestStatus: what is not well is listed with where and why, the worst first, and judges the whole.
func TestStatus(t *testing.T) {
	port := func(up bool, reason string) []topology.PortNumbers {
		return []topology.PortNumbers{{Name: "p1", Up: up, Reason: reason}}
	}
	tests := []struct {
		name     string
		numbers  []topology.CubeNumbers
		observed observe.Observed
		lost     string
		status   string
		where    []string
	}{
		{"nothing runs", nil, observe.Observed{}, "", "ok", nil},
		{"all is well", []topology.CubeNumbers{{Name: "a", Service: "lab", Ports: port(true, "")}}, observe.Observed{Linker: madeUpLinker{}}, "", "ok", nil},
		{"a port without a peer is no trouble", []topology.CubeNumbers{{Name: "a", Ports: port(false, "")}}, observe.Observed{}, "", "ok", nil},
		{"a port is down", []topology.CubeNumbers{{Name: "a", Ports: port(false, "veth1 is down")}}, observe.Observed{}, "", "warning", []string{"a:p1"}},
		{"a port that loses frames", []topology.CubeNumbers{{Name: "a", Ports: port(true, "veth1 has no carrier")}}, observe.Observed{}, "", "warning", []string{"a:p1"}},
		{"the worst comes first", []topology.CubeNumbers{{Name: "a", Ports: port(false, "gone")}, {Name: "b", Trouble: "PacketIn: it broke"}},
			observe.Observed{}, "", "critical", []string{"b", "a:p1"}},
		{"a broken cube", []topology.CubeNumbers{{Name: "a", Trouble: "could not be restored", Broken: true}}, observe.Observed{}, "", "critical", []string{"a"}},
		{"a service is lost", []topology.CubeNumbers{{Name: "a", Service: "knock", Trouble: "its service is lost"}}, observe.Observed{}, "knock", "critical",
			[]string{"a", "service knock"}},
		{"a repaired store", nil, observe.Observed{Store: madeUpStore{}}, "", "warning", []string{"store"}},
		{"a store whose directory is gone", nil, observe.Observed{Store: statsOf{Missing: "store: its directory /x was removed"}}, "", "critical",
			[]string{"store"}},
		{"a full disk", nil, observe.Observed{Store: statsOf{Full: true}}, "", "critical", []string{"store"}},
		{"a change that was refused", nil, observe.Observed{Store: statsOf{Refusal: "no space left"}}, "", "critical", []string{"store"}},
		{"pins that are gone", nil, observe.Observed{Pins: func() error { return errors.New("/sys/fs/bpf/x is no longer in a BPF file system") }}, "",
			"critical", []string{"bpffs"}},
		{"pins that are there", nil, observe.Observed{Pins: func() error { return nil }}, "", "ok", nil},
		{"a broken store", nil, observe.Observed{Store: madeUpStore{broken: true}}, "", "critical", []string{"store", "store"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLab(t, Options{Manager: sickManager{newManager(t), tt.numbers, tt.lost}, Observed: tt.observed}, false)
			var v observe.StatusView
			if err := json.Unmarshal([]byte(l.must(t, 200, "GET", "/status", "").body), &v); err != nil {
				t.Fatal(err)
			}
			var where []string
			for _, x := range v.Troubles {
				where = append(where, x.Where)
				if x.What == "" {
					t.Errorf("%+v says nothing", x)
				}
			}
			if v.Status != tt.status || !slices.Equal(where, tt.where) {
				t.Errorf("status %s at %v, want %s at %v", v.Status, where, tt.status, tt.where)
			}
			if v.Cubes.Total != len(tt.numbers) || v.Daemon.Version != "1.2.3" || v.Daemon.Kernel == "" || v.Daemon.Memory == 0 {
				t.Errorf("%+v", v)
			}
		})
	}
}

// TestStatusIsBounded: of very many troubles some are listed and the others counted.
func TestStatusIsBounded(t *testing.T) {
	var many []topology.CubeNumbers
	for range 500 {
		many = append(many, topology.CubeNumbers{Name: "a", Ports: []topology.PortNumbers{{Name: "p", Reason: "gone"}}})
	}
	l := newLab(t, Options{Manager: sickManager{newManager(t), many, ""}}, false)
	var v observe.StatusView
	if err := json.Unmarshal([]byte(l.must(t, 200, "GET", "/status", "").body), &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Troubles) != observe.MaxTroubles || v.More != 500-observe.MaxTroubles || v.Ports.Down != 500 {
		t.Errorf("%d troubles and %d more, %d ports down", len(v.Troubles), v.More, v.Ports.Down)
	}
}

// probe asks for a path outside of the API.
func (l *lab) probe(t *testing.T, path string) answer {
	t.Helper()
	req, err := http.NewRequest(http.MethodGet, "http://daemon"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l.send(t, l.client, req)
}

// TestProbes: a daemon that answers is healthy, and ready unless its disk is not.
func TestProbes(t *testing.T) {
	for _, tt := range []struct {
		path   string
		store  statsOf
		status int
		text   string
	}{
		{"/healthz", statsOf{}, 200, "ok\n"}, {"/healthz", statsOf{Broken: true}, 200, "ok\n"}, {"/readyz", statsOf{}, 200, "ok\n"},
		{"/readyz", statsOf{Broken: true}, 503, "the disk state is unknown after a write error, changes are refused\n"},
		{"/readyz", statsOf{Refusal: "no space left on device"}, 503, "the last change could not be written to disk: no space left on device\n"},
	} {
		l := newLab(t, Options{Observed: observe.Observed{Store: tt.store}}, false)
		if a := l.probe(t, tt.path); a.status != tt.status || a.body != tt.text {
			t.Errorf("%s: %d %q, want %d %q", tt.path, a.status, a.body, tt.status, tt.text)
		}
	}
}

// heldLevel is a level in memory.
type heldLevel struct{ name string }

func (h *heldLevel) Level() string { return h.name }

func (h *heldLevel) SetLevel(name string) error {
	if name != "DEBUG" && name != "debug" {
		return errors.New("loglevel: it is no level")
	}
	h.name = "DEBUG"
	return nil
}

// TestDaemonLevel: the level is read and changed, by its name alone or in quotes; what is no level changes nothing.
func TestDaemonLevel(t *testing.T) {
	level := &heldLevel{"INFO"}
	l := newLab(t, Options{Observed: observe.Observed{Level: level}}, false)
	for _, tt := range []struct {
		body   string
		status int
		level  string
	}{
		{`"loud"`, 400, "INFO"}, {`{"loglevel":"DEBUG"}`, 400, "INFO"}, {``, 400, "INFO"}, {`"debug"`, 200, "DEBUG"},
	} {
		if a := l.do(t, "PATCH", "/daemon/loglevel", tt.body); a.status != tt.status || level.name != tt.level {
			t.Errorf("%s: status %d, level %s, want %d and %s: %s", tt.body, a.status, level.name, tt.status, tt.level, a.body)
		}
	}
	if a := l.must(t, 200, "GET", "/daemon/loglevel", ""); a.body != `"DEBUG"` {
		t.Errorf("level %s", a.body)
	}
	if a := l.must(t, 200, "GET", "/daemon", ""); !strings.Contains(a.body, `"loglevel":"DEBUG"`) {
		t.Errorf("daemon %s", a.body)
	}
	l.must(t, 404, "GET", "/daemon/colour", "")
	l.must(t, 405, "DELETE", "/daemon", "")
}
