// SPDX-License-Identifier: Apache-2.0

package sdk

// The Env of a cube, on top of its session.

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// environment implements Env.
type environment struct {
	session *session
	open    *pb.OpenRequest
	ctx     context.Context // until the cube is closed
	log     *slog.Logger
	// turn is held while a method of the instance runs.
	turn sync.Mutex

	mu    sync.Mutex
	ports []*pb.Port
}

// Name implements Env.
func (e *environment) Name() string { return e.open.GetName() }

// UUID implements Env.
func (e *environment) UUID() string { return e.open.GetUuid() }

// Type implements Env.
func (e *environment) Type() cube.Type { return cube.Type(e.open.GetType()) }

// TakenOver implements Env.
func (e *environment) TakenOver() bool { return e.open.GetTakenOver() }

// Logger implements Env.
func (e *environment) Logger() *slog.Logger { return e.log }

func (e *environment) access() access { return access{s: e.session, cube: e.open.GetCube()} }

func (e *environment) setPorts(ports []*pb.Port) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.ports = ports
}

// PortIndex implements Env.
func (e *environment) PortIndex(name string) (uint16, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		if p.GetName() == name {
			return uint16(p.GetIndex()), true
		}
	}
	return 0, false
}

// PortName implements Env.
func (e *environment) PortName(index uint16) (string, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.ports {
		if p.GetIndex() == uint32(index) {
			return p.GetName(), true
		}
	}
	return "", false
}

// Send implements Env.
func (e *environment) Send(p *cube.PacketOut) error {
	out := &pb.PacketOut{Cube: e.open.GetCube(), Port: uint32(p.Port), Direction: pb.Direction_DIRECTION_INGRESS,
		Recirculate: p.Recirculate, Metadata: p.Metadata[:], TrafficClass: p.TrafficClass, Data: p.Data,
		Trip: &pb.Trip{Hops: uint32(p.Trip.Hops), Netdev: uint32(p.Trip.Netdev), FlowHash: p.Trip.FlowHash, Tenant: p.Trip.Tenant,
			GsoSize: uint32(p.Offload.GSOSize), GsoSegs: uint32(p.Offload.GSOSegs),
			Turned: p.Trip.Turned, Offered: p.Trip.Offered, OfferedFrom: uint32(p.Trip.OfferedFrom)}}
	if p.Direction == cube.Egress {
		out.Direction = pb.Direction_DIRECTION_EGRESS
	}
	out.Metadata = append([]uint32(nil), out.Metadata...)
	out.Data = append([]byte(nil), out.Data...)
	select {
	case e.session.packets <- out:
		return nil
	case <-e.session.done:
		return ErrLost
	default:
		return fmt.Errorf("too many packets are waiting: %w", cube.ErrFull)
	}
}

// Every implements Env.
func (e *environment) Every(d time.Duration, fn func(context.Context)) (stop func()) {
	ctx, cancel := context.WithCancel(e.ctx)
	go func() {
		ticker := time.NewTicker(d)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
			e.turn.Lock()
			if ctx.Err() == nil {
				fn(ctx)
			}
			e.turn.Unlock()
		}
	}()
	return cancel
}

// Floods implements Env.
func (e *environment) Floods(ctx context.Context, f Floods) error {
	w := f.message()
	if w == nil {
		return nil
	}
	_, err := e.session.ask(ctx, func(id uint64) *pb.ToDaemon {
		return &pb.ToDaemon{Message: &pb.ToDaemon_Floods{Floods: &pb.FloodsRequest{Id: id, Cube: e.open.GetCube(), Write: w}}}
	})
	return err
}

// Route implements Env.
func (e *environment) Route(ctx context.Context, to netip.Addr) (Route, error) {
	m, err := e.session.ask(ctx, func(id uint64) *pb.ToDaemon {
		return &pb.ToDaemon{Message: &pb.ToDaemon_Route{Route: &pb.RouteRequest{Id: id, Destination: to.String()}}}
	})
	if err != nil {
		return Route{}, err
	}
	r := m.GetRoute()
	out := Route{Netdev: r.GetNetdev(), Index: int(r.GetIndex()), MAC: r.GetMac(), MTU: int(r.GetMtu())}
	out.Gateway, _ = netip.ParseAddr(r.GetGateway()) // empty: none
	out.Source, _ = netip.ParseAddr(r.GetSource())
	return out, nil
}

// Metrics implements Env.
func (e *environment) Metrics(metrics []Metric) error {
	m := &pb.Metrics{Cube: e.open.GetCube()}
	for _, s := range metrics {
		kind := pb.Metric_KIND_GAUGE
		if s.Counter {
			kind = pb.Metric_KIND_COUNTER
		}
		m.Metrics = append(m.Metrics, &pb.Metric{Name: s.Name, Help: s.Help, Kind: kind, Labels: s.Labels, Value: s.Value})
	}
	return e.session.say(&pb.ToDaemon{Message: &pb.ToDaemon_Metrics{Metrics: m}})
}

// handler sends slog records to the daemon.
type handler struct {
	s     *session
	cube  uint64
	attrs []slog.Attr
	group string
}

// Enabled implements slog.Handler: the daemon filters by the cube's level.
func (h handler) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler. A line that does not fit the queue is lost, as the daemon would have dropped it.
func (h handler) Handle(_ context.Context, r slog.Record) error {
	line := &pb.Log{Cube: h.cube, Level: level(r.Level), Message: r.Message, Attributes: map[string]string{}}
	for _, a := range h.attrs {
		line.Attributes[a.Key] = a.Value.String()
	}
	r.Attrs(func(a slog.Attr) bool {
		line.Attributes[h.group+a.Key] = a.Value.String()
		return true
	})
	return h.s.say(&pb.ToDaemon{Message: &pb.ToDaemon_Log{Log: line}})
}

func level(l slog.Level) string {
	switch {
	case l < slog.LevelDebug:
		return "TRACE"
	case l < slog.LevelInfo:
		return "DEBUG"
	case l < slog.LevelWarn:
		return "INFO"
	case l < slog.LevelError:
		return "WARN"
	case l <= slog.LevelError:
		return "ERR"
	}
	return "CRITICAL"
}

// WithAttrs implements slog.Handler.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	h.attrs = append([]slog.Attr(nil), h.attrs...)
	for _, a := range attrs {
		h.attrs = append(h.attrs, slog.Attr{Key: h.group + a.Key, Value: a.Value})
	}
	return h
}

// WithGroup implements slog.Handler.
func (h handler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.group += name + "."
	}
	return h
}
