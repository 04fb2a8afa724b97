// SPDX-License-Identifier: Apache-2.0

package floods

import (
	"errors"
	"log/slog"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/framework"
	"github.com/polycube/polycube/internal/datapath/tables"
	"github.com/polycube/polycube/test/netns"
)

// TestFullGroupsMakeRoom: those that nothing leads to go as soon as another one needs their place; the others stay.
func TestFullGroupsMakeRoom(t *testing.T) {
	netns.NeedRoot(t)
	dir := filepath.Join(netns.Bpffs(t), "core")
	if err := bpfmap.EnsureDir(dir); err != nil {
		t.Fatal(err)
	}
	fw, err := framework.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(fw.Close)
	spec := fw.Objects[cube.XDP].Maps[abi.MapGroups].Copy()
	spec.MaxEntries = 2
	outer, err := ebpf.NewMap(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = outer.Close() })
	g := newGroups(slog.New(slog.DiscardHandler), outer, fw.Maps[abi.MapCopies], spec.InnerMap)
	made := map[uint32]*abi.Flood{}
	for i := range uint16(4) {
		one, err := g.of([]tables.Way{{Ifindex: 1}, {Ifindex: 1, Port: i}})
		if i == 3 {
			if !errors.Is(err, cube.ErrFull) {
				t.Errorf("%v with two groups in use, want %v", err, cube.ErrFull)
			}
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 {
			made[uint32(i)] = &abi.Flood{Group: one.id}
		}
		g.drop(made)
	}
	for i, row := range made {
		var inner uint32
		if err := outer.Lookup(row.Group, &inner); err != nil {
			t.Errorf("group %d is gone: %v", i, err)
		}
	}
}
