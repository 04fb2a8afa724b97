// SPDX-License-Identifier: Apache-2.0

// The namespaces of shadow cubes in tests.

package e2e

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/netns"
	"golang.org/x/sys/unix"
)

var shadowMachines atomic.Int64

// shadowMachine is a machine whose daemon has the services of the tests. Namespace names are visible on the whole
// machine, so the instance has a unique name.
func shadowMachine(t *testing.T) *machine {
	t.Helper()
	m := newMachine(t)
	m.own = true
	m.instance = fmt.Sprintf("t%d-%d", os.Getpid(), shadowMachines.Add(1))
	t.Cleanup(func() {
		for _, name := range m.namespaces() {
			if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
				t.Errorf("removing %s: %v: %s", name, err, out)
			}
		}
	})
	return m
}

// namespaces lists the names of the instance's namespaces.
func (m *machine) namespaces() []string {
	m.t.Helper()
	paths, err := filepath.Glob("/run/netns/pcn-" + m.instance + "@*")
	if err != nil {
		m.t.Fatal(err)
	}
	for i := range paths {
		paths[i] = filepath.Base(paths[i])
	}
	return paths
}

// inside is a cube's namespace.
type inside struct {
	t    testing.TB
	name string
}

func (m *machine) inside(cube string) inside { return inside{m.t, "pcn-" + m.instance + "@" + cube} }

// Do runs fn in the namespace.
func (in inside) Do(fn func() error) error {
	f, err := os.Open("/run/netns/" + in.name)
	if err != nil {
		return err
	}
	defer f.Close()
	return netdev.InNamespace(f, fn)
}

// Run runs a command by ip netns exec.
func (in inside) Run(line string) (string, error) {
	in.t.Helper()
	out, err := exec.CommandContext(in.t.Context(), "ip", append([]string{"netns", "exec", in.name}, strings.Fields(line)...)...).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s in %s: %w: %s", line, in.name, err, out)
	}
	return string(out), nil
}

// Must runs a command that must succeed.
func (in inside) Must(line string) string {
	in.t.Helper()
	out, err := in.Run(line)
	if err != nil {
		in.t.Fatal(err)
	}
	return out
}

// link reads an interface of the namespace.
func (in inside) link(name string) (info netdev.Info, err error) {
	err = in.Do(func() error {
		info, err = netdev.Get(name)
		return err
	})
	return info, err
}

// number distinguishes namespaces with the same name.
func (in inside) number() uint64 {
	in.t.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/run/netns/"+in.name, &st); err != nil {
		in.t.Fatal(err)
	}
	return st.Ino
}

func (in inside) reaches(ip string) {
	in.t.Helper()
	netns.Eventually(in.t, patience, func() error {
		_, err := in.Run("ping -n -q -c 1 -W 1 " + ip)
		return err
	})
}

// responds creates a shadow cube with two ports that have addresses, and a host behind each.
func (d *daemon) responds() (one, two *netns.Node, in inside) {
	d.t.Helper()
	one = d.lab.Host("veth1", "10.0.1.2/24", netns.WithGateway("10.0.1.1"))
	two = d.lab.Host("veth2", "10.0.2.2/24", netns.WithGateway("10.0.2.1"))
	d.Must(http.StatusCreated, "POST", "/responder/r1", `{"shadow":true,"ports":[
		{"name":"p1","peer":"veth1","ip":"10.0.1.1/24","mac":"02:00:00:00:01:01"},
		{"name":"p2","peer":"veth2","ip":"10.0.2.1/24","mac":"02:00:00:00:02:01"}]}`)
	return one, two, d.inside("r1")
}

// looks fails until an interface of the namespace has a MAC address and an IPv4 address.
func (in inside) looks(port, mac, ip string) {
	in.t.Helper()
	netns.Eventually(in.t, patience, func() error {
		info, err := in.link(port)
		if err != nil {
			return err
		}
		var v4 []string
		for _, a := range info.Addresses {
			if a.Addr().Is4() {
				v4 = append(v4, a.String())
			}
		}
		if got := strings.Join(v4, " "); got != ip || info.MAC.String() != mac {
			return fmt.Errorf("%s has %s and %q, want %s and %q", port, info.MAC, got, mac, ip)
		}
		return nil
	})
}

// has fails until the configuration of a port has a MAC address and an address.
func (m *machine) has(cube, port, mac, ip string) {
	m.t.Helper()
	netns.Eventually(m.t, patience, func() error {
		var p struct{ IP, MAC string }
		m.Get("/responder/"+cube+"/ports/"+port, &p)
		if p.IP != ip || p.MAC != mac {
			return fmt.Errorf("%s:%s has %q and %q, want %q and %q", cube, port, p.MAC, p.IP, mac, ip)
		}
		return nil
	})
}

// said waits for words in the daemon's log.
func (d *daemon) said(words string) {
	d.t.Helper()
	netns.Eventually(d.t, patience, func() error {
		if !strings.Contains(d.out.String(), words) {
			return fmt.Errorf("the log has no %q", words)
		}
		return nil
	})
}

// lines is the output of a process, to be read while it runs.
type lines struct{ text atomic.Pointer[string] }

func (l *lines) Write(b []byte) (int, error) {
	now := l.String() + string(b)
	l.text.Store(&now)
	return len(b), nil
}

func (l *lines) String() string {
	if s := l.text.Load(); s != nil {
		return *s
	}
	return ""
}
