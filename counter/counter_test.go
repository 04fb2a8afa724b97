// SPDX-License-Identifier: Apache-2.0

package counter

import (
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// env is that of a cube with one map.
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

// bridge is a program with enum bridge_counter.
func bridge(t *testing.T) []byte {
	t.Helper()
	object, err := os.ReadFile("../cubes/bridge/bridge.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	return object
}

func TestCountersHaveTheNamesOfTheProgram(t *testing.T) {
	index, err := read(bridge(t), "bridge_counter")
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
	values, err := cube.PerCPUOf[uint32, uint64]("counters", m)
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
	set, err := Of(bridge(t), "bridge_counter").Open(env{m: m}, "counters")
	if err != nil {
		t.Fatal(err)
	}
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
	for what, names := range map[string]*Names{"no program": Of([]byte("no ELF"), "bridge_counter"), "no enum": Of(bridge(t), "nat_counter")} {
		set, err := names.Open(env{m: m}, "counters")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := set.Sum("moves"); err == nil {
			t.Errorf("%s: no error", what)
		}
	}
	if _, err := Of(bridge(t), "bridge_counter").Open(env{m: m}, "others"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that the cube has not: %v", err)
	}
}
