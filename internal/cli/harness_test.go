// SPDX-License-Identifier: Apache-2.0

// A daemon that records what it is asked, reached over a Unix socket or TCP,
// and a run of the client against it: what the tests of this package share.

package cli

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/pace"
)

// exchange is one request as the daemon saw it.
type exchange struct {
	method, uri, body string
	header            http.Header
}

func (e exchange) String() string { return fmt.Sprintf("%s %s %s", e.method, e.uri, e.body) }

// daemon answers with handler and remembers the requests.
type daemon struct {
	env  map[string]string // how to reach it, for the client
	url  string            // over TCP
	mu   sync.Mutex
	seen []exchange
}

func (d *daemon) requests() []exchange {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]exchange{}, d.seen...)
}

func (d *daemon) serve(handler http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		d.mu.Lock()
		d.seen = append(d.seen, exchange{r.Method, r.RequestURI, string(body), r.Header.Clone()})
		d.mu.Unlock()
		handler(w, r)
	})
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// newDaemon serves over "unix" or "tcp".
func newDaemon(t testing.TB, network string, handler http.HandlerFunc) *daemon {
	t.Helper()
	d := &daemon{env: map[string]string{"HOME": t.TempDir()}}
	srv := httptest.NewUnstartedServer(d.serve(handler))
	if network == "unix" {
		// t.TempDir can be longer than a socket's address may be.
		dir, err := os.MkdirTemp("", "pctl")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, "d.sock")
		l, err := net.Listen("unix", path)
		if err != nil {
			t.Fatal(err)
		}
		srv.Listener.Close()
		srv.Listener = l
		d.env["POLYCUBECTL_SOCKET"] = path
	}
	srv.Start()
	t.Cleanup(srv.Close)
	if network == "tcp" {
		d.url = srv.URL
		d.env["POLYCUBECTL_URL"] = srv.URL + "/polycube/v1/"
	}
	return d
}

type result struct {
	code     Exit
	out, err string
}

func (d *daemon) getenv(key string) string { return d.env[key] }

// run runs the client with nothing on standard input.
func (d *daemon) run(args ...string) result { return runWith(d.getenv, nil, args...) }

func runWith(getenv func(string) string, stdin *os.File, args ...string) result {
	var out, errs bytes.Buffer
	code := Run(args, stdin, &out, &errs, getenv)
	return result{code, out.String(), errs.String()}
}

// runPatiently runs with another patience for standard input.
func (d *daemon) runPatiently(p patience, stdin *os.File, args ...string) result {
	var out, errs bytes.Buffer
	s := newSession(stdin, &out, &errs, d.getenv)
	s.patience = p
	code := s.run(args)
	return result{code, out.String(), errs.String()}
}

// fileInput is standard input redirected from a file.
func fileInput(t testing.TB, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "input")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// longPatience is for tests in which input does come; far more than they take.
var longPatience = patience{offered: pace.Stretch(time.Minute), awaited: pace.Stretch(time.Minute)}

// actAsProgram makes the test binary the program itself.
const actAsProgram = "POLYCUBECTL_TEST_ACT_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(actAsProgram) != "" {
		os.Exit(int(Run(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)))
	}
	os.Exit(m.Run())
}
