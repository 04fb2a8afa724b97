// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/test/pace"
)

// TestHostileInput: a clear error with the right status, nothing changed, and a daemon
// that answers the next request.
func TestHostileInput(t *testing.T) {
	nested := func(n int) string { return strings.Repeat(`{"a":`, n) + "1" + strings.Repeat("}", n) }
	long := strings.Repeat("n", 1000)
	tests := []struct {
		name, method, path, body string
		status                   int
		says                     string
	}{
		{"unknown leaf", "PATCH", "/lab/l1", `{"colour":"red"}`, 400, "colour"},
		{"unknown leaf in a list", "POST", "/lab/l1/ports/p2", `{"colour":"red"}`, 400, "colour"},
		{"wrong type", "PATCH", "/lab/l1", `{"enabled":"maybe"}`, 400, "enabled"},
		{"out of range", "PATCH", "/lab/l1/route/10.0.0.0%2F8/1.1.1.1", `{"pathcost":256}`, 400, "pathcost"},
		{"negative", "PATCH", "/lab/l1/fdb", `{"aging-time":-1}`, 400, "aging-time"},
		{"huge number", "PATCH", "/lab/l1/fdb", `{"aging-time":1e400}`, 400, "aging-time"},
		{"null in what is new", "POST", "/lab/l1/route/1/2", `{"pathcost":null}`, 400, "pathcost"},
		{"malformed JSON", "POST", "/lab/l2", `{"mode":`, 400, "not JSON"},
		{"YAML", "POST", "/lab/l2", "mode: DROP\n", 400, "not JSON"},
		{"binary", "POST", "/lab/l2", "\x00\x01\x02", 400, "not JSON"},
		{"a body of 10 MB", "POST", "/lab/l2", `{"mode":"` + strings.Repeat("x", 10<<20) + `"}`, 413, "larger than 8 MiB"},
		{"a body of 7 MB", "POST", "/lab/l2", `{"mode":"` + strings.Repeat("x", 7<<20) + `"}`, 400, "mode"},
		{"nesting of 63", "POST", "/lab/l2", nested(63), 400, "a"},
		{"nesting of 65", "POST", "/lab/l2", nested(65), 400, "nested deeper"},
		{"nesting of 100000", "POST", "/cubes", nested(100000), 400, "nested deeper"},
		{"path traversal in a cube's name", "POST", "/lab/..%2f..%2fetc%2fpasswd", "{}", 400, "not a valid name"},
		{"a slash in a cube's name", "POST", "/lab/a%2fb", "{}", 400, "name"},
		{"dots as a cube's name", "POST", "/lab/%2e%2e", "{}", 400, "not a valid name"},
		{"path traversal in a body", "POST", "/lab", `{"name":"../../etc/passwd"}`, 400, "name"},
		{"path traversal in a port's name", "POST", "/lab/l1/ports/..%2f..%2fp", "{}", 400, "not a valid name"},
		{"a cube's name of 1000 characters", "POST", "/lab/" + long, "{}", 400, "1000 bytes"},
		{"a cube's name of 200 characters", "POST", "/lab/" + long[:200], "{}", 400, "name"},
		{"a cube's name of 1000 characters in a body", "POST", "/lab", `{"name":"` + long + `"}`, 400, "name"},
		{"a port's name of 1000 characters", "POST", "/lab/l1/ports/" + long, "{}", 400, "name"},
		{"a path of 9 KB", "GET", "/lab/l1/" + strings.Repeat("x/", 4600), "", 414, "bytes"},
		{"a path of 65 words", "GET", "/" + strings.Repeat("x/", 65), "", 400, "65 segments"},
		{"a name with a line break", "POST", "/lab/a%0Ab", "{}", 400, "name"},
		{"an XPath in a key", "GET", "/lab/l1/route/'%5D%20or%20'1'='1/%22%27", "", 404, ""},
		{"a key that is both quotes", "POST", "/lab/l1/route/%22%27/x", `{"pathcost":0}`, 201, ""},
		{"a missing netdev", "POST", "/connect", `{"peer1":"l1:p1","peer2":"nodev"}`, 400, "nodev"},
		{"a netdev that no system has", "POST", "/connect", `{"peer1":"l1:p1","peer2":"../../x"}`, 400, "x"},
		{"another kind of help", "OPTIONS", "/lab/l1?help=ME", "", 400, "help"},
		{"a query that is none", "OPTIONS", "/lab/l1?%zz&;=", "", 200, ""},
		{"members of an array that are none", "POST", "/cubes", `[1,null,"x"]`, 400, ""},
		{"an array of nothing below a service", "POST", "/lab", `[null]`, 400, "name"},
		{"a scalar for all cubes", "POST", "/cubes", `"x"`, 400, ""},
		{"nothing for all cubes", "POST", "/cubes", ``, 400, ""},
	}
	l := newLab(t, Options{}, false)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, ref := range l.server.manager.Cubes() {
				l.must(t, 200, "DELETE", "/"+ref.Service+"/"+ref.Name, "")
			}
			l.must(t, 201, "POST", "/cubes", labSetUp)
			before := l.do(t, "GET", "/cubes", "").body
			a := l.do(t, tt.method, tt.path, tt.body)
			if a.status != tt.status {
				t.Fatalf("status %d, want %d: %.300s", a.status, tt.status, a.body)
			}
			if tt.status < 400 {
				return
			}
			e := a.fault(t)
			if !strings.Contains(e.Message, tt.says) || len(e.Message) > 500 {
				t.Errorf("the sentence %.600q does not say %q in at most 500 bytes", e.Message, tt.says)
			}
			if after := l.do(t, "GET", "/cubes", "").body; after != before {
				t.Errorf("something changed:\nbefore %s\nafter  %s", before, after)
			}
		})
	}
}

// TestChunkedBody: a body whose length nobody announced is limited anyway.
func TestChunkedBody(t *testing.T) {
	l := newLab(t, Options{}, false)
	body := io.MultiReader(strings.NewReader(`{"mode":"`), bytes.NewReader(bytes.Repeat([]byte{'x'}, 9<<20)))
	req, err := http.NewRequest("POST", "http://daemon"+message.BasePath+"/lab/l2", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := l.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("status %d, want 413", resp.StatusCode)
	}
	l.must(t, 200, "GET", "/version", "")
}

// TestConflictingRequests: of many that create the same cube one wins; many updates of
// one leaf leave one of their values.
func TestConflictingRequests(t *testing.T) {
	l := newLab(t, Options{}, false)
	const clients = 32
	count := func(method, path, body string) map[int]int {
		var mu sync.Mutex
		statuses := map[int]int{}
		var wg sync.WaitGroup
		for range clients {
			wg.Go(func() {
				a := l.do(t, method, path, body)
				mu.Lock()
				defer mu.Unlock()
				statuses[a.status]++
			})
		}
		wg.Wait()
		return statuses
	}
	if got := count("POST", "/lab/l1", `{"mode":"FORWARD"}`); got[201] != 1 || got[409] != clients-1 {
		t.Errorf("creating one cube %d times: %v", clients, got)
	}
	if got := count("PATCH", "/lab/l1/fdb/aging-time", "77"); got[200] != clients {
		t.Errorf("updating one leaf %d times: %v", clients, got)
	}
	if got := l.do(t, "GET", "/lab/l1/fdb/aging-time", "").body; got != "77" {
		t.Errorf("the leaf is %s", got)
	}
	if got := count("DELETE", "/lab/l1", ""); got[200] != 1 || got[409] != clients-1 {
		t.Errorf("deleting one cube %d times: %v", clients, got)
	}
}

// stub is a manager of which a test replaces single methods.
type stub struct {
	Manager
	fates func(string) ([]datapath.Fate, error)
}

func (s stub) Fates(cube string) ([]datapath.Fate, error) { return s.fates(cube) }

// TestPanic: a handler that panics returns 500 in our shape, is logged with its stack, and the daemon lives.
func TestPanic(t *testing.T) {
	l := newLab(t, Options{Manager: stub{newManager(t), func(string) ([]datapath.Fate, error) { panic("at the disco") }}}, false)
	l.must(t, 201, "POST", "/lab/l1", "")
	e := l.must(t, 500, "GET", "/cubes/l1/stats", "").fault(t)
	if e.Tag != message.TagFailed || strings.Contains(e.Message, "disco") {
		t.Errorf("the answer shows %+v", e)
	}
	if log := l.log.String(); !strings.Contains(log, "at the disco") || !strings.Contains(log, "hostile_test.go") {
		t.Errorf("the log lacks the panic or its stack:\n%s", log)
	}
	if a := l.must(t, 200, "GET", "/metrics", ""); !strings.Contains(a.body, "polycube_build_info") {
		t.Errorf("metrics after a panic while collecting: %s", a.body)
	}
	l.must(t, 200, "GET", "/version", "")
}

// TestTooManyRequests: the request beyond the limit is told to come again; those in progress are answered.
func TestTooManyRequests(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, front.MaxRequests)
	l := newLab(t, Options{Manager: stub{newManager(t), func(string) ([]datapath.Fate, error) {
		started <- struct{}{}
		<-release
		return nil, nil
	}}}, false)
	l.must(t, 201, "POST", "/lab/l1", "")
	var wg sync.WaitGroup
	var mu sync.Mutex
	statuses := map[int]int{}
	for range front.MaxRequests {
		wg.Go(func() {
			a := l.do(t, "GET", "/cubes/l1/stats", "")
			mu.Lock()
			defer mu.Unlock()
			statuses[a.status]++
		})
	}
	for range front.MaxRequests {
		<-started
	}
	a := l.must(t, http.StatusServiceUnavailable, "GET", "/version", "")
	if e := a.fault(t); e.Tag != message.TagResource || a.header.Get("Retry-After") == "" {
		t.Errorf("the refusal is %+v, Retry-After %q", e, a.header.Get("Retry-After"))
	}
	close(release)
	wg.Wait()
	if statuses[200] != front.MaxRequests {
		t.Errorf("requests under way ended in %v", statuses)
	}
	l.must(t, 200, "GET", "/version", "")
}

// TestShutdownCutsOff: a request that hangs does not keep the daemon from stopping.
func TestShutdownCutsOff(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{})
	l := newLab(t, Options{Manager: stub{newManager(t), func(string) ([]datapath.Fate, error) {
		close(started)
		<-release
		return nil, nil
	}}}, false)
	l.must(t, 201, "POST", "/lab/l1", "")
	cut := make(chan error)
	go func() {
		resp, err := l.client.Get("http://daemon" + message.BasePath + "/cubes/l1/stats")
		if err == nil {
			err = resp.Body.Close()
		}
		cut <- err
	}()
	<-started
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
	if err := <-cut; err == nil {
		t.Error("the hanging request was answered")
	}
	close(release)
}

// TestSlowClients: clients that never finish their headers are cut off, and do not keep
// others from being served.
func TestSlowClients(t *testing.T) {
	t.Parallel()
	l := newLab(t, Options{}, true)
	const slow = 50
	conns := make([]net.Conn, slow)
	for i := range conns {
		c, err := net.Dial("tcp", l.tcp)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := fmt.Fprintf(c, "GET /polycube/v1/version HTTP/1.1\r\nHost: %s\r\nX-Slow: ", l.tcp); err != nil {
			t.Fatal(err)
		}
		conns[i] = c
	}
	l.must(t, 200, "GET", "/version", "")
	deadline := time.Now().Add(readHeaderTimeout + pace.Stretch(10*time.Second))
	for _, c := range conns {
		if err := c.SetReadDeadline(deadline); err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Fatalf("a client that never finishes its headers is not cut off: %v", err)
		}
	}
}

// TestLargeHeader: a header beyond 32 KB is refused.
func TestLargeHeader(t *testing.T) {
	l := newLab(t, Options{}, true)
	c, err := net.Dial("tcp", l.tcp)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// The server may hang up before all is written, which is as good a response.
	_, _ = fmt.Fprintf(c, "GET /polycube/v1/version HTTP/1.1\r\nHost: %s\r\nX-Big: %s\r\n\r\n", l.tcp, strings.Repeat("x", 64<<10))
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err == nil {
		defer resp.Body.Close()
		if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
			t.Errorf("status %d, want 431", resp.StatusCode)
		}
	}
	l.must(t, 200, "GET", "/version", "")
}
