// SPDX-License-Identifier: Apache-2.0

package graph

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/polycube/polycube/cube"
)

// around is a hub with n ports, each with a netdev.
func around(n int) *Graph {
	g := &Graph{Cubes: map[CubeID]*Node{}, Netdevs: map[string]*Netdev{}}
	hub := &Node{ID: 1, Name: "hub", Ports: map[uint16]*Port{}}
	for i := range uint16(n) {
		dev := fmt.Sprint("d", i)
		hub.Ports[i] = &Port{Index: i, Peer: Peer{Netdev: dev}}
		g.Netdevs[dev] = &Netdev{Name: dev, Index: int(i) + 1}
	}
	g.Cubes[1] = hub
	return g
}

// put puts n transparent cubes on the first ports of the hub.
func put(g *Graph, n int) {
	for i := range uint16(n) {
		id := CubeID(100 + i)
		g.Cubes[id] = &Node{ID: id, Name: "t"}
		g.Cubes[1].Ports[i].Tcubes = []CubeID{id}
	}
}

// join links n cubes with a port to the hub's first ports.
func join(g *Graph, n int, name string) {
	for i := range uint16(n) {
		id := CubeID(200 + i)
		g.Cubes[1].Ports[i].Peer = Peer{Cube: id, Port: 0}
		g.Cubes[id] = &Node{ID: id, Name: name, Ports: map[uint16]*Port{0: {Peer: Peer{Cube: 1, Port: i}}}}
	}
}

func TestCubesThatAreSetApart(t *testing.T) {
	many := func(from CubeID, n int) []CubeID {
		var out []CubeID
		for i := range n {
			out = append(out, from+CubeID(i))
		}
		return out
	}
	for _, tt := range []struct {
		name string
		g    func() *Graph
		want []CubeID
	}{
		{"enough transparent cubes", func() *Graph { g := around(12); put(g, ApartFrom); return g }, many(100, ApartFrom)},
		{"too few", func() *Graph { g := around(12); put(g, ApartFrom-1); return g }, nil},
		{"enough of a large kind", func() *Graph {
			g := around(12)
			put(g, LargeApartFrom)
			for id := CubeID(100); id < 100+LargeApartFrom; id++ {
				g.Cubes[id].Name = "large"
			}
			return g
		}, many(100, LargeApartFrom)},
		{"one more on a port of them", func() *Graph {
			g := around(12)
			put(g, ApartFrom+1)
			g.Cubes[99] = &Node{ID: 99, Name: "fixed"}
			g.Cubes[1].Ports[0].Tcubes = []CubeID{100, 99}
			return g
		}, many(101, ApartFrom)},
		{"a cube of the netdev behind it", func() *Graph {
			g := around(12)
			put(g, ApartFrom)
			g.Cubes[99] = &Node{ID: 99, Name: "fixed"}
			g.Netdevs["d0"].Tcubes = []CubeID{99}
			return g
		}, nil},
		{"cubes around it", func() *Graph { g := around(12); join(g, ApartFrom, "leaf"); return g }, many(200, ApartFrom)},
		{"cubes around one of their kind", func() *Graph {
			g := around(12)
			join(g, ApartFrom, "leaf")
			g.Cubes[1].Name = "leaf"
			return g
		}, nil},
		{"cubes that cannot be", func() *Graph { g := around(12); join(g, ApartFrom, "fixed"); return g }, nil},
		{"a transparent cube between", func() *Graph {
			g := around(12)
			join(g, ApartFrom, "leaf")
			g.Cubes[99] = &Node{ID: 99, Name: "fixed"}
			g.Cubes[1].Ports[0].Tcubes = []CubeID{99}
			return g
		}, nil},
		{"in several parts", func() *Graph {
			g := around(ApartFrom)
			put(g, ApartFrom)
			other := &Node{ID: 2, Name: "hub", Ports: map[uint16]*Port{0: g.Cubes[1].Ports[0]}}
			delete(g.Cubes[1].Ports, 0)
			g.Cubes[2] = other
			return g
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := NewWiring(tt.g())
			w.SetApart(func(n *Node) Kind {
				if n.Name == "hub" || n.Name == "fixed" {
					return Kind{}
				}
				return Kind{Service: n.Name, Type: cube.TypeTC, Large: n.Name == "large"}
			})
			if got := slices.Sorted(maps.Keys(w.Apart)); !slices.Equal(got, tt.want) {
				t.Errorf("set apart: %v, want %v", got, tt.want)
			}
		})
	}
}
