// SPDX-License-Identifier: Apache-2.0

package external

// A running service: the connection, its session, and the cubes opened in it.

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cilium/ebpf"
	"google.golang.org/grpc"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
)

// life implements service.Life.
type life struct {
	opts Options
	reg  service.Registration
	log  *slog.Logger

	executable  Executable
	process     Process // nil for a service that was not started here
	conn        *grpc.ClientConn
	client      pb.ServiceClient
	description *pb.Description
	service     cube.Service
	limits      deadlines
	session     string

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
	closed sync.Once
	err    error // before done is closed
	work   sync.WaitGroup

	// dialErr is why the last attempt to connect failed, nil if it did not.
	dialErr atomic.Pointer[error]
	// outbox are the messages to the service, in order.
	outbox chan *pb.ToService
	// heard is when the last message from the service arrived, in nanoseconds.
	lastSeen atomic.Int64
	lines    *bucket
	// misses counts consecutive calls that missed their deadlines.
	misses atomic.Int32

	mu    sync.Mutex
	cubes map[uint64]*instance

	packets *packets
	// programs limits concurrent changes of programs.
	programs chan struct{}
}

func newLife(o Options, reg service.Registration) *life {
	l := &life{opts: o, reg: reg, log: o.Logger.With("service", reg.Name), done: make(chan struct{}),
		outbox: make(chan *pb.ToService, outboxSize), lines: newBucket(logLines), cubes: map[uint64]*instance{},
		packets: newPackets(), programs: make(chan struct{}, 4), session: strconv.FormatUint(random(), 16)}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	return l
}

// Service implements service.Life.
func (l *life) Service() cube.Service { return l.service }

// Done implements service.Life.
func (l *life) Done() <-chan struct{} { return l.done }

// Err implements service.Life.
func (l *life) Err() error {
	select {
	case <-l.done:
		return l.err
	default:
		return nil
	}
}

// end ends the session, with a reason.
func (l *life) end(why error) {
	l.once.Do(func() {
		l.err = l.reason(why)
		close(l.done)
		l.cancel()
	})
}

// ended reports whether the session has ended.
func (l *life) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// reason prefers the exit of the process to its effect on the connection.
func (l *life) reason(why error) error {
	if l.process == nil || errors.Is(why, errEnded) {
		return why
	}
	timer := time.NewTimer(time.Second)
	defer timer.Stop()
	if broken := (*lost)(nil); errors.As(why, &broken) && broken.broken {
		select {
		case <-l.process.Done():
		case <-timer.C:
		}
	}
	select {
	case <-l.process.Done():
		if err := l.process.Err(); err != nil {
			return fmt.Errorf("its process ended: %w", err)
		}
		return lostError("its process ended", nil)
	default:
		return why
	}
}

// Close implements service.Life.
func (l *life) Close() {
	l.end(errEnded)
	l.closed.Do(func() {
		if l.conn != nil {
			_ = l.conn.Close() // nothing can be done about it
		}
		if l.process != nil {
			ctx, cancel := context.WithTimeout(context.Background(), stopTime)
			defer cancel()
			if err := l.process.Stop(ctx); err != nil {
				l.log.Warn("stop the process of a service", "err", err)
			}
		}
		l.work.Wait()
	})
}

// open opens the session.
func (l *life) open(ctx context.Context) error {
	objects, err := objectsOf(l.description.GetObjects())
	if err != nil {
		return err
	}
	d := l.description
	l.limits = deadlinesOf(d.GetDeadlines())
	l.service = cube.Service{Model: d.GetModel(), Objects: objects, MaxPorts: int(d.GetMaxPorts()), WholeLists: true, New: l.newInstance}
	if d.GetMigrate() {
		l.service.Migrate = l.migrate
	}
	stream, err := l.client.Session(l.ctx)
	if err != nil {
		return fmt.Errorf("open its session: %w", callError(err))
	}
	if err := stream.Send(&pb.ToService{Message: &pb.ToService_Hello{Hello: l.hello()}}); err != nil {
		return fmt.Errorf("open its session: %w", callError(err))
	}
	ready := make(chan error, 1)
	l.lastSeen.Store(time.Now().UnixNano())
	l.work.Go(func() { l.listen(stream, ready) })
	timer := time.NewTimer(readyTime)
	defer timer.Stop()
	select {
	case err = <-ready:
	case <-timer.C:
		err = lostError(fmt.Sprintf("it was not ready %v after Hello", readyTime), nil)
	case <-ctx.Done():
		err = lostError("it was not ready in time", nil)
	}
	if err != nil {
		return err
	}
	l.work.Go(func() { l.sendLoop(stream) })
	l.work.Go(l.beat)
	if d.GetPackets() || d.GetNotifications() {
		return l.openPackets()
	}
	return nil
}

func (l *life) hello() *pb.Hello {
	cpus, err := ebpf.PossibleCPU()
	if err != nil {
		cpus = runtime.NumCPU()
	}
	return &pb.Hello{Session: l.session, Cpus: uint32(cpus), SilenceMs: uint32(l.opts.Silence.Milliseconds()), Requests: maxRequests,
		Entries: maxBatch, Packets: batchSize, LogLines: logLines, Series: maxSeries}
}

// tell sends a message to the service. A service that does not read its messages is given up.
func (l *life) tell(m *pb.ToService) {
	select {
	case l.outbox <- m:
	case <-l.done:
	default:
		l.end(lostError("it does not read its messages", nil))
	}
}

// answer is tell for responses: requests of the service are not read while it does not read the responses.
func (l *life) answer(m *pb.ToService) {
	select {
	case l.outbox <- m:
	case <-l.done:
	}
}

// sendLoop sends the messages.
func (l *life) sendLoop(stream grpc.BidiStreamingClient[pb.ToService, pb.ToDaemon]) {
	for {
		select {
		case m := <-l.outbox:
			if err := stream.Send(m); err != nil {
				l.end(&lost{"the connection was lost", true})
				return
			}
		case <-l.done:
			_ = stream.CloseSend() // the session has ended anyway
			return
		}
	}
}

// beat ends the session of a silent service.
func (l *life) beat() {
	ticker := time.NewTicker(l.opts.Beat)
	defer ticker.Stop()
	var number uint64
	for {
		select {
		case <-ticker.C:
		case <-l.done:
			return
		}
		if quiet := time.Since(time.Unix(0, l.lastSeen.Load())); quiet > l.opts.Beat+l.opts.Silence {
			l.end(lostError(fmt.Sprintf("no message from it for %v", quiet.Round(time.Second/10)), nil))
			return
		}
		if n := l.lines.excess(); n > 0 {
			l.log.Warn("a service logs too much, log lines were dropped", "lines", n)
		}
		number++
		l.tell(&pb.ToService{Message: &pb.ToService_Ping{Ping: &pb.Ping{Number: number}}})
	}
}

// listen handles the messages of the service in its session. The first one goes to ready.
func (l *life) listen(stream grpc.BidiStreamingClient[pb.ToService, pb.ToDaemon], ready chan<- error) {
	m, err := stream.Recv()
	switch {
	case err != nil:
		err = lostError("its session ended", err)
	case m.GetReady() == nil:
		err = fmt.Errorf("its first message is not Ready: %w", cube.ErrInvalid)
	}
	ready <- err
	for err == nil {
		l.lastSeen.Store(time.Now().UnixNano())
		if m, err = stream.Recv(); err != nil {
			l.end(lostError("its session ended", err))
			return
		}
		l.receive(m)
	}
}

// receive handles one message.
func (l *life) receive(m *pb.ToDaemon) {
	switch {
	case m.GetMap() != nil:
		reply := l.mapRequest(m.GetMap())
		reply.Id = m.GetMap().GetId()
		l.answer(&pb.ToService{Message: &pb.ToService_Map{Map: reply}})
	case m.GetFloods() != nil:
		l.answer(&pb.ToService{Message: &pb.ToService_Floods{Floods: floodsRequest(l, m.GetFloods())}})
	case m.GetRoute() != nil:
		l.answer(&pb.ToService{Message: &pb.ToService_Route{Route: l.opts.routeRequest(m.GetRoute())}})
	case m.GetPrograms() != nil:
		l.programsRequest(m.GetPrograms())
	case m.GetLog() != nil:
		l.logLine(m.GetLog())
	case m.GetMetrics() != nil:
		l.metrics(m.GetMetrics())
	}
}

// cube finds an open cube by its number.
func (l *life) cube(handle uint64) (*instance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if i := l.cubes[handle]; i != nil {
		return i, nil
	}
	return nil, fmt.Errorf("cube %d is not open: %w", handle, cube.ErrNotFound)
}

func (l *life) add(i *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cubes[i.handle] = i
}

func (l *life) remove(i *instance) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.cubes, i.handle)
}
