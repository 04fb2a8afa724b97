// SPDX-License-Identifier: Apache-2.0

package health

// Servers in a network namespace, and a checker in another, connected by a veth.

import (
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) {
	if n := os.Getenv(serversVariable); n != "" {
		os.Exit(serveMany(n))
	}
	os.Exit(netns.CheckLeaks(m))
}

const (
	serverIP, serverIP6   = "10.0.0.2", "fd00::2"
	checkerIP, checkerIP6 = "10.0.0.1", "fd00::1"
)

// lab is a namespace to check from, and one with the servers.
type lab struct {
	t       testing.TB
	near    *netns.Lab
	far     *netns.Node
	checker *Checker
	log     changes
}

// changes records the calls of the callback.
type changes struct {
	mu    sync.Mutex
	calls []string
}

func (c *changes) changed(id string, is State) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, fmt.Sprint(id, " ", is.Status))
}

func (c *changes) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.calls)
}

// newLab makes a lab for a test that runs in parallel with others.
func newLab(t *testing.T) *lab {
	t.Parallel()
	return newLabAlone(t)
}

func newLabAlone(t testing.TB) *lab {
	l := &lab{t: t, near: netns.NewLab(t, netns.WithIPv6())}
	l.far = l.near.Host("far", serverIP+"/24", netns.WithIPv6())
	l.near.Run("ip", "address", "add", checkerIP+"/24", "dev", "far")
	l.near.Run("ip", "address", "add", checkerIP6+"/64", "dev", "far", "nodad")
	l.far.Run("ip", "address", "add", serverIP6+"/64", "dev", "eth0", "nodad")
	l.start(Options{})
	return l
}

// start starts the checker, in place of the one that runs.
func (l *lab) start(o Options) {
	l.t.Helper()
	if l.checker != nil {
		l.checker.Close()
	}
	o.Namespace, o.Changed = l.near.Path(), l.log.changed
	c, err := New(o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.checker = c
	l.t.Cleanup(func() { c.Close() })
}

// listen listens in the namespace of the servers until the test ends.
func (l *lab) listen(ip string) net.Listener {
	l.t.Helper()
	var is net.Listener
	l.far.Must(func() (err error) {
		is, err = net.Listen("tcp", net.JoinHostPort(ip, "0"))
		return err
	})
	l.t.Cleanup(func() { is.Close() })
	return is
}

// serve calls handle for each connection.
func (l *lab) serve(handle func(net.Conn)) netip.AddrPort {
	is := l.listen(serverIP)
	accept(is, handle)
	return address(is)
}

func accept(is net.Listener, handle func(net.Conn)) {
	go func() {
		for {
			c, err := is.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				handle(c)
			}()
		}
	}()
}

func address(is net.Listener) netip.AddrPort { return netip.MustParseAddrPort(is.Addr().String()) }

// patience is how long tests wait for an event.
var patience = pace.Stretch(20 * time.Second)

// drain reads until the other side closes.
func drain(r io.Reader) { _, _ = io.Copy(io.Discard, r) }

// readOne waits for the first byte.
func readOne(r io.Reader) { _, _ = r.Read(make([]byte, 1)) }

// send writes to a checker, which may have closed the connection.
func send(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// quick is a check with short times, whose first result is seen at once. It is made twice in an interval, as Fall is 1.
func quick(kind Kind, to netip.AddrPort) Check {
	return Check{Kind: kind, Target: to, Interval: 450 * time.Millisecond, Timeout: 200 * time.Millisecond, Rise: 1, Fall: 1}
}

func (l *lab) set(id string, c Check) {
	l.t.Helper()
	if err := l.checker.Set(id, c); err != nil {
		l.t.Fatal(err)
	}
}

// becomes waits until a server has a status, and an error that contains a text.
func (l *lab) becomes(id string, want Status, why string) State {
	l.t.Helper()
	var is State
	netns.Eventually(l.t, patience, func() error {
		is, _ = l.checker.State(id)
		if is.Status != want || !strings.Contains(is.Error, why) || (why == "") != (is.Error == "") {
			return fmt.Errorf("%s is %v since %v: %q, want %v: %q", id, is.Status, is.Since, is.Error, want, why)
		}
		return nil
	})
	return is
}

// failed reports whether a server has failures other than answers that were late, as on a busy machine.
func (l *lab) failed(is State) bool { return is.Failed > l.checker.Stats().Timeouts }

// moreChecks waits until a server has that many more results.
func (l *lab) moreChecks(id string, n uint64) State {
	l.t.Helper()
	begin, _ := l.checker.State(id)
	var is State
	netns.Eventually(l.t, pace.Stretch(30*time.Second), func() error {
		if is, _ = l.checker.State(id); is.Checks < begin.Checks+n {
			return fmt.Errorf("%s has %d results, want %d: %q", id, is.Checks, begin.Checks+n, is.Error)
		}
		return nil
	})
	return is
}
