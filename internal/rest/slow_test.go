// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/config"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/test/pace"
)

// Clients that are slow on purpose: they connect and say nothing, send byte by byte, or read byte by byte. On each
// listener their time ends, they are counted, and until then nobody else waits for them.

// never is a deadline that no test reaches.
const never = time.Hour

// door is a way into a server, as an admin.
type door struct {
	name string
	dial func() (net.Conn, error)
	// raw connects without greeting.
	raw func() (net.Conn, error)
	// header is what every request begins with after its first line.
	header string
}

// doors are the Unix socket, plain TCP with a token, and TLS with the certificate of alice.
func (c *castle) doors(t *testing.T) []door {
	t.Helper()
	unix := func() (net.Conn, error) { return net.Dial("unix", c.socket) }
	plain := func() (net.Conn, error) { return net.Dial("tcp", c.tcp) }
	config := &tls.Config{RootCAs: c.root.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{c.root.Client(t, "alice").TLS()}}
	return []door{
		{"Unix", unix, unix, "Host: daemon\r\n"},
		{"TCP", plain, plain, "Host: " + c.tcp + "\r\nAuthorization: Bearer full\r\n"},
		{"TLS", func() (net.Conn, error) { return tls.Dial("tcp", c.tls, config) }, func() (net.Conn, error) { return net.Dial("tcp", c.tls) },
			"Host: " + c.tls + "\r\n"},
	}
}

// slow is what a client does. It returns when the server has hung up, with what it was answered last.
type slow struct {
	name string
	// does is what the client does on an open connection; nil is that it does nothing, and greets nobody.
	does func(c net.Conn, header string) error
	// tune makes the one deadline short that has to end it.
	tune   func(h *http.Server, short time.Duration)
	reason front.DropReason
	// status is the response that it gets, 0 for none.
	status int
}

func shortHeader(h *http.Server, d time.Duration) { h.ReadHeaderTimeout = d }
func shortBody(h *http.Server, d time.Duration)   { h.ReadTimeout = d }

// sends writes what a request begins with.
func sends(first, more string) func(net.Conn, string) error {
	return func(c net.Conn, header string) error {
		_, err := io.WriteString(c, first+" HTTP/1.1\r\n"+header+more)
		return err
	}
}

var slows = []slow{
	{name: "says nothing", tune: shortHeader, reason: front.DropSilent},
	{name: "greets and says nothing", does: func(net.Conn, string) error { return nil }, tune: shortHeader, reason: front.DropSilent},
	{name: "sends its header byte by byte", does: sends("GET /polycube/v1/version", "X-Slow: "), tune: shortHeader, reason: front.DropSlowRequest},
	{name: "sends its second header byte by byte", does: func(c net.Conn, header string) error {
		if err := sends("GET /polycube/v1/version", "\r\n")(c, header); err != nil {
			return err
		}
		if status, err := readStatus(bufio.NewReader(c)); status != 200 {
			return fmt.Errorf("the first request: status %d, %w", status, err)
		}
		return sends("GET /polycube/v1/version", "X-Slow: ")(c, header)
	}, tune: shortHeader, reason: front.DropSlowRequest},
	{name: "sends its body byte by byte", does: sends("POST /polycube/v1/lab/l9", "Content-Length: 10000\r\n\r\n"),
		tune: shortBody, reason: front.DropSlowRequest, status: 408},
	{name: "sends a chunk byte by byte", does: sends("POST /polycube/v1/lab/l9", "Transfer-Encoding: chunked\r\n\r\n2710\r\n"),
		tune: shortBody, reason: front.DropSlowRequest, status: 408},
	{name: "sends a document byte by byte", does: sends("PUT /polycube/v1/config", "Content-Length: 10000\r\n\r\n"),
		tune: shortBody, reason: front.DropSlowRequest, status: 408},
	{name: "sends a body that nobody wants byte by byte", does: sends("POST /polycube/v1/nosuch", "Content-Length: 10000\r\n\r\n"),
		tune: shortBody, reason: front.DropSlowRequest, status: 404},
}

// drip writes a byte now and then until the server has hung up, and returns the status of the last answer.
func (s *slow) drip(d door) (status int, err error) {
	dial := d.dial
	if s.does == nil {
		dial = d.raw
	}
	c, err := dial()
	if err != nil {
		return 0, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(shutdownPatience)); err != nil {
		return 0, err
	}
	if s.does != nil {
		if err := s.does(c, d.header); err != nil {
			return 0, err
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		status, err = readStatus(bufio.NewReader(c))
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			err = nil
			if _, rest := io.Copy(io.Discard, c); errors.Is(rest, os.ErrDeadlineExceeded) {
				err = rest
			}
		}
	}()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return status, err
		case <-tick.C:
		}
		if s.reason != front.DropSilent {
			_, _ = c.Write([]byte(" ")) // the reader knows when it is over
		}
	}
}

// resources are the goroutines and open files of this process.
func resources(t *testing.T) (goroutines, files int) {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return runtime.NumGoroutine(), len(entries)
}

// TestSlowClientsAreDropped: each deadline ends what it is for, on each listener. The client is told where it can be, the
// connection is counted and recorded by its reason, and nothing of it is left.
func TestSlowClientsAreDropped(t *testing.T) {
	const each = 8
	for _, s := range slows {
		t.Run(s.name, func(t *testing.T) {
			c := newOpenCastle(t, Options{Rate: -1, Tokens: someTokens{"full": access.Admin}}, true, func(server *Server) {
				if h := server.http; min(h.ReadHeaderTimeout, h.ReadTimeout, h.WriteTimeout, h.IdleTimeout) <= 0 {
					t.Error("the server has no deadlines of its own")
				}
				server.http.ReadHeaderTimeout, server.http.ReadTimeout, server.http.WriteTimeout = never, never, never
				s.tune(server.http, pace.Stretch(time.Second)) // which the handshake has to meet as well
			})
			goroutines, files := resources(t)
			doors := c.doors(t)
			var done sync.WaitGroup
			for _, d := range doors {
				for range each {
					done.Go(func() {
						if status, err := s.drip(d); err != nil || status != s.status {
							t.Errorf("%s: status %d, %v, want %d", d.name, status, err, s.status)
						}
					})
				}
			}
			done.Wait()
			eventually(t, "all are counted as "+string(s.reason), func() bool { return c.drops(t, s.reason) == each*len(doors) })
			c.audited(t, `"refused":"`+s.reason.Says())
			if cubes := c.server.manager.Cubes(); len(cubes) > 0 {
				t.Errorf("half a request was carried out: %v", cubes)
			}
			c.leaves(t, goroutines, files)
		})
	}
}

// TestSlowReadersAreDropped: so does the deadline of a response end one that is read byte by byte.
func TestSlowReadersAreDropped(t *testing.T) {
	const each = 2
	long := make([]datapath.Fate, 100_000)
	for i := range long {
		long[i].Name = strings.Repeat("x", 100)
	}
	c := newOpenCastle(t, Options{Tokens: someTokens{"full": access.Admin}, Manager: stub{newManager(t), func(string) ([]datapath.Fate, error) {
		return long, nil
	}}}, true, func(server *Server) { server.http.WriteTimeout = pace.Stretch(500 * time.Millisecond) })
	c.must(t, 201, "POST", "/lab/l1", "")
	c.client.CloseIdleConnections()
	goroutines, files := resources(t)
	doors := c.doors(t)
	over := make(chan struct{})
	var done sync.WaitGroup
	for _, d := range doors {
		for range each {
			done.Go(func() {
				conn, err := d.dial()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				if err := sends("GET /polycube/v1/cubes/l1/stats", "\r\n")(conn, d.header); err != nil {
					t.Error(err)
				}
				tick := time.NewTicker(10 * time.Millisecond)
				defer tick.Stop()
				for one := make([]byte, 1); ; {
					select {
					case <-over:
						return
					case <-tick.C:
						_, _ = conn.Read(one) // what the kernel holds is there after the server has hung up
					}
				}
			})
		}
	}
	eventually(t, "all are dropped", func() bool { return c.drops(t, front.DropSlowAnswer) == each*len(doors) })
	close(over)
	done.Wait()
	c.audited(t, `"refused":"`+front.DropSlowAnswer.Says())
	c.leaves(t, goroutines, files)
}

// drops is how many connections were dropped for a reason.
func (l *lab) drops(t *testing.T, reason front.DropReason) int {
	t.Helper()
	var text bytes.Buffer
	if err := l.server.observer.Exports().Write(t.Context(), &text, metrics.Text); err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(text.String(), fmt.Sprintf("\npolycube_api_connections_dropped_total{reason=%q} ", reason))
	if !found {
		return 0
	}
	var n float64
	if _, err := fmt.Sscan(rest, &n); err != nil {
		t.Fatal(err)
	}
	return int(n)
}

// leaves waits until no more is in use than was before the test's connections.
func (l *lab) leaves(t *testing.T, goroutines, files int) {
	t.Helper()
	l.client.CloseIdleConnections()
	var g, f int
	eventually(t, "the resources of closed connections are free", func() bool {
		g, f = resources(t)
		return g <= goroutines && f <= files
	})
}

// TestSlowClientsKeepNobodyOut: slow clients of two admins have all places that admins other than root can have, more
// wait for places, and no deadline ends them. Root is served anyway, and applies documents; so is who only reads.
func TestSlowClientsKeepNobodyOut(t *testing.T) {
	c := newOpenCastle(t, Options{Rate: -1, Tokens: someTokens{"full": access.Admin, "look": access.Reader}}, true, func(server *Server) {
		server.http.ReadHeaderTimeout, server.http.ReadTimeout, server.http.WriteTimeout = never, never, never
	})
	c.client.Timeout = shutdownPatience
	goroutines, files := resources(t)
	ctx, cancel := context.WithCancel(t.Context())
	occupy := func(d door, n, length int, text string) {
		for range n {
			conn, err := d.dial()
			if err != nil {
				t.Fatal(err)
			}
			if err := sends(text, fmt.Sprintf("Content-Length: %d\r\n\r\n{", length))(conn, d.header); err != nil {
				t.Fatal(err)
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
	}
	admin := c.as(t, c.root.Client(t, "alice"), nil)
	for i, d := range c.doors(t)[1:] {
		if alice, _ := c.ask(t, admin, "GET", "/version", nil); alice != 200 {
			t.Errorf("an admin, beside %d who are slow: status %d", i, alice)
		}
		occupy(d, 32, config.MaxDocumentBytes, "PUT /polycube/v1/config")
		occupy(d, 64, 10_000, "PUT /polycube/v1/config")
		occupy(d, 64, 10_000, "POST /polycube/v1/lab/l9")
		occupy(d, 32, 10_000, "GET /polycube/v1/version") // a body that nobody wants
		for range 32 {
			conn, err := d.raw()
			if err != nil {
				t.Fatal(err)
			}
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		eventually(t, "all places of this admin are taken", func() bool {
			return c.server.observer.Exports().Requests.InFlight() == int64(i+1)*front.MaxRequestsPerClient
		})
	}
	admin.CloseIdleConnections()
	status := func(what string, want, got int) {
		t.Helper()
		if got != want {
			t.Errorf("%s: status %d, want %d", what, got, want)
		}
	}
	with := func(token string) int {
		req, err := http.NewRequest("GET", "http://"+c.tcp+message.BasePath+"/version", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+token)
		return c.send(t, http.DefaultClient, req).status
	}
	status("the admin who is slow", 503, with("full"))
	status("who reads, with a token", 200, with("look"))
	reader := c.as(t, c.root.Client(t, "bob"), nil)
	bob, _ := c.ask(t, reader, "GET", "/version", nil)
	status("who reads, with a certificate", 200, bob)
	reader.CloseIdleConnections()
	c.must(t, 201, "POST", "/lab/l1", "")
	c.must(t, 200, "PATCH", "/config", `[{"name":"l2","service-name":"lab"}]`)
	c.must(t, 200, "DELETE", "/lab/l1", "")
	http.DefaultClient.CloseIdleConnections()
	cancel()
	eventually(t, "the places are free", func() bool { return c.server.observer.Exports().Requests.InFlight() == 0 })
	status("the admin who was slow", 200, with("full"))
	if cubes := c.server.manager.Cubes(); len(cubes) != 1 || cubes[0].Name != "l2" {
		t.Errorf("half a request was carried out: %v", cubes)
	}
	http.DefaultClient.CloseIdleConnections()
	c.leaves(t, goroutines, files)
}

// TestSlowReadersKeepNobodyOut: one client's requests that do not end leave room for those of
// other clients, and readers' together for admins'.
func TestSlowReadersKeepNobodyOut(t *testing.T) {
	release, started := make(chan struct{}), make(chan struct{}, front.MaxRequests)
	l := newLab(t, Options{Rate: -1, Tokens: someTokens{"full": access.Admin, "look": access.Reader}, Manager: stub{newManager(t), func(string) ([]datapath.Fate, error) {
		started <- struct{}{}
		<-release
		return nil, nil
	}}}, true)
	l.must(t, 201, "POST", "/lab/l1", "")
	get := func(path, token string) (int, error) {
		req, err := http.NewRequest("GET", "http://"+l.tcp+message.BasePath+path, nil)
		if err != nil {
			return 0, err
		}
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, err
		}
		return resp.StatusCode, resp.Body.Close()
	}
	expect := func(token string, status int) {
		t.Helper()
		if got, err := get("/version", token); err != nil || got != status {
			t.Errorf("token %q: status %d, %v, want %d", token, got, err, status)
		}
	}
	var slow sync.WaitGroup
	occupy := func(token string) {
		for range front.MaxRequestsPerClient {
			slow.Go(func() {
				if status, err := get("/cubes/l1/stats", token); err != nil || status != 200 {
					t.Errorf("a slow request with token %q: status %d, %v", token, status, err)
				}
			})
		}
		for range front.MaxRequestsPerClient {
			<-started
		}
	}
	occupy("")
	expect("", 503)
	expect("look", 200)
	expect("full", 200)
	l.must(t, 200, "GET", "/version", "")
	close(release)
	slow.Wait()
	expect("", 200)
}
