// SPDX-License-Identifier: Apache-2.0

// Package netns provides network namespaces for tests and benchmarks: hosts with one interface, and a lab as the
// machine on which the daemon runs. Everything has a unique name and is removed when the test ends, so that tests run
// in parallel; CheckLeaks finds what a test binary leaves behind.
package netns

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/nsname"
	"github.com/polycube/polycube/test/pace"
)

// Prefix is the prefix of the name of every namespace created here, followed by the process id.
const Prefix = "pcnt-"

// sequence makes names unique within the process.
var sequence atomic.Int64

// machine is the namespace in which the process was started.
var machine, errMachine = os.Stat("/proc/self/ns/net")

// Namespace is a network namespace with a name that `ip netns` knows. Its loopback is up.
type Namespace struct {
	// Name is its name under /run/netns.
	Name string

	t  testing.TB
	fd *os.File
}

type config struct {
	ipv6, gro, noTxChecksum bool
	mtu                     int
	gateway                 netip.Addr
}

// Option changes the namespaces that New, NewLab and Host create.
type Option func(*config)

// WithIPv6 leaves IPv6 on, without router solicitations and duplicate address detection. It is off by default because
// the frames that the kernel sends of itself disturb counters.
func WithIPv6() Option { return func(c *config) { c.ipv6 = true } }

// WithGRO enables GRO on a host's eth0, so that it receives frames that XDP programs redirect to its outer end.
func WithGRO() Option { return func(c *config) { c.gro = true } }

// WithoutTxChecksum makes a host compute its checksums itself. XDP programs redirect a frame without the offload state
// that marks them as missing.
func WithoutTxChecksum() Option { return func(c *config) { c.noTxChecksum = true } }

// WithMTU sets the MTU of both ends of a host's link.
func WithMTU(mtu int) Option { return func(c *config) { c.mtu = mtu } }

// WithGateway gives a host a default route.
func WithGateway(addr string) Option {
	gw := netip.MustParseAddr(addr)
	return func(c *config) { c.gateway = gw }
}

// New creates a namespace and removes it when the test ends. It skips the test if not root.
func New(t testing.TB, opts ...Option) *Namespace {
	t.Helper()
	NeedRoot(t)
	var c config
	for _, o := range opts {
		o(&c)
	}
	name := fmt.Sprintf("%s%d-%d", Prefix, os.Getpid(), sequence.Add(1))
	path := filepath.Join(nsname.Dir, name)
	if err := create(path, c); err != nil {
		t.Fatalf("namespace %s: %v", name, err)
	}
	fd, err := os.Open(path)
	if err != nil {
		t.Fatalf("namespace %s: %v", name, errors.Join(err, nsname.Remove(path)))
	}
	n := &Namespace{Name: name, t: t, fd: fd}
	t.Cleanup(n.remove)
	return n
}

// NeedRoot skips the test when it does not run as root.
func NeedRoot(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root: network namespaces and devices are made")
	}
}

// create creates the namespace and its name. The thread returns to its namespace: a goroutine that ends with its thread
// elsewhere may be on the first thread of the process, which the runtime cannot end.
func create(path string, c config) error {
	return visit(func() error { return unshare(path, c) })
}

func unshare(path string, c config) error {
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("unshare: %w", err)
	}
	if err := configure(c); err != nil {
		return err
	}
	return nsname.Add(path, "/proc/thread-self/ns/net")
}

// configure sets up the namespace of the calling thread.
func configure(c config) error {
	sysctl := map[string]string{"disable_ipv6": "1"}
	if c.ipv6 {
		sysctl = map[string]string{"router_solicitations": "0", "accept_ra": "0", "accept_dad": "0", "autoconf": "0"}
	}
	for _, scope := range []string{"all", "default"} {
		for key, value := range sysctl {
			path := filepath.Join("/proc/sys/net/ipv6/conf", scope, key)
			err := os.WriteFile(path, []byte(value), 0)
			if err != nil && !(errors.Is(err, os.ErrNotExist) && !c.ipv6) {
				return err
			}
		}
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("lo: %w", err)
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return fmt.Errorf("lo up: %w", err)
	}
	return nil
}

// remove is the cleanup. A process that stays in the namespace would keep it alive, so it is an error of the test.
func (n *Namespace) remove() {
	track(n)
	var left []string
	for deadline := time.Now().Add(pace.Stretch(15 * time.Second)); ; {
		left = n.processes()
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(pollInterval)
	}
	if len(left) > 0 {
		n.t.Errorf("namespace %s: processes are left in it: %s", n.Name, strings.Join(left, ", "))
	}
	n.fd.Close()
	if err := nsname.Remove(n.Path()); err != nil {
		n.t.Errorf("namespace %s: %v", n.Name, err)
	}
}

// Path is the file of the namespace.
func (n *Namespace) Path() string { return filepath.Join(nsname.Dir, n.Name) }

// Fd is a descriptor of the namespace, valid until the test ends.
func (n *Namespace) Fd() int { return int(n.fd.Fd()) }

// Do runs fn on this goroutine with its thread inside the namespace and returns its error. Sockets opened by fn stay in
// the namespace; goroutines it starts are not inside. fn may end the test with t.Fatal.
func (n *Namespace) Do(fn func() error) error {
	return visit(func() error {
		if err := unix.Setns(n.Fd(), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter namespace %s: %w", n.Name, err)
		}
		return fn()
	})
}

// visit runs fn, which moves its thread to another namespace, and returns to where it was.
func visit(fn func() error) error {
	runtime.LockOSThread()
	before, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return fmt.Errorf("namespace of the thread: %w", err)
	}
	defer before.Close()
	defer func() {
		if err := unix.Setns(int(before.Fd()), unix.CLONE_NEWNET); err != nil {
			// The caller would continue in the wrong namespace.
			panic(fmt.Sprintf("return to the namespace of the thread: %v", err))
		}
		runtime.UnlockOSThread()
	}()
	return fn()
}

// Must is Do for functions that only fail if the test is broken.
func (n *Namespace) Must(fn func() error) {
	n.t.Helper()
	if err := n.Do(fn); err != nil {
		n.t.Fatalf("in namespace %s: %v", n.Name, err)
	}
}

// Command is a command inside the namespace, killed when the test ends. Unlike `ip netns exec` it sees the mounts of
// the caller, including bpffs.
func (n *Namespace) Command(name string, args ...string) *exec.Cmd {
	return exec.CommandContext(n.t.Context(), "nsenter", append([]string{"--net=" + n.Path(), "--", name}, args...)...)
}

// Run runs a command inside the namespace and returns its output; it ends the test when the command fails.
func (n *Namespace) Run(name string, args ...string) string {
	n.t.Helper()
	out, err := n.Command(name, args...).CombinedOutput()
	if err != nil {
		n.t.Fatalf("in namespace %s: %s %s: %v\n%s", n.Name, name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
