// SPDX-License-Identifier: Apache-2.0

package upf

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/internal/n4/rules"
)

// fakeDaemon is a daemon whose answers are by method and path.
func fakeDaemon(t *testing.T, answers map[string]http.HandlerFunc) *daemon {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.Method+" "+strings.TrimPrefix(r.URL.EscapedPath(), "/polycube/v1/")]
		if !ok {
			http.NotFound(w, r)
			return
		}
		answer(w, r)
	}))
	_ = s.Listener.Close()
	s.Listener = l
	s.Start()
	t.Cleanup(s.Close)
	return newDaemon(socket)
}

// says is an answer with a status and a body.
func says(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// TestTheDaemonSaysWhatACubeIs, and what is wrong if it does not.
func TestTheDaemonSaysWhatACubeIs(t *testing.T) {
	t.Parallel()
	const uuid, locals = `"5e0c"`, `[{"address":"192.0.2.1"},{"address":"2001:db8::1"}]`
	for _, tt := range []struct {
		name         string
		uuid, locals http.HandlerFunc
		wrong        string
	}{
		{"a cube", says(200, uuid), says(200, locals), ""},
		{"no uuid", says(500, "broken\n"), says(200, locals), "cube u/1: GET upf/u%2F1/uuid/: broken"},
		{"no addresses", says(200, uuid), says(503, "it stops"), "cube u/1: GET upf/u%2F1/local-address/: it stops"},
		{"no JSON", says(200, "{"), says(200, locals), "cube u/1: uuid: "},
		{"no address", says(200, uuid), says(200, `[{"address":"here"}]`), "cube u/1: local-address: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			d := fakeDaemon(t, map[string]http.HandlerFunc{"GET upf/u%2F1/uuid/": tt.uuid, "GET upf/u%2F1/local-address/": tt.locals})
			is, err := d.cube(t.Context(), "u/1")
			switch {
			case tt.wrong != "":
				if err == nil || !strings.HasPrefix(err.Error(), tt.wrong) || errors.Is(err, errNoCube) {
					t.Errorf("%v, want %q", err, tt.wrong)
				}
			case err != nil || is.UUID != "5e0c" || len(is.Locals) != 2 || is.Locals[0].Address != netip.MustParseAddr("192.0.2.1"):
				t.Errorf("%+v, %v", is, err)
			}
		})
	}
}

// TestACubeThatDoesNotExist is told from a daemon that does not answer.
func TestACubeThatDoesNotExist(t *testing.T) {
	t.Parallel()
	if _, err := fakeDaemon(t, nil).cube(t.Context(), "u"); !errors.Is(err, errNoCube) {
		t.Errorf("no cube: %v", err)
	}
	_, err := newDaemon(filepath.Join(t.TempDir(), "s")).cube(t.Context(), "u")
	if err == nil || errors.Is(err, errNoCube) || !strings.Contains(err.Error(), "polycubed does not answer") {
		t.Errorf("no daemon: %v", err)
	}
}

// TestEndMarkersAreSentByTheDaemon, in their order.
func TestEndMarkersAreSentByTheDaemon(t *testing.T) {
	t.Parallel()
	sent := make(chan string, 2)
	d := fakeDaemon(t, map[string]http.HandlerFunc{"POST upf/u/end-marker/": func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		sent <- r.Header.Get("Content-Type") + " " + string(body)
	}})
	p := newPlane(d, "u", nil, cubeState{}, slog.New(slog.DiscardHandler))
	for teid := range uint32(2) {
		m := rules.EndMarker{Tunnel: rules.Tunnel{Peer: netip.MustParseAddr("192.0.2.10"), TEID: 1025 + teid}}
		if teid == 1 {
			m.Local = "n9"
		}
		if err := p.EndMarker(m); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		p.mark(ctx)
	}()
	for _, want := range []string{`{"remote-teid":1025,"tunnel-endpoint":"192.0.2.10"}`, `{"network-instance":"n9","remote-teid":1026,"tunnel-endpoint":"192.0.2.10"}`} {
		want = "application/json " + want
		if got := <-sent; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	stop()
	<-ended
	for {
		if err := p.EndMarker(rules.EndMarker{}); err != nil {
			if !errors.Is(err, cube.ErrFull) {
				t.Error(err)
			}
			break
		}
	}
}

// TestLocalAddressesAreThoseOfTheCube, which may change.
func TestLocalAddressesAreThoseOfTheCube(t *testing.T) {
	t.Parallel()
	var is cubeState
	p := newPlane(nil, "u", nil, is, slog.New(slog.DiscardHandler))
	if got := p.Locals(); len(got) != 0 {
		t.Errorf("no address: %v", got)
	}
	n3, n9 := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.3.1")
	is.Locals = []gtppath.Address{{Address: n3}, {Address: n9, Instance: "n9"}}
	p.know(is)
	if got, want := p.Locals(), (rules.Locals{{Address: n3}, {Address: n9, Instance: "n9"}}); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
