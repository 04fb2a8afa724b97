// SPDX-License-Identifier: Apache-2.0

// A daemon whose control group has little more memory than its session table takes: a table that does not fit is
// refused, without side effects.

package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

const megabyte = 1 << 20

// tightNAT is a daemon in a control group, with a NAT between a host and the rest of the world.
type tightNAT struct {
	*daemon
	t        *testing.T
	group    *need.MemoryGroup
	lan, wan *netns.Node
	// atLimit is the group's usage when its limit was set, in bytes.
	atLimit uint64
}

func newTightNAT(t *testing.T, sessions int, behaviour string) *tightNAT {
	m := newMachine(t)
	n := &tightNAT{t: t, group: need.NewMemoryGroup(t), daemon: m.Start()}
	n.lan, n.wan = m.lab.Host("lan0", "10.0.0.2/24"), m.lab.Host("wan0", "203.0.113.2/24")
	m.lab.Run("ip", "addr", "add", "10.0.0.1/24", "dev", "lan0")
	m.lab.Run("ip", "addr", "add", "203.0.113.1/24", "dev", "wan0")
	m.lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1")
	n.lan.Run("ip", "route", "add", "default", "via", "10.0.0.1")
	n.group.Add(n.Pid())
	t.Cleanup(func() { // reports why a request fails: the daemon was killed, or something else
		t.Logf("at most %d bytes were taken, by the kernel %d, %d when the limit was set, and the kernel has killed %d processes",
			n.group.Peak(), n.group.KernelPeak(), n.atLimit, n.group.Killed())
	})
	before := n.group.Usage()
	n.Must(http.StatusCreated, http.MethodPost, "/nat/n", fmt.Sprintf(
		`{"max-sessions":%d,"behaviour":{%s},"rule":{"snat":{"entry":[{"id":0,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}}`, sessions, behaviour))
	if took := n.group.Usage() - before; took < uint64(sessions)*500 {
		t.Skipf("needs a kernel that charges maps to control groups (not cgroup.memory=nokmem): a table of %d sessions took %d bytes", sessions, took)
	}
	n.Do("attach n wan0")
	n.wan.AnswerLines("203.0.113.2:7000", sender)
	return n
}

// leave sets the group's limit that far above its usage, once that is stable: the verifier frees memory some time after
// a program was loaded.
func (n *tightNAT) leave(bytes uint64) {
	n.t.Helper()
	is, steady := n.group.Usage(), 0
	netns.Eventually(n.t, patience, func() error {
		was := is
		if is = n.group.Usage(); max(is, was)-min(is, was) > megabyte/4 {
			steady = 0
		}
		if steady++; steady < 20 {
			return fmt.Errorf("%d bytes are in use, and %d were", is, was)
		}
		return nil
	})
	n.atLimit = is
	n.group.Limit(is + bytes)
}

// shown is the cubes, and the NAT's state that must not change.
func (n *tightNAT) shown() string {
	n.t.Helper()
	var cubes map[string][]struct{ Name string }
	n.Get("/cubes", &cubes)
	all := []string{fmt.Sprint(cubes)}
	for _, path := range []string{"/nat/n/max-sessions", "/nat/n/rule", "/nat/n/sessions/active"} {
		all = append(all, n.Must(http.StatusOK, http.MethodGet, path, ""))
	}
	return strings.Join(all, "\n")
}

// alive fails the test if the daemon was killed.
func (n *tightNAT) alive() {
	n.t.Helper()
	n.Alive()
	if killed := n.group.Killed(); killed > 0 {
		n.t.Fatalf("for lack of memory, the kernel has killed %d processes", killed)
	}
}

// TestTablesBeyondMemoryAreRefused: while others read, so that the daemon allocates memory at any moment, tables are
// requested that do not fit, at once or after a part of them. Each is refused with the reason, and configuration,
// sessions and a connection are as before; then a table that fits is created.
func TestTablesBeyondMemoryAreRefused(t *testing.T) {
	t.Parallel()
	n := newTightNAT(t, 16384, "")
	c := connectTo(t, n.lan, "203.0.113.2:7000")
	as := c.seenAs()
	if !strings.HasPrefix(as, "203.0.113.1:") {
		t.Errorf("the other side sees %s", as)
	}
	before := n.shown()
	n.leave(96 * megabyte) // 300,000 sessions take 160, and the daemon may give back 50 that it has freed
	var reading sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		reading.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_, _, _ = n.Request(http.MethodGet, "/nat/n", "") // its answer is checked below
				}
			}
		})
	}
	for i := range 30 {
		sessions := []int{1048576, 300000}[i%2]
		method, path, body := http.MethodPatch, "/nat/n/max-sessions", fmt.Sprint(sessions)
		if i%3 == 2 {
			method, path, body = http.MethodPost, "/nat/m", fmt.Sprintf(`{"max-sessions":%d}`, sessions)
		}
		status, text, err := n.Request(method, path, body)
		if err != nil || status != http.StatusConflict || !strings.Contains(text, `"resource-denied"`) || !strings.Contains(text, " entries need ") ||
			!strings.Contains(text, "the daemon's control group has ") {
			t.Errorf("%s %s %s: status %d, %v: %s", method, path, body, status, err, text)
			break
		}
	}
	close(stop)
	reading.Wait()
	n.alive()
	if after := n.shown(); after != before {
		t.Errorf("there was\n%s\nand is\n%s", before, after)
	}
	if now := c.seenAs(); now != as {
		t.Errorf("the other side saw %s and sees %s", as, now)
	}
	// The kernel frees the memory of refused tables some time later.
	netns.Eventually(t, patience, func() error {
		status, text, err := n.Request(http.MethodPatch, "/nat/n/max-sessions", "32768")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("a table that fits: status %d: %s", status, text)
		}
		return err
	})
	if now := c.seenAs(); now != as {
		t.Errorf("with a larger table the other side sees %s, and saw %s", now, as)
	}
	n.alive()
}
