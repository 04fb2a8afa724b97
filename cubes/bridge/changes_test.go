// SPDX-License-Identifier: Apache-2.0

package bridge

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// fakeFloods records sets, and refuses those that it is told to.
type fakeFloods struct {
	sets map[uint32][]cube.FloodMember
	fail error
}

func (f *fakeFloods) All() map[uint32][]cube.FloodMember { return maps.Clone(f.sets) }

func (f *fakeFloods) Set(index uint32, members []cube.FloodMember) error {
	return f.SetAll(map[uint32][]cube.FloodMember{index: members})
}

func (f *fakeFloods) SetAll(sets map[uint32][]cube.FloodMember) error {
	if f.fail != nil {
		return f.fail
	}
	for index, members := range sets {
		if f.sets[index] = members; len(members) == 0 {
			delete(f.sets, index)
		}
	}
	return nil
}

func (f *fakeFloods) Reset(sets map[uint32][]cube.FloodMember) error {
	f.sets = map[uint32][]cube.FloodMember{}
	return f.SetAll(sets)
}

// entryIn is a port that carries VLANs, the first without a tag.
func entryIn(vlans ...uint16) (e portEntry) {
	for _, v := range vlans {
		e.Member.add(v)
	}
	e.PVID, e.Learn, e.Forward = vlans[0], e.Member, e.Member
	return e
}

func TestChangesOfPortsAreTakenBack(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	l.Create("bridge", "br", "")
	table, err := table.Of[uint32, portEntry]("ports", l.Map("br", "ports"))
	if err != nil {
		t.Fatal(err)
	}
	floods := &fakeFloods{sets: map[uint32][]cube.FloodMember{}}
	p := &ports{table: table, sets: floods, now: map[uint16]portEntry{}, states: map[portVLAN]portState{}}
	mac := portEntry{MAC: 0x0b0000000002}
	begin := map[uint16]portEntry{0: entryIn(1), 1: entryIn(1, 10), 7: entryIn(10)}
	if err := p.become(&cube.Undo{}, maps.Clone(begin), mac, true); err != nil {
		t.Fatal(err)
	}
	sets := map[uint32][]cube.FloodMember{1: {{Port: 0}, {Port: 1}}, 10: {{Port: 1, Tagged: true}, {Port: 7}}}
	same := func(when string) {
		t.Helper()
		if !reflect.DeepEqual(floods.sets, sets) {
			t.Errorf("%s: the sets are %v, want %v", when, floods.sets, sets)
		}
		if !maps.Equal(p.now, begin) || p.mac != mac {
			t.Errorf("%s: the ports are not what they were", when)
		}
		for index := range uint32(10) {
			if got, _, err := table.Get(index); err != nil || got != begin[uint16(index)] {
				t.Errorf("%s: the entry of port %d is another one (error %v)", when, index, err)
			}
		}
	}
	same("at first")
	after := map[uint16]portEntry{0: entryIn(10), 1: entryIn(10, 1), 2: entryIn(4094)}
	e := &cube.Undo{}
	if err := p.become(e, maps.Clone(after), portEntry{MAC: 0x0c0000000002}, false); err != nil {
		t.Fatal(err)
	}
	want := map[uint32][]cube.FloodMember{1: {{Port: 1, Tagged: true}}, 10: {{Port: 0}, {Port: 1}}, 4094: {{Port: 2}}}
	if !reflect.DeepEqual(floods.sets, want) {
		t.Errorf("the sets became %v, want %v", floods.sets, want)
	}
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	same("taken back")
	e, floods.fail = &cube.Undo{}, errors.New("no room")
	if err := p.become(e, maps.Clone(after), mac, false); !errors.Is(err, floods.fail) {
		t.Errorf("the error is %v", err)
	}
	floods.fail = nil
	if err := e.Run(); err != nil {
		t.Fatal(err)
	}
	same("after a failure")
}

// ring is a random bridge: the state of its ports, and the changes that led to it.
type ring struct {
	l     *bpftest.Lab
	rng   *rand.Rand
	ports map[int]*Port
	did   []string
}

// try sends a request to both the bridge and its model.
func (r *ring) try(t *testing.T, method, words, body string, change func()) {
	t.Helper()
	r.did = append(r.did, strings.Join([]string{method, words, body}, " "))
	if err := r.l.Try(method, words, body); err != nil {
		t.Fatalf("%v\n%s", err, strings.Join(r.did, "\n"))
	}
	change()
}

// change makes a random change.
func (r *ring) change(t *testing.T) {
	t.Helper()
	i, vlan := 1+r.rng.IntN(4), []uint16{1, 2, 64, 4094}[r.rng.IntN(4)]
	name, p := fmt.Sprintf("br ports p%d", i), r.ports[i]
	trunk := Trunk{DefaultVLAN: true, NativeVLANEnabled: true, NativeVLAN: defaultVLAN}
	switch what := r.rng.IntN(8); {
	case p == nil:
		r.try(t, "POST", name, fmt.Sprintf(`{"peer":"veth%d","access":{"vlanid":%d}}`, i, vlan),
			func() { r.ports[i] = &Port{Access: Access{VLANID: vlan}} })
	case what == 0:
		r.try(t, "DELETE", name, "", func() { delete(r.ports, i) })
	case what == 1 && p.Mode == ModeTrunk:
		r.try(t, "PATCH", name+" mode", `"access"`, func() { *p = Port{Access: Access{VLANID: defaultVLAN}} })
	case p.Mode == ModeAccess && what < 4:
		r.try(t, "PATCH", name+" mode", `"trunk"`, func() { *p = Port{Mode: ModeTrunk, Trunk: trunk} })
	case p.Mode == ModeAccess:
		r.try(t, "PATCH", name+" access vlanid", fmt.Sprint(vlan), func() { p.Access.VLANID = vlan })
	case what < 3:
		on := r.rng.IntN(2) == 0
		r.try(t, "PATCH", name+" trunk native-vlan-enabled", fmt.Sprint(on), func() { p.Trunk.NativeVLANEnabled = on })
	case what == 3:
		r.try(t, "PATCH", name+" trunk native-vlan", fmt.Sprint(vlan), func() { p.Trunk.NativeVLAN = vlan })
	case slices.Contains(p.Trunk.Allowed, Allowed{vlan}):
		r.try(t, "DELETE", fmt.Sprint(name, " trunk allowed ", vlan), "",
			func() {
				p.Trunk.Allowed = slices.DeleteFunc(p.Trunk.Allowed, func(a Allowed) bool { return a.VLANID == vlan })
			})
	default:
		r.try(t, "POST", fmt.Sprint(name, " trunk allowed ", vlan), "{}", func() { p.Trunk.Allowed = append(p.Trunk.Allowed, Allowed{vlan}) })
	}
}

// check sends a broadcast into a port and compares the receiving ports with the model of the bridge.
func (r *ring) check(t *testing.T) {
	t.Helper()
	numbers := slices.Sorted(maps.Keys(r.ports))
	if len(numbers) == 0 {
		return
	}
	in := numbers[r.rng.IntN(len(numbers))]
	p := r.ports[in]
	vlan, ok := p.untaggedVLAN()
	b := pkt.Eth(one, pkt.Broadcast)
	if vlans := p.vlans(); !ok || p.Mode == ModeTrunk && r.rng.IntN(2) == 0 {
		vlan = vlans[r.rng.IntN(len(vlans))]
		b = b.VLAN(vlan)
	}
	var to []string
	for _, i := range numbers {
		if i != in && slices.Contains(r.ports[i].vlans(), vlan) {
			to = append(to, fmt.Sprintf("br:p%d", i))
		}
	}
	want := drop("no-peer")
	if to != nil {
		want = flood(strings.Join(to, " "))
	}
	if got, _ := r.l.RunBytes(fmt.Sprintf("veth%d", in), b.Payload(46).Bytes()); got != want {
		t.Fatalf("VLAN %d from p%d: got %+v, want %+v\n%s", vlan, in, got, want, strings.Join(r.did, "\n"))
	}
}

// Whatever happened to the ports, frames follow their current state.
func TestRandomChangesOfPorts(t *testing.T) {
	t.Parallel()
	seed := repeat.Seed(t)
	l := bpftest.New(t, bpftest.Options{Hosts: 4, Host: []netns.Option{netns.WithMTU(1500)}})
	l.Create("bridge", "br", "")
	r := &ring{l: l, rng: rand.New(rand.NewPCG(seed, 0)), ports: map[int]*Port{}}
	for i := range frames() / 8 {
		r.change(t)
		for range 3 {
			r.check(t)
		}
		if i%20 == 19 {
			l.Restart(nil)
			r.did = append(r.did, "restart")
		}
	}
}
