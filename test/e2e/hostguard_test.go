// SPDX-License-Identifier: Apache-2.0

// A service with a ring: the first packets of each connection reach its process through memory, and its decision comes back
// as a map entry, while the packets are forwarded.

package e2e

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pki"
)

// guarded is a host behind a cube that blocks connections by name.
type guarded struct {
	*daemon
	t    *testing.T
	host *netns.Node
	ca   *x509.CertPool
}

const (
	plainPort = "10.0.0.254:80"
	tlsPort   = "10.0.0.254:443"
	// answerTime is how long a client waits for an answer: one that is lost is sent again after 0.2 s.
	answerTime = 2 * time.Second
)

// serve answers lines on both ports.
func (g *guarded) serve() {
	g.t.Helper()
	echo := func(_ net.Addr, line string) string { return "echo " + line }
	g.lab.AnswerLines(plainPort, echo)
	authority := pki.Authority(g.t, "root")
	g.ca = authority.Pool()
	server := authority.Server(g.t, func(c *x509.Certificate) { c.DNSNames = []string{"allowed.example", "www.blocked.example"} })
	g.lab.AnswerLines(tlsPort, echo, &tls.Config{MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{server.TLS()}})
}

// talk exchanges lines with a host of a name for some time. Each follows the answer to the last one. The error is that of the
// first that was not answered.
func (g *guarded) talk(name string, secure bool, length time.Duration) error {
	return g.host.Do(func() error {
		var conn net.Conn
		var err error
		if secure {
			config := &tls.Config{MinVersion: tls.VersionTLS13, ServerName: name, RootCAs: g.ca}
			conn, err = tls.DialWithDialer(&net.Dialer{Timeout: answerTime}, "tcp", tlsPort, config)
		} else {
			conn, err = net.DialTimeout("tcp", plainPort, patience)
		}
		if err != nil {
			return err
		}
		defer conn.Close()
		in := bufio.NewReader(conn)
		next := "GET / HTTP/1.1\r\nHost: " + name + "\r\n"
		for end := time.Now().Add(length); time.Now().Before(end); {
			if err := conn.SetDeadline(time.Now().Add(answerTime)); err != nil {
				return err
			}
			if _, err := conn.Write([]byte(next)); err != nil {
				return err
			}
			if _, err := in.ReadString('\n'); err != nil {
				return err
			}
			next = "another line\n"
		}
		return nil
	})
}

// answers expects that a host of a name answers, or that its connections are blocked.
func (g *guarded) answers(name string, want bool) {
	g.t.Helper()
	for _, secure := range []bool{false, true} {
		before := g.Stats("g1").Fate(g.t, "blocked")
		length := patience // a blocked connection hangs as soon as the decision is there
		if want {
			length = answerTime / 10
		}
		err := g.talk(name, secure, length)
		hangs := errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, context.DeadlineExceeded)
		switch dropped := g.Stats("g1").Fate(g.t, "blocked") - before; {
		case want && err != nil:
			g.t.Errorf("%s (TLS %v): %v", name, secure, err)
		case !want && !hangs:
			g.t.Errorf("%s (TLS %v): %v, want a connection that hangs", name, secure, err)
		case !want && dropped == 0:
			g.t.Errorf("%s (TLS %v): nothing was dropped as blocked", name, secure)
		}
	}
}

// saw waits until the cube has seen connections to a host, and blocked some.
func (g *guarded) saw(name string, connections, blocked uint64) {
	g.t.Helper()
	type host struct {
		Name                 string
		Connections, Blocked uint64 `json:",string"`
	}
	want := host{name, connections, blocked}
	netns.Eventually(g.t, patience, func() error {
		var hosts []host
		if g.Get("/hostguard/g1/host", &hosts); !slices.Contains(hosts, want) {
			return fmt.Errorf("the cube saw %+v, want %+v", hosts, want)
		}
		return nil
	})
}

func TestAProcessDecidesOnConnections(t *testing.T) {
	t.Parallel()
	path := goService(t, "../../examples/services/hostguard")
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t)
			g := &guarded{t: t, host: m.lab.Host("veth1", "10.0.0.1/24")}
			m.lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "veth1")
			g.daemon = m.Start()
			g.serve()
			g.Do("services add type=lib uri=" + path + " name=hostguard")
			g.Do("hostguard add g1 type=" + kind)
			g.Do("attach g1 veth1")
			g.Do("g1 blocked add *.blocked.example")
			reaches(t, g.host, "10.0.0.254")
			g.answers("allowed.example", true)
			g.answers("www.blocked.example", false)
			g.saw("www.blocked.example", 2, 2)
			g.saw("allowed.example", 2, 0)
			g.survives(path)
			g.counts()
			g.Do("g1 blocked del *.blocked.example")
			g.answers("www.blocked.example", true)
			g.Do("del g1")
			g.Do("services del hostguard")
		})
	}
}

// survives kills the service: connections are forwarded meanwhile, and the next process reads the ring.
func (g *guarded) survives(path string) {
	g.t.Helper()
	for _, pid := range g.runs(path) {
		if err := unix.Kill(pid, unix.SIGKILL); err != nil {
			g.t.Fatal(err)
		}
	}
	if err := g.talk("allowed.example", false, answerTime/10); err != nil {
		g.t.Errorf("while the service is away: %v", err)
	}
	netns.Eventually(g.t, patience, func() error { // its cube has been adopted
		if !strings.Contains(g.out.String(), "service returned service=hostguard cubes=1 degraded=0") {
			return fmt.Errorf("the service is %+v", g.serviceState("hostguard"))
		}
		return nil
	})
	g.answers("www.blocked.example", false)
}

// counts expects the metrics of the ring.
func (g *guarded) counts() {
	g.t.Helper()
	netns.Eventually(g.t, patience, func() error {
		_, text, err := g.Request(http.MethodGet, "/metrics", "")
		if err != nil {
			return err
		}
		for _, want := range []string{
			`polycube_ring_packets_total{cubeName="g1",outcome="lost",ring="copies"} 0`,
			`polycube_ring_packets_total{cubeName="g1",outcome="written",ring="copies"} `,
			`polycube_ring_waiting_bytes{cubeName="g1",ring="copies"} `,
		} {
			if !strings.Contains(text, want) {
				return fmt.Errorf("/metrics has no %s", want)
			}
		}
		return nil
	})
}
