// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// floodsPlane is a data plane that stores the sets of ports that cubes flood to.
type floodsPlane struct {
	Datapath
	floods map[datapath.CubeID]map[uint32][]cube.FloodMember
	err    error
}

func (p *floodsPlane) Floods(id datapath.CubeID) map[uint32][]cube.FloodMember {
	return p.floods[id]
}

func (p *floodsPlane) SetFloods(id datapath.CubeID, sets map[uint32][]cube.FloodMember, only bool) error {
	if p.err != nil {
		return p.err
	}
	if only {
		clear(p.floods[id])
	}
	maps.Copy(p.floods[id], sets)
	return nil
}

// TestACubeFillsItsOwnSets: after its first Commit a cube sets one set, several at once, or replaces all of its sets.
func TestACubeFillsItsOwnSets(t *testing.T) {
	dp := &floodsPlane{floods: map[datapath.CubeID]map[uint32][]cube.FloodMember{7: {}}}
	e := &env{name: "br1", id: 7, dp: dp}
	one, two := []cube.FloodMember{{Port: 1}}, []cube.FloodMember{{Port: 2, Tagged: true}}
	if err := e.Floods().Set(5, one); err == nil || !strings.Contains(err.Error(), "br1") {
		t.Errorf("before the first Commit: %v", err)
	}
	e.ready.Store(true)
	type sets = map[uint32][]cube.FloodMember
	for _, tt := range []struct {
		what string
		do   func(cube.Floods) error
		want sets
	}{
		{"one", func(f cube.Floods) error { return f.Set(5, one) }, sets{5: one}},
		{"several", func(f cube.Floods) error { return f.SetAll(sets{6: two, 7: one}) }, sets{5: one, 6: two, 7: one}},
		{"these alone", func(f cube.Floods) error { return f.Reset(sets{7: two}) }, sets{7: two}},
	} {
		if err := tt.do(e.Floods()); err != nil {
			t.Errorf("%s: %v", tt.what, err)
		}
		if got := dp.floods[7]; !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: the data plane has %v, want %v", tt.what, got, tt.want)
		}
		if got := e.Floods().All(); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: the cube reads %v, want %v", tt.what, got, tt.want)
		}
	}
	dp.err = errors.New("injected")
	if err := e.Floods().Set(5, one); !errors.Is(err, dp.err) || !strings.Contains(err.Error(), "br1") {
		t.Errorf("an error of the data plane: %v", err)
	}
	if got := dp.floods[datapath.CubeID(7)]; !reflect.DeepEqual(got, sets{7: two}) {
		t.Errorf("after it: %v", got)
	}
}
