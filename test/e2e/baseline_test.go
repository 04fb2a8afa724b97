// SPDX-License-Identifier: Apache-2.0

// A hundred thousand sessions of a NAT, and those that are opened meanwhile: while an older polycubed is replaced by this one, and
// while the tables of sessions get another size.

package e2e

import (
	"errors"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	manySessions = 100_000
	// sessionRate is how many sessions are opened in a second, and moreSessions how many at most.
	sessionRate  = 2000
	moreSessions = 100_000
	// sessionRoom is what the NAT has room for.
	sessionRoom = 250_000
)

// baseline is a folder with older programs, for tests of a subject. The test is skipped if the history of the repository is not there.
func baseline(t *testing.T, subject string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "baseline.sh"), subject)
	var exit *exec.ExitError
	out, err := cmd.Output()
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == 3:
		t.Skipf("needs an older commit in the history of a git checkout: %s", strings.TrimSpace(string(exit.Stderr)))
	case errors.As(err, &exit):
		t.Fatalf("building an older polycubed: %v\n%s", err, tail(string(exit.Stderr), 20))
	case err != nil:
		t.Fatalf("building an older polycubed: %v", err)
	}
	return strings.TrimSpace(string(out))
}

// sessionTypes are all types of cubes in the long form.
func sessionTypes() []string {
	if soak {
		return []string{"TC", "XDP_DRV"}
	}
	return []string{"TC"}
}

// TestAnUpgradeLosesNoSession: an older polycubed is killed under traffic, and this one takes over bridge, router and NAT. No
// session ends or changes, whenever it was opened, and nothing is refused.
func TestAnUpgradeLosesNoSession(t *testing.T) {
	t.Parallel()
	for _, kind := range sessionTypes() {
		t.Run(kind, func(t *testing.T) {
			m := newMachine(t)
			m.bin = filepath.Join(baseline(t, "nat"), "polycubed")
			hosts := twoSides(m)
			d := m.Start()
			d.natRouter(kind, sessionRoom, hosts)
			s := newSessionFlow(d, hosts, manySessions+moreSessions)
			s.open(manySessions)
			m.bin = ""
			rounds := 1
			if soak {
				rounds = 10 // the first one is an upgrade, the others are restarts
			}
			opened := s.under(sessionRate, func() {
				for range rounds {
					s.grown(sessionRate / 2)
					<-time.After(rand.N(20 * time.Millisecond)) // at another moment each time
					d.Kill9()
					s.grown(sessionRate / 10)
					d = m.Start()
					s.grown(sessionRate / 2)
				}
			})
			t.Logf("%d sessions were opened meanwhile", opened)
			for _, word := range []string{"cleanup", "could not be restored", "[warning]", "[error]"} {
				if out := d.out.String(); strings.Contains(out, word) {
					t.Errorf("the daemon says %q:\n%s", word, tail(out, 20))
				}
			}
			s.unchanged()
		})
	}
}

// TestAnUpgradeKeepsTheStateOfConnections: one that is open, and sends nothing, is established for the next polycubed.
func TestAnUpgradeKeepsTheStateOfConnections(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.bin = filepath.Join(baseline(t, "nat"), "polycubed")
	lan, wan := m.lab.Host("lan0", "10.0.0.2/24"), m.lab.Host("wan0", "203.0.113.2/24")
	m.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "lan0")
	m.lab.Run("ip", "addr", "add", "203.0.113.1/24", "dev", "wan0")
	m.lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	lan.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	wan.AnswerLines("203.0.113.2:7000", sender)
	d := m.Start()
	d.Do("masquerade wan0")
	c := connectTo(t, lan, "203.0.113.2:7000")
	as := c.seenAs()
	d.Kill9()
	m.bin = ""
	d = m.Start()
	if out := d.Do("masquerade-wan0 natting-table show -limit=10"); !strings.Contains(out, "established") {
		t.Errorf("after the upgrade, there is %s", out)
	}
	if got := c.seenAs(); got != as {
		t.Errorf("after the upgrade, the other side sees %s, not %s", got, as)
	}
	if out := d.Do("masquerade-wan0 natting-table show -limit=10"); !strings.Contains(out, "established") {
		t.Errorf("after more packets, there is %s", out)
	}
}

// TestATableThatChangesItsSizeLosesNoSession: max-sessions changes under traffic, up and down. Every session keeps its external
// endpoint, whenever it was opened.
func TestATableThatChangesItsSizeLosesNoSession(t *testing.T) {
	t.Parallel()
	for _, kind := range sessionTypes() {
		t.Run(kind, func(t *testing.T) {
			m := newMachine(t)
			hosts := twoSides(m)
			d := m.Start()
			d.natRouter(kind, sessionRoom, hosts)
			s := newSessionFlow(d, hosts, manySessions+moreSessions)
			s.open(manySessions)
			sizes := []string{"300000", "220000"}
			if soak {
				sizes = append(sizes, "400000", "230000", "250000", "240000", "500000", "260000")
			}
			opened := s.under(sessionRate, func() {
				for _, size := range sizes {
					s.grown(sessionRate / 2)
					d.Do("n1 set max-sessions=" + size)
				}
				s.grown(sessionRate / 2)
			})
			t.Logf("%d sessions were opened meanwhile", opened)
			if out := d.out.String(); strings.Contains(out, "not carried over") {
				t.Errorf("the daemon says:\n%s", tail(out, 20))
			}
			s.unchanged()
		})
	}
}
