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

// baseline is an older polycubed. The test is skipped if the history of the repository is not there.
func baseline(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(filepath.Join("..", "..", "scripts", "baseline.sh"))
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
	return filepath.Join(strings.TrimSpace(string(out)), "polycubed")
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
			m.bin = baseline(t)
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
			if moved := s.check(); len(moved) > 0 {
				t.Errorf("%d of %d sessions have got another external endpoint, the first is %d", len(moved), s.opened.Load(), moved[0])
			}
		})
	}
}

// TestATableThatGrowsLosesNoSession: max-sessions changes twice under traffic. Sessions that were opened before keep their
// external endpoint. Of those that were opened while the tables were exchanged, some may get another one, as the NAT made
// them again: the time of one pass through the tables counts, and not that of the whole change.
func TestATableThatGrowsLosesNoSession(t *testing.T) {
	t.Parallel()
	for _, kind := range sessionTypes() {
		t.Run(kind, func(t *testing.T) {
			m := newMachine(t)
			hosts := twoSides(m)
			d := m.Start()
			d.natRouter(kind, sessionRoom, hosts)
			s := newSessionFlow(d, hosts, manySessions+moreSessions)
			s.open(manySessions)
			for _, size := range []string{"300000", "220000"} {
				var before uint32
				opened := s.under(sessionRate, func() {
					s.grown(sessionRate / 2)
					before = s.opened.Load()
					s.grown(sessionRate / 10) // these are known on both sides when the change begins
					d.Do("n1 set max-sessions=" + size)
					s.grown(sessionRate / 2)
				})
				moved := s.check()
				for _, id := range moved {
					if id < before {
						t.Errorf("session %d of %d that were open before has got another external endpoint", id, before)
						break
					}
				}
				t.Logf("%d sessions were opened meanwhile, %d have got another external endpoint", opened, len(moved))
				for _, id := range moved {
					s.moved[id].Store(false)
					s.external[id].Store(0)
				}
				if out := d.out.String(); strings.Contains(out, "not carried over") {
					t.Errorf("the daemon says:\n%s", tail(out, 20))
				}
			}
		})
	}
}
