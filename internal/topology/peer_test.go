// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/pkt"
)

// curious is a bridge that wants to know what its ports are connected to.
type curious struct {
	toyBridge
	mu    *sync.Mutex
	heard map[string]cube.Peer
	// order has one word for each notification.
	order *[]string
}

func (c *curious) PeerChanged(port string, p cube.Peer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.heard[port] = p
	*c.order = append(*c.order, fmt.Sprint("peer ", p.Index, " ", p.Speed))
}

func (c *curious) LinkChanged(_ string, works bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*c.order = append(*c.order, fmt.Sprint("link ", works))
}

// curiousLab has the service of curious bridges.
func curiousLab(t *testing.T, mu *sync.Mutex, heard map[string]cube.Peer, order *[]string) *lab {
	t.Helper()
	l := newLab(t)
	model := strings.ReplaceAll(readFile(t, "testdata/toybridge.yang"), "toybridge", "curious")
	l.extra = []cube.Service{{Model: model, MaxPorts: 8, WholeLists: true, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&curious{toyBridge{toy{e, l.b}}, mu, heard, order}), nil
	}}}
	l.restart()
	return l
}

func TestCubesHearWhatTheirPortsAreConnectedTo(t *testing.T) {
	var mu sync.Mutex
	heard := map[string]cube.Peer{}
	l := curiousLab(t, &mu, heard, new([]string))
	device := netdev.Info{Name: "veth1", Index: 10, Up: true, Carrier: true, MTU: 1500, Speed: 10000, MAC: pkt.MAC("02:00:00:00:00:10"), Addresses: pkt.Prefixes("10.0.0.1/24")}
	l.devs.set(device)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	l.must(`create curious c1 <<< {"ports":[{"name":"p1"},{"name":"p2"}]}`, `create toybridge br1 <<< {"ports":[{"name":"p1"}]}`)
	known := func(change func(*cube.Peer)) map[string]cube.Peer {
		p := cube.Peer{Name: "veth1", Netdev: "veth1", Index: 10, MTU: 1500, Speed: 10000, MAC: device.MAC, Addresses: device.Addresses}
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
		{"its speed", func() { l.change(func(i *netdev.Info) { i.Speed = 100 }) }, known(func(p *cube.Peer) { p.MTU, p.Speed = 9000, 100 })},
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

// A cube knows what a port leads to, and its speed, before it is notified that the link works. It is notified first that the
// link does not work any more: a request may find a netdev before its event arrives.
func TestAPeerIsToldBetweenItsLinks(t *testing.T) {
	var mu sync.Mutex
	var order []string
	l := curiousLab(t, &mu, map[string]cube.Peer{}, &order)
	told := func(step string, want ...string) {
		t.Helper()
		l.quiet()
		mu.Lock()
		defer mu.Unlock()
		if !slices.Equal(order, want) {
			t.Errorf("%s: told %q, want %q", step, order, want)
		}
		order = nil
	}
	device := netdev.Info{Name: "fresh", Index: 77, Up: true, Carrier: true, Speed: 1000}
	l.devs.set(device)
	l.must(`create curious c1 <<< {"ports":[{"name":"p1","peer":"fresh"}]}`)
	told("a netdev without an event", "peer 77 1000", "link true")
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	told("the event")
	slower := device
	slower.Speed, slower.Carrier = 0, false
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: slower, Old: &device})
	told("a link that is lost", "link false", "peer 77 0")
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: device, Old: &slower})
	told("and is back", "peer 77 1000", "link true")
	l.devs.remove("fresh")
	l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: device})
	told("its end", "link false", "peer 0 0")
	device.Index, device.Speed = 78, 100
	l.devs.set(device)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	told("another of its name", "peer 78 100", "link true")
}
