// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/vlan"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/pkt"
)

// TestCubesHearOfVLANNetdevs: of those on their netdev and on those that their outputs lead to, while nothing but the stack
// gets the packets of a VLAN netdev.
func TestCubesHearOfVLANNetdevs(t *testing.T) {
	var mu sync.Mutex
	heard := map[uint8]cube.Peer{}
	l := newLab(t)
	model := strings.ReplaceAll(readFile(t, "testdata/toyfilter.yang"), "toyfilter", "leading")
	l.extra = []cube.Service{{Model: model, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&leading{toyFilter{toy{e, l.b}}, &mu, heard}), nil
	}}}
	l.restart()
	mac := pkt.MAC("02:00:00:00:00:10")
	add := func(i netdev.Info) { l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: l.devs.set(i)}) }
	change := func(name string, change func(*netdev.Info)) func() {
		return func() {
			old := l.devs.infos[name]
			now := old
			change(&now)
			l.devs.set(now)
			l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: now, Old: &old})
		}
	}
	add(netdev.Info{Name: "veth1", Index: 10, Up: true, Carrier: true, MTU: 1500, MAC: mac})
	v7 := netdev.Info{Name: "v7", Index: 17, Up: true, Carrier: true, MTU: 1500, MAC: mac, Kind: "vlan",
		VLAN: netdev.VLAN{Below: 10, Protocol: 0x8100, ID: 7, Plain: true}}
	add(v7)
	l.must(`create leading f1`, `create toyfilter f2`, `create toybridge br1 <<< {"ports":[{"name":"p1"}]}`)
	l.must(`attach f1 veth1`, `post f1 outputs 3 <<< {"to":"veth1"}`)

	// told returns the last notification of f1, and resets those of both filters.
	told := func() (last *cube.Parent) {
		l.quiet()
		l.b.mu.Lock()
		defer l.b.mu.Unlock()
		for _, p := range l.b.parents {
			if p.Name == "veth1" {
				last = &p
			}
		}
		l.b.parents = nil
		return last
	}
	is := func(vlans ...vlan.Netdev) []vlan.Netdev { return vlans }
	seven := vlan.Netdev{Index: 17, Protocol: 0x8100, ID: 7, MAC: [6]byte(mac)}
	other := vlan.Netdev{Index: 16, Protocol: 0x88a8, ID: 9, MAC: [6]byte(mac)}
	for _, c := range []struct {
		step string
		do   func()
		want []vlan.Netdev
	}{
		{"at the start", func() {}, is(seven)},
		{"down", change("v7", func(i *netdev.Info) { i.Up = false }), nil},
		{"up", change("v7", func(i *netdev.Info) { i.Up = true }), is(seven)},
		{"with priorities, in a bridge or VRF", change("v7", func(i *netdev.Info) { i.VLAN.Plain = false }), nil},
		{"without", change("v7", func(i *netdev.Info) { i.VLAN.Plain = true }), is(seven)},
		{"the netdev below is in another namespace", change("v7", func(i *netdev.Info) { i.VLAN.Below = 0 }), nil},
		{"and is back", change("v7", func(i *netdev.Info) { i.VLAN.Below = 10 }), is(seven)},
		{"the VLAN id 0", change("v7", func(i *netdev.Info) { i.VLAN.ID = 0 }), nil},
		{"the VLAN id 7", change("v7", func(i *netdev.Info) { i.VLAN.ID = 7 }), is(seven)},
		{"a macvlan on it", func() { add(netdev.Info{Name: "m1", Index: 18, Up: true, Carries: 17, Kind: "macvlan"}) }, nil},
		{"without it", func() { l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: l.devs.remove("m1")}) }, is(seven)},
		{"a cube on it", func() { l.must(`attach f2 v7`) }, nil},
		{"a cube at the host's stack", func() { l.must(`detach f2 v7`, `attach f2 host`) }, nil},
		{"no other cube", func() { l.must(`detach f2 host`) }, is(seven)},
		{"the peer of a port", func() { l.must(`connect br1:p1 v7`) }, nil},
		{"no peer", func() { l.must(`disconnect br1:p1 v7`) }, is(seven)},
		{"another one", func() {
			add(netdev.Info{Name: "v9", Index: 16, Up: true, MAC: mac, Kind: "vlan", VLAN: netdev.VLAN{Below: 10, Protocol: 0x88a8, ID: 9, Plain: true}})
		}, is(other, seven)},
		{"it is gone", func() { l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: l.devs.remove("v7")}) }, is(other)},
	} {
		c.do()
		parent := told()
		mu.Lock()
		out := heard[3]
		mu.Unlock()
		if parent == nil || !reflect.DeepEqual(parent.VLANs, c.want) || !reflect.DeepEqual(out.VLANs, c.want) {
			t.Errorf("%s: told of the parent %+v, of the output %+v, want %+v", c.step, parent, out.VLANs, c.want)
		}
	}
	l.must(`patch f1 loglevel <<< "DEBUG"`)
	if parent := told(); parent != nil {
		t.Errorf("told of no change: %+v", *parent)
	}
}
