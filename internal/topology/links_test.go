// SPDX-License-Identifier: Apache-2.0

package topology

// Netdevs that come, go and change under a running topology.

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/topology/unit"
)

func TestPortsFollowTheirNetdev(t *testing.T) {
	veth := func(index int, up bool) netdev.Info { return netdev.Info{Name: "veth1", Index: index, Up: up} }
	other := func(index int) netdev.Info { return netdev.Info{Name: "other0", Index: index, Up: true} }
	old := func(i netdev.Info) *netdev.Info { return &i }
	steps := []struct {
		name   string
		event  netdev.Event
		index  int
		status string
		calls  []string
	}{
		{"it goes", netdev.Event{Kind: netdev.Removed, Info: veth(10, true)}, 0, "DOWN", []string{"br Port down"}},
		{"it comes back with another index", netdev.Event{Kind: netdev.Added, Info: veth(77, true)}, 77, "UP", []string{"br Port up"}},
		{"a late event about the old one", netdev.Event{Kind: netdev.Removed, Info: veth(10, true)}, 77, "UP", nil},
		{"it goes down", netdev.Event{Kind: netdev.Changed, Info: veth(77, false), Old: old(veth(77, true))}, 77, "DOWN", []string{"br Port down"}},
		{"it comes up", netdev.Event{Kind: netdev.Changed, Info: veth(77, true), Old: old(veth(77, false))}, 77, "UP", []string{"br Port up"}},
		{"nothing that matters changes", netdev.Event{Kind: netdev.Changed, Info: veth(77, true), Old: old(veth(77, true))}, 77, "UP", nil},
		{"it is renamed", netdev.Event{Kind: netdev.Changed, Info: other(77), Old: old(veth(77, true))}, 0, "DOWN", []string{"br Port down"}},
		{"another takes the name", netdev.Event{Kind: netdev.Changed, Info: veth(78, true), Old: old(other(78))}, 78, "UP", []string{"br Port up"}},
		{"the listing is over", netdev.Event{Kind: netdev.Synced}, 78, "UP", nil},
	}
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`)
	if got := l.plane.now().Netdevs["veth1"].Index; got != 10 {
		t.Fatalf("the graph has index %d", got)
	}
	stored := string(l.records["cube/br"])
	l.quiet()
	l.b.calls()
	for _, s := range steps {
		l.NetdevEvent(s.event)
		if got := l.plane.now().Netdevs["veth1"].Index; got != s.index {
			t.Errorf("%s: the graph has index %d, want %d", s.name, got, s.index)
		}
		l.wantRead(`"`+s.status+`"`, "br", "ports", "p1", "status")
		l.wantRead(`"veth1"`, "br", "ports", "p1", "peer")
		var calls []string
		l.quiet()
		for _, c := range l.b.calls() {
			if strings.Contains(c, "PortChanged") {
				calls = append(calls, strings.NewReplacer("Changed p1 true", " up", "Changed p1 false", " down").Replace(c))
			}
		}
		if !slices.Equal(calls, s.calls) {
			t.Errorf("%s: the cube is told %q, want %q", s.name, calls, s.calls)
		}
	}
	if string(l.records["cube/br"]) != stored {
		t.Error("events changed the configuration on disk")
	}
}

// A link works while its netdev has carrier. A carrier that was lost for a moment is reported, too.
func TestLinksAreFollowed(t *testing.T) {
	l := newLab(t, "veth1")
	told := func(step string, want ...string) {
		t.Helper()
		var got []string
		l.quiet()
		for _, c := range l.b.calls() {
			if strings.Contains(c, "LinkChanged") {
				got = append(got, strings.Replace(c, " LinkChanged", "", 1))
			}
		}
		slices.SortStableFunc(got, func(a, b string) int { return strings.Compare(a[:2], b[:2]) }) // cubes are notified concurrently
		if !slices.Equal(got, want) {
			t.Errorf("%s tells %q, want %q", step, got, want)
		}
	}
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
	info, err := l.devs.Get("veth1")
	if err != nil {
		t.Fatal(err)
	}
	event := func(up, carrier, flapped bool) {
		info.Up, info.Carrier = up, carrier
		l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: info, Old: &info, Flapped: flapped})
	}
	event(true, false, false)
	l.b.calls()
	event(true, true, false)
	told("carrier", "br p1 true")
	event(true, true, true)
	told("carrier that was away for a moment", "br p1 false", "br p1 true")
	event(true, false, false)
	told("a cable that is pulled", "br p1 false")
	event(false, false, false)
	told("what did not work", []string(nil)...)
	event(true, true, false)
	told("a netdev that is set up", "br p1 true")
	event(false, true, false)
	told("a netdev that is set down", "br p1 false")
	l.must(`create toybridge b2 <<< {"ports":[{"name":"p3"}]}`, `connect br:p2 b2:p3`)
	told("a link between cubes", "b2 p3 true", "br p2 true")
}

func TestANetdevMissingAtTheStartIsBoundWhenItAppears(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"}]}`, `create toyfilter th`, `attach th veth1`)
	l.stop()
	info := l.devs.remove("veth1")
	l.start()
	if got := portRow(l, "br", "p1"); got != "veth1 DOWN linked=true" {
		t.Errorf("without its netdev the port is %q", got)
	}
	// Changes elsewhere, and to the cube itself, do not need the netdev.
	l.must(`patch br fdb aging-time <<< 5`, `patch br ports p1 <<< {"mac":"m","peer":"veth1"}`, `create toybridge b2`)
	info.Index = 44
	l.devs.set(info)
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: info})
	if got := portRow(l, "br", "p1"); got != "veth1 UP linked=true" || l.plane.now().Netdevs["veth1"].Index != 44 {
		t.Errorf("with its netdev the port is %q", got)
	}
}

func TestARefusedNetdevIsLeftOutUntilItChanges(t *testing.T) {
	l := newLab(t, "veth1", "veth2")
	l.must(`create toybridge br <<< {"ports":[{"name":"p1","peer":"veth1"},{"name":"p2"}]}`)
	refused := netdev.Info{Name: "veth1", Index: 55, Up: true}
	l.plane.refuse = func(g *datapath.Graph) error {
		if g.Netdevs["veth1"].Index == refused.Index {
			return errInjected
		}
		return nil
	}
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: refused})
	l.wantRead(`"DOWN"`, "br", "ports", "p1", "status")
	l.must(`connect br:p2 veth2`) // others continue
	l.plane.refuse = nil
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: refused, Old: &refused})
	l.wantRead(`"UP"`, "br", "ports", "p1", "status")
}

func TestParentsAreFollowed(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(bridges...)
	told := func(step string, want ...string) {
		t.Helper()
		var got []string
		l.quiet()
		for _, c := range l.b.calls() {
			if strings.Contains(c, "ParentChanged") {
				got = append(got, strings.TrimSpace(strings.Replace(c, " ParentChanged", "", 1)))
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s tells %q, want %q", step, got, want)
		}
	}
	l.b.calls()
	l.must(`attach th1 br1:p1`)
	told("attach", "th1 br1:p1")
	l.must(`patch br1 ports p1 mac <<< "m"`)
	told("a change of the parent port", "th1 br1:p1")
	l.must(`patch br1 ports p2 mac <<< "m"`, `patch br1 note <<< "n"`)
	told("a change beside the parent port")
	l.must(`connect br1:p1 veth1`)
	told("a new peer of the parent port", "th1 br1:p1")
	before := l.devs.infos["veth1"]
	after := before
	after.Addresses = []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: after, Old: &before})
	told("an address of the parent's netdev", "th1 br1:p1")
	l.must(`del br1 ports p1`)
	told("deleting the port", "th1")
	l.must(`attach th1 veth1`)
	told("attaching to a netdev", "th1 veth1")
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: before, Old: &after})
	told("an address of the netdev", "th1 veth1")
	l.must(`detach th1 veth1`)
	told("detach", "th1")
}

func TestNetdevsAreShown(t *testing.T) {
	l := newLab(t)
	mac, err := net.ParseMAC("02:00:00:00:00:01")
	if err != nil {
		t.Fatal(err)
	}
	l.devs.set(netdev.Info{Name: "veth1", Index: 3, MAC: mac, MTU: 1500, Up: true, Kind: "veth",
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("fe80::1/64")}})
	l.must(bridges...)
	l.must(`connect br1:p1 veth1`, `attach th1 veth1`)
	const want = `[{"name":"veth1","addresses":["10.0.0.1/24","fe80::1/64"],"index":3,"mac":"02:00:00:00:00:01","mtu":1500,` +
		`"status":"UP","kind":"veth","peer":"br1:p1","tcubes":["th1"]}]`
	all, err := l.Netdevs(context.Background())
	if err != nil || string(all) != want {
		t.Errorf("netdevs: %s, %v; want %s", all, err, want)
	}
	one, err := l.Netdev(context.Background(), "veth1")
	if err != nil || string(one) != want {
		t.Errorf("netdev: %s, %v; want %s", one, err, want)
	}
	if _, err := l.Netdev(context.Background(), "nodev0"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a netdev that is not there: %v", err)
	}
	if _, err := l.NetdevTopology(context.Background(), "nodev0"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("the topology of a netdev that is not there: %v", err)
	}
}

func TestTimedAnAnswerComesWhenTheCubesHaveHeard(t *testing.T) {
	l := newLab(t, "veth1")
	l.must(`create toybridge br1 <<< {"ports":[{"name":"p1"}]}`, `create toybridge br2`)
	slow := 20 * time.Millisecond
	var heard atomic.Int32
	hang := make(chan struct{})
	l.b.setFail(func(call string) error {
		switch call {
		case "br1 PortChanged":
			<-time.After(slow)
			if heard.Add(1) == 3 {
				<-hang
			}
		}
		return nil
	})
	for want := int32(1); want <= 2; want++ {
		l.must([]string{`connect br1:p1 veth1`, `disconnect br1:p1 veth1`}[want-1])
		if got := heard.Load(); got != want {
			t.Errorf("the answer came when the cube had heard %d times, want %d", got, want)
		}
	}
	// One that does not return delays one answer, and no others.
	l.must(`connect br1:p1 veth1`)
	begin := time.Now()
	for range 5 {
		l.must(`patch br2 note <<< "n"`)
	}
	if took := time.Since(begin); took > unit.NewsTimeout {
		t.Errorf("five changes elsewhere took %v", took)
	}
	close(hang)
}
