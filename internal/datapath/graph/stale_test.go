// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/polycube/polycube/cube"
)

// What a change concerns is found by the nodes, netdevs and links that differ; a namespace's rows stay with its cube.
func TestAChangeLeavesOthersAsTheyAre(t *testing.T) {
	node := func(id CubeID, change func(*Node)) *Node {
		n := &Node{ID: id, Name: fmt.Sprint("c", id), Type: cube.TypeTC, Ports: map[uint16]*Port{
			0: {Index: 0, Name: "a", Slot: uint16(id) * 2}, 1: {Index: 1, Name: "b", Slot: uint16(id)*2 + 1},
		}}
		if change != nil {
			change(n)
		}
		return n
	}
	linked := func(port uint16, peer Peer) func(*Node) { return func(n *Node) { n.Ports[port].Peer = peer } }
	graph := func(devices map[string]*Netdev, nodes ...*Node) *Graph {
		g := &Graph{Cubes: map[CubeID]*Node{}, Netdevs: devices}
		for _, n := range nodes {
			g.Cubes[n.ID] = n
		}
		return g
	}
	veth := map[string]*Netdev{"veth1": {Name: "veth1", Index: 7, MTU: 1500}}
	was := func() *Graph {
		return graph(veth, node(1, linked(0, Peer{Cube: 2})), node(2, linked(0, Peer{Cube: 1})), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil))
	}
	for _, c := range []struct {
		name string
		now  *Graph
		want Stale
	}{
		{"nothing", was(), Stale{}},
		{"a constant", graph(veth, node(1, linked(0, Peer{Cube: 2})), node(2, linked(0, Peer{Cube: 1})), node(3, linked(0, Peer{Netdev: "veth1"})),
			node(4, func(n *Node) { n.Constants = map[string]any{"x": 1} })), Stale{4: true}},
		{"a link that goes", graph(veth, node(1, nil), node(2, nil), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil)), Stale{1: true, 2: true}},
		{"a link that comes", graph(veth, node(1, linked(0, Peer{Cube: 2})), node(2, linked(0, Peer{Cube: 1})),
			node(3, func(n *Node) { n.Ports[0].Peer, n.Ports[1].Peer = Peer{Netdev: "veth1"}, Peer{Cube: 4, Port: 1} }),
			node(4, linked(1, Peer{Cube: 3, Port: 1}))), Stale{3: true, 4: true}},
		{"a netdev", graph(map[string]*Netdev{"veth1": {Name: "veth1", Index: 8, MTU: 1500}}, node(1, linked(0, Peer{Cube: 2})),
			node(2, linked(0, Peer{Cube: 1})), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil)), Stale{3: true}},
		{"a filter on a netdev", graph(map[string]*Netdev{"veth1": {Name: "veth1", Index: 7, MTU: 1500, Tcubes: []CubeID{5}}},
			node(1, linked(0, Peer{Cube: 2})), node(2, linked(0, Peer{Cube: 1})), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil),
			&Node{ID: 5, Name: "t", Type: cube.TypeTC}), Stale{3: true, 5: true}},
		{"the peer of a port", graph(veth, node(1, linked(0, Peer{Cube: 2})), node(2, linked(0, Peer{Cube: 1})), node(3, nil), node(4, nil)),
			Stale{3: true}},
		{"a cube that is between two others", graph(veth, node(1, linked(0, Peer{Cube: 2})),
			node(2, func(n *Node) { n.Ports[0].Peer, n.Ports[1].Peer = Peer{Cube: 1}, Peer{Cube: 4} }),
			node(3, linked(0, Peer{Netdev: "veth1"})), node(4, linked(0, Peer{Cube: 2, Port: 1}))), Stale{2: true, 4: true}},
		{"the constant of a cube with a neighbour", graph(veth, node(1, func(n *Node) {
			n.Ports[0].Peer, n.Constants = Peer{Cube: 2}, map[string]any{"x": 1}
		}), node(2, linked(0, Peer{Cube: 1})), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil)), Stale{1: true, 2: true}},
		{"a cube that goes", graph(veth, node(1, nil), node(3, linked(0, Peer{Netdev: "veth1"})), node(4, nil)), Stale{1: true, 2: true}},
	} {
		if got := NewWiring(c.now).StaleSince(NewWiring(was())); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: stale are %v, want %v", c.name, got, c.want)
		}
	}
}
