// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/test/pkt"
)

func TestRefusedOutputs(t *testing.T) {
	for _, c := range []struct {
		name, when string
		want       error
		says       string
	}{
		{"a netdev that is not there", `post th1 outputs 1 <<< {"to":"nodev0"}`, cube.ErrNotFound, "output 1 of th1: to nodev0: netdev nodev0: not found"},
		{"a netdev that is down", `post th1 outputs 1 <<< {"to":"down0"}`, cube.ErrInvalid, "netdev down0 is down, set it up first"},
		{"a netdev without Ethernet", `post th1 outputs 1 <<< {"to":"tun0"}`, cube.ErrInvalid, "has no Ethernet frames"},
		{"neither a netdev nor a port", `post th1 outputs 1 <<< {"to":"a/b"}`, cube.ErrInvalid, "neither a netdev's name nor cube:port"},
		{"a cube that is not there", `post th1 outputs 1 <<< {"to":"br9:p1"}`, cube.ErrNotFound, "output 1 of th1: to br9:p1: cube br9: not found"},
		{"a port that is not there", `post th1 outputs 1 <<< {"to":"br1:p9"}`, cube.ErrNotFound, "port p9 of br1: not found"},
		{"a transparent cube", `post th1 outputs 1 <<< {"to":"th2:p1"}`, cube.ErrInvalid, "has no ports"},
		{"a port at the other hook", `post th1 outputs 1 <<< {"to":"xbr:p1"}`, cube.ErrInvalid, "packets cannot cross between TC and XDP"},
		{"a port at the other hook, from XDP", `post xth outputs 1 <<< {"to":"br1:p1"}`, cube.ErrInvalid, "packets cannot cross between TC and XDP"},
		{"the stack of a netdev, from XDP", `post xth outputs 1 <<< {"to":"veth1","received":true}`, cube.ErrInvalid, "only a cube of type TC can make a netdev receive"},
		{"a netdev without NAPI, from XDP", `create toyfilter x2 <<< {"type":"XDP_DRV","outputs":[{"number":1,"to":"lame0"}]}`, cube.ErrInvalid,
			"output 1 of x2: to lame0: the other end is down"},
		{"a netdev that needs a program, from XDP", `create toyfilter x2 <<< {"type":"XDP_DRV","outputs":[{"number":1,"to":"virtio0"}]}`, cube.ErrInvalid,
			"output 1 of x2: to virtio0: only while a cube is attached to it"},
		{"a changed destination", `patch th3 outputs 1 <<< {"to":"nodev0"}`, cube.ErrNotFound, "output 1 of th3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "veth1", "veth2")
			for name, info := range map[string]netdev.Info{
				"down0": {Index: 99}, "tun0": {Index: 98, Up: true, NoEthernet: true, Kind: "tun"}, "lame0": {Index: 97, Up: true, Kind: "veth"},
				"virtio0": {Index: 96, Up: true, Kind: "physical"},
			} {
				info.Name = name
				l.devs.set(info)
			}
			l.must(bridges...)
			l.must(`post th3 outputs 1 <<< {"to":"veth1"}`)
			before := l.state()
			err := l.do(c.when)
			if !errors.Is(err, c.want) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("%s answers %v, want %q (%v)", c.when, err, c.says, c.want)
			}
			l.wantState(before)
		})
	}
}

// TestOutputsToNetdevsThatNeedAProgram: the cube that the netdev needs comes with the same change, or was there before. One
// at TC is of no use.
func TestOutputsToNetdevsThatNeedAProgram(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.devs.set(netdev.Info{Name: "virtio0", Index: 96, Up: true, Kind: "physical"})
	l.devs.set(netdev.Info{Name: "virtio1", Index: 95, Up: true, Kind: "physical"})
	if _, err := l.apply(`[{"name":"x0","service-name":"toyfilter","type":"XDP_DRV","parent":"virtio0","outputs":[{"number":1,"to":"virtio0"}]}]`); err != nil {
		t.Fatal(err)
	}
	l.must(`create toyfilter x1 <<< {"type":"XDP_DRV","outputs":[{"number":1,"to":"virtio0"}]}`, `create toyfilter x2`, `attach x2 virtio1`)
	if err := l.do(`post x1 outputs 2 <<< {"to":"virtio1"}`); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("an output to a netdev with a cube of type TC: %v, want it refused", err)
	}
	l.wantOutputs("at last", "x1", datapath.Output{Number: 1, Netdev: "virtio0"})
}

// wantOutputs checks the outputs of a cube in the graph.
func (l *lab) wantOutputs(step, name string, want ...datapath.Output) {
	l.t.Helper()
	if got := graphNode(l, name).Outputs; !reflect.DeepEqual(got, want) {
		l.t.Errorf("%s: the outputs of %s in the graph are %+v, want %+v", step, name, got, want)
	}
}

// TestOutputsFollowTheirDestinations: netdevs, ports and cubes go and come back; the configuration stays, also across a
// restart, and what is missing is reported.
func TestOutputsFollowTheirDestinations(t *testing.T) {
	l := newLab(t, "veth1", "veth2")
	l.must(bridges...)
	l.must(`post th1 outputs 0 <<< {"to":"veth2","received":true}`, `post th1 outputs 2 <<< {"to":"br2:p2"}`)
	br2 := graphNode(l, "br2").ID
	dev := datapath.Output{Number: 0, Netdev: "veth2", Received: true}
	port := datapath.Output{Number: 2, Cube: br2, Port: 1}
	const conf = `[{"number":0,"to":"veth2","received":true,"status":%s},{"number":2,"to":"br2:p2","received":false,"status":%s}]`
	const up = `"UP"`
	status := func(step, first, second string) {
		t.Helper()
		want := fmt.Sprintf(conf, first, second)
		if got, err := l.read("th1", "outputs"); err != nil || got != want {
			t.Errorf("%s: outputs are\n%s, %v, want\n%s", step, got, err, want)
		}
	}
	l.wantOutputs("configured", "th1", dev, port)
	status("configured", up, up)
	if l.plane.now().Netdevs["veth2"] == nil {
		t.Error("the graph does not have the netdev")
	}

	info := l.devs.infos["veth2"]
	delete(l.devs.infos, "veth2")
	l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: info})
	l.wantGraph()
	if dev := l.plane.now().Netdevs["veth2"]; dev == nil || dev.Index != 0 {
		t.Errorf("the netdev in the graph is %+v, want none with an index", dev)
	}
	status("the netdev is gone", `"DOWN","status-reason":"no netdev veth2: packets are dropped until it appears"`, up)
	info.Index = 77
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: l.devs.set(info)})
	l.wantGraph()
	if dev := l.plane.now().Netdevs["veth2"]; dev == nil || dev.Index != 77 {
		t.Errorf("the netdev in the graph is %+v, want index 77", dev)
	}
	status("the netdev is back", up, up)

	l.must(`del br2 ports p2`)
	l.wantOutputs("the port is gone", "th1", dev)
	status("the port is gone", up, `"DOWN","status-reason":"no port br2:p2: packets are dropped until it exists"`)
	l.must(`delete br2`, `create toybridge br2 <<< {"ports":[{"name":"p2"}]}`)
	l.wantOutputs("the cube is back", "th1", dev, datapath.Output{Number: 2, Cube: graphNode(l, "br2").ID, Port: 0})
	l.restart()
	l.wantGraph()
	l.wantOutputs("after a restart", "th1", dev, datapath.Output{Number: 2, Cube: graphNode(l, "br2").ID, Port: 0})
	status("after a restart", up, up)
	l.must(`delete br2`, `create toybridge br2 <<< {"type":"XDP_SKB","ports":[{"name":"p2"}]}`)
	status("a cube at the other hook", up, `"DOWN","status-reason":"th1 is of type TC and br2 of type XDP_SKB: packets cannot cross between TC and XDP"`)
	l.must(`del th1 outputs`)
	l.wantOutputs("without outputs", "th1")
	if l.plane.now().Netdevs["veth2"] != nil {
		t.Error("the graph still has the netdev")
	}
}

// TestABrokenCubeKeepsItsOutputs: they are known without its service.
func TestABrokenCubeKeepsItsOutputs(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(bridges...)
	l.must(`post th1 outputs 3 <<< {"to":"veth1"}`)
	l.stop()
	l.records["cube/th1"] = []byte(strings.Replace(string(l.records["cube/th1"]), `"toyfilter"`, `"lost"`, 1))
	l.plane.holds = true
	l.start()
	if broken := l.Broken(); len(broken) != 1 {
		t.Fatalf("broken: %+v", broken)
	}
	l.wantOutputs("without its service", "th1", datapath.Output{Number: 3, Netdev: "veth1"})
}

// leading is a filter that wants to know where its outputs lead.
type leading struct {
	toyFilter
	mu    *sync.Mutex
	heard map[uint8]cube.Peer
}

func (f *leading) OutputChanged(number uint8, p cube.Peer) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.heard[number] = p
}

func TestCubesHearWhereTheirOutputsLead(t *testing.T) {
	var mu sync.Mutex
	heard := map[uint8]cube.Peer{}
	l := newLab(t)
	model := strings.ReplaceAll(readFile(t, "testdata/toyfilter.yang"), "toyfilter", "leading")
	l.extra = []cube.Service{{Model: model, New: func(e cube.Env) (cube.Instance, error) {
		return instanceOf(&leading{toyFilter{toy{e, l.b}}, &mu, heard}), nil
	}}}
	l.restart()
	device := netdev.Info{Name: "veth1", Index: 10, Up: true, Carrier: true, MTU: 1500, MAC: pkt.MAC("02:00:00:00:00:10")}
	l.devs.set(device)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: device})
	l.must(`create leading f1`, `create toybridge br1 <<< {"ports":[{"name":"p1"}]}`)
	to := func(index int) cube.Peer {
		return cube.Peer{Name: "veth1", Netdev: "veth1", Index: index, MTU: 1500, MAC: device.MAC}
	}
	for _, tt := range []struct {
		step string
		do   func()
		want map[uint8]cube.Peer
	}{
		{"a netdev", func() { l.must(`post f1 outputs 3 <<< {"to":"veth1"}`) }, map[uint8]cube.Peer{3: to(10)}},
		{"a port", func() { l.must(`post f1 outputs 15 <<< {"to":"br1:p1"}`) }, map[uint8]cube.Peer{15: {Name: "br1:p1"}}},
		{"another device of the name", func() {
			l.NetdevEvent(netdev.Event{Kind: netdev.Removed, Info: device})
			device.Index = 11
			l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: l.devs.set(device)})
		}, map[uint8]cube.Peer{3: to(11)}},
		{"what does not concern it", func() { l.must(`patch f1 loglevel <<< "DEBUG"`) }, map[uint8]cube.Peer{}},
		{"an output that is removed", func() { l.must(`del f1 outputs 15`) }, map[uint8]cube.Peer{}},
		{"another destination", func() { l.must(`patch f1 outputs 3 <<< {"to":"br1:p1"}`) }, map[uint8]cube.Peer{3: {Name: "br1:p1"}}},
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
