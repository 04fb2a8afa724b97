// SPDX-License-Identifier: Apache-2.0

package lbrp

// The state of services and servers.

import (
	"context"
	"net/netip"
	"strconv"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/feedback"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// stateService is a service's state.
type stateService struct {
	VIP     netip.Addr     `json:"vip"`
	VPort   uint16         `json:"vport"`
	Proto   Proto          `json:"proto"`
	Live    uint32         `json:"live-servers"`
	Backend []stateBackend `json:"backend,omitempty"`
}

// stateBackend is the state of a server of a service.
type stateBackend struct {
	IP    netip.Addr    `json:"ip"`
	Port  uint16        `json:"port"`
	State balance.State `json:"state"`
	Since time.Time     `json:"since"`
	Flows uint32        `json:"flows"`
	inet.Count
	ReplyPackets uint64         `json:"reply-packets"`
	ReplyBytes   uint64         `json:"reply-bytes"`
	Health       *health.View   `json:"health,omitempty"`
	Feedback     *feedback.View `json:"feedback,omitempty"`
}

// stateSessions is the container `sessions`.
type stateSessions struct {
	Active     uint32 `json:"active"`
	Capacity   uint32 `json:"capacity"`
	Opened     uint64 `json:"opened"`
	Refused    uint64 `json:"refused"`
	PortsTaken uint64 `json:"source-ports-taken"`
	Fragments  uint64 `json:"fragments"`
	ICMPErrors uint64 `json:"icmp-errors"`
}

// state returns the state of services and sessions.
func (b *balancer) state(_ context.Context, path []string) (any, error) {
	var out struct {
		Service  []stateService  `json:"service,omitempty"`
		Sessions *stateSessions  `json:"sessions,omitempty"`
		Session  []stateSession  `json:"session,omitempty"`
		Checks   *checks.Totals  `json:"checks,omitempty"`
		Feedback *feedbackTotals `json:"feedback,omitempty"`
	}
	var err error
	if len(path) == 0 || path[0] == "sessions" {
		if out.Sessions, err = b.stateOfSessions(); err != nil {
			return nil, err
		}
	}
	if len(path) == 0 || path[0] == "checks" {
		out.Checks = b.checks.Totals()
	}
	if len(path) == 0 || path[0] == "feedback" {
		out.Feedback = b.loads.totals()
	}
	if len(path) > 1 && path[0] == "session" {
		if is, ok := b.session(path[1:min(len(path), 6)]); ok {
			out.Session = []stateSession{b.show(&is, balance.Now())}
		}
	}
	if len(path) > 0 && path[0] != "service" {
		return out, nil
	}
	services := b.wanted
	if len(path) > 3 {
		services = map[ServiceKey]*wanted{}
		if key, err := serviceKeyOf(path[1:]); err == nil && b.wanted[key] != nil {
			services[key] = b.wanted[key]
		}
	}
	for _, w := range services {
		is, err := b.stateOfService(&w.conf, path)
		if err != nil {
			return nil, err
		}
		out.Service = append(out.Service, is)
	}
	return out, nil
}

// stateOfService returns the state of a service.
func (b *balancer) stateOfService(s *Service, path []string) (stateService, error) {
	w := b.wanted[s.key()]
	is := stateService{VIP: s.VIP, VPort: s.VPort, Proto: s.Proto}
	if first := b.placed[s.ids()[0]]; first != nil {
		is.Live = first.live
	}
	for at := range w.backends {
		if len(path) > 6 && (path[5] != at.Addr().String() || path[6] != strconv.Itoa(int(at.Port()))) {
			continue
		}
		server, err := b.stateOfBackend(s, at)
		if err != nil {
			return is, err
		}
		is.Backend = append(is.Backend, server)
	}
	return is, nil
}

// stateOfBackend returns the state of a server of a service, for all protocols of that together.
func (b *balancer) stateOfBackend(s *Service, at netip.AddrPort) (stateBackend, error) {
	is := stateBackend{IP: at.Addr(), Port: at.Port()}
	if checked := b.checks.all[checkKey(s.key(), at)]; checked != nil {
		is.Health = b.checks.View(checked.check)
	}
	is.Feedback = b.loads.view(s.key(), at)
	for _, id := range s.ids() {
		p := b.placed[id]
		if p == nil || p.key != s.key() {
			continue // echo requests are of another service
		}
		m := p.members[at]
		is.State, is.Since = m.state, m.since.UTC().Truncate(time.Second)
		is.Flows += b.sweep.Last.Servers[m.number]
		if is.State == balance.IsDraining && is.Flows == 0 && b.sweep.Last.Began > m.changed {
			is.State = balance.IsDrained
		}
		all, _, err := b.maps.serverCounts.Get(m.number)
		if err != nil {
			return is, err
		}
		for _, n := range all {
			is.Packets += n.To.Packets
			is.Bytes += n.To.Bytes
			is.ReplyPackets += n.From.Packets
			is.ReplyBytes += n.From.Bytes
		}
	}
	return is, nil
}

// stateOfSessions returns the number of sessions, as of the last sweep, and what became of packets.
func (b *balancer) stateOfSessions() (*stateSessions, error) {
	is := &stateSessions{Active: b.sweep.Last.Total, Capacity: b.conf.MaxSessions}
	for name, to := range map[string]*uint64{
		"opened-tcp": &is.Opened, "opened-udp": &is.Opened, "opened-icmp": &is.Opened, "opened-sctp": &is.Opened,
		"full": &is.Refused, "ports-taken": &is.PortsTaken, "fragments": &is.Fragments, "icmp-errors": &is.ICMPErrors,
	} {
		n, err := b.counters.Sum(name)
		if err != nil {
			return nil, err
		}
		*to += n
	}
	return is, nil
}
