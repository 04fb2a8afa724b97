// SPDX-License-Identifier: Apache-2.0

package external

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/extservice"
)

// fakeFloods are the sets of a fakeEnv. Sets with an index above the limit are refused, as by the data plane.
type fakeFloods struct{ e *fakeEnv }

func (f fakeFloods) All() map[uint32][]cube.FloodMember { return maps.Clone(f.e.floods) }

func (f fakeFloods) Set(index uint32, members []cube.FloodMember) error {
	return f.SetAll(map[uint32][]cube.FloodMember{index: members})
}

func (f fakeFloods) SetAll(sets map[uint32][]cube.FloodMember) error {
	for index := range sets {
		if index > cube.MaxFloodSet {
			return fmt.Errorf("set %d: %w", index, cube.ErrInvalid)
		}
	}
	if f.e.floods == nil {
		f.e.floods = map[uint32][]cube.FloodMember{}
	}
	for index, members := range sets {
		if f.e.floods[index] = members; len(members) == 0 {
			delete(f.e.floods, index)
		}
	}
	return nil
}

func (f fakeFloods) Reset(sets map[uint32][]cube.FloodMember) error {
	was := f.e.floods
	f.e.floods = nil
	err := f.SetAll(sets)
	if err != nil {
		f.e.floods = was
	}
	return err
}

// planned is a cube whose service answers Prepare with a plan.
func planned(t *testing.T, plan **pb.Plan, maps bool) (*instance, *fakeEnv, *extservice.Server) {
	t.Helper()
	s := &extservice.Server{Description: describe(t), Plan: func(*extservice.Cube, *pb.PrepareRequest) (*pb.Plan, error) {
		if *plan == nil {
			return &pb.Plan{}, nil
		}
		return *plan, nil
	}}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, "c1", nil)
	if maps {
		env.maps = kernelMaps(t)
	}
	return open(t, l, env), env, s
}

func set(index uint32, ports, tagged []uint32) *pb.FloodSet {
	return &pb.FloodSet{Index: index, Ports: ports, Tagged: tagged}
}

func TestAPlanWritesSetsOfPortsAndTakesThemBack(t *testing.T) {
	var plan *pb.Plan
	i, env, s := planned(t, &plan, false)
	type sets = map[uint32][]cube.FloodMember
	one, both := []cube.FloodMember{{Port: 1}}, []cube.FloodMember{{Port: 1}, {Port: 2, Tagged: true}}
	for _, tt := range []struct {
		what  string
		write *pb.FloodWrite
		want  sets
	}{
		{"two", &pb.FloodWrite{Sets: []*pb.FloodSet{set(5, []uint32{1}, nil), set(6, []uint32{1}, []uint32{2})}}, sets{5: one, 6: both}},
		{"one more, one less", &pb.FloodWrite{Sets: []*pb.FloodSet{set(7, []uint32{1}, nil), set(5, nil, nil)}}, sets{6: both, 7: one}},
		{"this one alone", &pb.FloodWrite{Replace: true, Sets: []*pb.FloodSet{set(9, []uint32{1}, nil)}}, sets{9: one}},
		{"none", &pb.FloodWrite{Replace: true}, sets{}},
	} {
		plan = &pb.Plan{Floods: tt.write}
		before := maps.Clone(env.floods)
		for _, undone := range []bool{true, false} {
			out, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)})
			if err != nil {
				t.Fatal(err)
			}
			var undo cube.Undo
			if err := cube.Carry(out.Before, &undo); err != nil || len(env.floods) != len(tt.want) || len(tt.want) > 0 && !reflect.DeepEqual(env.floods, tt.want) {
				t.Errorf("%s: the sets are %v, want %v (%v)", tt.what, env.floods, tt.want, err)
			}
			if !undone {
				continue
			}
			if err := undo.Run(); err != nil || len(env.floods) != len(before) || len(before) > 0 && !reflect.DeepEqual(env.floods, before) {
				t.Errorf("%s: after the undo the sets are %v, want %v (%v)", tt.what, env.floods, before, err)
			}
		}
	}
	asked := s.Cubes()["c1"]
	if err := asked.Floods(&pb.FloodWrite{Sets: []*pb.FloodSet{set(3, []uint32{1}, nil)}}); err != nil || !reflect.DeepEqual(env.floods, sets{3: one}) {
		t.Errorf("on request the sets are %v, %v", env.floods, err)
	}
	for _, tt := range []struct {
		write *pb.FloodWrite
		says  string
	}{
		{&pb.FloodWrite{Sets: []*pb.FloodSet{set(3, []uint32{1}, nil), set(3, nil, nil)}}, "set 3 of ports is there twice"},
		{&pb.FloodWrite{Sets: []*pb.FloodSet{set(3, []uint32{1 << 16}, nil)}}, "there is no port 65536"},
		{&pb.FloodWrite{Sets: []*pb.FloodSet{set(3, make([]uint32, maxMembers+1), nil)}}, "more than 1048576 members"},
	} {
		if err := asked.Floods(tt.write); status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("a request is answered %v, want %q", err, tt.says)
		}
		plan = &pb.Plan{Floods: tt.write}
		if _, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)}); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("a plan: %v, want %q", err, tt.says)
		}
	}
	if err := asked.Floods(&pb.FloodWrite{Sets: []*pb.FloodSet{set(1<<16, nil, nil)}}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("an index that the data plane refuses: %v", err)
	}
	if !reflect.DeepEqual(env.floods, sets{3: one}) {
		t.Errorf("after refusals the sets are %v", env.floods)
	}
}

// A service that dies in Commit has its sets and entries taken back.
func TestSetsOfAServiceThatFailsToCommitAreTakenBack(t *testing.T) {
	plan := &pb.Plan{Commit: true, Floods: &pb.FloodWrite{Sets: []*pb.FloodSet{set(1, []uint32{1}, nil)}}}
	i, env, s := planned(t, &plan, false)
	s.Committed = func(c *extservice.Cube, _ uint64) error {
		return errors.Join(c.Floods(&pb.FloodWrite{Sets: []*pb.FloodSet{set(2, []uint32{1}, nil)}}), errors.New("it broke"))
	}
	env.floods = map[uint32][]cube.FloodMember{2: {{Port: 9}}}
	out, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	var undo cube.Undo
	if err := cube.Carry(out.Before, &undo); err == nil || !strings.Contains(err.Error(), "it broke") {
		t.Errorf("the commit: %v", err)
	}
	if want := (map[uint32][]cube.FloodMember{2: {{Port: 9}}}); !reflect.DeepEqual(env.floods, want) {
		t.Errorf("the sets are %v, want %v", env.floods, want)
	}
}

// Entries that are written after the change are steps of their own: one that fails does not keep the next from being written.
func TestEntriesAreWrittenAfterTheChange(t *testing.T) {
	plan := &pb.Plan{After: []*pb.MapWrite{{Map: "none", Entries: []*pb.Entry{entry(1, 1)}},
		{Map: "hash", Entries: []*pb.Entry{entry(1, 7), {Key: word(2)}}}}}
	i, env, _ := planned(t, &plan, true)
	if err := env.maps["hash"].Put(word(2), word(2)); err != nil {
		t.Fatal(err)
	}
	out, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)})
	if err != nil || len(out.Before) != 0 || len(out.After) != 2 {
		t.Fatalf("%d steps before and %d after, %v", len(out.Before), len(out.After), err)
	}
	if _, err := out.After[0].Do(); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that there is not: %v", err)
	}
	if undo, err := out.After[1].Do(); err != nil || undo != nil {
		t.Errorf("after: %v, can be undone %v", err, undo != nil)
	}
	one, err := env.maps["hash"].LookupBytes(word(1))
	two, errTwo := env.maps["hash"].LookupBytes(word(2))
	if errors.Join(err, errTwo) != nil || string(one) != string(word(7)) || two != nil {
		t.Errorf("the entries are %v and %v, %v", one, two, errors.Join(err, errTwo))
	}
	plan = &pb.Plan{After: []*pb.MapWrite{{Map: "x y"}}}
	if _, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)}); err == nil || !strings.Contains(err.Error(), "not a valid name of a map") {
		t.Errorf("a name that is none: %v", err)
	}
	plan = &pb.Plan{After: []*pb.MapWrite{{Map: "hash", Entries: make([]*pb.Entry, maxBatch)}}}
	if _, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)}); err == nil || !strings.Contains(err.Error(), "the limit is 65536") {
		t.Errorf("too many entries: %v", err)
	}
}

func TestPeersAndLinksAreToldToThoseThatAsk(t *testing.T) {
	var d diary
	peer := cube.Peer{Name: "eth0", Netdev: "eth0", Index: 3, MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1},
		Addresses: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24")}, MTU: 1500, Speed: 1000}
	for _, wants := range []bool{false, true} {
		description := describe(t)
		description.Peers, description.Links, description.Pages = wants, wants, wants
		l, err := begin(t, Options{}, &extservice.Server{Description: description, Heard: d.add})
		if err != nil {
			t.Fatal(err)
		}
		c, err := l.newInstance(newEnv(t, "c1", nil))
		if err != nil || (c.PeerChanged != nil) != wants || (c.LinkChanged != nil) != wants || (c.Page != nil) != wants {
			t.Fatalf("wanted %v: %v, %+v", wants, err, c)
		}
		if !wants {
			continue
		}
		i := open(t, l, newEnv(t, "c2", nil))
		i.PeerChanged("p1", peer)
		i.LinkChanged("p1", true)
		i.PeerChanged("p1", cube.Peer{})
		eventually(t, "it is told", func() bool {
			return d.has("c2 peer p1 eth0 eth0 3 020000000001 [10.0.0.1/24] 1500 1000") && d.has("c2 link p1 true") && d.has("c2 peer p1   0  [] 0 0")
		})
	}
}

func TestRoutesAreLookedUpForAService(t *testing.T) {
	known := Route{Netdev: "eth0", Index: 3, Gateway: netip.MustParseAddr("10.0.0.254"), Source: netip.MustParseAddr("10.0.0.1"),
		MAC: net.HardwareAddr{2, 0, 0, 0, 0, 9}, MTU: 1500}
	look := func(to netip.Addr) (Route, error) {
		switch to {
		case netip.MustParseAddr("192.0.2.1"):
			return known, nil
		case netip.MustParseAddr("10.0.0.7"):
			return Route{Netdev: "eth0", Index: 3}, nil
		}
		return Route{}, fmt.Errorf("no route to %s: %w", to, cube.ErrNotFound)
	}
	s := &extservice.Server{Description: describe(t)}
	l, err := begin(t, Options{Route: look}, s)
	if err != nil {
		t.Fatal(err)
	}
	open(t, l, newEnv(t, "c1", nil))
	c := s.Cubes()["c1"]
	r, err := c.Route("192.0.2.1")
	if err != nil || r.GetNetdev() != "eth0" || r.GetIndex() != 3 || r.GetGateway() != "10.0.0.254" || r.GetSource() != "10.0.0.1" ||
		string(r.GetMac()) != "\x02\x00\x00\x00\x00\x09" || r.GetMtu() != 1500 {
		t.Errorf("the route is %v, %v", r, err)
	}
	if r, err = c.Route("10.0.0.7"); err != nil || r.GetGateway() != "" || r.GetSource() != "" || r.GetMac() != nil {
		t.Errorf("a route on the link is %v, %v", r, err)
	}
	for to, code := range map[string]codes.Code{"2001:db8::1": codes.NotFound, "10.0.0.0/8": codes.InvalidArgument,
		"fe80::1%eth0": codes.InvalidArgument, "": codes.InvalidArgument, "example.org": codes.InvalidArgument} {
		if _, err := c.Route(to); status.Code(err) != code {
			t.Errorf("%q: %v, want %v", to, err, code)
		}
	}
	l.opts.Route = nil
	if _, err := c.Route("192.0.2.1"); status.Code(err) != codes.Unimplemented {
		t.Errorf("a daemon without routes: %v", err)
	}
}
