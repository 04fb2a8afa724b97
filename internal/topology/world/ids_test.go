// SPDX-License-Identifier: Apache-2.0

package world

// Allocation of the numbers that identify objects in the fast path.

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

func TestIdentitiesAreBounded(t *testing.T) {
	w := New()
	for i := range datapath.MaxCubeID {
		name := fmt.Sprint("c", i)
		id, err := w.FreeID(datapath.CubeID(i))
		if err != nil || int(id) != i+1 {
			t.Fatalf("cube %d has the number %d, %v", i, id, err)
		}
		w.Cubes[name] = &Cube{Name: name, ID: id}
	}
	if _, err := w.FreeID(5); !errors.Is(err, cube.ErrFull) {
		t.Errorf("one cube too many answers %v", err)
	}
	delete(w.Cubes, "c7")
	w.Broken["lost"] = &Broken{Stored: Stored{ID: 8}}
	if id, err := w.FreeID(5); !errors.Is(err, cube.ErrFull) {
		t.Errorf("the number of a broken cube is used again: %d", id)
	}
}

func TestSlotsStayInOnePage(t *testing.T) {
	const page = datapath.SlotsPerPage
	used := map[uint16]bool{}
	for s := range uint16(page - 2) {
		used[s] = true
	}
	cases := []struct {
		name string
		own  map[int]bool
		n    int
		want []uint16
	}{
		{"what fits in the first page", nil, 2, []uint16{page - 2, page - 1}},
		{"what does not goes to the next", nil, 3, []uint16{page, page + 1, page + 2}},
		{"more ports of a cube follow the others", map[int]bool{3: true}, 1, []uint16{3 * page}},
		{"a full own page is left", map[int]bool{0: true}, 3, []uint16{page, page + 1, page + 2}},
	}
	for _, c := range cases {
		if got, err := freeSlots(used, c.own, c.n); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %v, %v, want %v", c.name, got, err, c.want)
		}
	}
	for s := range datapath.MaxSlot + 1 {
		used[uint16(s)] = s%page != 0
	}
	if got, err := freeSlots(used, nil, 3); err != nil || !reflect.DeepEqual(got, []uint16{0, page, 2 * page}) {
		t.Errorf("scattered room gives %v, %v", got, err)
	}
	if _, err := freeSlots(used, nil, 17); !errors.Is(err, cube.ErrFull) {
		t.Errorf("no room answers %v", err)
	}
}
