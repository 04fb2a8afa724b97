// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/internal/datapath/graph"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// hub is a cube with a host at each port, which sends to port 1.
func (b *bench) hub(ports int) (hub *Node, hosts []*netns.Node) {
	b.t.Helper()
	hub = b.cube("probe", ports, nil)
	for i := range ports {
		hosts = append(hosts, b.host(fmt.Sprintf("h%d", i), "", hub, uint16(i)))
	}
	return hub, hosts
}

// gated puts a gate on each of the first ports.
func (b *bench) gated(hub *Node, n int) []*Node {
	b.t.Helper()
	var out []*Node
	for i := range n {
		g := b.cube("gate", 0, nil)
		hub.Ports[uint16(i)].Tcubes = []CubeID{g.ID}
		out = append(out, g)
	}
	return out
}

func (b *bench) wantMarks(what string, got []byte, want string) {
	b.t.Helper()
	if got := marks(got); got != want {
		b.t.Errorf("%s: the frame went through %q, want %q", what, got, want)
	}
}

func TestCubesOnTheirPortsAreSetApart(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		hub, hosts := b.hub(graph.ApartFrom + 2)
		gates := b.gated(hub, graph.ApartFrom)
		b.commit()
		if n := b.generations(); n != 2 {
			t.Errorf("a cube and %d gates have %d sets of programs, want 2", len(gates), n)
		}
		b.wantMarks("from a gate to a gate", b.passes(hosts[0], hosts[1], frame("")), "aa")
		b.wantMarks("from a port without one", b.passes(hosts[8], hosts[1], frame("")), "a")
		b.packets(hub, 0, 1, 0)
		b.packets(hub, 1, 0, 2)
		gates[1].Constants = map[string]any{"letter": uint32('b')}
		was := b.gen(hub)
		b.commit()
		b.wantMarks("with another constant", b.passes(hosts[0], hosts[1], frame("")), "ab")
		more := b.cube("gate", 0, nil)
		hub.Ports[8].Tcubes = []CubeID{more.ID}
		b.commit()
		b.wantMarks("from one gate more", b.passes(hosts[8], hosts[1], frame("")), "ab")
		if b.gen(hub) != was {
			t.Error("the cube is linked again for a gate on one of its ports")
		}
		more.Constants = map[string]any{"what_in": uint32(1)}
		b.commit()
		b.send(hosts[8], frame("x"))
		b.eventually(more, "unspecified", 1)
		more.Constants = map[string]any{"what_in": uint32(2)}
		b.commit()
		b.send(hosts[8], frame("x"))
		b.eventually(more, "slowpath", 1)
		b.lab.Host("none", "")
		hub.Ports[1].Peer = Peer{}
		delete(b.g.Netdevs, "h1")
		b.commit()
		b.send(hosts[0], frame("x"))
		b.eventually(hub, "no-peer", 1)
	})
}

func TestFloodsReachPortsWithCubesSetApart(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.withHelpers()
		hub, hosts := b.hub(graph.ApartFrom + 2)
		hub.Constants = map[string]any{"what": uint32(2)}
		b.gated(hub, graph.ApartFrom)
		b.commit()
		for _, from := range []int{0, len(hosts) - 1} {
			rx := b.listeners(hosts...)
			b.send(hosts[from], frame(""))
			for i, r := range rx {
				if i == from {
					continue
				}
				f, err := r.Recv(isTest, soon)
				if err != nil {
					t.Fatalf("from %d to %d: %v", from, i, err)
				}
				want := ""
				for _, at := range []int{from, i} {
					if at < graph.ApartFrom {
						want += "a"
					}
				}
				b.wantMarks(fmt.Sprintf("from %d to %d", from, i), f, want)
			}
			for _, r := range rx {
				if f, err := r.Recv(isTest, 0); err == nil {
					t.Errorf("another copy: %q", marks(f))
				}
			}
		}
	})
}

// TestNoPacketBypassesACubeThatIsSetApart, or is lost, while the number of cubes passes the limit in both directions.
func TestNoPacketBypassesACubeThatIsSetApart(t *testing.T) {
	in(t, settings[:6], func(t *testing.T, b *bench) {
		hub, hosts := b.hub(graph.ApartFrom)
		gates := b.gated(hub, graph.ApartFrom-1)
		b.commit()
		rx := netns.OpenRaw(t, hosts[1], netns.Inner)
		stop := stream(b, hosts[0], time.Millisecond)
		last := uint16(graph.ApartFrom - 1)
		for range 3 {
			for _, apart := range []bool{true, false} {
				hub.Ports[last].Tcubes = nil
				if apart {
					hub.Ports[last].Tcubes = []CubeID{b.cube("gate", 0, nil).ID}
				}
				b.commit()
				if is := b.gen(hub) != b.gen(gates[0]); is != apart {
					t.Fatalf("the gates are set apart: %t, want %t", is, apart)
				}
			}
		}
		sent := stop()
		for n := range sent {
			f, err := rx.Recv(isTest, soon)
			if err != nil || numberOf(f) != n {
				t.Fatalf("frame %d of %d: got %d, %v\n%s", n, sent, numberOf(f), err, b.seen())
			}
			if got := marks(f); got != "aa" {
				t.Fatalf("frame %d went through %q", n, got)
			}
		}
	})
}

func TestCubesAroundAnotherAreSetApart(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.withHelpers()
		b.serve("twin")
		hub := b.cube("probe", graph.ApartFrom, nil)
		var leaves []*Node
		var hosts []*netns.Node
		for i := range graph.ApartFrom {
			leaf := b.cube("twin", 2, nil)
			b.link(leaf, 1, hub, uint16(i))
			hosts = append(hosts, b.host(fmt.Sprintf("h%d", i), "", leaf, 0))
			leaves = append(leaves, leaf)
		}
		b.commit()
		if n := b.generations(); n != 2 {
			t.Errorf("a cube and %d around it have %d sets of programs, want 2", len(leaves), n)
		}
		b.passes(hosts[0], hosts[1], frame("there"))
		b.packets(leaves[0], 0, 1, 0)
		b.packets(leaves[0], 1, 0, 1)
		b.packets(hub, 0, 1, 0)
		b.packets(hub, 1, 0, 1)
		b.packets(leaves[1], 1, 1, 0)
		b.packets(leaves[1], 0, 0, 1)
		b.packets(leaves[2], 1, 0, 0)
		if got := b.injects(Injection{Cube: leaves[0].ID, Port: 0, Frame: frame("")}); !strings.Contains(got, leaves[1].Name) {
			t.Errorf("the predicted path: %s", got)
		}
		hub.Constants = map[string]any{"what": uint32(2)}
		b.commit()
		rx := b.listeners(hosts...)
		b.send(hosts[0], frame("to all"))
		for i, r := range rx[1:] {
			b.receives(r, fmt.Sprintf("h%d", i+1), frame("to all"))
		}
		b.traces(link.Session{Cube: uint16(leaves[3].ID)})
		b.send(hosts[0], frame("x"))
		if got := b.story(len(hosts) - 1); !strings.Contains(got, leaves[3].Name+":1 in send 0") {
			t.Errorf("the trace of a flood in one of the cubes: %s", got)
		}
		b.drop(leaves[2])
		b.passes(hosts[0], hosts[3], frame("below the limit"))
		if n := b.generations(); n != 1 && b.plane.opts.SegmentCubes == 0 {
			t.Errorf("a cube and %d around it have %d sets of programs, want 1", len(leaves)-1, n)
		}
	})
}
