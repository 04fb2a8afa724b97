// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/test/pace"
)

// with sends a request with a header.
func (l *lab) with(t testing.TB, name, value, method, path, body string) answer {
	t.Helper()
	req, err := http.NewRequest(method, "http://daemon"+message.BasePath+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body == "" {
		req.Body, req.ContentLength = nil, 0
	}
	if value != "" {
		req.Header.Set(name, value)
	}
	return l.send(t, l.client, req)
}

func (l *lab) tagOf(t testing.TB, path string) string {
	t.Helper()
	return l.must(t, 200, "GET", path, "").header.Get("ETag")
}

// TestOnlyIfUnchanged: with the tag of what was read, a change is made once, and refused when anything of the cube's
// configuration changed meanwhile; other cubes do not matter.
func TestOnlyIfUnchanged(t *testing.T) {
	const refused = http.StatusPreconditionFailed
	tests := []struct {
		name               string
		method, path, body string
		success            int
	}{
		{"a leaf", "PATCH", "/wide/w1/level", "7", 200},
		{"the cube", "PATCH", "/wide/w1", `{"level":7}`, 201},
		{"a container", "PUT", "/wide/w1/plain", `{"rate":7}`, 201},
		{"a large list's entry", "POST", "/wide/w1/rule/1", `{"action":"DROP"}`, 201},
		{"an entry that goes", "DELETE", "/wide/w1/rule/99", "", 204},
		{"the whole list", "DELETE", "/wide/w1/rule", "", 200},
		{"the cube, for good", "DELETE", "/wide/w1", "", 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newWide(t)
			l.must(t, 201, "POST", "/wide/w2", "")
			old := l.tagOf(t, "/wide/w1")
			l.must(t, 201, "PATCH", "/wide/w1", `{"limits":{"rate":99}}`) // somebody else
			if a := l.with(t, "If-Match", old, tt.method, tt.path, tt.body); a.status != refused || a.fault(t).Tag != message.TagStale {
				t.Errorf("with an old tag: %d %s", a.status, a.body)
			}
			now := l.tagOf(t, "/wide/w1/plain")
			if old == now {
				t.Errorf("the tag %s did not change", old)
			}
			for _, other := range []string{`"x"`, "W/" + now, strings.Replace(now, `-`, `0-`, 1)} {
				if a := l.with(t, "If-Match", other, tt.method, tt.path, tt.body); a.status != refused {
					t.Errorf("with the tag %s: %d %s", other, a.status, a.body)
				}
			}
			l.must(t, 200, "PATCH", "/wide/w2/level", "5") // another cube
			if a := l.with(t, "If-Match", `"x", `+now, tt.method, tt.path, tt.body); a.status != tt.success {
				t.Errorf("with its tag: %d %s", a.status, a.body)
			}
			if a := l.with(t, "If-Match", now, tt.method, tt.path, tt.body); a.status != refused {
				t.Errorf("a second time: %d %s", a.status, a.body)
			}
		})
	}
}

// TestIfMatchAny: * is for whatever there is, and not for what is not there.
func TestIfMatchAny(t *testing.T) {
	l := newWide(t)
	for _, tt := range []struct {
		value, method, path, body string
		status                    int
	}{
		{"*", "PATCH", "/wide/w1/level", "5", 200},
		{"*", "POST", "/wide/w9", "", 412},
		{`"a"`, "DELETE", "/wide/w9", "", 412},
		{"a", "PATCH", "/wide/w1/level", "5", 400},
		{`"a`, "PATCH", "/wide/w1/level", "5", 400},
		{`"a"`, "POST", "/wide", `{"name":"w8"}`, 400},
		{`"a"`, "POST", "/connect", `{"peer1":"a:b","peer2":"c:d"}`, 400},
		{`"a"`, "GET", "/wide/w1", "", 200},
	} {
		if a := l.with(t, "If-Match", tt.value, tt.method, tt.path, tt.body); a.status != tt.status {
			t.Errorf("%s %s with %s: %d %s", tt.method, tt.path, tt.value, a.status, a.body)
		}
	}
	if a := l.do(t, "GET", "/wide/w8", ""); a.status != 404 {
		t.Errorf("a change with a condition that has no meaning was made: %s", a.body)
	}
}

// TestNotModified: what has no state is not sent again while it is the same.
func TestNotModified(t *testing.T) {
	l := newWide(t)
	for path, pure := range map[string]bool{"/wide/w1/plain": true, "/wide/w1/level": true, "/wide/w1/route": true, "/wide/w1/rule": true,
		"/wide/w1/rule/99": true, "/wide/w1": false, "/wide/w1/limits": false, "/wide/w1/ports": false} {
		tag := l.tagOf(t, path)
		want := map[bool]int{true: 304, false: 200}[pure]
		for _, value := range []string{tag, "W/" + tag, `"x", ` + tag} {
			if a := l.with(t, "If-None-Match", value, "GET", path, ""); a.status != want || (want == 304) != (a.body == "") {
				t.Errorf("%s with %s: %d %s", path, value, a.status, a.body)
			}
		}
	}
	old := l.tagOf(t, "/wide/w1/level")
	l.must(t, 200, "PATCH", "/wide/w1/level", "9")
	if a := l.with(t, "If-None-Match", old, "GET", "/wide/w1/level", ""); a.status != 200 || a.body != "9" || a.header.Get("ETag") == old {
		t.Errorf("after a change: %d %s", a.status, a.body)
	}
	if a := l.with(t, "If-None-Match", "x", "GET", "/wide/w1/level", ""); a.status != 400 {
		t.Errorf("what is no tag: %d", a.status)
	}
}

// TestNoStepOfManyClientsIsLost: fifty clients at once, each counting one cube's leaf up by reading and writing back only if unchanged:
// no request fails but for a stale tag, and no step of anybody is lost. Others read pages and change entries meanwhile.
func TestNoStepOfManyClientsIsLost(t *testing.T) {
	const clients = 50
	l := newWide(t)
	l.must(t, 201, "POST", "/wide/w2", "")
	steps, end := 4, time.Time{}
	if os.Getenv("POLYCUBE_SOAK") != "" {
		steps, end = 1<<30, time.Now().Add(time.Minute)
	}
	var made, staleOnes atomic.Int64
	var wait sync.WaitGroup
	for i := range clients {
		wait.Go(func() {
			c := l.newClient(t)
			defer c.CloseIdleConnections()
			for n := 0; n < steps && (end.IsZero() || time.Now().Before(end)); n++ {
				path := fmt.Sprintf("/wide/w2/rule/%d", 1000*i+n%500)
				if err := l.client50(c, &made, &staleOnes, path); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	level, err := strconv.ParseInt(l.must(t, 200, "GET", "/wide/w1/level", "").body, 10, 64)
	if err != nil || level != 1+made.Load() || made.Load() == 0 || end.IsZero() && made.Load() != int64(clients*steps) {
		t.Errorf("%d steps were made, the level is %d, %v", made.Load(), level, err)
	}
	if got := len(keysIn(t, l.must(t, 200, "GET", "/wide/w2/rule", "").body, "id")); got != 0 {
		t.Errorf("%d entries are left", got)
	}
	t.Logf("%d steps, %d times something was stale", made.Load(), staleOnes.Load())
}

func (l *lab) newClient(t testing.TB) *http.Client {
	t.Helper()
	return &http.Client{Timeout: pace.Stretch(time.Minute), Transport: &http.Transport{MaxIdleConnsPerHost: 1,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", l.socket)
		}}}
}

// client50 is one round of a client: an entry comes and goes, a page is read, and the level goes up by one.
func (l *lab) client50(c *http.Client, made, staleOnes *atomic.Int64, path string) error {
	if _, err := request(c, "POST", path, `{"action":"FORWARD"}`, "", http.StatusCreated); err != nil {
		return err
	}
	page, err := request(c, "GET", "/wide/w1/rule?limit=5&filter=action%3DDROP", "", "", http.StatusOK)
	if err != nil {
		return err
	}
	var entries []json.RawMessage
	if err := json.Unmarshal([]byte(page.body), &entries); err != nil || len(entries) != 5 {
		return fmt.Errorf("a page of %d entries: %w", len(entries), err)
	}
	for {
		read, err := request(c, "GET", "/wide/w1/level", "", "", http.StatusOK)
		if err != nil {
			return err
		}
		level, err := strconv.Atoi(read.body)
		if err != nil {
			return err
		}
		wrote, err := request(c, "PATCH", "/wide/w1/level", strconv.Itoa(level+1), read.header.Get("ETag"), http.StatusOK, http.StatusPreconditionFailed)
		if err != nil {
			return err
		}
		if wrote.status == http.StatusOK {
			made.Add(1)
			break
		}
		staleOnes.Add(1)
	}
	_, err = request(c, "DELETE", path, "", "", http.StatusNoContent)
	return err
}

// request sends one, outside of the test's goroutine, and expects one of the statuses.
func request(c *http.Client, method, path, body, ifMatch string, want ...int) (answer, error) {
	req, err := http.NewRequest(method, "http://daemon"+message.BasePath+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	if ifMatch != "" {
		req.Header.Set("If-Match", ifMatch)
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, err
	}
	for _, status := range want {
		if resp.StatusCode == status {
			return answer{resp.StatusCode, resp.Header, string(raw)}, nil
		}
	}
	return answer{}, fmt.Errorf("%s %s: status %d: %s", method, path, resp.StatusCode, string(raw))
}
