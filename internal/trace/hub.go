// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/slowpath"
	"github.com/polycube/polycube/pcapfilter"
)

// Topology is the hub's interface to the cubes: *topology.Manager.
type Topology interface {
	// Trace relinks the programs for the sessions; nil ends all of them.
	Trace(ctx context.Context, t *link.Trace) error
	// CubeID of a cube, CubeName of an ID; "" for a deleted one.
	CubeID(name string) (datapath.CubeID, error)
	CubeName(id datapath.CubeID) string
	// PortName of a cube's port, or its number if it has none (any more).
	PortName(id datapath.CubeID, index uint16) string
	// CapturePlace resolves CUBE:PORT, a transparent cube or a netdev with either.
	CapturePlace(place string) (link.Capture, error)
	// StationAt returns the MAC address of the port that a packet injected at such a place reaches, nil if it accepts
	// any.
	StationAt(ctx context.Context, place string, egress bool) net.HardwareAddr
}

// Plane is the hub's interface to the fast path: *datapath.Plane.
type Plane interface {
	TraceUntil(d time.Duration) error
	TraceLost() (uint64, error)
	CubeReasons(id datapath.CubeID) (drops, slowpath []string)
}

// The lease lets the fast path continue tracing for a while after the daemon was killed.
const (
	lease      = 10 * time.Second
	leaseRenew = 3 * time.Second
	// relinkTimeout limits the end of a session, which cannot be canceled.
	relinkTimeout = 30 * time.Second
)

// Hub runs the trace and capture sessions. The ring's reader passes steps to it.
type Hub struct {
	topology Topology
	plane    Plane
	log      *slog.Logger

	// injecting has one token: a copy of the programs takes megabytes of kernel memory.
	injecting chan struct{}
	// changing is held while sessions are added and removed, for as long as the relink takes.
	changing sync.Mutex

	mu       sync.RWMutex
	sessions [link.MaxSessions]*Session
	renew    context.CancelFunc // ends the renewal of the lease
	closed   bool
}

// NewHub creates a hub without sessions.
func NewHub(t Topology, p Plane, log *slog.Logger) *Hub {
	h := &Hub{topology: t, plane: p, log: log, injecting: make(chan struct{}, 1)}
	h.injecting <- struct{}{}
	return h
}

// Limits of a session.
const (
	DefaultTime = 10 * time.Minute
	MaxTime     = time.Hour
	MaxSteps    = 10_000_000
)

// Request is what a session traces or captures.
type Request struct {
	// Filter is an expression in tcpdump syntax, "" for all packets.
	Filter string
	// Cube is the only cube whose steps are requested, "" for all.
	Cube string
	// Capture is the place whose complete packets are requested; "" requests steps.
	Capture string
	// Count is the maximum number of steps or packets, 0 for MaxSteps.
	Count int
	// Time is the maximum duration of the session, 0 for DefaultTime.
	Time time.Duration
}

// check completes a request with defaults.
func (r *Request) check() error {
	if r.Count == 0 {
		r.Count = MaxSteps
	}
	if r.Time == 0 {
		r.Time = DefaultTime
	}
	switch {
	case r.Count < 0 || r.Count > MaxSteps:
		return fmt.Errorf("count %d: must be 1 to %d: %w", r.Count, MaxSteps, cube.ErrInvalid)
	case r.Time < 0 || r.Time > MaxTime:
		return fmt.Errorf("time %v: the maximum is %v: %w", r.Time, MaxTime, cube.ErrInvalid)
	}
	return nil
}

// ErrBusy is the error when all sessions are in use.
var ErrBusy = fmt.Errorf("%d trace and capture sessions are already running, end one first: %w", link.MaxSessions, cube.ErrFull)

// Open starts a session. It ends by Close, which its owner must call; after its time; or with its last step. The
// context limits only the opening.
func (h *Hub) Open(ctx context.Context, r Request) (*Session, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	s := newSession(h, r)
	var err error
	if r.Filter != "" {
		if s.want.Filter, err = pcapfilter.Compile(ctx, r.Filter); err != nil {
			return nil, err
		}
	}
	if r.Cube != "" {
		id, err := h.topology.CubeID(r.Cube)
		if err != nil {
			return nil, err
		}
		s.want.Cube = uint16(id)
	}
	if r.Capture != "" {
		place, err := h.topology.CapturePlace(r.Capture)
		if err != nil {
			return nil, err
		}
		s.want.Capture = &place
	}
	h.changing.Lock()
	defer h.changing.Unlock()
	if err := h.add(s); err != nil {
		return nil, err
	}
	s.lostBefore, _ = h.plane.TraceLost() // an unknown value is not subtracted
	if err := h.relink(ctx); err != nil {
		h.remove(s)
		return nil, err
	}
	return s, nil
}

// add gives the session a bit. The first one starts the lease.
func (h *Hub) add(s *Session) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fmt.Errorf("the daemon is stopping: %w", cube.ErrUnsupported)
	}
	for bit := range h.sessions {
		if h.sessions[bit] != nil {
			continue
		}
		if h.renew == nil {
			if err := h.plane.TraceUntil(lease); err != nil {
				return err
			}
			ctx, cancel := context.WithCancel(context.Background())
			h.renew = cancel
			go h.renewLease(ctx)
		}
		s.want.Bit = uint8(bit)
		h.sessions[bit] = s
		return nil
	}
	return ErrBusy
}

func (h *Hub) renewLease(ctx context.Context) {
	t := time.NewTicker(leaseRenew)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			if err := h.plane.TraceUntil(lease); err != nil {
				h.log.Warn("renew the lease of tracing", "err", err)
			}
		}
	}
}

// remove releases a session's bit; false if it has none any more.
func (h *Hub) remove(s *Session) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.sessions[s.want.Bit] != s {
		return false
	}
	h.sessions[s.want.Bit] = nil
	if h.wants() == nil && h.renew != nil {
		h.renew()
		h.renew = nil
	}
	return true
}

// wants are the sessions in the linker's form. The caller holds mu.
func (h *Hub) wants() *link.Trace {
	var t link.Trace
	for _, s := range h.sessions {
		if s != nil {
			t.Sessions = append(t.Sessions, s.want)
		}
	}
	if len(t.Sessions) == 0 {
		return nil
	}
	return &t
}

// relink applies the sessions to the fast path. The caller holds changing.
func (h *Hub) relink(ctx context.Context) error {
	h.mu.RLock()
	wants := h.wants()
	h.mu.RUnlock()
	if err := h.topology.Trace(ctx, wants); err != nil {
		return fmt.Errorf("link the programs for tracing: %w", err)
	}
	return nil
}

// close ends a session.
func (h *Hub) close(s *Session) error {
	h.changing.Lock()
	defer h.changing.Unlock()
	if !h.remove(s) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), relinkTimeout)
	defer cancel()
	return h.relink(ctx)
}

// Close ends all sessions and prevents new ones.
func (h *Hub) Close() error {
	h.mu.Lock()
	h.closed = true
	open := h.sessions
	h.mu.Unlock()
	var errs []error
	for _, s := range open {
		if s != nil {
			errs = append(errs, s.end(errors.New("the daemon is stopping")))
		}
	}
	return errors.Join(errs...)
}

// Trace implements slowpath.Tracer.
func (h *Hub) Trace(step *slowpath.Step) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for bit, s := range h.sessions {
		if s != nil && step.Sessions>>bit&1 != 0 {
			s.offer(step)
		}
	}
}
