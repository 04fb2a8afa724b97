// SPDX-License-Identifier: Apache-2.0

package graph

import "testing"

// TestReceivedAt: the netdev where a packet that a cube sends counts as received.
func TestReceivedAt(t *testing.T) {
	c := NewWiring(&Graph{
		Cubes: map[CubeID]*Node{
			1: {ID: 1, Ports: map[uint16]*Port{
				0: {Peer: Peer{Netdev: "veth1"}, Tcubes: []CubeID{3}},
				1: {Peer: Peer{Cube: 2}, Tcubes: []CubeID{4}},
				2: {Peer: Peer{Netdev: "gone0"}},
			}},
		},
		Netdevs: map[string]*Netdev{
			"veth1": {Name: "veth1", Index: 7},
			"veth2": {Name: "veth2", Index: 8, Tcubes: []CubeID{5}},
			"gone0": {Name: "gone0"},
		},
	})
	tests := []struct {
		name        string
		graph       *Wiring
		id          CubeID
		transparent bool
		port        uint16
		want        int
	}{
		{"a port with a netdev", c, 1, false, 0, 7},
		{"a port with a cube", c, 1, false, 1, 0},
		{"a port whose netdev is gone", c, 1, false, 2, 0},
		{"a port that is not there", c, 1, false, 9, 0},
		{"a cube that is not there", c, 9, false, 0, 0},
		{"on a port with a netdev", c, 3, true, 0, 7},
		{"on a port with a cube", c, 4, true, 0, 0},
		{"on a netdev", c, 5, true, 0, 8},
		{"attached nowhere", c, 6, true, 0, 0},
		{"before the first commit", nil, 1, false, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.graph.ReceivedAt(tt.id, tt.transparent, tt.port); got != tt.want {
				t.Errorf("interface index %d, want %d", got, tt.want)
			}
		})
	}
}
