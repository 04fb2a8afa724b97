// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
)

// rstpOVS is Open vSwitch's bridge with RSTP.
type rstpOVS struct{ *ovs }

func (m *mesh) ovs(name, mac string, priority int) {
	m.t.Helper()
	b := rstpOVS{startOVS(m.t, m.Lab.Lab.Namespace)}
	b.vsctl("set", "bridge", "br0", "rstp_enable=true", fmt.Sprintf("other_config:hwaddr=%q", mac),
		fmt.Sprint("other_config:rstp-priority=", priority))
	m.bridges[name] = b
}

func (b rstpOVS) add(dev string) {
	b.t.Helper()
	b.vsctl("add-port", "br0", dev, "--", "set", "port", dev, "other_config:rstp-path-cost=2")
}

func (b rstpOVS) state(dev string, _ int) string {
	b.t.Helper()
	state := strings.Trim(b.vsctl("--if-exists", "get", "port", dev, "rstp_status:rstp_port_state"), `"`)
	return strings.Replace(strings.ToLower(state), "discarding", "blocking", 1)
}

// forwarding returns the ports that forward at one moment: the database has the state of each port from a moment of its own.
func (b rstpOVS) forwarding() (out []string) {
	b.t.Helper()
	for line := range strings.Lines(b.run("ovs-appctl", "--target="+b.file("switch.ctl"), "rstp/show", "br0")) {
		if f := strings.Fields(line); len(f) == 5 && f[2] == "Forwarding" {
			out = append(out, f[0])
		}
	}
	return out
}

func (b rstpOVS) root(int) string {
	b.t.Helper()
	root := strings.Trim(b.vsctl("get", "bridge", "br0", "rstp_status:rstp_root_id"), `"`)
	return strings.Replace(root, ".", "", 1) // 1.000.020000000a01: priority and system ID are separate
}

// A ring of two cubes and Open vSwitch, with each as the root: RSTP, with its handshakes.
func TestTimedARingWithOpenVSwitch(t *testing.T) {
	for _, c := range []struct {
		name       string
		priorities [3]int
		root       string
		whole      map[string]string
		cut        string
		healed     map[string]string
	}{
		{"a cube is the root, and Open vSwitch closes its port", [3]int{4096, 8192, 12288}, "1000.020000000a01",
			map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"}, "c-a", map[string]string{"a-b": "-", "b-c": "-", "c-a": "0"}},
		{"Open vSwitch is the root, and a cube closes its port", [3]int{8192, 12288, 4096}, "1000.020000000c01",
			map[string]string{"a-b": ">", "b-c": "-", "c-a": "-"}, "b-c", map[string]string{"a-b": "-", "b-c": "0", "c-a": "-"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, bpftest.Options{Hosts: 2})
			m.ovs("c", macC, c.priorities[2])
			m.cube("a", withSTP(macA, c.priorities[0], "rstp", "veth1"))
			m.cube("b", withSTP(macB, c.priorities[1], "rstp", "veth2"))
			m.link("a", "b")
			m.link("b", "c")
			m.link("c", "a")
			took := m.becomes(1, c.root, c.whole)
			m.once()
			m.cut(c.cut)
			cut := m.becomes(1, c.root, c.healed)
			m.once()
			m.mend(c.cut)
			mended := m.becomes(1, c.root, c.whole)
			m.once()
			t.Logf("%v, after a cut %v, after it was mended %v", took, cut, mended)
			if limit := 3 * time.Second; max(cut, mended) > limit || took > 2*limit { // Open vSwitch sends a hello every 2 s
				t.Errorf("it took more than %v, without the handshakes of RSTP", limit)
			}
			for _, port := range []string{"a ports atoc", "b ports btoc"} {
				if v := m.Read(port + " stp 1 oper-version"); v != `"rstp"` {
					t.Errorf("%s speaks %s to Open vSwitch", port, v)
				}
			}
		})
	}
}

// While the daemon is away, its bridges neither open nor block a port, and flood BPDUs where they forward: the
// neighbour that no longer receives BPDUs from the root receives its own ones from the other side, and opens no loop.
// When the daemon is back, everything is as before.
func TestNoLoopWhileTheDaemonIsAway(t *testing.T) {
	t.Parallel()
	m := newMesh(t, bpftest.Options{Hosts: 2})
	m.ovs("c", macC, 12288)
	m.cube("a", withSTP(macA, 4096, "rstp", "veth1"))
	m.cube("b", withSTP(macB, 8192, "rstp", "veth2"))
	m.link("a", "b")
	m.link("b", "c")
	m.link("c", "a")
	root, whole := "1000.020000000a01", map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"}
	m.becomes(1, root, whole)
	if open := m.bridges["c"].(rstpOVS).forwarding(); !slices.Equal(open, []string{"ctoa"}) {
		t.Fatalf("Open vSwitch shows that %s forward, want ctoa", open)
	}
	m.once()
	m.Restart(nil)
	m.once() // at once: nothing was closed
	if state := m.bridges["a"].state("atob", 1); state != "forwarding" {
		t.Errorf("a port that forwarded is %s after a restart", state)
	}
	m.becomes(1, root, whole)
	m.Restart(func() {
		c := m.bridges["c"].(rstpOVS)
		closed := func() {
			if open := c.forwarding(); len(open) > 1 {
				t.Fatalf("Open vSwitch opened a loop: %s forward", open)
			}
		}
		for began := time.Now(); c.root(1) == root; m.once() {
			if closed(); time.Since(began) > patience {
				t.Fatalf("after %v, Open vSwitch takes %s for the root", time.Since(began), root)
			}
		}
		for began := time.Now(); time.Since(began) < 2*time.Second; m.once() {
			closed()
		}
	})
	m.becomes(1, root, whole)
	m.once()
}
