// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/cilium/ebpf"

	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// fake is a cube with a number and the maps of the firewall.
type fake struct {
	cube.Env
	number uint16
	maps   map[string]*ebpf.Map
	specs  map[string]*ebpf.MapSpec
}

func (f *fake) Instance() uint16 { return f.number }
func (f *fake) Name() string     { return "c" + string(rune('0'+f.number)) }
func (f *fake) UUID() string     { return "uuid of " + f.Name() }

func (f *fake) Map(name string) (*ebpf.Map, error) {
	if m := f.maps[name]; m != nil {
		return m, nil
	}
	return nil, cube.ErrNotFound
}

func (f *fake) Inner(name string) (*ebpf.MapSpec, error) { return f.specs[name].InnerMap, nil }

// newFakes are two cubes.
func newFakes(t *testing.T) (a, b *fake) {
	t.Helper()
	netns.NeedRoot(t)
	spec, err := ebpf.LoadCollectionSpec("../../cubes/firewall/firewall.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	maps := map[string]*ebpf.Map{}
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, "ct_") {
			continue
		}
		if maps[name], err = ebpf.NewMap(m); err != nil {
			t.Fatalf("map %s: %v", name, err)
		}
		t.Cleanup(func() { _ = maps[name].Close() })
	}
	return &fake{number: 1, maps: maps, specs: spec.Maps}, &fake{number: 2, maps: maps, specs: spec.Maps}
}

// TestAChangeThatIsUndoneLosesNoSession, and one that is carried out frees the zone that nobody has any more. What a killed
// daemon has left is freed, too.
func TestAChangeThatIsUndoneLosesNoSession(t *testing.T) {
	a, b := newFakes(t)
	tab, err := conns.Open(a, conns.Room(1024))
	x, bad := openShares(a, tab)
	if err := errors.Join(err, bad); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(x.close(a.number), tab.Close()); err != nil {
			t.Error(err)
		}
	}()
	join := func(f *fake, name Name) (undo func() error) {
		t.Helper()
		undo, err := x.join(f, user{cube: f.Name(), name: name, wants: wants{limit: 2000}})
		if err != nil {
			t.Fatal(err)
		}
		return undo
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	join(a, "up")
	zone := x.zoneOf(a.number)
	key, _ := conns.Between(netip.MustParseAddrPort("10.0.0.1:1"), netip.MustParseAddrPort("10.0.0.2:2"), 17, zone)
	if added, err := tab.Add(&conns.Entry{Key: key}); !added || err != nil {
		t.Fatalf("a session is added: %t, %v", added, err)
	}
	has := func(when string, want int) {
		t.Helper()
		if n := tab.Count(zone); n != want {
			t.Errorf("%s: %d sessions, want %d", when, n, want)
		}
	}
	undo := join(a, "other")
	other := x.zoneOf(a.number)
	if other == zone || other < firstShared {
		t.Fatalf("another name has zone %d, the first %d", other, zone)
	}
	must(undo())
	must(x.free(a.number))
	has("undone", 1)
	if x.zoneOf(a.number) != zone || !tab.OwnedBy(other, "") {
		t.Errorf("the cube has zone %d, and the one that it was to have is not free", x.zoneOf(a.number))
	}
	join(b, "up")
	join(a, "")
	must(x.free(a.number))
	has("another cube has it", 1)
	must(x.leave(b.number))
	has("the last cube is deleted", 0)
	if !tab.OwnedBy(zone, "") {
		t.Error("the zone of a deleted cube is not free")
	}
	must(tab.Own(3000, Name("left").owner()))
	must(x.free(a.number))
	if !tab.OwnedBy(3000, "") {
		t.Error("a zone that a killed daemon has left is not free")
	}
}
