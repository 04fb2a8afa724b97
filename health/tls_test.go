// SPDX-License-Identifier: Apache-2.0

package health

import (
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pki"
)

// certificates are an authority, its file, and a server's certificate for localhost and polycube.test.
func certificates(t *testing.T) (caFile string, server tls.Certificate) {
	ca := pki.Authority(t, "authority")
	pair := ca.Server(t)
	caFile = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(caFile, ca.PEM(), 0o644); err != nil {
		t.Fatal(err)
	}
	return caFile, pair.TLS()
}

// webTLS is web over TLS.
func (l *lab) webTLS(cert tls.Certificate, handle http.HandlerFunc) *web {
	is := l.listen(serverIP)
	w := &web{handle: handle, to: address(is)}
	w.server = &http.Server{Handler: w, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}},
		ConnState: func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				w.connections.Add(1)
			}
		}}
	go func() { _ = w.server.ServeTLS(is, "", "") }()
	l.t.Cleanup(func() { w.server.Close() })
	return w
}

func TestHTTPSChecks(t *testing.T) {
	l := newLab(t)
	caFile, cert := certificates(t)
	w := l.webTLS(cert, text("well"))
	good := quick(HTTPS, w.to)
	good.Interval, good.Timeout = 2100*time.Millisecond, time.Second
	good.CAFile, good.Host, good.Body = caFile, "polycube.test", "well"
	l.set("good", good)
	l.becomes("good", Up, "")
	l.moreChecks("good", 5)
	if n := w.connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
	for name, tt := range map[string]struct {
		change func(*Check)
		why    string
	}{
		"a server name of its own": {func(c *Check) { c.Host, c.ServerName = "other", "localhost" }, ""},
		"another name":             {func(c *Check) { c.Host = "other.test:443" }, "the certificate is not for other.test"},
		"another authority":        {func(c *Check) { c.CAFile = "" }, "the certificate is signed by an unknown authority"},
		"unverified":               {func(c *Check) { c.CAFile, c.Host, c.SkipVerify = "", "other.test", true }, ""},
		"another body":             {func(c *Check) { c.Body = "ill" }, `does not contain "ill"`},
	} {
		c := good
		tt.change(&c)
		l.set(name, c)
		want := Up
		if tt.why != "" {
			want = Down
		}
		l.becomes(name, want, tt.why)
	}
	w.server.Close()
	l.becomes("good", Down, "connection refused")
}

// TestServersThatFailAtTLS: what is wrong is said, and silent servers do not delay others.
func TestServersThatFailAtTLS(t *testing.T) {
	l := newLab(t)
	l.start(Options{Handshakes: 1})
	caFile, cert := certificates(t)
	silent := l.serve(func(c net.Conn) { drain(c) })
	for i := range 30 {
		l.set(fmt.Sprint("silent", i), quick(HTTPS, silent))
	}
	plain := l.web(text("plain"))
	l.set("plain", quick(HTTPS, plain.to))
	l.set("closing", quick(HTTPS, l.serve(func(c net.Conn) { readOne(c) })))
	untrusted := quick(HTTPS, l.serve(func(c net.Conn) {
		c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		drain(c)
	}))
	untrusted.Host = "polycube.test"
	l.set("untrusted", untrusted)
	good := quick(HTTPS, l.serve(func(c net.Conn) {
		c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		for b := make([]byte, 1<<10); ; {
			if _, err := c.Read(b); err != nil {
				return
			}
			send(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
	}))
	good.CAFile, good.Host, good.Interval, good.Timeout = caFile, "polycube.test", 2100*time.Millisecond, time.Second
	l.set("good", good)
	l.set("tcp", quick(TCP, plain.to))
	l.becomes("plain", Down, "the server does not speak TLS")
	l.becomes("closing", Down, "the server")
	l.becomes("untrusted", Down, "the certificate is signed by an unknown authority")
	l.becomes("silent29", Down, "connected, but no response within 200 ms")
	l.becomes("good", Up, "")
	if s := l.moreChecks("good", 3); l.failed(s) {
		t.Errorf("the good server: %+v", s)
	}
	if s := l.moreChecks("tcp", 3); l.failed(s) {
		t.Errorf("the check without TLS: %+v", s)
	}
}

func TestGRPCChecks(t *testing.T) {
	caFile, cert := certificates(t)
	for _, encrypt := range []bool{false, true} {
		t.Run(fmt.Sprint("TLS ", encrypt), func(t *testing.T) {
			l := newLab(t)
			var connections atomic.Int32
			is := &counted{l.listen(serverIP), &connections}
			var options []grpc.ServerOption
			if encrypt {
				options = append(options, grpc.Creds(credentials.NewServerTLSFromCert(&cert)))
			}
			server, state := grpc.NewServer(options...), health.NewServer()
			grpc_health_v1.RegisterHealthServer(server, state)
			state.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
			go func() { _ = server.Serve(is) }()
			t.Cleanup(server.Stop)

			c := quick(GRPC, address(is))
			c.Interval, c.Timeout = 2100*time.Millisecond, time.Second
			c.TLS, c.CAFile, c.ServerName = encrypt, caFile, "polycube.test"
			l.set("server", c)
			c.Service = "shop"
			l.set("service", c)
			c.Service = "unknown"
			l.set("unknown", c)
			l.becomes("server", Up, "")
			l.becomes("service", Down, `the gRPC service "shop" reports NOT_SERVING`)
			l.becomes("unknown", Down, `the server does not know the gRPC service "unknown"`)
			state.SetServingStatus("shop", grpc_health_v1.HealthCheckResponse_SERVING)
			l.becomes("service", Up, "")
			l.moreChecks("service", 3)
			if n := connections.Load(); n != 3 {
				t.Errorf("%d connections for three checks", n)
			}
			c.TLS, c.Service = !encrypt, ""
			l.set("wrong", c)
			is2 := l.becomesDown("wrong")
			if strings.Contains(is2.Error, "internal") {
				t.Errorf("%q", is2.Error)
			}
			server.Stop()
			l.becomes("server", Down, "connection refused")
		})
	}
}

func TestServersWithoutGRPCHealth(t *testing.T) {
	l := newLab(t)
	is := l.listen(serverIP)
	server := grpc.NewServer()
	go func() { _ = server.Serve(is) }()
	t.Cleanup(server.Stop)
	c := quick(GRPC, address(is))
	l.set("none", c)
	c.Target = l.serve(func(c net.Conn) { drain(c) })
	l.set("silent", c)
	c.Target = l.web(text("HTTP/1.1")).to
	l.set("web", c)
	c.Target = l.serve(func(c net.Conn) { send(c, strings.Repeat("\xff", 1<<20)) })
	l.set("garbage", c)
	l.becomes("none", Down, "the server has no gRPC health service")
	l.becomes("silent", Down, "connected, but no response within 200 ms")
	l.becomes("web", Down, "gRPC is unavailable")
	l.becomes("garbage", Down, "gRPC is unavailable")
}

// TestAServerMayCloseAKeptTLSConnection: HTTPS and gRPC servers that do so between two checks have no failure for it.
func TestAServerMayCloseAKeptTLSConnection(t *testing.T) {
	l := newLab(t)
	_, cert := certificates(t)
	var requests, connections atomic.Int32
	web := quick(HTTPS, l.serve(func(c net.Conn) {
		c = tls.Server(c, &tls.Config{Certificates: []tls.Certificate{cert}})
		if _, err := c.Read(make([]byte, 1<<10)); err == nil {
			requests.Add(1)
			send(c, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
		}
		c.Close()
	}))
	web.Interval, web.Timeout, web.SkipVerify = 1100*time.Millisecond, 500*time.Millisecond, true
	l.set("web", web)

	is := &counted{l.listen(serverIP), &connections}
	server := grpc.NewServer(grpc.KeepaliveParams(keepalive.ServerParameters{
		MaxConnectionAge: 100 * time.Millisecond, MaxConnectionAgeGrace: 100 * time.Millisecond}))
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(is) }()
	t.Cleanup(server.Stop)
	call := quick(GRPC, address(is))
	call.Interval, call.Timeout = 1100*time.Millisecond, 500*time.Millisecond
	l.set("grpc", call)

	l.becomes("web", Up, "")
	l.becomes("grpc", Up, "")
	if s := l.moreChecks("web", 5); l.failed(s) || requests.Load() < 5 {
		t.Errorf("%d requests, %+v", requests.Load(), s)
	}
	if s := l.moreChecks("grpc", 5); l.failed(s) || connections.Load() < 5 {
		t.Errorf("%d connections, %+v", connections.Load(), s)
	}
}

func TestAGRPCServerThatRestarts(t *testing.T) {
	l := newLab(t)
	is := l.listen(serverIP)
	to := address(is)
	server := serveHealth(is)
	l.set("s", quick(GRPC, to))
	l.becomes("s", Up, "")
	for range 3 {
		server.Stop()
		l.becomes("s", Down, "connection refused")
		var again net.Listener
		l.far.Must(func() (err error) {
			again, err = net.Listen("tcp", to.String())
			return err
		})
		server = serveHealth(again)
		l.becomes("s", Up, "")
	}
	server.Stop()
}

func serveHealth(is net.Listener) *grpc.Server {
	server := grpc.NewServer()
	grpc_health_v1.RegisterHealthServer(server, health.NewServer())
	go func() { _ = server.Serve(is) }()
	return server
}

type counted struct {
	net.Listener
	n *atomic.Int32
}

func (c *counted) Accept() (net.Conn, error) {
	is, err := c.Listener.Accept()
	if err == nil {
		c.n.Add(1)
	}
	return is, err
}

func (l *lab) becomesDown(id string) (is State) {
	l.t.Helper()
	netns.Eventually(l.t, patience, func() error {
		if is, _ = l.checker.State(id); is.Status != Down {
			return fmt.Errorf("%s is %v: %q", id, is.Status, is.Error)
		}
		return nil
	})
	return is
}
