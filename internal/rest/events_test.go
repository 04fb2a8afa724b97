// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/test/pace"
)

// eventPatience bounds every wait for events.
var eventPatience = pace.Stretch(20 * time.Second)

// watcher is a client that follows events.
type watcher struct {
	t      *testing.T
	status int
	lines  *bufio.Scanner
}

// watch opens a stream of events.
func (l *lab) watch(t *testing.T, query, lastID string) *watcher {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), eventPatience)
	t.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon"+message.BasePath+"/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		req.Header.Set("Last-Event-ID", lastID)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	w := &watcher{t, resp.StatusCode, bufio.NewScanner(resp.Body)}
	w.lines.Buffer(nil, 1<<20)
	return w
}

// line is the next one that is not empty.
func (w *watcher) line() string {
	w.t.Helper()
	for w.lines.Scan() {
		if text := w.lines.Text(); text != "" {
			return text
		}
	}
	w.t.Fatalf("the stream ended: %v", w.lines.Err())
	return ""
}

// next is the next event; heartbeats are passed over.
func (w *watcher) next() events.Event {
	w.t.Helper()
	var id, kind string
	for {
		name, value, _ := strings.Cut(w.line(), ": ")
		switch name {
		case "id":
			id = value
		case "event":
			kind = value
		case "data":
			var e events.Event
			if err := json.Unmarshal([]byte(value), &e); err != nil || e.ID != id || string(e.Type) != kind {
				w.t.Fatalf("event %s %s: %v: %s", id, kind, err, value)
			}
			return e
		}
	}
}

// newEvents is a lab whose manager and server share the events.
func newEvents(t *testing.T, size int) (*lab, *events.Log) {
	log := events.New("run", size)
	return newLab(t, Options{Manager: newManagerWith(t, log), Observed: observe.Observed{Events: log}}, false), log
}

// TestEvents: a change made by one client is told to another, with who made it, and only to those it concerns.
func TestEvents(t *testing.T) {
	l, _ := newEvents(t, 0)
	all, mine, ports := l.watch(t, "", ""), l.watch(t, "?cube=l2,l3", ""), l.watch(t, "?type=port", "")
	for _, w := range []*watcher{all, mine, ports} {
		if got := w.line(); w.status != http.StatusOK || got != "retry: 2000" {
			t.Fatalf("status %d, first line %q", w.status, got)
		}
	}
	l.must(t, 201, "POST", "/lab/l1", `{"ports":[{"name":"p1","peer":"veth1"}]}`)
	l.must(t, 201, "POST", "/lab/l2", "")
	e := all.next()
	if e.Type != events.Config || e.ID != "run-1" || e.Revision != 1 || len(e.Changes) != 1 || e.Changes[0].Cube != "l1" || e.Changes[0].Op != "created" {
		t.Errorf("%+v, want that l1 was created", e)
	}
	if len(e.Origins) != 1 || e.Origins[0].Who == "" || e.Origins[0].What != "POST /polycube/v1/lab/l1" {
		t.Errorf("origins %+v", e.Origins)
	}
	if e := all.next(); e.Type != events.Port || e.Cube != "l1" || e.Port != "p1" || e.State != "UP" {
		t.Errorf("%+v, want that l1:p1 is UP", e)
	}
	if e := mine.next(); e.Changes[0].Cube != "l2" {
		t.Errorf("%+v, want l2 alone", e)
	}
	if e := ports.next(); e.Type != events.Port {
		t.Errorf("%+v, want the port alone", e)
	}
}

// TestEventsGoOnWhereTheyStopped: a client that comes back gets what it missed, or how much that was.
func TestEventsGoOnWhereTheyStopped(t *testing.T) {
	l, log := newEvents(t, 4)
	for range 9 {
		log.Add(events.Event{Type: events.Daemon, Message: "x"})
	}
	for _, tt := range []struct{ after, want string }{
		{"run-7", "daemon run-8"}, {"run-2", "lost run-5"}, {"old-9", "lost run-0"},
	} {
		for _, w := range []*watcher{l.watch(t, "", tt.after), l.watch(t, "?after="+tt.after, "")} {
			e := w.next()
			if got := string(e.Type) + " " + e.ID; got != tt.want {
				t.Errorf("after %s: %s, want %s", tt.after, got, tt.want)
			}
			if e.Type == events.Lost && e.Count != 3 && tt.after == "run-2" {
				t.Errorf("%d lost, want 3", e.Count)
			}
		}
	}
}

// TestTimedEventsOfASlowReader: a client that does not read holds nobody up, and is told what it missed when it does.
func TestTimedEventsOfASlowReader(t *testing.T) {
	l, log := newEvents(t, 16)
	w := l.watch(t, "", "")
	if got := w.line(); got != "retry: 2000" {
		t.Fatal(got)
	}
	long := strings.Repeat("x", 64<<10)
	began := time.Now()
	for range 500 { // 32 MB, which no socket holds
		log.Add(events.Event{Type: events.Daemon, Message: long})
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("500 events took %v while nobody read", took)
	}
	seen, lost := 0, uint64(0)
	for seen+int(lost) < 500 {
		if e := w.next(); e.Type == events.Lost {
			lost += e.Count
		} else {
			seen++
		}
	}
	if lost == 0 || seen < 16 {
		t.Errorf("%d seen and %d lost of 500", seen, lost)
	}
}

// TestEventsHeartbeat: a silent stream says that it lives.
func TestEventsHeartbeat(t *testing.T) {
	l, _ := newEvents(t, 0)
	l.server.observer.Heartbeat = time.Millisecond
	w := l.watch(t, "", "")
	w.line()
	if got := w.line(); got != ": nothing new" {
		t.Errorf("%q", got)
	}
}

// TestEventsRefused: what cannot be asked for is answered with a sentence, and clients above the number find no place.
func TestEventsRefused(t *testing.T) {
	l, _ := newEvents(t, 0)
	for query, want := range map[string]string{
		"?type=nonsense": "is not one of [config port", "?colour=red": "unknown parameter, the parameters are cube", "?after=x": "is not the id of an event",
	} {
		a := l.must(t, 400, "GET", "/events"+query, "")
		if e := a.fault(t); !strings.Contains(e.Message, want) {
			t.Errorf("%s: %q, want %q", query, e.Message, want)
		}
	}
	l.must(t, 405, "POST", "/events", "")
	for range observe.MaxSubscribers {
		w := l.watch(t, "", "")
		w.line()
	}
	a := l.must(t, 503, "GET", "/events", "")
	if e := a.fault(t); !strings.Contains(e.Message, fmt.Sprint(observe.MaxSubscribers)) {
		t.Errorf("%q", e.Message)
	}
	if l := newLab(t, Options{}, false); l.do(t, "GET", "/events", "").status != 400 {
		t.Error("a daemon without events follows them")
	}
}

// TestFollowersOfOneClient: one client that follows events many times leaves places to others, and all of them together
// leave those of root.
func TestFollowersOfOneClient(t *testing.T) {
	l := newLab(t, Options{Observed: everything(), Tokens: someTokens{"full": access.Admin, "look": access.Reader}}, true)
	follow := func(token string) int {
		ctx, cancel := context.WithTimeout(t.Context(), eventPatience)
		t.Cleanup(cancel)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+l.tcp+message.BasePath+"/events", nil)
		if err != nil {
			t.Fatal(err)
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		return resp.StatusCode
	}
	for _, token := range []string{"", "look"} {
		for i := range observe.MaxSubscribersPerClient {
			if got := follow(token); got != 200 {
				t.Fatalf("token %q, follower %d: status %d", token, i+1, got)
			}
		}
		if got := follow(token); got != 503 {
			t.Errorf("token %q, one more: status %d, want 503", token, got)
		}
	}
	if got := follow("full"); got != 503 {
		t.Errorf("a client more than there are places: status %d, want 503", got)
	}
	if w := l.watch(t, "", ""); w.status != 200 {
		t.Errorf("root: status %d", w.status)
	}
}

// TestEventsEndWithTheServer: a server that stops does not wait for those who follow.
func TestEventsEndWithTheServer(t *testing.T) {
	l, _ := newEvents(t, 0)
	w := l.watch(t, "", "")
	w.line()
	ctx, cancel := context.WithTimeout(t.Context(), eventPatience)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil || ctx.Err() != nil {
		t.Errorf("shutting down: %v", err)
	}
	if w.lines.Scan(); w.lines.Scan() {
		t.Errorf("the stream goes on: %q", w.lines.Text())
	}
}
