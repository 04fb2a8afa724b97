// SPDX-License-Identifier: Apache-2.0

package daemon

import (
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// TestEntry: the netdev where a packet that a cube sends counts as received.
func TestEntry(t *testing.T) {
	c := commit(&datapath.Graph{
		Cubes: map[datapath.CubeID]*datapath.Node{
			1: {ID: 1, Ports: map[uint16]*datapath.Port{
				0: {Peer: datapath.Peer{Netdev: "veth1"}, Tcubes: []datapath.CubeID{3}},
				1: {Peer: datapath.Peer{Cube: 2}, Tcubes: []datapath.CubeID{4}},
				2: {Peer: datapath.Peer{Netdev: "gone0"}},
			}},
		},
		Netdevs: map[string]*datapath.Netdev{
			"veth1": {Name: "veth1", Index: 7},
			"veth2": {Name: "veth2", Index: 8, Tcubes: []datapath.CubeID{5}},
			"gone0": {Name: "gone0"},
		},
	})
	tests := []struct {
		name        string
		graph       *committed
		id          datapath.CubeID
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
			if got := tt.graph.entry(tt.id, tt.transparent, tt.port); got != tt.want {
				t.Errorf("interface index %d, want %d", got, tt.want)
			}
		})
	}
}

// TestForgetHelper: a packet that came down by a helper interface did not enter there.
func TestForgetHelper(t *testing.T) {
	k := &kernelPlane{helpers: map[int]bool{7: true, 8: true}}
	for netdev, want := range map[int]int{0: 0, 6: 6, 7: 0, 8: 0} {
		trip, rest := cube.Trip{Hops: 3, Netdev: netdev, FlowHash: 4, Tenant: 5}, cube.Trip{Hops: 3, Netdev: want, FlowHash: 4, Tenant: 5}
		if k.forgetHelper(&trip); trip != rest {
			t.Errorf("entered at %d: %+v, want %+v", netdev, trip, rest)
		}
	}
}

// TestTapName: helper interfaces have names that fit, and that differ between instances.
func TestTapName(t *testing.T) {
	seen := map[string]bool{}
	for _, instance := range []string{"", "a", "b", "cp", "an-instance-with-a-very-long-name"} {
		for _, h := range []cube.Hook{cube.TC, cube.XDP} {
			name := helperName(h.String()+"_cp", instance)
			if len(name) > 15 || seen[name] {
				t.Errorf("instance %q: name %q is too long or taken", instance, name)
			}
			seen[name] = true
		}
	}
	if helperName("tc_cp", "") != "pcn_tc_cp" || helperName("xdp_cp", "") != "pcn_xdp_cp" {
		t.Error("the main daemon's interfaces have other names than the first Polycube's")
	}
}
