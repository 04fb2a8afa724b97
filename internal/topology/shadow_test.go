// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/netdev"
	"github.com/polycube/polycube/internal/shadow"
)

// fakeShadows are namespaces in memory. They outlive a manager.
type fakeShadows struct {
	mu   sync.Mutex
	next int
	// ends are the outer ends by UUID and port, looks how the interfaces are.
	ends    map[string]map[string]int
	looks   map[string]map[string]shadow.State
	up      map[string]bool // by UUID:port
	changed func(string)
	fail    func(step string) error
}

func newFakeShadows() *fakeShadows {
	return &fakeShadows{next: 1000, ends: map[string]map[string]int{}, looks: map[string]map[string]shadow.State{}, up: map[string]bool{}}
}

func (f *fakeShadows) setFail(fail func(string) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fakeShadows) step(name string) error {
	if f.fail == nil {
		return nil
	}
	return f.fail(name)
}

func (f *fakeShadows) Ensure(c shadow.Cube) (shadow.Ends, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.step("Ensure"); err != nil {
		return shadow.Ends{}, err
	}
	fresh := f.ends[c.UUID] == nil
	if fresh {
		f.ends[c.UUID], f.looks[c.UUID] = map[string]int{}, map[string]shadow.State{}
	}
	var made []string
	for _, p := range c.Ports {
		if f.ends[c.UUID][p] == 0 {
			f.next++
			f.ends[c.UUID][p], f.looks[c.UUID][p] = f.next, shadow.State{MTU: 1500, Up: true}
			made = append(made, p)
		}
	}
	return shadow.Ends{Outer: maps.Clone(f.ends[c.UUID]), Made: made, Undo: func() error {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, p := range made {
			delete(f.ends[c.UUID], p)
			delete(f.looks[c.UUID], p)
		}
		if fresh {
			delete(f.ends, c.UUID)
			delete(f.looks, c.UUID)
		}
		return nil
	}}, nil
}

func (f *fakeShadows) Trim(c shadow.Cube) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.ends[c.UUID] {
		if !slices.Contains(c.Ports, p) {
			delete(f.ends[c.UUID], p)
			delete(f.looks[c.UUID], p)
		}
	}
	return nil
}

func (f *fakeShadows) Remove(uuid string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.ends, uuid)
	delete(f.looks, uuid)
	return nil
}

func (f *fakeShadows) Set(uuid, port string, to shadow.Setting) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if to.MAC != nil {
		if err := f.step("Set"); err != nil {
			return err
		}
	}
	st, ok := f.looks[uuid][port]
	if !ok {
		return nil
	}
	if to.MAC != nil {
		st.MAC = to.MAC
	}
	if to.MTU != 0 {
		st.MTU = to.MTU
	}
	st.Addresses = slices.DeleteFunc(slices.Concat(st.Addresses, to.Add), func(p netip.Prefix) bool { return slices.Contains(to.Remove, p) })
	if to.Up != nil {
		f.up[uuid+":"+port] = *to.Up
	}
	f.looks[uuid][port] = st
	return nil
}

func (f *fakeShadows) States(c shadow.Cube) (map[string]shadow.State, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.looks[c.UUID]), f.step("States")
}

func (f *fakeShadows) Name(cube string) string { return "pcn-" + cube }

func (f *fakeShadows) Owner(ifindex int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uuid, ends := range f.ends {
		for _, e := range ends {
			if e == ifindex {
				return uuid
			}
		}
	}
	return ""
}

func (f *fakeShadows) Sweep(keep func(string) bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for uuid := range f.ends {
		if !keep(uuid) {
			delete(f.ends, uuid)
			delete(f.looks, uuid)
		}
	}
	return nil
}

func (f *fakeShadows) Start(changed func(string)) { f.changed = changed }

// all returns everything, for comparison.
func (f *fakeShadows) all() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return fmt.Sprint(f.ends, f.looks)
}

// touch changes the MAC address of an interface, as a user in the namespace might.
func (f *fakeShadows) touch(uuid, port, mac string) {
	f.mu.Lock()
	st := f.looks[uuid][port]
	st.MAC, _ = net.ParseMAC(mac)
	f.looks[uuid][port] = st
	f.mu.Unlock()
	f.changed(uuid)
}

// Interfaces are those of the namespace: ports have a MAC address.
func (c *toyBridge) Interfaces(conf json.RawMessage) (map[string]cube.Interface, error) {
	if err := c.b.call(c.env.Name(), "Interfaces"); err != nil {
		return nil, err
	}
	var decoded struct{ Ports []struct{ Name, MAC string } }
	if err := json.Unmarshal(conf, &decoded); err != nil {
		return nil, err
	}
	looks := map[string]cube.Interface{}
	for _, p := range decoded.Ports {
		mac, err := net.ParseMAC(p.MAC)
		if err != nil && p.MAC != "" {
			return nil, fmt.Errorf("%w: %w", err, cube.ErrInvalid)
		}
		looks[p.Name] = cube.Interface{MAC: mac}
	}
	return looks, nil
}

// NamespaceChanged makes a port follow its interface.
func (c *toyBridge) NamespaceChanged(port string, was, is cube.Interface) ([]cube.Edit, error) {
	if err := c.b.call(c.env.Name(), "NamespaceChanged", " ", port, " ", was.MAC, " ", is.MAC); err != nil {
		return nil, err
	}
	return []cube.Edit{{Path: []string{"ports", port, "mac"}, Value: is.MAC.String()}}, nil
}

func newShadowLab(t *testing.T) (*lab, *fakeShadows) {
	l := &lab{t: t, plane: newFakePlane(), devs: newFakeNetdevs("eth1", "eth2"), b: &behaviour{learned: map[string]string{}},
		records: map[string][]byte{}}
	f := newFakeShadows()
	l.shadows = f
	l.start()
	t.Cleanup(func() { l.stop() })
	l.must(`create toybridge s1 <<< {"shadow":true,"ports":[{"name":"p1","mac":"02:00:00:00:00:01","peer":"eth1"},{"name":"p2"}]}`)
	return l, f
}

func (l *lab) uuid(name string) string { return l.view.Load().Cubes[name].UUID }

func TestAShadowCubeIsWholeInTheDataPlane(t *testing.T) {
	l, f := newShadowLab(t)
	rec := l.view.Load().Cubes["s1"]
	node := l.plane.now().Cubes[rec.ID]
	want := map[uint16]int{rec.Ports["p1"].Index: f.ends[rec.UUID]["p1"], rec.Ports["p2"].Index: f.ends[rec.UUID]["p2"]}
	if node.Shadow == nil || node.Shadow.Span || !reflect.DeepEqual(node.Shadow.Ends, want) {
		t.Errorf("the data plane has %+v, want %v", node.Shadow, want)
	}
	if got := f.looks[rec.UUID]["p1"].MAC.String(); got != "02:00:00:00:00:01" {
		t.Errorf("p1 has %s in the namespace", got)
	}
	if !f.up[rec.UUID+":p1"] || f.up[rec.UUID+":p2"] {
		t.Errorf("carriers %v, want p1's alone: p2 is not linked", f.up)
	}
	l.must(`patch s1 <<< {"span":true}`, `del s1 ports p2`)
	if node := l.plane.now().Cubes[rec.ID]; !node.Shadow.Span || len(node.Shadow.Ends) != 1 || len(f.ends[rec.UUID]) != 1 {
		t.Errorf("with span and without p2: %+v, ends %v", node.Shadow, f.ends)
	}
	l.must(`delete s1`)
	if len(f.ends) > 0 {
		t.Errorf("namespaces %v of a deleted cube", f.ends)
	}
}

// TestAFailureAnywhereLeavesNamespacesAsTheyWere fails each step in turn.
func TestAFailureAnywhereLeavesNamespacesAsTheyWere(t *testing.T) {
	l, f := newShadowLab(t)
	for _, line := range []string{
		`create toybridge s2 <<< {"shadow":true,"ports":[{"name":"a","mac":"02:00:00:00:00:09"}]}`,
		`patch s1 <<< {"note":"x","ports":[{"name":"p1","mac":"02:00:00:00:00:07"},{"name":"p3","mac":"02:00:00:00:00:03"}]}`,
		`put s1 ports <<< [{"name":"p1","mac":"02:00:00:00:00:08"}]`,
	} {
		for _, step := range []string{"Prepare", "Commit", "store", "Ensure", "Set", "Interfaces"} {
			before, state := f.all(), l.state()
			fail := func(what string) error {
				if what == step || strings.HasSuffix(what, " "+step) {
					return errInjected
				}
				return nil
			}
			l.plane.setFail(fail)
			l.b.setFail(fail)
			f.setFail(fail)
			err := l.do(line)
			l.plane.setFail(nil)
			l.b.setFail(nil)
			f.setFail(nil)
			if !errors.Is(err, errInjected) {
				t.Fatalf("%s with a failing %s answers %v", line, step, err)
			}
			if now := f.all(); now != before {
				t.Errorf("%s with a failing %s left %s, before %s", line, step, now, before)
			}
			l.wantState(state)
		}
		l.must(line)
	}
}

func TestACubeFollowsItsNamespace(t *testing.T) {
	l, f := newShadowLab(t)
	uuid := l.uuid("s1")
	f.touch(uuid, "p1", "02:00:00:00:00:42")
	l.wantRead(`"02:00:00:00:00:42"`, "s1", "ports", "p1", "mac")
	if !strings.Contains(string(l.records["cube/s1"]), "02:00:00:00:00:42") {
		t.Error("what the cube followed is not stored")
	}
	l.b.calls()
	f.changed(uuid)
	if calls := strings.Join(l.b.calls(), ","); strings.Contains(calls, "NamespaceChanged") {
		t.Errorf("nothing has changed, and the cube is asked: %s", calls)
	}
	l.b.setFail(func(call string) error {
		if call == "s1 NamespaceChanged" {
			return errInjected
		}
		return nil
	})
	f.touch(uuid, "p1", "02:00:00:00:00:43")
	l.b.setFail(nil)
	l.wantRead(`"02:00:00:00:00:42"`, "s1", "ports", "p1", "mac")
	if got := f.looks[uuid]["p1"].MAC.String(); got != "02:00:00:00:00:43" {
		t.Errorf("after a refusal the namespace has %s", got)
	}
	f.changed("a cube that is gone")
}

func TestARestartTakesWhatTheNamespaceHas(t *testing.T) {
	l, f := newShadowLab(t)
	uuid := l.uuid("s1")
	l.stop()
	f.mu.Lock()
	st := f.looks[uuid]["p1"]
	st.MAC, _ = net.ParseMAC("02:00:00:00:00:77")
	f.looks[uuid]["p1"] = st
	f.ends["stale"] = map[string]int{"p": 7}
	delete(f.ends[uuid], "p2") // removed in the namespace meanwhile
	f.mu.Unlock()
	l.start()
	if f.ends["stale"] != nil || f.ends[uuid]["p2"] == 0 {
		t.Errorf("namespaces after the start: %v", f.ends)
	}
	f.changed(uuid) // the keeper's first report
	l.wantRead(`"02:00:00:00:00:77"`, "s1", "ports", "p1", "mac")
}

func TestTheNamespaceOfABrokenCubeStaysUntilItIsDeleted(t *testing.T) {
	l, f := newShadowLab(t)
	l.must(`create toybridge s2 <<< {"shadow":true,"ports":[{"name":"a"}]}`)
	uuid := l.uuid("s1")
	l.stop()
	failed := false
	f.setFail(func(step string) error {
		if step == "Ensure" && !failed {
			failed = true
			return errInjected
		}
		return nil
	})
	l.start()
	f.setFail(nil)
	if broken := l.Broken(); len(broken) != 1 || broken[0].Name != "s1" || f.ends[uuid] == nil {
		t.Fatalf("broken %v, namespaces %v, want s1 broken and its namespace there", broken, f.ends)
	}
	if l.view.Load().Cubes["s2"] == nil {
		t.Error("s2 is not restored")
	}
	l.must(`delete s1`)
	if f.ends[uuid] != nil || len(f.ends) != 1 {
		t.Errorf("namespaces %v, want that of s2", f.ends)
	}
}

func TestANamespaceIsRepaired(t *testing.T) {
	l, f := newShadowLab(t)
	uuid := l.uuid("s1")
	gone := f.ends[uuid]["p1"]
	f.mu.Lock()
	delete(f.ends[uuid], "p1")
	f.mu.Unlock()
	f.changed(uuid)
	rec := l.view.Load().Cubes["s1"]
	if now := l.plane.now().Cubes[rec.ID].Shadow.Ends[rec.Ports["p1"].Index]; now == gone || now != f.ends[uuid]["p1"] {
		t.Errorf("the data plane sends to %d, the interface is %d, was %d", now, f.ends[uuid]["p1"], gone)
	}
	if got := f.looks[uuid]["p1"].MAC.String(); got != "02:00:00:00:00:01" || !f.up[uuid+":p1"] {
		t.Errorf("the new interface has %s, carrier %t", got, f.up[uuid+":p1"])
	}
	before := l.state()
	l.NetdevEvent(netdev.Event{Kind: netdev.Added, Info: netdev.Info{Name: "s1-p1", Index: f.ends[uuid]["p1"], Up: true}})
	l.wantState(before)
	if _, ok := l.view.Load().Links["s1-p1"]; ok {
		t.Error("an outer end is taken for a netdev of users")
	}
}

func TestAnMTUFollowsThePeer(t *testing.T) {
	l, f := newShadowLab(t)
	uuid := l.uuid("s1")
	info := l.devs.infos["eth1"]
	info.MTU = 9000
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: l.devs.set(info), Old: &info})
	if got := f.looks[uuid]["p1"].MTU; got != 9000 {
		t.Errorf("the interface has an MTU of %d, want the peer's 9000", got)
	}
	info.Up = false
	l.NetdevEvent(netdev.Event{Kind: netdev.Changed, Info: l.devs.set(info), Old: &info})
	if f.up[uuid+":p1"] {
		t.Error("the interface has a carrier, and the peer is down")
	}
}
