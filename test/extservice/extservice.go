// SPDX-License-Identifier: Apache-2.0

// Package extservice is an external service, for tests: it speaks the protocol of api/ by hand, so that
// a test can have it do what no SDK would.
package extservice

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
)

// Server is a service. Its fields are set before Serve.
type Server struct {
	pb.UnimplementedServiceServer
	// Description is what it says it is.
	Description *pb.Description
	// Plan answers Prepare, Committed runs in Commit, Undone in Undo; nil does nothing.
	Plan      func(*Cube, *pb.PrepareRequest) (*pb.Plan, error)
	Committed func(*Cube, uint64) error
	Undone    func(*Cube, uint64) error
	// Read answers State, Act Action, Translate an entry of Migrate.
	Read      func(*Cube, []string) ([]byte, error)
	Act       func(*Cube, []string, []byte) (*pb.ActionResponse, error)
	Translate func(*pb.MigrateStart, *pb.Entry) *pb.Entry
	// Part answers Page.
	Part func(*Cube, *pb.PageRequest) (*pb.PageResponse, error)
	// Packet answers a packet with others.
	Packet func(*Cube, *pb.PacketIn) []*pb.PacketOut
	// Heard is told of each call and message, by name.
	Heard func(cube, what string)

	mu    sync.Mutex
	cubes map[uint64]*Cube
}

// Cube is a cube of the service.
type Cube struct {
	*pb.OpenRequest
	Session *Session
}

// Session is a connection of a daemon.
type Session struct {
	Hello  *pb.Hello
	server *Server
	stream grpc.BidiStreamingServer[pb.ToService, pb.ToDaemon]
	send   sync.Mutex

	mu      sync.Mutex
	last    uint64
	waiting map[uint64]chan *pb.ToService
}

// Serve answers on a listener until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	s.cubes = map[uint64]*Cube{}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(32<<20), grpc.MaxSendMsgSize(32<<20))
	pb.RegisterServiceServer(g, s)
	stop := context.AfterFunc(ctx, g.Stop)
	defer stop()
	if err := g.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}

func (s *Server) heard(name, what string) {
	if s.Heard != nil {
		s.Heard(name, what)
	}
}

// Describe implements the protocol.
func (s *Server) Describe(context.Context, *pb.DescribeRequest) (*pb.Description, error) {
	s.heard("", "Describe")
	return s.Description, nil
}

// sessions by name, so that Open finds its own.
var sessions sync.Map

// Session implements the protocol.
func (s *Server) Session(stream grpc.BidiStreamingServer[pb.ToService, pb.ToDaemon]) error {
	m, err := stream.Recv()
	if err != nil {
		return err
	}
	se := &Session{Hello: m.GetHello(), server: s, stream: stream, waiting: map[uint64]chan *pb.ToService{}}
	sessions.Store(se.Hello.GetSession(), se)
	defer sessions.Delete(se.Hello.GetSession())
	if err := se.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Ready{Ready: &pb.Ready{}}}); err != nil {
		return err
	}
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := se.hear(m); err != nil {
			return err
		}
	}
}

func (se *Session) hear(m *pb.ToService) error {
	switch {
	case m.GetPing() != nil:
		return se.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Pong{Pong: &pb.Pong{Number: m.GetPing().GetNumber()}}})
	case m.GetMap() != nil:
		se.answer(m.GetMap().GetId(), m)
	case m.GetPrograms() != nil:
		se.answer(m.GetPrograms().GetId(), m)
	case m.GetFloods() != nil:
		se.answer(m.GetFloods().GetId(), m)
	case m.GetRoute() != nil:
		se.answer(m.GetRoute().GetId(), m)
	case m.GetPeer() != nil:
		p := m.GetPeer()
		se.server.heard(se.server.name(p.GetCube()), fmt.Sprintf("peer %s %s %s %d %x %v %d %d", p.GetPort(), p.GetName(), p.GetNetdev(),
			p.GetIndex(), p.GetMac(), p.GetAddresses(), p.GetMtu(), p.GetSpeed()))
	case m.GetLink() != nil:
		se.server.heard(se.server.name(m.GetLink().GetCube()), fmt.Sprintf("link %s %t", m.GetLink().GetPort(), m.GetLink().GetUp()))
	case m.GetPort() != nil:
		se.server.heard(se.server.name(m.GetPort().GetCube()), fmt.Sprintf("port %s %t", m.GetPort().GetPort(), m.GetPort().GetUp()))
	case m.GetParent() != nil:
		se.server.heard(se.server.name(m.GetParent().GetCube()), "parent "+m.GetParent().GetName())
	}
	return nil
}

func (se *Session) answer(id uint64, m *pb.ToService) {
	se.mu.Lock()
	defer se.mu.Unlock()
	if c := se.waiting[id]; c != nil {
		delete(se.waiting, id)
		c <- m
	}
}

// Send sends a message to the daemon.
func (se *Session) Send(m *pb.ToDaemon) error {
	se.send.Lock()
	defer se.send.Unlock()
	return se.stream.Send(m)
}

// ask sends a request and waits for its answer.
func (se *Session) ask(make func(id uint64) *pb.ToDaemon) (*pb.ToService, error) {
	se.mu.Lock()
	se.last++
	id, answer := se.last, make
	c := chanOfOne()
	se.waiting[id] = c
	se.mu.Unlock()
	if err := se.Send(answer(id)); err != nil {
		return nil, err
	}
	select {
	case m := <-c:
		return m, nil
	case <-se.stream.Context().Done():
		return nil, se.stream.Context().Err()
	}
}

func chanOfOne() chan *pb.ToService { return make(chan *pb.ToService, 1) }

// Map makes a request about a map; a fault is an error.
func (c *Cube) Map(r *pb.MapRequest) (*pb.MapReply, error) {
	m, err := c.Session.ask(func(id uint64) *pb.ToDaemon {
		r.Id, r.Cube = id, c.GetCube()
		return &pb.ToDaemon{Message: &pb.ToDaemon_Map{Map: r}}
	})
	if err != nil {
		return nil, err
	}
	if f := m.GetMap().GetFault(); f != nil {
		return m.GetMap(), status.Error(codes.Code(f.GetCode()), f.GetMessage())
	}
	return m.GetMap(), nil
}

// Programs changes programs; a fault is an error.
func (c *Cube) Programs(r *pb.ProgramsRequest) (uint32, error) {
	m, err := c.Session.ask(func(id uint64) *pb.ToDaemon {
		r.Id, r.Cube = id, c.GetCube()
		return &pb.ToDaemon{Message: &pb.ToDaemon_Programs{Programs: r}}
	})
	if err != nil {
		return 0, err
	}
	if f := m.GetPrograms().GetFault(); f != nil {
		return 0, status.Error(codes.Code(f.GetCode()), f.GetMessage())
	}
	return m.GetPrograms().GetIndex(), nil
}

// Floods changes sets of ports; a fault is an error.
func (c *Cube) Floods(w *pb.FloodWrite) error {
	m, err := c.Session.ask(func(id uint64) *pb.ToDaemon {
		return &pb.ToDaemon{Message: &pb.ToDaemon_Floods{Floods: &pb.FloodsRequest{Id: id, Cube: c.GetCube(), Write: w}}}
	})
	if f := m.GetFloods().GetFault(); err == nil && f != nil {
		err = status.Error(codes.Code(f.GetCode()), f.GetMessage())
	}
	return err
}

// Route looks up a route; a fault is an error.
func (c *Cube) Route(destination string) (*pb.RouteReply, error) {
	m, err := c.Session.ask(func(id uint64) *pb.ToDaemon {
		return &pb.ToDaemon{Message: &pb.ToDaemon_Route{Route: &pb.RouteRequest{Id: id, Destination: destination}}}
	})
	if f := m.GetRoute().GetFault(); err == nil && f != nil {
		err = status.Error(codes.Code(f.GetCode()), f.GetMessage())
	}
	return m.GetRoute(), err
}

// Log writes a line.
func (c *Cube) Log(level, message string) error {
	return c.Session.Send(&pb.ToDaemon{Message: &pb.ToDaemon_Log{Log: &pb.Log{Cube: c.GetCube(), Level: level, Message: message}}})
}

// Packets implements the protocol.
func (s *Server) Packets(stream grpc.BidiStreamingServer[pb.PacketsIn, pb.PacketsOut]) error {
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var out []*pb.PacketOut
		for _, p := range m.GetPackets() {
			if c := s.cube(p.GetCube()); c != nil && s.Packet != nil {
				out = append(out, s.Packet(c, p)...)
			}
		}
		for batch := range slices.Chunk(out, 64) {
			if err := stream.Send(&pb.PacketsOut{Packets: batch}); err != nil {
				return err
			}
		}
	}
}

func (s *Server) cube(number uint64) *Cube {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cubes[number]
}

// Cubes lists the open cubes by name.
func (s *Server) Cubes() map[string]*Cube {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]*Cube{}
	for _, c := range s.cubes {
		out[c.GetName()] = c
	}
	return out
}

func (s *Server) name(number uint64) string {
	if c := s.cube(number); c != nil {
		return c.GetName()
	}
	return ""
}

// Open implements the protocol.
func (s *Server) Open(_ context.Context, r *pb.OpenRequest) (*pb.OpenResponse, error) {
	se, ok := sessions.Load(r.GetSession())
	if !ok {
		return nil, status.Error(codes.FailedPrecondition, "no such session")
	}
	s.mu.Lock()
	s.cubes[r.GetCube()] = &Cube{r, se.(*Session)}
	s.mu.Unlock()
	s.heard(r.GetName(), fmt.Sprintf("Open taken over %t", r.GetTakenOver()))
	return &pb.OpenResponse{}, nil
}

// found is the cube of a call.
func (s *Server) found(number uint64, what string) (*Cube, error) {
	c := s.cube(number)
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "cube %d is not open", number)
	}
	s.heard(c.GetName(), what)
	return c, nil
}

// Prepare implements the protocol.
func (s *Server) Prepare(_ context.Context, r *pb.PrepareRequest) (*pb.Plan, error) {
	c, err := s.found(r.GetCube(), "Prepare")
	if err != nil || s.Plan == nil {
		return &pb.Plan{}, err
	}
	return s.Plan(c, r)
}

// planCall is Commit or Undo.
func (s *Server) planCall(r *pb.PlanRequest, what string, fn func(*Cube, uint64) error) (*pb.PlanResponse, error) {
	c, err := s.found(r.GetCube(), what)
	if err == nil && fn != nil {
		err = fn(c, r.GetPlan())
	}
	return &pb.PlanResponse{}, err
}

// Commit implements the protocol.
func (s *Server) Commit(_ context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	return s.planCall(r, "Commit", s.Committed)
}

// Undo implements the protocol.
func (s *Server) Undo(_ context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	return s.planCall(r, "Undo", s.Undone)
}

// Abort implements the protocol.
func (s *Server) Abort(_ context.Context, r *pb.PlanRequest) (*pb.PlanResponse, error) {
	return s.planCall(r, "Abort", nil)
}

// State implements the protocol.
func (s *Server) State(_ context.Context, r *pb.StateRequest) (*pb.StateResponse, error) {
	c, err := s.found(r.GetCube(), "State")
	if err != nil || s.Read == nil {
		return &pb.StateResponse{}, err
	}
	state, err := s.Read(c, r.GetPath())
	return &pb.StateResponse{State: state}, err
}

// Page implements the protocol.
func (s *Server) Page(_ context.Context, r *pb.PageRequest) (*pb.PageResponse, error) {
	c, err := s.found(r.GetCube(), "Page")
	if err != nil || s.Part == nil {
		return &pb.PageResponse{}, err
	}
	return s.Part(c, r)
}

// Action implements the protocol.
func (s *Server) Action(_ context.Context, r *pb.ActionRequest) (*pb.ActionResponse, error) {
	c, err := s.found(r.GetCube(), "Action")
	if err != nil || s.Act == nil {
		return &pb.ActionResponse{}, err
	}
	return s.Act(c, r.GetPath(), r.GetInput())
}

// Close implements the protocol.
func (s *Server) Close(_ context.Context, r *pb.CloseRequest) (*pb.CloseResponse, error) {
	_, err := s.found(r.GetCube(), "Close")
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cubes, r.GetCube())
	return &pb.CloseResponse{}, err
}

// Migrate implements the protocol.
func (s *Server) Migrate(stream grpc.BidiStreamingServer[pb.MigrateIn, pb.MigrateOut]) error {
	var start *pb.MigrateStart
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if m.GetStart() != nil {
			start = m.GetStart()
		}
		out := &pb.MigrateOut{}
		for _, e := range m.GetEntries() {
			if s.Translate == nil {
				return status.Error(codes.Unimplemented, "nothing is translated")
			}
			out.Entries = append(out.Entries, s.Translate(start, e))
		}
		if err := stream.Send(out); err != nil {
			return err
		}
	}
}
