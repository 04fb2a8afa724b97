// SPDX-License-Identifier: Apache-2.0

// Stacked netdevs as ports, most of which many kernels are built without: VLAN devices, bonds, bridges, members of a
// VRF, and dummies.

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

// deviceKind is a kind of stacked netdev.
type deviceKind struct {
	name  string
	needs []need.Feature
	// lab creates dev<n> on under<n>, the lab's end of a host's link; host creates the host's end, end, on its
	// eth0.
	lab, host []string
	// end is the host's interface that has the address.
	end string
	// refused is the error by type of cube; other types are accepted.
	refused map[string]string
}

var deviceKinds = []deviceKind{
	{name: "VLAN", needs: []need.Feature{need.VLAN}, end: "vlan7",
		lab:     []string{"link add link under# name dev# type vlan id 7"},
		host:    []string{"link add link eth0 name vlan7 type vlan id 7"},
		refused: map[string]string{"XDP_DRV": noNative}},
	{name: "bond", needs: []need.Feature{need.Bond}, end: "eth0",
		lab: []string{"link add dev# type bond mode active-backup", "link set dev under# down",
			"link set dev under# master dev#", "link set dev under# up"},
		refused: map[string]string{"XDP_DRV": noNative}},
	{name: "VLAN on a bond", needs: []need.Feature{need.Bond, need.VLAN}, end: "vlan7",
		lab: []string{"link add bond# type bond mode active-backup", "link set dev under# down", "link set dev under# master bond#",
			"link set dev under# up", "link set dev bond# up", "link add link bond# name dev# type vlan id 7"},
		host:    []string{"link add link eth0 name vlan7 type vlan id 7"},
		refused: map[string]string{"XDP_DRV": noNative}},
	{name: "Linux bridge", end: "eth0",
		lab: []string{"link add dev# type bridge", "link set dev under# master dev#"}, refused: map[string]string{"XDP_DRV": noNative}},
	{name: "member of a VRF", needs: []need.Feature{need.VRF}, end: "eth0",
		lab: []string{"link add vrf# type vrf table 1#", "link set dev vrf# up", "link set dev under# down", "link set dev under# name dev#", "link set dev dev# master vrf#"}},
}

// behind creates dev<n> in the lab, and a host behind it with an address and a gateway, if one is given.
func (k deviceKind) behind(d *daemon, n int, addr, gateway string) *netns.Node {
	h := d.lab.Host(fmt.Sprint("under", n), "", netns.WithGRO())
	numbered := func(lines []string) (out []string) {
		for _, line := range lines {
			out = append(out, strings.ReplaceAll(line, "#", fmt.Sprint(n)))
		}
		return out
	}
	ip(d.lab, append(numbered(k.lab), fmt.Sprintf("link set dev dev%d up", n))...)
	ip(h, append(numbered(k.host), "addr add "+addr+" dev "+k.end, "link set dev "+k.end+" up")...)
	if gateway != "" {
		ip(h, "route add default via "+gateway)
	}
	return h
}

// onEachDevice runs a test for each kind of device and type of cube; if a kind is refused, connecting br1 must fail.
func onEachDevice(t *testing.T, test func(t *testing.T, d *daemon, k deviceKind, kind string)) {
	t.Parallel()
	for _, k := range deviceKinds {
		for _, kind := range types {
			t.Run(k.name+", "+kind, func(t *testing.T) {
				t.Parallel()
				need.Features(t, k.needs...)
				test(t, start(t), k, kind)
			})
		}
	}
}

func TestDevicesOfDevicesAsPortsOfBridges(t *testing.T) {
	onEachDevice(t, func(t *testing.T, d *daemon, k deviceKind, kind string) {
		a := k.behind(d, 1, "10.0.0.1/24", "")
		k.behind(d, 2, "10.0.0.2/24", "")
		for _, service := range []string{"simplebridge", "bridge"} {
			d.Do(service + " add br1 type=" + kind)
			d.Do("br1 ports add p1")
			if r, refused := d.CLI("connect", "br1:p1", "dev1"), k.refused[kind]; (r.code == 0) != (refused == "") || !strings.Contains(r.stderr, refused) {
				t.Fatalf("%s: %s\nwant %q", service, r, refused)
			}
			if k.refused[kind] == "" {
				d.Do("br1 ports add p2 peer=dev2")
				reaches(t, a, "10.0.0.2")
				if d.Stats("br1").Rx(t, "p1") == 0 {
					t.Errorf("%s: packets pass, and not by the port", service)
				}
				d.Do("nat add nat1 type=" + kind) // copies for its port are programs' now, not the netdev's
				d.Do("attach nat1 br1:p2")
				ip(a, "neigh flush dev "+k.end)
				reaches(t, a, "10.0.0.2")
				d.Do("del nat1")
			}
			d.Do("del br1")
		}
	})
}

func TestDevicesOfDevicesAsPortsOfARouter(t *testing.T) {
	onEachDevice(t, func(t *testing.T, d *daemon, k deviceKind, kind string) {
		if k.refused[kind] != "" {
			t.Skipf("a %s %s", k.name, k.refused[kind])
		}
		a := k.behind(d, 1, "10.0.1.2/24", "10.0.1.1")
		k.behind(d, 2, "10.0.2.2/24", "10.0.2.1")
		d.Must(http.StatusCreated, "POST", "/router/r1", fmt.Sprintf(`{"type":%q,"ports":[
			{"name":"p1","ip":"10.0.1.1/24","peer":"dev1"},{"name":"p2","ip":"10.0.2.1/24","peer":"dev2"}]}`, kind))
		reaches(t, a, "10.0.2.2")
		d.Do("del r1")
	})
}

// TestNativeXDPCannotSendToADeviceOfDevices: cubes with generic XDP forward there, and a port says so while it is
// connected to cubes with native XDP.
func TestNativeXDPCannotSendToADeviceOfDevices(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.lab.Host("under1", "10.0.0.1/24", netns.WithGRO())
	ip(d.lab, "link add dev1 type bridge", "link set dev under1 master dev1", "link set dev dev1 up")
	d.Do("simplebridge add br1 type=XDP_SKB")
	d.Do("br1 ports add p1 peer=dev1")
	d.Do("br1 ports add up")
	d.Do("simplebridge add br2 type=XDP_DRV")
	d.Do("br2 ports add down")
	reason := func(want string) {
		t.Helper()
		netns.Eventually(t, patience, func() error {
			if out := d.Do("br1 ports p1 show"); strings.Contains(out, "type XDP_DRV") != (want != "") || !strings.Contains(out, want) {
				return fmt.Errorf("want %q in\n%s", want, out)
			}
			return nil
		})
	}
	reason("")
	d.Do("connect br1:up br2:down")
	reason("dev1 is a bridge device, which accepts no frames from cubes of type XDP_DRV")
	d.Do("disconnect br1:up br2:down")
	reason("")
}

// TestADummyAsAPort: packets sent there count as sent, although nobody receives them.
func TestADummyAsAPort(t *testing.T) {
	t.Parallel()
	need.Features(t, need.Dummy)
	d := start(t)
	a := d.lab.Host("veth1", "10.0.0.1/24")
	ip(d.lab, "link add dev0 type dummy", "link set dev dev0 up")
	d.Do("simplebridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2 peer=dev0")
	netns.Eventually(t, patience, func() error {
		if a.Ping("10.0.0.2", netns.Brief) == nil {
			t.Fatal("a dummy answers")
		}
		for _, p := range d.Stats("br1").Ports {
			if p.Name == "p2" && p.TxPackets > 0 {
				return nil
			}
		}
		return errors.New("nothing was sent to the dummy")
	})
	d.Do("simplebridge add br2 type=XDP_DRV")
	d.Do("br2 ports add p1")
	if r := d.CLI("connect", "br2:p1", "dev0"); r.code == 0 {
		t.Errorf("a dummy is the peer of two ports: %s", r)
	}
}

// TestTCPOverABadLine: a bridge, a router and a nat deliver everything, in order and whole, where packets are late and lost.
func TestTCPOverABadLine(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			need.Features(t, need.Netem)
			d := start(t)
			lan := d.lab.Host("lan0", "10.0.1.2/24", netns.WithGateway("10.0.1.1"), netns.WithGRO(), netns.WithoutTxChecksum())
			wan := d.lab.Host("wan0", "203.0.113.2/24", netns.WithGRO(), netns.WithoutTxChecksum())
			d.Do("bridge add br1 type=" + kind)
			d.Do("br1 ports add p1 peer=lan0")
			d.Do("br1 ports add up")
			d.Must(http.StatusCreated, "POST", "/router/r1", fmt.Sprintf(`{"type":%q,"ports":[
				{"name":"lan","ip":"10.0.1.1/24"},{"name":"wan","ip":"203.0.113.1/24","peer":"wan0"}]}`, kind))
			d.Do("connect br1:up r1:lan")
			d.Do("nat add nat1 type=" + kind)
			d.Do("attach nat1 r1:wan")
			d.Do("nat1 rule snat append internal-net=10.0.1.0/24 external-ip=203.0.113.1")
			reaches(t, lan, "203.0.113.2")
			for _, h := range []*netns.Node{lan, wan} {
				h.Run("tc", "qdisc", "add", "dev", netns.Inner, "root", "netem", "delay", "20ms", "loss", "5%")
			}
			transfer(t, lan, wan, 512<<10)
			if n := wan.Run("tc", "-s", "qdisc", "show", "dev", netns.Inner); strings.Contains(n, "dropped 0,") {
				t.Errorf("the line lost nothing: the test proves nothing:\n%s", n)
			}
		})
	}
}
