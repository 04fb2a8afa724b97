// SPDX-License-Identifier: Apache-2.0

package model

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

func macOf(i int) string { return fmt.Sprintf("02:00:00:00:00:%02x", i) }

func threeDevices() *World {
	return New(Netdev{Name: "d1", MAC: macOf(1)}, Netdev{Name: "d2", MAC: macOf(2)}, Netdev{Name: "d3", MAC: macOf(3)})
}

// after does operations that must not be refused.
func after(t *testing.T, ops ...Op) *World {
	t.Helper()
	w := threeDevices()
	for _, o := range ops {
		if err := w.Apply(o); err != nil {
			t.Fatalf("%s: %v", o, err)
		}
	}
	return w
}

// twoBridges are c1 with d1 and d2, and c2 with d3, joined, and transparent cubes t1 and t2.
var twoBridges = []Op{
	{Verb: AddCube, Cube: "c1", To: Bridge, Value: "TC"},
	{Verb: AddCube, Cube: "c2", To: Bridge, Value: "TC"},
	{Verb: AddCube, Cube: "t1", To: Transparent, Value: "TC"},
	{Verb: AddCube, Cube: "t2", To: Transparent, Value: "TC"},
	{Verb: AddPort, At: "c1:p1"}, {Verb: AddPort, At: "c1:p2"}, {Verb: AddPort, At: "c1:p3"},
	{Verb: AddPort, At: "c2:p1"}, {Verb: AddPort, At: "c2:p2"},
	{Verb: Connect, At: "c1:p1", To: "d1"}, {Verb: Connect, At: "c1:p2", To: "d2"},
	{Verb: Connect, At: "c1:p3", To: "c2:p1"}, {Verb: Connect, At: "c2:p2", To: "d3"},
}

func with(ops ...Op) []Op { return append(slices.Clone(twoBridges), ops...) }

func TestAFrameEndsWhereTheGraphSays(t *testing.T) {
	attach := func(name, at string) Op { return Op{Verb: Attach, Cube: name, To: at, Value: "first"} }
	set := func(name, leaf, value string) Op { return Op{Verb: Set, Cube: name, To: leaf, Value: value} }
	for _, test := range []struct {
		name     string
		ops      []Op
		from, to string
		arrive   map[string]int
		fates    map[string]map[string]int
	}{
		{"a broadcast reaches all others", twoBridges, "d1", Broadcast, map[string]int{"d2": 1, "d3": 1},
			map[string]map[string]int{"c1": {"flood": 1}, "c2": {"flood": 1}}},
		{"an unknown address is flooded", twoBridges, "d3", macOf(1), map[string]int{"d1": 1, "d2": 1},
			map[string]map[string]int{"c1": {"flood": 1}, "c2": {"flood": 1}}},
		{"what is configured is sent there", with(Op{Verb: AddEntry, At: "c1:p1", Value: macOf(3)}), "d2", macOf(3), map[string]int{"d1": 1}, nil},
		{"and not back", with(Op{Verb: AddEntry, At: "c1:p1", Value: macOf(3)}), "d1", macOf(3), nil,
			map[string]map[string]int{"c1": {"same-port": 1}}},
		{"a cube on the way drops", with(attach("t1", "c2:p1"), set("t1", "ingress-action", "DROP")), "d1", Broadcast, map[string]int{"d2": 1},
			map[string]map[string]int{"c1": {"flood": 1}, "t1": {"ingress-drop": 1}}},
		{"the outermost drops first", with(attach("t1", "c1:p1"), attach("t2", "d1"), set("t1", "ingress-action", "DROP"),
			set("t2", "ingress-action", "DROP")), "d1", Broadcast, nil, map[string]map[string]int{"t2": {"ingress-drop": 1}}},
		{"a device's own cube counts what leaves", with(attach("t1", "d3")), "d1", Broadcast, map[string]int{"d2": 1, "d3": 1},
			map[string]map[string]int{"c1": {"flood": 1}, "c2": {"flood": 1}, "t1": {"pass": 1}}},
		{"a wire that is cut", with(Op{Verb: Disconnect, At: "c1:p3", To: "c2:p1"}), "d3", Broadcast, nil,
			map[string]map[string]int{"c2": {"no-peer": 1}}},
		{"a device that is gone", with(Op{Verb: DelNetdev, To: "d3"}), "d1", Broadcast, map[string]int{"d2": 1},
			map[string]map[string]int{"c1": {"flood": 1}, "c2": {"no-peer": 1}}},
		{"a device without a cube", []Op{{Verb: AddCube, Cube: "t1", To: Transparent, Value: "TC"}, attach("t1", "d1")}, "d1", Broadcast, nil,
			map[string]map[string]int{"t1": {"pass": 1}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w, o := after(t, test.ops...), NewOutcome()
			w.FromHost(test.from, test.to, o)
			if !maps.Equal(o.Arrive, test.arrive) || !maps.EqualFunc(o.Fates, test.fates, maps.Equal[map[string]int]) {
				t.Errorf("arrives at %v with fates %v, want %v and %v", o.Arrive, o.Fates, test.arrive, test.fates)
			}
		})
	}
}

func TestBridgesLearnAndForget(t *testing.T) {
	w := after(t, twoBridges...)
	w.FromHost("d3", Broadcast, NewOutcome())
	if got := w.Cubes["c1"].Learned[macOf(3)]; got != "p3" {
		t.Errorf("c1 learned d3 at %q, want p3", got)
	}
	o := NewOutcome()
	w.FromHost("d1", macOf(3), o)
	if len(o.Fates) > 0 || o.Arrive["d3"] != 1 || o.Tx["c1:p3"] != 1 || o.Rx["c2:p1"] != 1 {
		t.Errorf("a frame to a learned address: %+v", o)
	}
	if err := w.Apply(Op{Verb: Disconnect, At: "c1:p3", To: "c2:p1"}); err != nil {
		t.Fatal(err)
	}
	if got := w.Cubes["c1"].Learned[macOf(3)]; got != "" {
		t.Errorf("c1 still knows d3, at %s", got)
	}
}

func TestWhatIsRefusedChangesNothing(t *testing.T) {
	for _, o := range []Op{
		{Verb: AddCube, Cube: "c1", To: Bridge, Value: "TC"},
		{Verb: Connect, At: "c1:p1", To: "d3"},
		{Verb: Connect, At: "c1:p9", To: "d3"},
		{Verb: Disconnect, At: "c1:p1", To: "d2"},
		{Verb: Attach, Cube: "c1", To: "d1", Value: "first"},
		{Verb: Attach, Cube: "t1", To: "c1:p9", Value: "first"},
		{Verb: Detach, Cube: "t1", To: "d1"},
		{Verb: DelPort, At: "c1:p9"},
		{Verb: Set, Cube: "c1", To: "action", Value: "DROP"},
		{Verb: SetAction, At: "c1:p1", Value: "DROP"},
		{Verb: DelEntry, Cube: "c1", Value: macOf(1)},
	} {
		w := after(t, twoBridges...)
		before := fmt.Sprintf("%+v", dump(w))
		if err := w.Apply(o); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: %v, want a refusal", o, err)
		}
		if now := fmt.Sprintf("%+v", dump(w)); now != before {
			t.Errorf("%s changed\n%s\nto\n%s", o, before, now)
		}
	}
}

func TestWhatAnXDPCubeSendsPassesTheCubesOnTheNetdev(t *testing.T) {
	w := after(t, Op{Verb: AddCube, Cube: "c1", To: Bridge, Value: "XDP_DRV"}, Op{Verb: AddPort, At: "c1:p1"},
		Op{Verb: AddPort, At: "c1:p2"}, Op{Verb: Connect, At: "c1:p2", To: "d2"},
		Op{Verb: AddCube, Cube: "t1", To: Transparent, Value: "XDP_SKB"}, Op{Verb: Attach, Cube: "t1", To: "d1", Value: "first"},
		Op{Verb: Connect, At: "c1:p1", To: "d1"})
	o := NewOutcome()
	w.FromHost("d2", Broadcast, o)
	if o.Arrive["d1"] != 1 || o.Tx["c1:p1"] != 1 || o.Fates["t1"]["pass"] != 1 {
		t.Errorf("a frame through the cube: %+v", o)
	}
	if err := w.Apply(Op{Verb: Set, Cube: "t1", To: "egress-action", Value: "DROP"}); err != nil {
		t.Fatal(err)
	}
	o = NewOutcome()
	w.FromHost("d2", Broadcast, o)
	if o.Arrive["d1"] != 0 || o.Fates["t1"]["egress-drop"] != 1 {
		t.Errorf("a frame that the cube drops: %+v", o)
	}
}

// dump is a world without pointers.
func dump(w *World) []string {
	var out []string
	for _, name := range w.Names() {
		c := *w.Cubes[name]
		for _, p := range c.Ports {
			out = append(out, fmt.Sprintf("%+v", *p))
		}
		c.Ports = nil
		out = append(out, fmt.Sprintf("%+v", c))
	}
	return out
}

func TestRandomOperationsVisitEveryVerb(t *testing.T) {
	g := &Generator{Rand: rand.New(rand.NewPCG(1, 2)), Types: []string{"TC", "XDP_DRV"}, Standard: 6, Transparent: 4}
	w, done, refused, crossed := threeDevices(), map[Verb]int{}, 0, 0
	for range 5000 {
		o := g.Next(w)
		if err := w.Apply(o); err != nil {
			refused++
			continue
		}
		done[o.Verb]++
		if w.loops() {
			t.Fatalf("%s closed a loop", o)
		}
		for _, from := range w.Devices() {
			out := NewOutcome()
			w.Clone().FromHost(from, Broadcast, out)
			for _, n := range out.Arrive {
				crossed += n
			}
		}
	}
	for _, v := range weights {
		if done[v.verb] == 0 {
			t.Errorf("5000 operations, none of them %s", v.verb)
		}
	}
	if refused < 50 || refused > 2500 || crossed < 2000 {
		t.Errorf("%d operations were refused, %d copies of broadcasts reached another host: too one-sided to prove anything", refused, crossed)
	}
}
