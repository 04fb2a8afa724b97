// SPDX-License-Identifier: Apache-2.0

package health

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/netns"
)

// web serves HTTP with the standard library, and counts connections and requests.
type web struct {
	to                    netip.AddrPort
	server                *http.Server
	connections, requests atomic.Int32
	mu                    sync.Mutex
	handle                http.HandlerFunc
	sources               []string
}

func (l *lab) web(handle http.HandlerFunc) *web {
	is := l.listen(serverIP)
	w := &web{to: address(is), handle: handle}
	w.server = &http.Server{Handler: w, ConnState: func(c net.Conn, s http.ConnState) {
		if s == http.StateNew {
			w.connections.Add(1)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.sources = append(w.sources, c.RemoteAddr().String())
		}
	}}
	go func() { _ = w.server.Serve(is) }()
	l.t.Cleanup(func() { w.server.Close() })
	return w
}

func (w *web) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.requests.Add(1)
	w.mu.Lock()
	handle := w.handle
	w.mu.Unlock()
	handle(rw, r)
}

func (w *web) set(handle http.HandlerFunc) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.handle = handle
}

func text(s string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { send(w, s) }
}

func TestHTTPChecksKeepTheirConnection(t *testing.T) {
	l := newLab(t)
	var seen atomic.Pointer[http.Request]
	w := l.web(func(rw http.ResponseWriter, r *http.Request) {
		seen.Store(r)
		send(rw, "fine")
	})
	c := quick(HTTP, w.to)
	c.Interval, c.Timeout, c.Method, c.Host, c.Path = 250*time.Millisecond, 100*time.Millisecond, "OPTIONS", "shop.example", "/health?deep=1"
	l.set("s", c)
	l.becomes("s", Up, "")
	s := l.moreChecks("s", 10)
	if n := w.connections.Load(); n > 1+int32(s.Failed) { // an answer that is late costs a connection
		t.Errorf("%d connections for %d requests, %+v", n, w.requests.Load(), s)
	}
	r := seen.Load()
	if r.Method != "OPTIONS" || r.Host != "shop.example" || r.URL.String() != "/health?deep=1" || r.UserAgent() != "polycube-health" {
		t.Errorf("%s %s %s %s", r.Method, r.Host, r.URL, r.UserAgent())
	}
	s = l.moreChecks("s", maxUses)
	if n := w.connections.Load(); n < 2 || n > 2+int32(s.Failed) {
		t.Errorf("%d connections for %d requests, %+v", n, w.requests.Load(), s)
	}
}

// TestAServerMayCloseAKeptConnection: whenever it does, the next check succeeds.
func TestAServerMayCloseAKeptConnection(t *testing.T) {
	l := newLab(t)
	for name, closes := range map[string]func(net.Conn){
		"after the answer":          func(net.Conn) {},
		"when the request is there": func(c net.Conn) { readOne(c) },
		"with a reset": func(c net.Conn) {
			readOne(c)
			_ = c.(*net.TCPConn).SetLinger(0)
		},
	} {
		var requests atomic.Int32
		to := l.serve(func(c net.Conn) {
			if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				requests.Add(1)
				send(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				closes(c)
			}
		})
		l.set(name, quick(HTTP, to))
		l.becomes(name, Up, "")
		if s := l.moreChecks(name, 5); l.failed(s) || requests.Load() < 5 {
			t.Errorf("%s: %d requests, %+v", name, requests.Load(), s)
		}
	}
}

func TestWhatHTTPExpects(t *testing.T) {
	l := newLab(t)
	w := l.web(func(rw http.ResponseWriter, r *http.Request) {
		rw.WriteHeader(map[string]int{"/": 200, "/moved": 302, "/broken": 503}[r.URL.Path])
		send(rw, strings.Repeat("all is ", 10)+"well 42\n")
	})
	for _, tt := range []struct {
		name   string
		change func(*Check)
		why    string
	}{
		{"the default", func(*Check) {}, ""},
		{"a redirection", func(c *Check) { c.Path = "/moved" }, "status 302, expected 200-299"},
		{"an error", func(c *Check) { c.Path = "/broken" }, "status 503, expected 200-299"},
		{"an expected redirection", func(c *Check) { c.Path, c.Status = "/moved", []StatusRange{{200, 204}, {302, 302}} }, ""},
		{"an error, with ranges", func(c *Check) { c.Path, c.Status = "/broken", []StatusRange{{200, 204}, {302, 302}} }, "status 503, expected 200-204, 302"},
		{"a text", func(c *Check) { c.Body = "well 42" }, ""},
		{"another text", func(c *Check) { c.Body = "well 43" }, `status 200, but the body does not contain "well 43"`},
		{"a pattern", func(c *Check) { c.BodyPattern = `(?m)^(all is )+well \d+$` }, ""},
		{"another pattern", func(c *Check) { c.BodyPattern = `ill \d` }, `status 200, but the body does not match "ill \\d"`},
		{"a text and HEAD", func(c *Check) { c.Method, c.Body = "HEAD", "well" }, `does not contain "well"`},
		{"HEAD", func(c *Check) { c.Method = "HEAD" }, ""},
		{"POST", func(c *Check) { c.Method = "POST" }, ""},
	} {
		c := quick(HTTP, w.to)
		tt.change(&c)
		l.set(tt.name, c)
		want := Up
		if tt.why != "" {
			want = Down
		}
		l.becomes(tt.name, want, tt.why)
	}
}

// answers are servers that do not answer as they should.
var answers = map[string]struct {
	send string
	// stays: the server does not close the connection after it.
	stays bool
	why   string
}{
	"nothing":           {"", true, "connected, but no response within 200 ms"},
	"closing":           {"", false, "the server closed the connection without a response"},
	"another protocol":  {"SSH-2.0-OpenSSH_9.2\r\n", true, `the response is not HTTP: "SSH-2.0-OpenSSH_9.2"`},
	"zeros":             {strings.Repeat("\x00", 100_000), true, `the response is not HTTP: "\x00\x00`},
	"half a line":       {"HTTP/1.1 20", true, "the response was incomplete after 200 ms"},
	"half an answer":    {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", false, "the server closed the connection before the response was complete"},
	"a hanging body":    {"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", true, "the response was incomplete after 200 ms"},
	"endless headers":   {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: y\r\n", 100_000), true, "headers of the response exceed 16 KiB"},
	"an endless header": {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20), true, "headers of the response exceed 16 KiB"},
	"endless 1xx":       {strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000), true, "headers of the response exceed 16 KiB"},
	"endless chunks":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("0001\r\nx\r\n", 20_000), true, "chunk sizes and trailers of the response exceed"},
	"an endless body":   {"HTTP/1.1 200 OK\r\n\r\n" + strings.Repeat("x", 1<<20), true, ""},
	"a wrong chunk":     {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", true, `invalid chunk size: "x"`},
}

func TestServersThatAnswerGarbage(t *testing.T) {
	l := newLab(t)
	for name, tt := range answers {
		to := l.serve(func(c net.Conn) {
			_, _ = http.ReadRequest(bufio.NewReader(c))
			send(c, tt.send)
			if tt.stays {
				drain(c) // until the checker closes it
			}
		})
		l.set(name, quick(HTTP, to))
		want := Down
		if tt.why == "" {
			want = Up
		}
		l.becomes(name, want, tt.why)
	}
	l.moreChecks("nothing", 3)
	if s := l.checker.Stats(); s.Panics > 0 || s.Unknown > 0 {
		t.Errorf("%+v", s)
	}
}

func TestServersThatFailAreDownAndComeBack(t *testing.T) {
	l := newLab(t)
	w := l.web(text("ok"))
	c := quick(HTTP, w.to)
	c.Rise, c.Fall = 2, 3
	l.set("s", c)
	l.becomes("s", Up, "")
	w.set(func(rw http.ResponseWriter, _ *http.Request) { rw.WriteHeader(500) })
	l.becomes("s", Down, "status 500")
	w.set(text("ok"))
	l.becomes("s", Up, "")
	w.server.Close()
	l.becomes("s", Down, "connection refused")
	want := []string{"s UP", "s DOWN", "s UP", "s DOWN"}
	netns.Eventually(t, patience, func() error {
		if got := l.log.list(); !slices.Equal(got, want) {
			return fmt.Errorf("the calls are %q, want %q", got, want)
		}
		return nil
	})
}

// TestTheSourceOfChecks: a server sees the address and the port that were configured, on each connection.
func TestTheSourceOfChecks(t *testing.T) {
	l := newLab(t)
	l.near.Run("ip", "address", "add", "10.0.0.50/24", "dev", "far")
	closing := func(rw http.ResponseWriter, _ *http.Request) { rw.Header().Set("Connection", "close") }
	c := Check{Kind: HTTP, Interval: 100 * time.Millisecond, Source: netip.MustParseAddr("10.0.0.50"), SourcePorts: inet.Ports{First: 20000, Last: 20000}}
	for name, change := range map[string]func(*Check){
		"10.0.0.50:20000": func(*Check) {},
		"10.0.0.50:":      func(c *Check) { c.SourcePorts = inet.Ports{} },
		"10.0.0.1:2000":   func(c *Check) { c.Source, c.SourcePorts.Last = netip.Addr{}, 20009 },
	} {
		w, c := l.web(closing), c
		c.Target = w.to
		change(&c)
		l.set(name, c)
		l.becomes(name, Up, "")
		if s := l.moreChecks(name, 3); l.failed(s) {
			t.Errorf("%s: %+v", name, s)
		}
		w.mu.Lock()
		if len(w.sources) < 3 || slices.ContainsFunc(w.sources, func(s string) bool { return !strings.HasPrefix(s, name) }) {
			t.Errorf("checks came from %q, want %s", w.sources, name)
		}
		w.mu.Unlock()
	}
	// A port may be that of the checks of several servers.
	second := l.web(closing)
	c.Target = second.to
	l.set("second", c)
	l.becomes("second", Up, "")
}

func TestTheMarkAndTheDeviceOfChecks(t *testing.T) {
	l := newLab(t)
	w := l.web(text("ok"))
	// Without the mark, packets of the checks have no route.
	l.near.Run("ip", "rule", "add", "fwmark", "0x77", "lookup", "77")
	l.near.Run("ip", "route", "add", serverIP, "dev", "far", "table", "77")
	l.near.Run("ip", "route", "del", "10.0.0.0/24", "dev", "far")
	c := quick(HTTP, w.to)
	l.set("unmarked", c)
	c.Mark = 0x77
	l.set("marked", c)
	c.Device = "nosuch"
	l.set("elsewhere", c)
	l.becomes("unmarked", Down, "network is unreachable")
	l.becomes("marked", Up, "")
	l.becomes("elsewhere", Unknown, "cannot check: bind to device nosuch: no such device")
	c.Device = "far"
	l.set("elsewhere", c)
	l.becomes("elsewhere", Up, "")
	if s := l.checker.Stats(); s.Skipped == 0 || s.Connections == 0 {
		t.Errorf("%+v", s)
	}
}

// TestASourceAddressThatIsGone: servers do not go down for it.
func TestASourceAddressThatIsGone(t *testing.T) {
	l := newLab(t)
	to := l.web(text("ok")).to
	ids := map[string]Kind{"tcp": TCP, "http": HTTP, "icmp": ICMP}
	address := func(verb string) { l.near.Run("ip", "address", verb, "10.0.0.50/32", "dev", "far") }
	address("add")
	for id, kind := range ids {
		c := quick(kind, to)
		c.Source, c.Fall = netip.MustParseAddr("10.0.0.50"), 3
		l.set(id, c)
		l.becomes(id, Up, "")
	}
	address("del")
	for id := range ids {
		l.becomes(id, Up, "cannot check: ")
	}
	address("add")
	for id := range ids {
		l.becomes(id, Up, "")
	}
}

// TestADeviceThatComesBack: a socket is bound to a device, not to its name, so it is not used again after a failure.
func TestADeviceThatComesBack(t *testing.T) {
	l := newLab(t)
	second := l.near.Host("second", "")
	connect := func() {
		second.Run("ip", "address", "add", "10.0.2.2/24", "dev", "eth0")
		second.Run("ip", "link", "set", "eth0", "up")
		l.near.Run("ip", "address", "add", "10.0.2.1/24", "dev", "second")
		l.near.Run("ip", "link", "set", "second", "up")
	}
	connect()
	var is net.Listener
	second.Must(func() (err error) {
		is, err = net.Listen("tcp", "10.0.2.2:80")
		return err
	})
	server := &http.Server{Handler: text("ok")}
	go func() { _ = server.Serve(is) }()
	t.Cleanup(func() { server.Close() })
	for id, kind := range map[string]Kind{"tcp": TCP, "http": HTTP, "icmp": ICMP} {
		c := quick(kind, address(is))
		c.Device = "second"
		l.set(id, c)
		l.becomes(id, Up, "")
	}
	l.near.Run("ip", "link", "del", "second")
	for _, id := range []string{"tcp", "http", "icmp"} {
		netns.Eventually(t, patience, func() error {
			if is, _ := l.checker.State(id); !strings.HasPrefix(is.Error, "cannot check: ") {
				return fmt.Errorf("%s: %v, %q", id, is.Status, is.Error)
			}
			return nil
		})
	}
	l.near.Run("ip", "link", "add", "second", "type", "veth", "peer", "name", "eth0", "netns", second.Name)
	connect()
	for _, id := range []string{"tcp", "http", "icmp"} {
		l.becomes(id, Up, "")
	}
}
