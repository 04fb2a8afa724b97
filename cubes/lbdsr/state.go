// SPDX-License-Identifier: Apache-2.0

package lbdsr

// The state of services, servers and flows.

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
)

// stateService is a service's state.
type stateService struct {
	ServiceID
	inet.Count
	Live   uint32        `json:"live-servers"`
	Server []stateServer `json:"server,omitempty"`
}

// stateServer is the state of a server of a service.
type stateServer struct {
	Address Address       `json:"address"`
	State   balance.State `json:"state"`
	Since   time.Time     `json:"since"`
	Flows   uint32        `json:"flows"`
	inet.Count
	MAC    string       `json:"mac,omitempty"`
	Health *health.View `json:"health,omitempty"`
}

// stateFlows is the container `flows`.
type stateFlows struct {
	Pinned      uint32 `json:"pinned"`
	Established uint32 `json:"established"`
	Capacity    uint32 `json:"capacity"`
	NotPinned   uint64 `json:"not-pinned"`
}

// state returns the state of services and flows.
func (b *balancer) state(_ context.Context, path []string) (any, error) {
	var out struct {
		Service []stateService `json:"service,omitempty"`
		Flows   *stateFlows    `json:"flows,omitempty"`
		Checks  *checks.Totals `json:"checks,omitempty"`
		Tunnel  *stateTunnel   `json:"tunnel,omitempty"`
	}
	var err error
	if len(path) == 0 || path[0] == "flows" {
		if out.Flows, err = b.stateOfFlows(); err != nil {
			return nil, err
		}
	}
	if len(path) == 0 || path[0] == "tunnel" {
		out.Tunnel = &b.tooBigs
	}
	if len(path) == 0 || path[0] == "checks" {
		out.Checks = b.checks.Totals()
	}
	if len(path) > 0 && path[0] != "service" {
		return out, nil
	}
	services := b.now.services
	if len(path) > 3 {
		services = map[ServiceID]*wanted{}
		if id, err := balance.ServiceOf(path[1:]); err == nil && b.now.services[id] != nil {
			services[id] = b.now.services[id]
		}
	}
	for id, w := range services {
		if w.first {
			continue
		}
		is, err := b.stateOfService(id, path)
		if err != nil {
			return nil, err
		}
		out.Service = append(out.Service, is)
	}
	return out, nil
}

// stateOfService returns the state of a service.
func (b *balancer) stateOfService(id ServiceID, path []string) (stateService, error) {
	w := b.now.services[id]
	number, _ := b.services.Known(id)
	is := stateService{ServiceID: id, Live: b.live[id]}
	counts, _, err := b.maps.serviceCounts.Get(number)
	if err != nil {
		return is, err
	}
	is.Count = inet.Sum(counts)
	for _, text := range slices.Sorted(maps.Keys(w.servers)) {
		if len(path) > 5 && path[5] != text {
			continue
		}
		server, err := b.stateOfServer(id, number, w.servers[text])
		if err != nil {
			return is, err
		}
		is.Server = append(is.Server, server)
	}
	return is, nil
}

// stateOfServer returns the state of a server of a service, whose number is given.
func (b *balancer) stateOfServer(id ServiceID, number uint32, conf *Server) (stateServer, error) {
	s, m := b.servers[conf.key()], b.members[memberKey{Service: id, Server: conf.key()}]
	flows := b.pairs[balance.Pair{Service: number, Server: s.number}].Flows
	is := stateServer{Address: conf.Address, State: m.is(conf, s), Since: m.since.UTC().Truncate(time.Second), Flows: uint32(flows)}
	if is.State == balance.IsDraining && flows == 0 && b.swept > m.at {
		is.State = balance.IsDrained
	}
	if s.mac != 0 {
		is.MAC = s.mac.String()
	}
	if m.check != nil {
		is.Health = b.checks.View(m.check)
	}
	counts, _, err := b.maps.serverCounts.Get(s.number)
	is.Count = inet.Sum(counts)
	return is, err
}

// stateOfFlows returns the state of pins, as of the last sweep.
func (b *balancer) stateOfFlows() (*stateFlows, error) {
	capacity, err := b.pins.Capacity()
	if err != nil {
		return nil, err
	}
	is := &stateFlows{Capacity: uint32(capacity)}
	for _, n := range b.pairs {
		is.Pinned += uint32(n.Flows)
		is.Established += uint32(n.Confirmed)
	}
	is.NotPinned, err = b.counters.Sum("not-pinned")
	return is, err
}
