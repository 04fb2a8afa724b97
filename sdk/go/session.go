// SPDX-License-Identifier: Apache-2.0

package sdk

// A session with a daemon: requests with numbered responses, and messages without a response. gRPC allows only one
// sending goroutine, so each stream has a channel.

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// waiting is the number of messages and packets that may be queued, events that of the daemon's events: several for each
// port when cubes are opened.
const (
	waiting = 1024
	events  = 16_384
)

// ErrLost is returned once the daemon is gone: the cube is closed, and reopened when the daemon is back.
var ErrLost = errors.New("the session with the daemon has ended")

type session struct {
	hello   *pb.Hello
	out     chan *pb.ToDaemon
	packets chan *pb.PacketOut
	done    chan struct{}
	slots   chan struct{} // limits concurrent requests

	mu      sync.Mutex
	number  uint64
	replies map[uint64]chan *pb.ToService
}

func newSession(hello *pb.Hello) *session {
	return &session{hello: hello, out: make(chan *pb.ToDaemon, waiting), packets: make(chan *pb.PacketOut, waiting),
		done: make(chan struct{}), slots: make(chan struct{}, max(1, hello.GetRequests())), replies: map[uint64]chan *pb.ToService{}}
}

// say sends a message without a response.
func (s *session) say(m *pb.ToDaemon) error {
	select {
	case s.out <- m:
		return nil
	case <-s.done:
		return ErrLost
	default:
		return fmt.Errorf("the daemon does not read fast enough: %w", cube.ErrFull)
	}
}

// ask sends a request, which wrap numbers, and waits for the response.
func (s *session) ask(ctx context.Context, wrap func(id uint64) *pb.ToDaemon) (*pb.ToService, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-s.done:
		return nil, ErrLost
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for other requests: %w", ctx.Err())
	}
	reply := make(chan *pb.ToService, 1)
	s.mu.Lock()
	s.number++
	id := s.number
	s.replies[id] = reply
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.replies, id)
	}()
	select {
	case s.out <- wrap(id):
	case <-s.done:
		return nil, ErrLost
	case <-ctx.Done():
		return nil, fmt.Errorf("query the daemon: %w", ctx.Err())
	}
	select {
	case m := <-reply:
		_, f := replyOf(m)
		return m, faultOf(f)
	case <-s.done:
		return nil, ErrLost
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the daemon: %w", ctx.Err())
	}
}

// replyOf returns the number of the request that a message answers, 0 if it answers none, and its fault.
func replyOf(m *pb.ToService) (id uint64, fault *pb.Fault) {
	switch {
	case m.GetMap() != nil:
		return m.GetMap().GetId(), m.GetMap().GetFault()
	case m.GetFloods() != nil:
		return m.GetFloods().GetId(), m.GetFloods().GetFault()
	case m.GetRoute() != nil:
		return m.GetRoute().GetId(), m.GetRoute().GetFault()
	}
	return 0, nil
}

// hear passes a response to its caller.
func (s *session) hear(id uint64, m *pb.ToService) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reply := s.replies[id]; reply != nil {
		delete(s.replies, id)
		reply <- m
	}
}

// kinds are the errors of package cube by their codes.
var kinds = map[codes.Code]error{
	codes.InvalidArgument: cube.ErrInvalid, codes.NotFound: cube.ErrNotFound, codes.AlreadyExists: cube.ErrExists,
	codes.FailedPrecondition: cube.ErrInUse, codes.ResourceExhausted: cube.ErrFull, codes.Unimplemented: cube.ErrUnsupported, codes.Aborted: cube.ErrStale,
}

func faultOf(f *pb.Fault) error {
	if f == nil {
		return nil
	}
	if kind := kinds[codes.Code(f.GetCode())]; kind != nil {
		return fmt.Errorf("%s: %w", f.GetMessage(), kind)
	}
	return errors.New(f.GetMessage())
}

// codeOf returns the code for an error of a handler; Unknown is an internal error of the service.
func codeOf(err error) codes.Code {
	for code, kind := range kinds {
		if errors.Is(err, kind) {
			return code
		}
	}
	return codes.Unknown
}

// batches divides entries to fit into messages.
func batches[E proto.Message](s *session, all []E, do func([]E) error) error {
	size := max(1, int(s.hello.GetEntries()))
	for len(all) > 0 {
		n := min(size, len(all))
		if err := do(all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}
