// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

const (
	macA, macB, macC, macD = "02:00:00:00:0a:01", "02:00:00:00:0b:01", "02:00:00:00:0c:01", "02:00:00:00:0d:01"
)

// withSTP is a cube with a spanning tree of VLAN 1, with the shortest possible times.
func withSTP(mac string, priority int, version, host string) string {
	ports := ""
	if host != "" {
		ports = fmt.Sprintf(`,"ports":[{"name":"host","peer":%q,"stp":[{"vlan":1,"admin-edge":true}]}]`, host)
	}
	return fmt.Sprintf(`{"stp-enabled":true,"mac":%q,"stp":[{"vlan":1,"priority":%d,"forward-delay":4,"hello-time":1,"max-message-age":6,"force-version":%q}]%s}`,
		mac, priority, version, ports)
}

// Three of ours in a ring: RSTP opens the ring in a moment, and closes it where it is cut.
func TestTimedARingOfCubesHealsAtOnce(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, bpftest.Options{Type: typ, Hosts: 2})
			m.cube("a", withSTP(macA, 4096, "rstp", "veth1"))
			m.cube("b", withSTP(macB, 8192, "rstp", "veth2"))
			m.cube("c", withSTP(macC, 12288, "rstp", ""))
			m.link("a", "b")
			m.link("b", "c")
			m.link("c", "a")
			root := "1000.020000000a01"
			took := m.becomes(1, root, map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"})
			m.once()
			m.cut("a-b")
			cut := m.becomes(1, root, map[string]string{"a-b": "0", "b-c": "-", "c-a": "-"})
			m.once()
			m.mend("a-b")
			mended := m.becomes(1, root, map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"})
			m.once()
			m.Restart(m.once) // open ports stay open, blocked ones stay blocked
			m.becomes(1, root, map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"})
			m.once()
			t.Logf("%v, after a cut %v, after it was mended %v", took, cut, mended)
			if limit := 3 * time.Second; max(took, cut, mended) > limit {
				t.Errorf("it took more than %v, without the handshakes of RSTP", limit)
			}
		})
	}
}

// A ring of cubes and Linux bridges: the same root, and the same port closed, as the ring of Linux bridges alone has.
func TestRingsWithLinuxBridges(t *testing.T) {
	for _, ours := range []string{"a", "b", "c", "d", "ac", "bd", ""} {
		for _, version := range []string{"rstp", "stp"} {
			t.Run(fmt.Sprintf("ours %s %s", ours, version), func(t *testing.T) {
				if !soak() && ours+version != "dstp" {
					t.Skip("takes half a minute: POLYCUBE_SOAK is not set")
				}
				t.Parallel()
				m := newMesh(t, bpftest.Options{Hosts: 2})
				for i, mac := range []string{macC, macA, macB, macD} {
					name, host := string("abcd"[i]), []string{"veth1", "", "veth2", ""}[i]
					priority := []int{32768, 4096, 32768, 32768}[i]
					if strings.Contains(ours, name) {
						m.cube(name, withSTP(mac, priority, version, host))
						continue
					}
					m.linux(name, mac, priority, shortest)
					if host != "" {
						m.bridges[name].add(host)
					}
				}
				m.link("a", "b")
				m.link("b", "c")
				m.link("c", "d")
				m.link("d", "a")
				// b is the root; d has two paths of equal cost to it, and uses the one through c, whose
				// address is lower.
				root := "1000.020000000a01"
				whole := map[string]string{"a-b": "-", "b-c": "-", "c-d": "-", "d-a": "<"}
				took := m.becomes(1, root, whole)
				m.once()
				m.cut("b-c")
				cut := m.becomes(1, root, map[string]string{"a-b": "-", "b-c": "0", "c-d": "-", "d-a": "-"})
				t.Logf("%v, after a cut %v", took, cut)
				if limit := 50 * time.Second; max(took, cut) > limit {
					t.Errorf("it took more than %v", limit)
				}
				m.once()
				if !soak() {
					return
				}
				m.mend("b-c")
				mended := m.becomes(1, root, whole)
				m.once()
				t.Logf("after it was mended %v", mended)
			})
		}
	}
}

// vlanSTP is a cube whose trees of VLANs 1, 10 and 20 have different priorities.
func vlanSTP(mac string, priorities [3]int, host string) string {
	var trees []string
	for i, vlan := range []int{1, 10, 20} {
		trees = append(trees, fmt.Sprintf(`{"vlan":%d,"priority":%d,"hello-time":1,"max-message-age":6,"forward-delay":4}`, vlan, priorities[i]))
	}
	return fmt.Sprintf(`{"stp-enabled":true,"mac":%q,"stp":[%s],
		"ports":[{"name":"host","peer":%q,"access":{"vlanid":20},"stp":[{"vlan":20,"admin-edge":true}]}]}`,
		mac, strings.Join(trees, ","), host)
}

// Trunks between three of ours: each VLAN has its own root and blocked port, and a VLAN that is native here and tagged
// there is one tree.
func TestEachVLANHasATreeOfItsOwn(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, bpftest.Options{Type: typ, Hosts: 3})
			const first, second, third = 4096, 8192, 12288
			a := m.cube("a", vlanSTP(macA, [3]int{first, second, third}, "veth1"))
			b := m.cube("b", vlanSTP(macB, [3]int{second, third, first}, "veth2"))
			c := m.cube("c", vlanSTP(macC, [3]int{third, first, second}, "veth3"))
			trunk := `,"mode":"trunk","trunk":{"allowed":[{"vlanid":10},{"vlanid":20}],"native-vlan":%d}`
			a.port, b.port, c.port = fmt.Sprintf(trunk, 1), fmt.Sprintf(trunk, 1), fmt.Sprintf(trunk, 1)
			m.link("a", "b")
			a.port, b.port, c.port = fmt.Sprintf(trunk, 10), fmt.Sprintf(trunk, 10), fmt.Sprintf(trunk, 10)
			m.link("b", "c")
			m.link("c", "a")
			m.becomes(1, "1000.020000000a01", map[string]string{"a-b": "-", "b-c": ">", "c-a": "-"})
			m.becomes(10, "1000.020000000c01", map[string]string{"a-b": ">", "b-c": "-", "c-a": "-"})
			m.becomes(20, "1000.020000000b01", map[string]string{"a-b": "-", "b-c": "-", "c-a": ">"})
			m.once()
			m.cut("a-b")
			m.becomes(1, "1000.020000000a01", map[string]string{"a-b": "0", "b-c": "-", "c-a": "-"})
			m.becomes(20, "1000.020000000b01", map[string]string{"a-b": "0", "b-c": "-", "c-a": "-"})
			m.once()
			// A VLAN that is added gets its tree, and one that is removed loses it.
			m.Set("POST", "b ports btoc trunk allowed 30", `{}`)
			m.Set("POST", "c ports ctob trunk allowed 30", `{}`)
			m.Set("PATCH", "b stp 30", `{"priority":0}`)
			root := "0000.020000000b01"
			netns.Eventually(t, patience, func() error {
				if is, port := c.root(30), c.state("ctob", 30); is != root || port != "forwarding" {
					return fmt.Errorf("the root of VLAN 30 is %s and the port to it %s, want %s", is, port, root)
				}
				return nil
			})
			m.Set("DELETE", "c ports ctob trunk allowed 30", ``)
			if text, err := m.TryRead("c stp 30 root-id"); err == nil {
				t.Errorf("VLAN 30 has no port and the root %s", text)
			}
		})
	}
}
