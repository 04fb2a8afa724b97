// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/yang"
)

// TestALeafAmongThousandCubesLeavesLittleGarbage: the collector must not run after every few changes, whatever the size of
// the topology. The data plane has a test of its own.
func TestALeafAmongThousandCubesLeavesLittleGarbage(t *testing.T) {
	const cubes, rounds, most = 1000, 20, 300_000 // bytes; with the data plane's 100,000 that is less than half a megabyte
	names := make([]string, cubes)
	elements := make([]string, cubes)
	for i := range cubes {
		names[i] = fmt.Sprint("n", i)
		elements[i] = fmt.Sprintf(`{"service-name":"toybridge","name":"c%d","ports":[{"name":"p0","peer":"n%d"},{"name":"p1"},{"name":"p2"},{"name":"p3"}]}`, i, i)
	}
	disk, _, err := store.Open(store.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(Options{Datapath: newFakePlane(), Services: toyServices(t, &behaviour{learned: map[string]string{}}),
		Netdevs: newFakeNetdevs(names...), Store: disk})
	if err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	t.Cleanup(func() {
		if err := m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := m.CreateMany(ctx, []byte("["+strings.Join(elements, ",")+"]")); err != nil {
		t.Fatal(err)
	}
	path := yang.Path{{Name: "fdb"}, {Name: "aging-time"}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range rounds {
		if err := m.Edit(ctx, "toybridge", fmt.Sprint("c", i*37), yang.Merge, path, fmt.Append(nil, 400+i)); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	each := (after.TotalAlloc - before.TotalAlloc) / rounds
	t.Logf("%d bytes a change", each)
	if each > most {
		t.Errorf("a leaf of one of %d cubes leaves %d bytes of garbage, want at most %d", cubes, each, most)
	}
}
