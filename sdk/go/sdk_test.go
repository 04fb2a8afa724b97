// SPDX-License-Identifier: Apache-2.0

package sdk

// A service of every kind of method, and a daemon in memory that uses them all over a real socket.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

var patience = pace.Stretch(10 * time.Second)

// everything implements all features of a cube, and records its calls.
type everything struct {
	Typed[conf]
	env   Env
	table Table[uint32, pair]

	mu    sync.Mutex
	steps []string
}

type conf struct {
	Limit uint32 `json:"limit"`
	Fault string `json:"fault"`
}

type pair struct {
	A uint16
	_ [2]byte
	B uint32
}

func (e *everything) step(format string, args ...any) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.steps = append(e.steps, fmt.Sprintf(format, args...))
}

func (e *everything) did(t *testing.T, want ...string) {
	t.Helper()
	netns.Eventually(t, patience, func() error {
		e.mu.Lock()
		defer e.mu.Unlock()
		if !slices.Equal(e.steps, want) {
			return fmt.Errorf("did %q, want %q", e.steps, want)
		}
		return nil
	})
}

func (e *everything) prepare(_ context.Context, old, after *conf) (Plan, error) {
	switch after.Fault {
	case "invalid":
		return Plan{}, fmt.Errorf("limit %d: %w", after.Limit, cube.ErrInvalid)
	case "panic":
		panic("oh")
	case "layout":
		return Plan{Constants: map[string]any{"x": "text"}}, nil
	}
	e.step("prepare %v %d", old != nil, after.Limit)
	return Plan{
		Constants: map[string]any{"limit": after.Limit},
		After:     []Write{Deleting("ports", uint16(8))},
		Floods:    Floods{Sets: map[uint32][]cube.FloodMember{7: {{Port: 1}, {Port: 2, Tagged: true}}, 5: nil}, Replace: true},
		Writes:    []Write{Entries("ports", true, map[uint16]uint8{uint16(after.Limit): 1}), Deleting("ports", uint16(9))},
		Programs:  map[cube.ProgramSlot]*cube.Program{{Direction: cube.Egress, Index: 2}: {Function: "f"}},
		Commit: func(ctx context.Context) error {
			e.step("commit")
			return e.table.Set(ctx, after.Limit, pair{A: 1, B: 2})
		},
		Undo: func(context.Context) error { e.step("undo"); return nil },
	}, nil
}

func (e *everything) State(_ context.Context, path []string) (any, error) {
	return map[string]any{"path": path}, nil
}

func (e *everything) DeleteState(_ context.Context, path []string) error {
	return fmt.Errorf("%s: %w", path[0], cube.ErrNotFound)
}

func (e *everything) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	return cube.ActionResult{Output: map[string]any{"input": input}, Edits: []cube.Edit{{Path: path, Value: 7}, {Path: path, Delete: true}}}, nil
}

func (e *everything) PacketIn(p *cube.PacketIn) {
	name, _ := e.env.PortName(p.Port)
	e.step("packet %s %d %v", name, p.Trip.Hops, p.Direction == cube.Egress)
	if err := e.env.Send(&cube.PacketOut{Port: p.Port, Direction: cube.Egress, Trip: p.Trip, Data: p.Data}); err != nil {
		e.step("%v", err)
	}
}

func (e *everything) Notify(kind uint32, data []byte) {
	e.step("notify %d %s", kind, data)
	e.env.Logger().With("a", 1).WithGroup("g").Warn("notified", "b", 2)
	if err := e.env.Metrics([]Metric{{Name: "n", Counter: true, Value: 3}}); err != nil {
		e.step("%v", err)
	}
}

func (e *everything) PortChanged(port string, up bool) { e.step("port %s %v", port, up) }

func (e *everything) ParentChanged(p cube.Parent) { e.step("parent %s %v", p.Name, p.Addresses) }

func (e *everything) Close() { e.step("close") }

// least has the required features of a cube only.
type least struct{ Typed[conf] }

// host is a daemon.
type host struct {
	t      *testing.T
	client pb.ServiceClient
	stream pb.Service_SessionClient
	cube   *everything

	mu      sync.Mutex
	entries map[string][]byte
	heard   []*pb.ToDaemon
}

func dial[T Instance](t *testing.T, s Service[T]) pb.ServiceClient {
	t.Helper()
	t.Setenv(SocketEnv, t.TempDir()+"/s")
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, s, nil, io.Discard) }()
	path := os.Getenv(SocketEnv)
	netns.Eventually(t, patience, func() error { _, err := os.Stat(path); return err }) // it has read the variable
	conn, err := grpc.NewClient("passthrough:///s", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", path)
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(conn.Close(), <-done); err != nil {
			t.Error(err)
		}
	})
	return pb.NewServiceClient(conn)
}

// connect starts a session and opens a cube.
func connect(t *testing.T) *host {
	t.Helper()
	h := &host{t: t, entries: map[string][]byte{}}
	h.client = dial(t, Service[*everything]{Name: "s", Model: "module s {}", Objects: map[cube.Hook][]byte{cube.TC: {1}},
		Deadlines: Deadlines{Commit: time.Second}, New: func(env Env) (*everything, error) {
			h.cube = &everything{env: env, table: OpenTable[uint32, pair](env, "pairs")}
			h.cube.PrepareConfig = h.cube.prepare
			return h.cube, nil
		}})
	var err error
	if h.stream, err = h.client.Session(t.Context()); err != nil {
		t.Fatal(err)
	}
	h.tell(&pb.ToService{Message: &pb.ToService_Hello{Hello: &pb.Hello{Session: "one", Requests: 2, Entries: 3, Packets: 4}}})
	if m, err := h.stream.Recv(); err != nil || m.GetReady() == nil {
		t.Fatalf("%v, %v", m, err)
	}
	go h.listen()
	if _, err := h.client.Open(t.Context(), &pb.OpenRequest{Session: "one", Cube: 5, Name: "c", Uuid: "u", Type: "TC"}); err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) tell(m *pb.ToService) {
	h.t.Helper()
	if err := h.stream.Send(m); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) listen() {
	for {
		m, err := h.stream.Recv()
		if err != nil {
			return
		}
		h.mu.Lock()
		if r := m.GetMap(); r != nil {
			_ = h.stream.Send(&pb.ToService{Message: &pb.ToService_Map{Map: h.reply(r)}}) // the test is over
		} else if reply := h.other(m); reply != nil {
			_ = h.stream.Send(reply) // the same
		} else {
			h.heard = append(h.heard, m)
		}
		h.mu.Unlock()
	}
}

// reply is the answer of a map in memory.
func (h *host) reply(r *pb.MapRequest) *pb.MapReply {
	out := &pb.MapReply{Id: r.GetId()}
	switch {
	case r.GetMap() != "pairs" || r.GetCube() != 5:
		out.Fault = &pb.Fault{Code: uint32(codes.NotFound), Message: "no such map"}
	case r.GetUpdate() != nil:
		for _, e := range r.GetUpdate().GetEntries() {
			if _, taken := h.entries[string(e.GetKey())]; taken && r.GetUpdate().GetMode() == pb.MapUpdate_MODE_ADD {
				out.Fault = &pb.Fault{Code: uint32(codes.AlreadyExists), Message: "it is there"}
			}
			h.entries[string(e.GetKey())] = e.GetValue()
		}
	case r.GetLookup() != nil:
		for _, k := range r.GetLookup().GetKeys() {
			if v, ok := h.entries[string(k)]; ok {
				out.Entries = append(out.Entries, &pb.Entry{Key: k, Value: v})
			}
		}
	case r.GetDelete() != nil:
		for _, k := range r.GetDelete().GetKeys() {
			if _, ok := h.entries[string(k)]; ok {
				out.Done++
			}
			delete(h.entries, string(k))
		}
	case r.GetIterate() != nil:
		keys := slices.Sorted(maps.Keys(h.entries))
		from := 0
		if r.GetIterate().After != nil {
			from = slices.Index(keys, string(r.GetIterate().GetAfter())) + 1
		}
		for _, k := range keys[from:min(from+3, len(keys))] {
			out.Entries = append(out.Entries, &pb.Entry{Key: []byte(k), Value: h.entries[k]})
		}
		out.Last = from+3 >= len(keys)
	case r.GetTake() != nil:
		for _, k := range r.GetTake().GetKeys() {
			if v, ok := h.entries[string(k)]; ok {
				out.Entries = append(out.Entries, &pb.Entry{Key: k, Value: v})
				delete(h.entries, string(k))
			}
		}
	case r.GetPage() != nil:
		keys := slices.Sorted(maps.Keys(h.entries))
		from, _ := slices.BinarySearch(keys, r.GetPage().GetAfter())
		to := min(len(keys), from+int(r.GetPage().GetLimit()))
		for _, k := range keys[from:to] {
			out.Entries = append(out.Entries, &pb.Entry{Key: []byte(k), Value: h.entries[k]})
		}
		if to < len(keys) {
			out.Next = keys[to]
		}
	case r.GetClear() != nil:
		clear(h.entries)
	}
	return out
}

func (h *host) prepare(config string) (*pb.Plan, error) {
	return h.client.Prepare(h.t.Context(), &pb.PrepareRequest{Cube: 5, Plan: 8, After: []byte(config), Ports: []*pb.Port{{Name: "p1", Index: 3}}})
}

func TestADescriptionSaysWhatTheTypeDefines(t *testing.T) {
	for _, tt := range []struct {
		client pb.ServiceClient
		has    bool
	}{{dial(t, Service[*everything]{Name: "s"}), true}, {dial(t, Service[*least]{Name: "s"}), false}} {
		d, err := tt.client.Describe(t.Context(), &pb.DescribeRequest{Protocol: 1})
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []bool{d.GetState(), d.GetDeleteState(), d.GetActions(), d.GetPackets(), d.GetNotifications(), d.GetPorts(), d.GetParent(),
			d.GetPages(), d.GetPeers(), d.GetLinks()} {
			if got != tt.has {
				t.Errorf("%v: announced is %v, want %v", d, got, tt.has)
			}
		}
		if _, err := tt.client.Describe(t.Context(), &pb.DescribeRequest{}); status.Code(err) != codes.Unimplemented {
			t.Errorf("an old daemon: %v", err)
		}
	}
}

func TestAPlanIsMadeAndCarriedOut(t *testing.T) {
	h := connect(t)
	plan, err := h.prepare(`{"limit":258}`)
	if err != nil {
		t.Fatal(err)
	}
	want := `constants:{key:"limit" value:"\x02\x01\x00\x00"} programs:{direction:DIRECTION_EGRESS index:2 function:"f"} ` +
		`writes:{map:"ports" entries:{key:"\x02\x01" value:"\x01"} replace:true} writes:{map:"ports" entries:{key:"\t\x00"}} commit:true ` +
		`after:{map:"ports" entries:{key:"\x08\x00"}} floods:{sets:{index:5} sets:{index:7 ports:1 tagged:2} replace:true}`
	if got := strings.ReplaceAll(plan.String(), "  ", " "); got != want {
		t.Errorf("the plan is %s, want %s", got, want)
	}
	step := &pb.PlanRequest{Cube: 5, Plan: 8}
	_, err = h.client.Commit(t.Context(), step)
	_, undoErr := h.client.Undo(t.Context(), step)
	if err := errors.Join(err, undoErr); err != nil {
		t.Fatal(err)
	}
	if got := string(h.entries["\x02\x01\x00\x00"]); got != "\x01\x00\x00\x00\x02\x00\x00\x00" {
		t.Errorf("the entry is %q", got)
	}
	if _, err := h.client.Abort(t.Context(), step); err != nil {
		t.Error(err)
	}
	if _, err := h.client.Commit(t.Context(), step); status.Code(err) != codes.NotFound {
		t.Errorf("committing what was aborted: %v", err)
	}
	if _, err := h.client.Close(t.Context(), &pb.CloseRequest{Cube: 5}); err != nil {
		t.Error(err)
	}
	h.cube.did(t, "prepare false 258", "commit", "undo", "close")
}

func TestErrorsAreAnswers(t *testing.T) {
	h := connect(t)
	for _, tt := range []struct {
		config string
		code   codes.Code
		says   string
	}{
		{`{"fault":"invalid"}`, codes.InvalidArgument, "limit 0: invalid"},
		{`{"fault":"panic"}`, codes.Unknown, "the service failed: oh"},
		{`{"fault":"layout"}`, codes.Unknown, "constant x"},
		{`{`, codes.Unknown, "decode the configuration"},
	} {
		if _, err := h.prepare(tt.config); status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v with %q", tt.config, err, tt.code, tt.says)
		}
	}
	if _, err := h.client.DeleteState(t.Context(), &pb.StateRequest{Cube: 5, Path: []string{"x"}}); status.Code(err) != codes.NotFound {
		t.Errorf("deleting what is not there: %v", err)
	}
	if _, err := h.client.State(t.Context(), &pb.StateRequest{Cube: 6}); status.Code(err) != codes.NotFound {
		t.Errorf("a cube that is not there: %v", err)
	}
	if _, err := h.client.Open(t.Context(), &pb.OpenRequest{Session: "two"}); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a session that is not there: %v", err)
	}
}

func TestStateAndActions(t *testing.T) {
	h := connect(t)
	state, err := h.client.State(t.Context(), &pb.StateRequest{Cube: 5, Path: []string{"a", "b"}})
	if err != nil || string(state.GetState()) != `{"path":["a","b"]}` {
		t.Errorf("%s, %v", state.GetState(), err)
	}
	a, err := h.client.Action(t.Context(), &pb.ActionRequest{Cube: 5, Path: []string{"act"}, Input: []byte(`{"n":1}`)})
	if err != nil || string(a.GetOutput()) != `{"input":{"n":1}}` || len(a.GetEdits()) != 2 || string(a.GetEdits()[0].GetValue()) != "7" || !a.GetEdits()[1].GetDelete() {
		t.Errorf("%v, %v", a, err)
	}
}

func TestTablesAreReadAndWritten(t *testing.T) {
	h := connect(t)
	ctx, table := t.Context(), h.cube.table
	many := map[uint32]pair{}
	for n := range uint32(20) {
		many[n] = pair{A: uint16(n), B: n * n}
	}
	if err := table.SetAll(ctx, many); err != nil {
		t.Fatal(err)
	}
	var err error
	if got := maps.Collect(table.All(ctx, &err)); err != nil || !maps.Equal(got, many) {
		t.Errorf("%v, %v", got, err)
	}
	if v, err := table.Get(ctx, 7); err != nil || v.B != 49 {
		t.Errorf("%v, %v", v, err)
	}
	if there, err := table.Delete(ctx, 7); err != nil || !there {
		t.Errorf("deleting: %v, %v", there, err)
	}
	if there, err := table.Delete(ctx, 7); err != nil || there {
		t.Errorf("deleting twice: %v, %v", there, err)
	}
	if _, err := table.Get(ctx, 7); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("reading what was deleted: %v", err)
	}
	if err := table.Add(ctx, 8, pair{}); !errors.Is(err, cube.ErrExists) {
		t.Errorf("adding what is there: %v", err)
	}
	if err := table.Clear(ctx); err != nil || len(h.entries) > 0 {
		t.Errorf("clearing: %v", err)
	}
	if err := OpenTable[uint32, uint8](h.cube.env, "none").Set(ctx, 1, 1); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a map that is not there: %v", err)
	}
	h.entries["\x01\x00\x00\x00"] = []byte("x")
	if _, err := table.Get(ctx, 1); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("an entry of another size: %v", err)
	}
}

func TestPacketsAndWhatHappens(t *testing.T) {
	h := connect(t)
	if _, err := h.prepare(`{"limit":1}`); err != nil {
		t.Fatal(err)
	}
	packets, err := h.client.Packets(metadata.AppendToOutgoingContext(t.Context(), "polycube-session", "one"))
	if err != nil {
		t.Fatal(err)
	}
	if err := packets.Send(&pb.PacketsIn{Packets: []*pb.PacketIn{{Cube: 5, Port: 3, Direction: pb.Direction_DIRECTION_EGRESS, Trip: &pb.Trip{Hops: 4}, Data: []byte("frame")}}}); err != nil {
		t.Fatal(err)
	}
	out, err := packets.Recv()
	if err != nil || len(out.GetPackets()) != 1 || string(out.GetPackets()[0].GetData()) != "frame" || out.GetPackets()[0].GetTrip().GetHops() != 4 {
		t.Fatalf("%v, %v", out, err)
	}
	h.tell(&pb.ToService{Message: &pb.ToService_Port{Port: &pb.PortChanged{Cube: 5, Port: "p1", Up: true}}})
	h.tell(&pb.ToService{Message: &pb.ToService_Parent{Parent: &pb.ParentChanged{Cube: 5, Name: "br:p", Addresses: []string{"10.0.0.1/24"}}}})
	want := []string{"prepare false 1", "packet p1 4 true", "port p1 true", "parent br:p [10.0.0.1/24]"}
	h.cube.did(t, want...)
	if err := packets.Send(&pb.PacketsIn{Notices: []*pb.Notice{{Cube: 5, Kind: 6, Data: []byte("x")}}}); err != nil {
		t.Fatal(err)
	}
	h.cube.did(t, append(want, "notify 6 x")...)
	h.tell(&pb.ToService{Message: &pb.ToService_Ping{Ping: &pb.Ping{Number: 12}}})
	netns.Eventually(t, patience, func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if len(h.heard) != 3 {
			return fmt.Errorf("heard %v", h.heard)
		}
		l, m, p := h.heard[0].GetLog(), h.heard[1].GetMetrics(), h.heard[2].GetPong()
		if l.GetLevel() != "WARN" || l.GetMessage() != "notified" || l.GetAttributes()["a"]+l.GetAttributes()["g.b"] != "12" ||
			m.GetMetrics()[0].GetKind() != pb.Metric_KIND_COUNTER || p.GetNumber() != 12 {
			return fmt.Errorf("heard %v", h.heard)
		}
		return nil
	})
}

func TestTimersTakeTurnsAndEndWithTheCube(t *testing.T) {
	h := connect(t)
	calls := make(chan struct{}, 100)
	stop := h.cube.env.Every(time.Millisecond, func(context.Context) { calls <- struct{}{} })
	<-calls
	stop()
	other := make(chan struct{}, 10_000)
	h.cube.env.Every(time.Millisecond, func(context.Context) { other <- struct{}{} })
	<-other
	if err := h.stream.CloseSend(); err != nil {
		t.Fatal(err)
	}
	h.cube.did(t, "close")
	if err := h.cube.table.Set(t.Context(), 1, pair{}); !errors.Is(err, ErrLost) {
		t.Errorf("a map after the end of the session: %v", err)
	}
}

func TestWhereItListens(t *testing.T) {
	t.Setenv(SocketEnv, "")
	for _, tt := range []struct{ args, says string }{
		{"", "start it with `polycubectl services add`"},
		{"--listen 192.0.2.1:9", "on a non-loopback address, a service requires --cert, --key and --ca"},
		{"--listen nonsense", "missing port"},
		{"--listen localhost:9 --cert x", "on a non-loopback address, a service requires"},
		{"--listen localhost:9 --cert x --key y --ca z", "cert: open x"},
		{"--unknown", "not defined"},
	} {
		err := Serve(t.Context(), Service[*least]{Name: "s"}, strings.Fields(tt.args), io.Discard)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %q", tt.args, err, tt.says)
		}
	}
}
