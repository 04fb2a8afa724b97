// SPDX-License-Identifier: Apache-2.0

package sdk

// The server side of the protocol: it manages the cubes of all sessions and calls their methods one at a time.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// protocol is the highest supported protocol version.
const protocol = 1

// opened is a cube, with the plan that may be committed or undone.
type opened struct {
	instance Instance
	env      *environment
	close    context.CancelFunc
	number   uint64
	plan     Plan
}

type server[T Instance] struct {
	pb.UnimplementedServiceServer
	service Service[T]

	mu       sync.Mutex
	sessions map[string]*session
	cubes    map[uint64]*opened
}

func newServer[T Instance](s Service[T]) *server[T] {
	return &server[T]{service: s, sessions: map[string]*session{}, cubes: map[uint64]*opened{}}
}

// has reports whether instances implement an optional interface.
func has[I any, T Instance]() bool {
	var none T
	_, ok := any(none).(I)
	return ok
}

// Describe implements the protocol.
func (s *server[T]) Describe(_ context.Context, r *pb.DescribeRequest) (*pb.Description, error) {
	if r.GetProtocol() < protocol {
		return nil, status.Errorf(codes.Unimplemented, "the daemon uses version %d of the protocol, the service version %d", r.GetProtocol(), protocol)
	}
	for _, m := range s.service.Migrations {
		if err := m.check(); err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
	}
	d := s.service.Deadlines
	return &pb.Description{
		Protocol: protocol, Name: s.service.Name, Model: s.service.Model, Objects: objects(s.service.Objects),
		MaxPorts: uint32(s.service.MaxPorts), MinKernel: s.service.MinKernel,
		State: has[Stater, T](), DeleteState: has[StateDeleter, T](), Actions: has[Actor, T](),
		Packets: has[PacketHandler, T](), Notifications: has[Notified, T](), Ports: has[PortWatcher, T](),
		Parent: has[ParentWatcher, T](), Migrate: len(s.service.Migrations) > 0,
		Pages: has[Pager, T](), Peers: has[PeerWatcher, T](), Links: has[LinkWatcher, T](),
		Deadlines: &pb.Deadlines{Prepare: uint32(d.Prepare.Milliseconds()), Commit: uint32(d.Commit.Milliseconds()),
			State: uint32(d.State.Milliseconds()), Action: uint32(d.Action.Milliseconds())},
	}, nil
}

func objects(all map[cube.Hook][]byte) (out []*pb.Object) {
	for hook, elf := range all {
		h := pb.Hook_HOOK_TC
		if hook == cube.XDP {
			h = pb.Hook_HOOK_XDP
		}
		out = append(out, &pb.Object{Hook: h, Elf: elf})
	}
	return out
}

// Session implements the protocol.
func (s *server[T]) Session(stream pb.Service_SessionServer) error {
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	if first.GetHello() == nil {
		return status.Error(codes.InvalidArgument, "a session must begin with Hello")
	}
	ses := newSession(first.GetHello())
	s.mu.Lock()
	s.sessions[ses.hello.GetSession()] = ses
	s.mu.Unlock()
	defer s.end(ses)
	ses.out <- &pb.ToDaemon{Message: &pb.ToDaemon_Ready{Ready: &pb.Ready{}}}
	news := make(chan *pb.ToService, events)
	defer close(news)
	go s.tell(news)
	go ses.write(stream)
	for {
		m, err := stream.Recv()
		if err != nil {
			return err
		}
		if m.GetPing() != nil {
			_ = ses.say(&pb.ToDaemon{Message: &pb.ToDaemon_Pong{Pong: &pb.Pong{Number: m.GetPing().GetNumber()}}}) // a busy service is alive, too
			continue
		}
		if id, _ := replyOf(m); id != 0 {
			ses.hear(id, m)
			continue
		}
		select {
		case news <- m:
		default:
			return status.Error(codes.ResourceExhausted, "the service does not keep up with events")
		}
	}
}

// write sends queued messages.
func (s *session) write(stream pb.Service_SessionServer) {
	for {
		select {
		case m := <-s.out:
			if stream.Send(m) != nil {
				return // the other direction of the stream ends, too
			}
		case <-s.done:
			return
		}
	}
}

// end closes a session with its cubes.
func (s *server[T]) end(ses *session) {
	close(ses.done)
	s.mu.Lock()
	delete(s.sessions, ses.hello.GetSession())
	var gone []*opened
	for number, c := range s.cubes {
		if c.env.session == ses {
			gone = append(gone, c)
			delete(s.cubes, number)
		}
	}
	s.mu.Unlock()
	for _, c := range gone {
		c.end()
	}
}

func (c *opened) end() {
	c.close()
	c.env.turn.Lock()
	defer c.env.turn.Unlock()
	if closer, ok := c.instance.(Closer); ok {
		_ = guarded(func() error { closer.Close(); return nil }) // the daemon is gone
	}
}

// guarded converts a panic to an error: the other cubes of the service continue.
func guarded(fn func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			slog.Error("panic in a handler", "cause", cause, "stack", string(debug.Stack()))
			err = fmt.Errorf("the service failed: %v", cause)
		}
	}()
	return fn()
}

// in calls a method of a cube in its turn, and converts its error to a response.
func (s *server[T]) in(number uint64, fn func(*opened) error) error {
	s.mu.Lock()
	c := s.cubes[number]
	s.mu.Unlock()
	if c == nil {
		return status.Errorf(codes.NotFound, "cube %d is not open", number)
	}
	c.env.turn.Lock()
	defer c.env.turn.Unlock()
	err := guarded(func() error { return fn(c) })
	if err != nil {
		return status.Error(codeOf(err), err.Error())
	}
	return nil
}

// sessionOf finds the session of a stream of packets.
func (s *server[T]) sessionOf(ctx context.Context) *session {
	s.mu.Lock()
	defer s.mu.Unlock()
	if md, ok := metadata.FromIncomingContext(ctx); ok {
		for _, id := range md.Get("polycube-session") {
			return s.sessions[id]
		}
	}
	return nil
}

// Packets implements the protocol.
func (s *server[T]) Packets(stream pb.Service_PacketsServer) error {
	ses := s.sessionOf(stream.Context())
	if ses == nil {
		return status.Error(codes.FailedPrecondition, "no packet session")
	}
	go ses.writePackets(stream)
	for {
		batch, err := stream.Recv()
		if err != nil {
			return err
		}
		for _, p := range batch.GetPackets() {
			_ = s.in(p.GetCube(), func(c *opened) error { // nobody waits for a response
				c.instance.(PacketHandler).PacketIn(packetOf(p))
				return nil
			})
		}
		for _, n := range batch.GetNotices() {
			_ = s.in(n.GetCube(), func(c *opened) error { // nobody waits for a response
				c.instance.(Notified).Notify(n.GetKind(), n.GetData())
				return nil
			})
		}
	}
}

// writePackets sends queued packets, in batches.
func (s *session) writePackets(stream pb.Service_PacketsServer) {
	for {
		batch := &pb.PacketsOut{}
		select {
		case p := <-s.packets:
			batch.Packets = append(batch.Packets, p)
		case <-s.done:
			return
		case <-stream.Context().Done():
			return
		}
		for len(s.packets) > 0 && len(batch.GetPackets()) < int(s.hello.GetPackets()) {
			batch.Packets = append(batch.Packets, <-s.packets)
		}
		if stream.Send(batch) != nil {
			return // the other direction of the stream ends, too
		}
	}
}

func packetOf(p *pb.PacketIn) *cube.PacketIn {
	t := p.GetTrip()
	in := &cube.PacketIn{Port: uint16(p.GetPort()), Reason: uint16(p.GetReason()), TrafficClass: p.GetTrafficClass(),
		Length: int(p.GetLength()), Data: p.GetData(),
		Trip: cube.Trip{Hops: uint16(t.GetHops()), Netdev: int(t.GetNetdev()), FlowHash: t.GetFlowHash(), Tenant: t.GetTenant(),
			Turned: t.GetTurned(), Offered: t.GetOffered(), OfferedFrom: uint16(t.GetOfferedFrom())},
		Offload: cube.Offload{GSOSize: uint16(t.GetGsoSize()), GSOSegs: uint16(t.GetGsoSegs())}}
	copy(in.Metadata[:], p.GetMetadata())
	if p.GetDirection() == pb.Direction_DIRECTION_EGRESS {
		in.Direction = cube.Egress
	}
	return in
}

// Open implements the protocol.
func (s *server[T]) Open(_ context.Context, r *pb.OpenRequest) (*pb.OpenResponse, error) {
	s.mu.Lock()
	ses := s.sessions[r.GetSession()]
	s.mu.Unlock()
	if ses == nil {
		return nil, status.Error(codes.FailedPrecondition, "the session has ended")
	}
	ctx, cancel := context.WithCancel(context.Background())
	env := &environment{session: ses, open: r, ctx: ctx, log: slog.New(handler{s: ses, cube: r.GetCube()})}
	c := &opened{env: env, close: cancel}
	err := guarded(func() error {
		instance, err := s.service.New(env)
		c.instance = instance
		return err
	})
	if err != nil {
		cancel()
		return nil, status.Error(codeOf(err), err.Error())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cubes[r.GetCube()] = c
	return &pb.OpenResponse{}, nil
}

// Prepare implements the protocol.
func (s *server[T]) Prepare(ctx context.Context, r *pb.PrepareRequest) (*pb.Plan, error) {
	var out *pb.Plan
	err := s.in(r.GetCube(), func(c *opened) error {
		c.env.setPorts(r.GetPorts())
		plan, err := c.instance.Prepare(ctx, json.RawMessage(nonEmpty(r.GetOld())), r.GetAfter())
		if err != nil {
			return err
		}
		c.number, c.plan = r.GetPlan(), plan
		out, err = plan.message()
		return err
	})
	return out, err
}

func nonEmpty(b []byte) []byte {
	if len(b) == 0 {
		return nil
	}
	return b
}

// message returns the plan as a protocol message.
func (p Plan) message() (*pb.Plan, error) {
	out := &pb.Plan{MapSizes: p.MapSizes, Commit: p.Commit != nil, Constants: map[string][]byte{}}
	for name, v := range p.Constants {
		raw, err := encode(v)
		if err != nil {
			return nil, fmt.Errorf("constant %s: %w", name, err)
		}
		out.Constants[name] = raw
	}
	for slot, program := range p.Programs {
		change := &pb.ProgramChange{Direction: pb.Direction_DIRECTION_INGRESS, Index: uint32(slot.Index)}
		if slot.Direction == cube.Egress {
			change.Direction = pb.Direction_DIRECTION_EGRESS
		}
		if program != nil {
			change.Function, change.Objects = program.Function, objects(program.Objects)
		}
		out.Programs = append(out.Programs, change)
	}
	var err error
	if out.Writes, err = protoWrites(p.Writes); err != nil {
		return nil, err
	}
	if out.After, err = protoWrites(p.After); err != nil {
		return nil, err
	}
	out.Floods = p.Floods.message()
	return out, nil
}

func protoWrites(list []Write) (out []*pb.MapWrite, err error) {
	for _, w := range list {
		if w.err != nil {
			return nil, fmt.Errorf("map %s: %w", w.Map, w.err)
		}
		out = append(out, &pb.MapWrite{Map: w.Map, Replace: w.Replace, Entries: protoEntries(w.entries)})
	}
	return out, nil
}

// Commit implements the protocol.
func (s *server[T]) Commit(ctx context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	return s.step(ctx, r, func(p Plan) func(context.Context) error { return p.Commit })
}

// Undo implements the protocol.
func (s *server[T]) Undo(ctx context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	return s.step(ctx, r, func(p Plan) func(context.Context) error { return p.Undo })
}

func (s *server[T]) step(ctx context.Context, r *pb.PlanRequest, which func(Plan) func(context.Context) error) (*pb.PlanResponse, error) {
	err := s.in(r.GetCube(), func(c *opened) error {
		if c.number != r.GetPlan() {
			return fmt.Errorf("no plan %d: %w", r.GetPlan(), cube.ErrNotFound)
		}
		if fn := which(c.plan); fn != nil {
			return fn(ctx)
		}
		return nil
	})
	return &pb.PlanResponse{}, err
}

// Abort implements the protocol.
func (s *server[T]) Abort(_ context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	err := s.in(r.GetCube(), func(c *opened) error { c.number, c.plan = 0, Plan{}; return nil })
	return &pb.PlanResponse{}, err
}

// State implements the protocol.
func (s *server[T]) State(ctx context.Context, r *pb.StateRequest) (*pb.StateResponse, error) {
	out := &pb.StateResponse{}
	err := s.in(r.GetCube(), func(c *opened) error {
		value, err := c.instance.(Stater).State(ctx, r.GetPath())
		if err == nil && value != nil {
			out.State, err = json.Marshal(value)
		}
		return err
	})
	return out, err
}

// Page implements the protocol.
func (s *server[T]) Page(ctx context.Context, r *pb.PageRequest) (*pb.PageResponse, error) {
	out := &pb.PageResponse{}
	err := s.in(r.GetCube(), func(c *opened) error {
		page, err := c.instance.(Pager).Page(ctx, r.GetPath(), cube.PageQuery{After: r.GetAfter(), Limit: int(r.GetLimit())})
		out.Next = page.Next
		for _, e := range page.Entries {
			out.Entries = append(out.Entries, e)
		}
		return err
	})
	return out, err
}

// DeleteState implements the protocol.
func (s *server[T]) DeleteState(ctx context.Context, r *pb.StateRequest) (*pb.DeleteStateResponse, error) {
	err := s.in(r.GetCube(), func(c *opened) error { return c.instance.(StateDeleter).DeleteState(ctx, r.GetPath()) })
	return &pb.DeleteStateResponse{}, err
}

// Action implements the protocol.
func (s *server[T]) Action(ctx context.Context, r *pb.ActionRequest) (*pb.ActionResponse, error) {
	out := &pb.ActionResponse{}
	err := s.in(r.GetCube(), func(c *opened) error {
		result, err := c.instance.(Actor).Action(ctx, r.GetPath(), r.GetInput())
		if err != nil {
			return err
		}
		if result.Output != nil {
			out.Output, err = json.Marshal(result.Output)
		}
		for _, e := range result.Edits {
			edit := &pb.Edit{Path: e.Path, Delete: e.Delete}
			if !e.Delete {
				var valueErr error
				edit.Value, valueErr = json.Marshal(e.Value)
				err = errors.Join(err, valueErr)
			}
			out.Edits = append(out.Edits, edit)
		}
		return err
	})
	return out, err
}

// Close implements the protocol.
func (s *server[T]) Close(_ context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	s.mu.Lock()
	c := s.cubes[r.GetCube()]
	delete(s.cubes, r.GetCube())
	s.mu.Unlock()
	if c != nil {
		c.end()
	}
	return &pb.CloseResponse{}, nil
}
