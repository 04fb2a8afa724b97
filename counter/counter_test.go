// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/netns"
)

// env is the Env of a cube with one map.
type env struct {
	cube.Env
	m *ebpf.Map
}

func (e env) Map(name string) (*ebpf.Map, error) {
	if name != "counters" {
		return nil, cube.ErrNotFound
	}
	return e.m, nil
}

func (env) Logger() *slog.Logger { return slog.Default() }

// bridge has programs with enum bridge_counter.
var bridge = os.DirFS("../cubes/bridge")

func TestCountersHaveTheNamesOfTheProgram(t *testing.T) {
	index, err := read(bridge, "bridge_counter")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]uint32{"not-learned": 0, "moves": 1} {
		if got, ok := index[name]; !ok || got != want {
			t.Errorf("%s is counter %d (%v), want %d", name, got, ok, want)
		}
	}
}

func TestCountersAreSummed(t *testing.T) {
	netns.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 2})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	values, err := table.PerCPUOf[uint32, uint64]("counters", m)
	if err != nil {
		t.Fatal(err)
	}
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := values.SetAll([]uint32{1}, 7); err != nil {
		t.Fatal(err)
	}
	set := Of(bridge, "bridge_counter").In(env{m: m}, "counters")
	for name, want := range map[string]uint64{"not-learned": 0, "moves": 7 * uint64(cpus)} {
		if got, err := set.Sum(name); got != want || err != nil {
			t.Errorf("%s is %d, error %v, want %d", name, got, err, want)
		}
	}
	if _, err := set.Sum("no-such"); !errors.Is(err, cube.ErrNotFound) || !strings.Contains(err.Error(), "no-such") {
		t.Errorf("a counter that the program has not: %v", err)
	}
}

func TestMistakesAreErrors(t *testing.T) {
	netns.NeedRoot(t)
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 8, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	for what, names := range map[string]*Names{
		"no files": Of(fstest.MapFS{}, "bridge_counter"), "no program": Of(fstest.MapFS{"a.tc.o": {Data: []byte("no ELF")}}, "bridge_counter"),
		"no enum": Of(bridge, "nat_counter"),
	} {
		if _, err := names.In(env{m: m}, "counters").Sum("moves"); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := Of(bridge, "bridge_counter").In(env{m: m}, "others").Sum("moves"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that the cube has not: %v", err)
	}
}
