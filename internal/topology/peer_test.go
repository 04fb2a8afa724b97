// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
)

// curious is a bridge that wants to know what its ports are connected to.
type curious struct {
	toyBridge
	mu    *sync.Mutex
	heard map[string]cube.Peer
}

func (c *curious) PeerChanged(port string, p cube.Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[port] = p
}

func TestCubesHearWhatTheirPortsAreConnectedTo(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]cube.Peer{}
	l := newLab(t)
	model := strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "curious")
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, New: func(e cube.Env) (cube.Instance, error) {
		return &curious{toyBridge{toy{e, l.b}}, &mu, heard}, nil
	}}}
	l.restart()
	device := netdev.Info{Name: "veth1", Index: 10, Up: true, Carrier: true, MTU: 1500, MAC: mac("02:00:00:00:00:10"), Addresses: prefixes("10.0.0.1/24")}
	l.devs.set(device)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	l.must(`create curious c1 <<< {"ports":[{"name":"p1"},{"name":"p2"}]}`, `create toybridge br1 <<< {"ports":[{"name":"p1"}]}`)
	known := func(change func(*cube.Peer)) map[string]cube.Peer {
		p := cube.Peer{Name: "veth1", Netdev: "veth1", Index: 10, MTU: 1500, MAC: device.MAC, Addresses: device.Addresses}
		change(&p)
		return map[string]cube.Peer{"p1": p}
	}
	for _, tt := range []struct {
		step string
		do   func()
		want map[string]cube.Peer
	}{
		{"no peers", func() {}, map[string]cube.Peer{}},
		{"a netdev", func() { l.must(`connect c1:p1 veth1`) }, known(func(*cube.Peer) {})},
		{"its MTU", func() { l.change(func(i *netdev.Info) { i.MTU = 9000 }) }, known(func(p *cube.Peer) { p.MTU = 9000 })},
		{"what does not concern the port", func() { l.must(`patch c1 loglevel <<< "DEBUG"`) }, map[string]cube.Peer{}},
		{"another cube", func() { l.must(`connect c1:p2 br1:p1`) }, map[string]cube.Peer{"p2": {Name: "br1:p1"}}},
		{"nothing any more", func() { l.must(`disconnect c1:p1 veth1`) }, map[string]cube.Peer{"p1": {}}},
	} {
		mu.Lock()
		clear(heard)
		mu.Unlock()
		tt.do()
		l.quiet()
		mu.Lock()
		if !reflect.DeepEqual(heard, tt.want) {
			t.Errorf("%s: heard %+v, want %+v", tt.step, heard, tt.want)
		}
		mu.Unlock()
	}
}
