// SPDX-License-Identifier: Apache-2.0

package efw

import (
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// patience is how long tests wait.
var patience = pace.Stretch(10 * time.Second)

// legacyHost is a namespace in which iptables-legacy can be called.
func legacyHost(t *testing.T) *netns.Namespace {
	t.Helper()
	for _, program := range []string{"iptables-legacy", "ip6tables-legacy"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not installed: there are no tables to compare", program)
		}
	}
	return netns.New(t, netns.WithIPv6())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestEachChangeOfIptablesLegacyIsSeen(t *testing.T) {
	n := legacyHost(t)
	r, err := newLegacyReader(n.Do)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	r.look()
	for _, tt := range []struct {
		command string
		changes bool
	}{
		{"true", false},
		{"iptables-legacy -A INPUT -s 10.0.0.1 -j DROP", true}, // the first table
		{"iptables-legacy -A INPUT -p icmp -m comment --comment some-text -j ACCEPT", true},
		{"ping -q -c 1 127.0.0.1", false}, // counters
		{"iptables-legacy -R INPUT 1 -s 10.0.0.2 -j DROP", true},
		{"iptables-legacy -R INPUT 1 -s 10.0.0.2 -j ACCEPT", true},
		{"iptables-legacy -P FORWARD DROP", true},
		{"iptables-legacy -Z", false},
		{"iptables-legacy-save -c", false},
		{"iptables-legacy -t mangle -A PREROUTING -j ACCEPT", true}, // another table
		{"ip6tables-legacy -A FORWARD -s fd00::1 -j DROP", true},    // another family
		{"ip6tables-legacy -R FORWARD 1 -s fd00::2 -j DROP", true},
		{"iptables-legacy -t mangle -R PREROUTING 1 -j DROP", true},
		{"iptables-legacy -N chain", true},
		{"iptables-legacy -E chain other", true},
		{"iptables-legacy -D INPUT 2", true},
		{"iptables-legacy -F", true},
		{"iptables-legacy -F", false},
		{"ip6tables-legacy -F FORWARD", true},
	} {
		n.Run("sh", "-c", tt.command)
		if got := r.look(); got != tt.changes {
			t.Errorf("%s: a change is seen: %v, want %v", tt.command, got, tt.changes)
		}
		if r.look() {
			t.Errorf("%s is seen twice", tt.command)
		}
	}
}

func TestAllCubesOfAHostAreToldByOnePoller(t *testing.T) {
	n, other := legacyHost(t), legacyHost(t)
	before := Asked()
	var all []*subscriber
	for _, host := range []*netns.Namespace{n, n, other} {
		s, err := followLegacy(host.Do)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	if got := Asked() - before; got != 2 || all[0].p != all[1].p || all[0].p == all[2].p {
		t.Errorf("%d pollers, want one for each of 2 hosts", got)
	}
	must(t, all[1].depend(true))
	period := legacyPeriod
	if swapless() == nil {
		period = idlePeriod
	}
	if got := all[0].p.period(); got != period {
		t.Errorf("the period is %v while verdicts of one cube depend on the tables, want %v", got, period)
	}
	for _, address := range []string{"10.0.0.1", "10.0.0.2"} {
		n.Run("iptables-legacy", "-A", "INPUT", "-s", address, "-j", "DROP")
		for i, s := range all[:2] {
			select {
			case <-s.changes:
			case <-time.After(patience):
				t.Fatalf("cube %d is not told that a rule for %s was added", i, address)
			}
		}
	}
	select {
	case <-all[2].changes:
		t.Error("a cube is told about a change of another host")
	default:
	}
	must(t, all[1].depend(false))
	if got := all[0].p.period(); got != idlePeriod {
		t.Errorf("the period is %v while no verdict depends on the tables, want %v", got, idlePeriod)
	}
	must(t, all[1].close())
	if got := Asked() - before; got != 2 {
		t.Errorf("%d pollers after one of two cubes has gone, want 2", got)
	}
	must(t, errors.Join(all[0].close(), all[2].close()))
	if got := Asked() - before; got != 0 {
		t.Errorf("%d pollers without cubes", got)
	}
	netns.Eventually(t, patience, func() error { // what was told before may still be there
		for i, s := range all {
			if _, open := <-s.changes; open {
				return fmt.Errorf("the channel of cube %d is not closed", i)
			}
		}
		return nil
	})
	if _, err := followLegacy(func(func() error) error { return errors.New("no namespace") }); err == nil {
		t.Error("a host that cannot be visited is followed")
	}
}
