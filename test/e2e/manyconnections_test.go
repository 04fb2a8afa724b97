// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
)

// manyConnections is how many there are.
const manyConnections = 10_000

// TestRestartsCutNoneOfManyConnections: a firewall at the host's stack forwards those that are open, while the daemon is
// killed, away, starting and stopped in order, and after its rules would refuse them.
func TestRestartsCutNoneOfManyConnections(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, wan := d.betweenNetworks()
	d.Do("firewall add fw1")
	d.Do("fw1 chain INGRESS append in-iface=lan0 l4proto=TCP dport=7000 action=ACCEPT")
	d.Do("fw1 chain INGRESS set default=DROP")
	d.Do("attach fw1 host")
	all := openMany(t, lan, wan, "203.0.113.2:7000")
	if got := d.Do("fw1 sessions show"); !strings.Contains(got, fmt.Sprint(manyConnections)) {
		t.Errorf("sessions of %d connections:\n%s", manyConnections, got)
	}
	all.answer("before")
	d.Kill9()
	all.answer("without a daemon")
	done := make(chan struct{})
	go func() {
		defer close(done)
		all.answer("while it starts")
	}()
	d = d.machine.Start()
	<-done
	all.answer("with the next daemon")
	d.Do("fw1 chain INGRESS del")
	d.Do("fw1 chain INGRESS set default=DROP")
	all.answer("after the rule has gone")
	d.Stop()
	all.answer("after an orderly stop")
	d = d.machine.Start()
	all.answer("with the last daemon")
	if got := d.Do("fw1 delete-sessions l4proto=TCP dport=7000"); got != fmt.Sprintf("deleted: %d\n", manyConnections) {
		t.Errorf("delete-sessions: %s", got)
	}
	if err := ask(all.conns[0], time.Second); err == nil {
		t.Error("a connection goes on whose session is deleted, and which no rule accepts")
	}
}

// connections are open connections to a server that returns each byte.
type connections struct {
	t     *testing.T
	conns []net.Conn
}

// asReturner is the variable that makes the test binary a server that returns each byte, at the address that it contains: a
// process may not have enough files for both ends.
const asReturner = "POLYCUBE_E2E_RETURNER"

func beReturner() {
	listener, err := net.Listen("tcp", os.Getenv(asReturner))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listening")
	for {
		conn, err := listener.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go returnBytes(conn)
	}
}

func returnBytes(conn net.Conn) {
	defer func() { _ = conn.Close() }()
	var b [1]byte
	for {
		if _, err := conn.Read(b[:]); err != nil {
			return
		}
		if _, err := conn.Write(b[:]); err != nil {
			return
		}
	}
}

// openMany opens the connections.
func openMany(t *testing.T, from, to *netns.Node, address string) *connections {
	t.Helper()
	server := to.Command("env", asReturner+"="+address, os.Args[0])
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	c := &connections{t: t}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
		for _, conn := range c.conns {
			_ = conn.Close()
		}
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the server does not listen: %v", err)
	}
	from.Must(func() error {
		for range manyConnections {
			conn, err := net.DialTimeout("tcp", address, patience)
			if err != nil {
				return fmt.Errorf("after %d connections: %w", len(c.conns), err)
			}
			c.conns = append(c.conns, conn)
		}
		return nil
	})
	return c
}

// answer sends a byte on each connection, and waits for all answers.
func (c *connections) answer(when string) {
	c.t.Helper()
	const workers = 64
	errs := make([]error, workers)
	var all sync.WaitGroup
	for w := range workers {
		all.Go(func() {
			for i := w; i < len(c.conns) && errs[w] == nil; i += workers {
				errs[w] = ask(c.conns[i], patience)
			}
		})
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		c.t.Errorf("%s: %v", when, err)
	}
}

// ask sends a byte and reads the answer.
func ask(conn net.Conn, within time.Duration) error {
	b := [1]byte{'?'}
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	if _, err := conn.Write(b[:]); err != nil {
		return err
	}
	_, err := conn.Read(b[:])
	return err
}
