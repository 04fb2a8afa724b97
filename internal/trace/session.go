// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
)

// Limits of the queue for the reader of a session; the rest is lost, and counted.
const (
	queueSteps = 16384
	queueBytes = 8 << 20
)

// Session is a trace or capture session.
type Session struct {
	hub        *Hub
	want       link.Session
	request    Request
	epoch      time.Time // when the programs' clock was 0
	lostBefore uint64
	deadline   *time.Timer

	mu    sync.Mutex
	queue []slowpath.Step
	bytes int
	lost  uint64
	why   error // why it has ended
	given int   // steps, or packets, that the owner has taken
	wake  chan struct{}
	// waiting are captured packets whose fate is not known yet; only the owner uses them.
	waiting []pending
	once    sync.Once
	err     error // of the end
}

func newSession(h *Hub, r Request) *Session {
	s := &Session{hub: h, request: r, wake: make(chan struct{}, 1)}
	if now, err := cube.Time(); err == nil {
		s.epoch = time.Now().Add(-time.Duration(now)).Round(0)
	}
	s.deadline = time.AfterFunc(r.Time, func() { s.finish(errTime) })
	return s
}

// Why a session has ended.
var (
	errTime   = errors.New("time limit reached")
	errCount  = errors.New("count reached")
	errClient = errors.New("ended by the client")
)

// offer copies a step into the queue; it never waits.
func (s *Session) offer(step *slowpath.Step) {
	if s.want.Cube != 0 && step.Cube != s.want.Cube {
		return // fates have the bits of all sessions of the packet
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.why != nil {
		return
	}
	if len(s.queue) >= queueSteps || s.bytes+len(step.Data) > queueBytes {
		s.lost++
		return
	}
	one := *step
	one.Data = bytes.Clone(step.Data)
	s.queue = append(s.queue, one)
	s.bytes += len(one.Data)
	s.signal()
}

func (s *Session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// finish lets Next end with a reason once the queue is empty.
func (s *Session) finish(why error) {
	s.mu.Lock()
	if s.why == nil {
		s.why = why
	}
	s.mu.Unlock()
	s.signal()
}

// next returns the next step; io.EOF when the session has ended, or the error of the context.
func (s *Session) next(ctx context.Context) (*slowpath.Step, error) {
	for {
		s.mu.Lock()
		if len(s.queue) > 0 {
			step := s.queue[0]
			s.queue = s.queue[1:]
			s.bytes -= len(step.Data)
			s.mu.Unlock()
			return &step, nil
		}
		why := s.why
		s.mu.Unlock()
		if why != nil {
			return nil, io.EOF
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take counts what the owner reads.
func (s *Session) take() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.given++
}

// countReached reports whether the requested count was reached, which ends the session.
func (s *Session) countReached() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given < s.request.Count {
		return false
	}
	s.why, s.queue = errCount, nil
	return true
}

// idle reports whether nothing waits, so that the output should be flushed.
func (s *Session) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue) == 0
}

// Summary is the end of a session.
type Summary struct {
	// End is why the session ended, Steps the number of delivered steps.
	End   string `json:"end"`
	Steps int    `json:"steps"`
	// Lost counts steps for which the reader was too slow, and LostInRing those that did not fit into the ring while
	// the session ran, for any session.
	Lost       uint64 `json:"lost"`
	LostInRing uint64 `json:"lost-in-ring"`
}

// Summary returns the summary of the session.
func (s *Session) Summary() Summary {
	lost, _ := s.hub.plane.TraceLost()
	s.mu.Lock()
	defer s.mu.Unlock()
	out := Summary{Steps: s.given, Lost: s.lost}
	if s.why != nil {
		out.End = s.why.Error()
	}
	if lost > s.lostBefore {
		out.LostInRing = lost - s.lostBefore
	}
	return out
}

// Finish ends the session at its client's request. It queues no more packets; those in the queue are still delivered.
func (s *Session) Finish() { s.finish(errClient) }

// Close ends the session: the programs are relinked without it. It may be called more than once.
func (s *Session) Close() error { return s.end(errors.New("closed")) }

func (s *Session) end(why error) error {
	s.finish(why)
	s.once.Do(func() {
		s.deadline.Stop()
		s.err = s.hub.close(s)
	})
	return s.err
}
