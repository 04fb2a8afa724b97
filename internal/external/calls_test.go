// SPDX-License-Identifier: Apache-2.0

package external

// Cubes of a service that answers: what it is asked and told, what becomes of its answers, and of a service that has none.

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cilium/ebpf"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/test/extservice"
	"github.com/polycube/polycube/test/netns"
)

// diary notes what a service heard.
type diary struct {
	mu    sync.Mutex
	lines []string
}

func (d *diary) add(name, what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.lines = append(d.lines, strings.TrimSpace(name+" "+what))
}

func (d *diary) has(line string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Contains(d.lines, line)
}

func TestWhatAServiceIsAskedAndTold(t *testing.T) {
	var d diary
	var ports []*pb.Port
	s := &extservice.Server{Description: describe(t), Heard: d.add,
		Plan: func(_ *extservice.Cube, r *pb.PrepareRequest) (*pb.Plan, error) {
			ports = r.GetPorts()
			return &pb.Plan{Commit: true, Constants: map[string][]byte{"x": {1, 0, 0, 0}}, MapSizes: map[string]uint32{"fdb": 9},
				Programs: []*pb.ProgramChange{{Direction: pb.Direction_DIRECTION_EGRESS, Index: 3, Function: "other"}, {Direction: pb.Direction_DIRECTION_INGRESS, Index: 4}}}, nil
		},
		Read: func(_ *extservice.Cube, path []string) ([]byte, error) {
			return json.Marshal(map[string]any{"path": path})
		},
		Act: func(_ *extservice.Cube, path []string, input []byte) (*pb.ActionResponse, error) {
			return &pb.ActionResponse{Output: input, Edits: []*pb.Edit{{Path: path, Value: []byte(`1`)}, {Path: path, Delete: true}}}, nil
		},
		Packet: func(_ *extservice.Cube, p *pb.PacketIn) []*pb.PacketOut {
			return []*pb.PacketOut{{Cube: p.GetCube(), Port: p.GetPort(), Direction: pb.Direction_DIRECTION_EGRESS, Trip: p.GetTrip(),
				Metadata: p.GetMetadata(), Data: p.GetData()}, {Cube: 5, Data: p.GetData()}, {Cube: p.GetCube(), Data: []byte("short")}}
		},
	}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, "c1", nil)
	i := open(t, l, env)
	ctx, done := context.WithCancel(t.Context())
	plan, err := i.Prepare(ctx, cube.Change{Old: json.RawMessage(`{}`), New: json.RawMessage(`{"ports":[{"name":"p1"},{"name":"p22"}]}`)})
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(ports) != fmt.Sprint([]*pb.Port{{Name: "p1", Index: 2}, {Name: "p22", Index: 3}}) {
		t.Errorf("its ports are %v", ports)
	}
	want := cube.ProgramSlot{Direction: cube.Egress, Index: 3}
	if string(plan.Constants["x"].([]byte)) != "\x01\x00\x00\x00" || plan.MapSizes["fdb"] != 9 || plan.Programs[want].Function != "other" || len(plan.Programs) != 2 {
		t.Errorf("the plan is %+v", plan)
	}
	done() // a transaction that ends without Commit
	eventually(t, "the plan is aborted", func() bool { return d.has("c1 Abort") })
	var undo cube.Undo
	if err := errors.Join(cube.Carry(plan.Before, &undo), undo.Run()); err != nil {
		t.Error(err)
	}
	state, err := i.State(t.Context(), []string{"fdb", "entry"})
	if err != nil || string(state.(json.RawMessage)) != `{"path":["fdb","entry"]}` {
		t.Errorf("state %s, %v", state, err)
	}
	result, err := i.Action(t.Context(), []string{"flush"}, json.RawMessage(`{"a":1}`))
	if err != nil || string(result.Output.(json.RawMessage)) != `{"a":1}` || len(result.Edits) != 2 || !result.Edits[1].Delete {
		t.Errorf("an action answers %+v, %v", result, err)
	}
	i.PortChanged("p1", true)
	i.ParentChanged(cube.Parent{Name: "br1:p1"})
	eventually(t, "it is told", func() bool { return d.has("c1 port p1 true") && d.has("c1 parent br1:p1") })
	trip := cube.Trip{Hops: 3, Netdev: 4, FlowHash: 5, Tenant: 6, Turned: true, Offered: true, OfferedFrom: 7}
	i.PacketIn(&cube.PacketIn{Port: 2, Trip: trip, Metadata: [4]uint32{1, 2, 3, 4}, Data: make([]byte, 60), Offload: cube.Offload{GSOSize: 7}})
	eventually(t, "a packet is back", func() bool { env.mu.Lock(); defer env.mu.Unlock(); return len(env.sent) == 1 })
	if p := env.sent[0]; p.Port != 2 || p.Direction != cube.Egress || p.Trip != trip || p.Offload.GSOSize != 7 || p.Metadata[3] != 4 || len(p.Data) != 60 {
		t.Errorf("the packet is %+v", p)
	}
	eventually(t, "two packets are refused", func() bool { _, n := l.Drops(); return n == 2 })
	i.Close()
	eventually(t, "it is closed", func() bool { return d.has("c1 Close") })
}

func TestAnswersThatAreRefused(t *testing.T) {
	var answer func() (*pb.Plan, error)
	var action *pb.ActionResponse
	var state []byte
	s := &extservice.Server{Description: describe(t),
		Plan: func(*extservice.Cube, *pb.PrepareRequest) (*pb.Plan, error) {
			if answer == nil {
				return &pb.Plan{}, nil
			}
			return answer()
		},
		Read: func(*extservice.Cube, []string) ([]byte, error) { return state, nil },
		Act:  func(*extservice.Cube, []string, []byte) (*pb.ActionResponse, error) { return action, nil },
	}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	i := open(t, l, newEnv(t, "c1", nil))
	plan := func(p *pb.Plan) func() (*pb.Plan, error) { return func() (*pb.Plan, error) { return p, nil } }
	many := map[string]uint32{}
	for n := range maxChanges + 1 {
		many[fmt.Sprint("m", n)] = 1
	}
	for _, c := range []struct {
		answer func() (*pb.Plan, error)
		want   error
		says   string
	}{
		{func() (*pb.Plan, error) { return nil, status.Error(codes.InvalidArgument, "no such\ncolour") }, cube.ErrInvalid, "no such colour"},
		{func() (*pb.Plan, error) { return nil, status.Error(codes.ResourceExhausted, "too many") }, cube.ErrFull, "too many"},
		{func() (*pb.Plan, error) { return nil, errors.New("it broke") }, nil, "it broke"},
		{plan(&pb.Plan{Constants: map[string][]byte{"a b": {1}}}), nil, "not a valid name of a constant"},
		{plan(&pb.Plan{Constants: map[string][]byte{"a": nil}}), nil, "constant a has 0 bytes"},
		{plan(&pb.Plan{MapSizes: many}), nil, "more than 64"},
		{plan(&pb.Plan{MapSizes: map[string]uint32{"../x": 1}}), nil, "not a valid name of a map"},
		{plan(&pb.Plan{Programs: []*pb.ProgramChange{{Function: "f"}}}), nil, "neither ingress nor egress"},
		{plan(&pb.Plan{Programs: []*pb.ProgramChange{{Direction: 1, Function: "f", Objects: []*pb.Object{{Hook: 1, Elf: []byte("x")}}}}}), nil, "function f"},
		{plan(&pb.Plan{Writes: []*pb.MapWrite{{Map: "x y"}}}), nil, "not a valid name of a map"},
	} {
		answer = c.answer
		_, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, want %v with %q", err, c.want, c.says)
		}
	}
	for _, text := range []string{`[1]`, `{"a":`, `"x"`, strings.Repeat(" ", maxDocument+1)} {
		state = []byte(text)
		if _, err := i.State(t.Context(), []string{"x"}); err == nil {
			t.Errorf("the state %.20q is taken", text)
		}
	}
	for _, a := range []*pb.ActionResponse{{Output: []byte(`7`)}, {Edits: []*pb.Edit{{Value: []byte(`1`)}}},
		{Edits: []*pb.Edit{{Path: []string{"a"}}}}, {Edits: []*pb.Edit{{Path: []string{"a"}, Value: []byte(`{`)}}}} {
		action = a
		if _, err := i.Action(t.Context(), []string{"x"}, nil); err == nil {
			t.Errorf("the answer %v is taken", a)
		}
	}
	if l.ended() {
		t.Errorf("the service was given up: %v", l.Err())
	}
}

func TestAServiceThatHangsCostsItsCubesADeadlineAndNoMore(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	d := describe(t)
	d.Deadlines.State = 500
	s := &extservice.Server{Description: d, Read: func(*extservice.Cube, []string) ([]byte, error) { <-hang; return nil, nil }}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	env := newEnv(t, "c1", nil)
	i := open(t, l, env)
	for range maxMisses {
		if _, err := i.State(t.Context(), []string{"x"}); !errors.Is(err, cube.ErrUnavailable) || !strings.Contains(err.Error(), "did not answer State within 500ms") {
			t.Errorf("a call that hangs: %v", err)
		}
	}
	if !strings.Contains(env.degraded, "did not answer State") {
		t.Errorf("its cube is degraded: %q", env.degraded)
	}
	if !l.ended() || !strings.Contains(l.Err().Error(), "missed the deadlines of 3 calls") {
		t.Errorf("after %d calls it is given up: %v", maxMisses, l.Err())
	}
	if _, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)}); !errors.Is(err, cube.ErrUnavailable) || !strings.Contains(err.Error(), "is not running") {
		t.Errorf("a call of a service that is gone: %v", err)
	}
}

func TestWhatATranslationFailedOf(t *testing.T) {
	l, err := begin(t, Options{}, &extservice.Server{Description: describe(t)})
	if err != nil {
		t.Fatal(err)
	}
	check := func(err error, kind error, says string) {
		t.Helper()
		if got := l.migrateError(err); !errors.Is(got, kind) || !strings.Contains(got.Error(), says) {
			t.Errorf("%v is said as %q, want %q", err, got, says)
		}
	}
	check(status.Error(codes.InvalidArgument, "the old version is too old"), cube.ErrInvalid, "the old version is too old")
	check(status.FromContextError(context.DeadlineExceeded).Err(), cube.ErrUnavailable, "did not answer Migrate within 20s")
	l.end(lostError("its session ended", nil))
	check(status.Error(codes.Unavailable, "EOF"), cube.ErrUnavailable, "was lost during Migrate (its session ended)")
}

// kernelMaps are maps of a cube.
func kernelMaps(t *testing.T) map[string]*ebpf.Map {
	t.Helper()
	netns.NeedRoot(t)
	out := map[string]*ebpf.Map{}
	for name, spec := range map[string]*ebpf.MapSpec{
		"hash":   {Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 4},
		"array":  {Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 2},
		"counts": {Type: ebpf.PerCPUArray, KeySize: 4, ValueSize: 4, MaxEntries: 2},
		"queue":  {Type: ebpf.Queue, ValueSize: 4, MaxEntries: 2},
		"routes": {Type: ebpf.LPMTrie, KeySize: 8, ValueSize: 4, MaxEntries: 8, Flags: 1},
		"sets":   {Type: ebpf.HashOfMaps, KeySize: 4, ValueSize: 4, MaxEntries: 4, InnerMap: &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 4, MaxEntries: 2}},
	} {
		spec.Name = name
		m, err := ebpf.NewMap(spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = m.Close() })
		out[name] = m
	}
	return out
}

func word(n uint32) []byte { return binary.LittleEndian.AppendUint32(nil, n) }

func entry(k, v uint32) *pb.Entry { return &pb.Entry{Key: word(k), Value: word(v)} }

func update(name string, mode pb.MapUpdate_Mode, entries ...*pb.Entry) *pb.MapRequest {
	return &pb.MapRequest{Map: name, Operation: &pb.MapRequest_Update{Update: &pb.MapUpdate{Mode: mode, Entries: entries}}}
}

func lookup(name string, keys ...uint32) *pb.MapRequest {
	q := &pb.MapKeys{}
	for _, k := range keys {
		q.Keys = append(q.Keys, word(k))
	}
	return &pb.MapRequest{Map: name, Operation: &pb.MapRequest_Lookup{Lookup: q}}
}

func TestAServiceReadsAndWritesMapsOfItsCubes(t *testing.T) {
	maps := kernelMaps(t)
	s := &extservice.Server{Description: describe(t)}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	open(t, l, newEnv(t, "c1", maps))
	c := s.Cubes()["c1"]
	inside := func(r *pb.MapRequest, key uint32) *pb.MapRequest { r.Inner = word(key); return r }
	keys := func(name string, list ...[]byte) *pb.MapKeys { return &pb.MapKeys{Keys: list} }
	for _, step := range []struct {
		r     *pb.MapRequest
		code  codes.Code
		reply string // its entries and its count
	}{
		{update("hash", 0, entry(1, 10), entry(2, 20)), 0, "[] 2"},
		{lookup("hash", 2, 9), 0, "[2=20] 0"},
		{update("hash", pb.MapUpdate_MODE_ADD, entry(1, 11)), codes.AlreadyExists, "[] 0"},
		{update("hash", pb.MapUpdate_MODE_EXISTING, entry(3, 11)), codes.NotFound, "[] 0"},
		{update("hash", 0, entry(3, 30), entry(4, 40), entry(5, 50)), codes.ResourceExhausted, "[] 2"},
		{&pb.MapRequest{Map: "hash", Operation: &pb.MapRequest_Delete{Delete: keys("", word(4), word(9))}}, 0, "[] 1"},
		{&pb.MapRequest{Map: "hash", Operation: &pb.MapRequest_Take{Take: keys("", word(3), word(9))}}, 0, "[3=30] 1"},
		{&pb.MapRequest{Map: "hash", Operation: &pb.MapRequest_Clear{Clear: &pb.MapClear{}}}, 0, "[] 2"},
		{lookup("hash", 1, 2, 3), 0, "[] 0"},
		{update("hash", 0, &pb.Entry{Key: []byte{1}, Value: word(1)}), codes.InvalidArgument, "[] 0"},
		{update("hash", 0, &pb.Entry{Key: word(1), Value: []byte{1}}), codes.InvalidArgument, "[] 0"},
		{update("hash", 0, &pb.Entry{Key: word(1)}), codes.InvalidArgument, "[] 0"},
		{update("other", 0, entry(1, 1)), codes.NotFound, "[] 0"},
		{update("array", 0, entry(1, 7)), 0, "[] 1"},
		{update("array", 0, entry(2, 7)), codes.InvalidArgument, "[] 0"},
		{&pb.MapRequest{Map: "array", Operation: &pb.MapRequest_Iterate{Iterate: &pb.MapIterate{}}}, 0, "[0=0 1=7] 0"},
		{&pb.MapRequest{Map: "array", Operation: &pb.MapRequest_Iterate{Iterate: &pb.MapIterate{After: word(0), Limit: 1}}}, 0, "[1=7] 0"},
		{update("counts", 0, entry(1, 3)), 0, "[] 1"},
		{&pb.MapRequest{Map: "queue", Operation: &pb.MapRequest_Update{Update: &pb.MapUpdate{Entries: []*pb.Entry{{Value: word(6)}}}}}, 0, "[] 1"},
		{&pb.MapRequest{Map: "queue", Operation: &pb.MapRequest_Take{Take: keys("", nil, nil)}}, 0, "[=6] 1"},
		{&pb.MapRequest{Map: "queue", Operation: &pb.MapRequest_Iterate{Iterate: &pb.MapIterate{}}}, codes.Unimplemented, "[] 0"},
		{inside(lookup("sets", 1), 1), codes.NotFound, "[] 0"},
		{inside(&pb.MapRequest{Map: "sets", Operation: &pb.MapRequest_Replace{Replace: &pb.MapReplace{Entries: []*pb.Entry{entry(1, 5), entry(2, 6)}}}}, 1), 0, "[] 0"},
		{inside(lookup("sets", 2), 1), 0, "[2=6] 0"},
		{update("sets", 0, entry(1, 1)), codes.InvalidArgument, "[] 0"},
		{inside(lookup("hash", 2), 1), codes.InvalidArgument, "[] 0"},
		{&pb.MapRequest{Map: "sets", Operation: &pb.MapRequest_Delete{Delete: keys("", word(1))}}, 0, "[] 1"},
		{&pb.MapRequest{Map: "hash"}, codes.Unimplemented, "[] 0"},
	} {
		reply, err := c.Map(step.r)
		var got []string
		for _, e := range reply.GetEntries() {
			key := ""
			if len(e.GetKey()) == 4 {
				key = fmt.Sprint(binary.LittleEndian.Uint32(e.GetKey()))
			}
			got = append(got, fmt.Sprintf("%s=%d", key, binary.LittleEndian.Uint32(e.GetValue())))
		}
		if is := fmt.Sprintf("%v %d", got, reply.GetDone()); status.Code(err) != step.code || is != step.reply {
			t.Errorf("%v: %s, %v; want %s, %v", step.r, is, err, step.reply, step.code)
		}
	}
	reply, err := c.Map(lookup("counts", 1))
	cpus := ebpf.MustPossibleCPU()
	if err != nil || len(reply.GetEntries()[0].GetValue()) != 8*cpus || reply.GetEntries()[0].GetValue()[8*(cpus-1)] != 3 {
		t.Errorf("values of all CPUs are %v, %v", reply, err)
	}
	if _, err := c.Map(&pb.MapRequest{Map: "hash", Operation: &pb.MapRequest_Info{Info: &pb.MapInfoRequest{}}}); err != nil {
		t.Error(err)
	}
	stranger := &extservice.Cube{OpenRequest: &pb.OpenRequest{Cube: c.GetCube() + 1}, Session: c.Session}
	if _, err := stranger.Map(lookup("hash", 1)); status.Code(err) != codes.NotFound {
		t.Errorf("a map of a cube that is not its own: %v", err)
	}
}

func TestAPlanWritesMapsWholeOrNotAtAll(t *testing.T) {
	maps := kernelMaps(t)
	var plan *pb.Plan
	var commit func(*extservice.Cube) error
	s := &extservice.Server{Description: describe(t),
		Plan:      func(*extservice.Cube, *pb.PrepareRequest) (*pb.Plan, error) { return plan, nil },
		Committed: func(c *extservice.Cube, _ uint64) error { return commit(c) },
	}
	plan = &pb.Plan{}
	l, err := begin(t, Options{}, s)
	if err != nil {
		t.Fatal(err)
	}
	i := open(t, l, newEnv(t, "c1", maps))
	if err := maps["hash"].Put(word(1), word(10)); err != nil {
		t.Fatal(err)
	}
	content := func() string {
		var k, v uint32
		var list []string
		it := maps["hash"].Iterate()
		for it.Next(&k, &v) {
			list = append(list, fmt.Sprintf("%d=%d", k, v))
		}
		slices.Sort(list)
		return strings.Join(list, " ")
	}
	good := &pb.MapWrite{Map: "hash", Entries: []*pb.Entry{entry(2, 20), {Key: word(1)}}}
	refuse := func(c *extservice.Cube) error {
		if _, err := c.Map(update("hash", 0, entry(3, 30), entry(1, 11))); err != nil {
			return err
		}
		return status.Error(codes.FailedPrecondition, "not today")
	}
	for _, c := range []struct {
		plan   *pb.Plan
		commit func(*extservice.Cube) error
		fails  bool
		want   string
	}{
		{&pb.Plan{Writes: []*pb.MapWrite{good, {Map: "hash", Entries: []*pb.Entry{{Key: word(1), Value: []byte{1}}}}}}, nil, true, "1=10"},
		{&pb.Plan{Writes: []*pb.MapWrite{good, {Map: "none"}}}, nil, true, "1=10"},
		{&pb.Plan{Commit: true, Writes: []*pb.MapWrite{good}}, refuse, true, "1=10"},
		{&pb.Plan{Writes: []*pb.MapWrite{good}}, nil, false, "2=20"},
		{&pb.Plan{Writes: []*pb.MapWrite{{Map: "hash", Replace: true, Entries: []*pb.Entry{entry(7, 70)}}}}, nil, false, "7=70"},
	} {
		plan, commit = c.plan, c.commit
		p, err := i.Prepare(t.Context(), cube.Change{New: json.RawMessage(`{}`)})
		if err != nil {
			t.Fatal(err)
		}
		var done cube.Undo
		if err := cube.Carry(p.Before, &done); (err != nil) != c.fails {
			t.Errorf("%v: %v", c.plan, err)
		}
		if got := content(); got != c.want {
			t.Errorf("after %v the map has %s, want %s", c.plan, got, c.want)
		}
		if c.fails {
			continue
		}
		if err := done.Run(); err != nil {
			t.Error(err)
		}
		if got := content(); got != "1=10" {
			t.Errorf("after %v was undone the map has %s", c.plan, got)
		}
	}
}

// TestAServiceThatDeletesNoState is not asked to: the topology can tell that from an entry that is not there.
func TestAServiceThatDeletesNoState(t *testing.T) {
	description := describe(t)
	description.DeleteState = false
	l, err := begin(t, Options{}, &extservice.Server{Description: description})
	if err != nil {
		t.Fatal(err)
	}
	i := open(t, l, newEnv(t, "c1", nil))
	if err := i.DeleteState(t.Context(), []string{"list", "key"}); !errors.Is(err, service.ErrNoDeleter) {
		t.Errorf("got %v, want %v", err, service.ErrNoDeleter)
	}
}
