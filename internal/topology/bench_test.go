// SPDX-License-Identifier: Apache-2.0

package topology

// What a change and a read cost when the cube is large, and when there are many cubes.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/yang"
)

func benchManager(b *testing.B) *Manager {
	return benchManagerOf(b, toyServices(b, &behaviour{learned: map[string]string{}}))
}

func benchManagerOf(b testing.TB, services []cube.Service) *Manager {
	m, err := New(Options{Datapath: newFakePlane(), Services: services, Netdevs: newFakeNetdevs("veth1")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := m.Close(context.Background()); err != nil {
			b.Error(err)
		}
	})
	return m
}

func BenchmarkEntry(b *testing.B) {
	for _, entries := range []int{1, 1000, 10000} {
		m, ctx := benchManager(b), context.Background()
		list := make([]string, entries)
		for i := range list {
			list[i] = fmt.Sprintf(`{"address":"a%d","port":"p1"}`, i)
		}
		body := `{"fdb":{"entry":[` + strings.Join(list, ",") + `]}}`
		if err := m.Create(ctx, "toybridge", "br", []byte(body)); err != nil {
			b.Fatal(err)
		}
		path := yang.Path{{Name: "fdb"}, {Name: "entry", Keys: []string{"x"}}}
		b.Run(fmt.Sprintf("add and delete beside %d", entries), func(b *testing.B) {
			for b.Loop() {
				if err := m.Edit(ctx, "toybridge", "br", yang.Create, path, []byte(`{"port":"p1"}`)); err != nil {
					b.Fatal(err)
				}
				if err := m.Edit(ctx, "toybridge", "br", yang.Delete, path, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read one leaf beside %d", entries), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Read(ctx, "toybridge", "br", yang.Path{{Name: "loglevel"}}); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("read all of %d", entries), func(b *testing.B) {
			for b.Loop() {
				if _, err := m.Read(ctx, "toybridge", "br", nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkCreateBeside(b *testing.B) {
	for _, cubes := range []int{1, 100, 1000} {
		m, ctx := benchManager(b), context.Background()
		for i := range cubes {
			if err := m.Create(ctx, "toybridge", fmt.Sprint("c", i), []byte(`{"ports":[{"name":"a"},{"name":"b"}]}`)); err != nil {
				b.Fatal(err)
			}
		}
		b.Run(fmt.Sprint(cubes), func(b *testing.B) {
			for b.Loop() {
				if err := m.Create(ctx, "toybridge", "br", []byte(`{"ports":[{"name":"p1"}]}`)); err != nil {
					b.Fatal(err)
				}
				if err := m.Delete(ctx, "toybridge", "br"); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// leafOfLargeCube makes a cube with a number of ports, and returns a function that changes one of its leaves.
func leafOfLargeCube(tb testing.TB, ports int) (change func()) {
	services := toyServices(tb, &behaviour{})
	services[0].MaxPorts, services[0].WholeLists = 0, false
	services[0].New = func(cube.Env) (cube.Instance, error) {
		return cube.Instance{Prepare: cube.Typed(func(context.Context, cube.ChangeOf[struct {
			Loglevel string      `json:"loglevel"`
			Ports    []cube.Port `json:"ports"`
		}]) (cube.Plan, error) {
			return cube.Plan{}, nil
		})}, nil
	}
	m, ctx := benchManagerOf(tb, services), context.Background()
	list := make([]string, ports)
	for i := range list {
		list[i] = fmt.Sprintf(`{"name":"p%d"}`, i)
	}
	if err := m.Create(ctx, "toybridge", "br", []byte(`{"ports":[`+strings.Join(list, ",")+`]}`)); err != nil {
		tb.Fatal(err)
	}
	levels, n := []string{`"DEBUG"`, `"INFO"`}, 0
	return func() {
		if err := m.Edit(ctx, "toybridge", "br", yang.Merge, yang.Path{{Name: "loglevel"}}, []byte(levels[n%2])); err != nil {
			tb.Fatal(err)
		}
		n++
	}
}

func BenchmarkLeafOfLargeCube(b *testing.B) {
	for _, ports := range []int{2, 500} {
		b.Run(fmt.Sprintf("%d ports", ports), func(b *testing.B) {
			change := leafOfLargeCube(b, ports)
			b.ReportAllocs()
			for b.Loop() {
				change()
			}
		})
	}
}

// A change costs its own size: what is not changed is neither printed nor decoded nor stored in another form again.
func TestALeafOfALargeCubeIsChangedAlone(t *testing.T) {
	var allocs [2]float64
	for i, ports := range []int{2, 500} {
		allocs[i] = testing.AllocsPerRun(20, leafOfLargeCube(t, ports))
	}
	t.Logf("%.0f allocations with 2 ports, %.0f with 500", allocs[0], allocs[1])
	if allocs[1] > allocs[0]+100 {
		t.Errorf("a leaf takes %.0f allocations on a cube with 500 ports, and %.0f on one with 2", allocs[1], allocs[0])
	}
}
