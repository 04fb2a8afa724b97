// SPDX-License-Identifier: Apache-2.0

package topology

// What a change and a read cost when the cube is large, and when there are many cubes.

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/yang"
)

func benchManager(b *testing.B) *Manager {
	m, err := New(Options{Datapath: newFakePlane(), Services: toyServices(b, &behaviour{learned: map[string]string{}}),
		Netdevs: newFakeNetdevs("veth1")})
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
