// SPDX-License-Identifier: Apache-2.0

package external

// Requests of a service other than those about maps and programs: sets of ports, and routes.

import (
	"fmt"
	"net"
	"net/netip"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// maxMembers limits the memberships of a FloodWrite.
const maxMembers = 1 << 20

// Route is the answer to a RouteRequest.
type Route struct {
	Netdev          string
	Index           int
	Gateway, Source netip.Addr
	MAC             net.HardwareAddr
	MTU             int
}

// floodSets checks sets of ports.
func floodSets(w *pb.FloodWrite) (map[uint32][]cube.FloodMember, error) {
	sets, members := make(map[uint32][]cube.FloodMember, len(w.GetSets())), 0
	for _, s := range w.GetSets() {
		if _, twice := sets[s.GetIndex()]; twice {
			return nil, fmt.Errorf("set %d of ports is there twice: %w", s.GetIndex(), cube.ErrInvalid)
		}
		if members += len(s.GetPorts()) + len(s.GetTagged()); members > maxMembers {
			return nil, fmt.Errorf("sets of ports have more than %d members in total: %w", maxMembers, cube.ErrInvalid)
		}
		list := make([]cube.FloodMember, 0, len(s.GetPorts())+len(s.GetTagged()))
		for i, ports := range [][]uint32{s.GetPorts(), s.GetTagged()} {
			for _, port := range ports {
				if port > 1<<16-1 {
					return nil, fmt.Errorf("set %d of ports: there is no port %d: %w", s.GetIndex(), port, cube.ErrInvalid)
				}
				list = append(list, cube.FloodMember{Port: uint16(port), Tagged: i == 1})
			}
		}
		sets[s.GetIndex()] = list
	}
	return sets, nil
}

// writeFloods replaces sets of ports; the journal records the previous ones.
func (i *instance) writeFloods(w *pb.FloodWrite, j *journal) error {
	sets, err := floodSets(w)
	if err != nil {
		return err
	}
	floods := i.env.Floods()
	var was map[uint32][]cube.FloodMember
	if j != nil {
		was = floods.All()
	}
	if w.GetReplace() {
		if err := floods.Reset(sets); err != nil || j == nil {
			return err
		}
		j.floods = append(j.floods, func() error { return floods.Reset(was) })
		return nil
	}
	if err := floods.SetAll(sets); err != nil || j == nil {
		return err
	}
	before := make(map[uint32][]cube.FloodMember, len(sets))
	for index := range sets {
		before[index] = was[index]
	}
	j.floods = append(j.floods, func() error { return floods.SetAll(before) })
	return nil
}

// floodsRequest changes sets of ports of a cube.
func floodsRequest(l *life, r *pb.FloodsRequest) *pb.FloodsReply {
	reply := &pb.FloodsReply{Id: r.GetId()}
	i, err := l.cube(r.GetCube())
	if err == nil {
		err = i.floodsRequest(r.GetWrite())
	}
	if err != nil {
		reply.Fault = fault(err)
	}
	return reply
}

func (i *instance) floodsRequest(w *pb.FloodWrite) error {
	i.mu.Lock() // changes while a plan is committed must be in its journal
	defer i.mu.Unlock()
	if i.closed {
		return fmt.Errorf("cube %d is not open: %w", i.handle, cube.ErrNotFound)
	}
	return i.writeFloods(w, i.undo)
}

// routeRequest looks up a route of the host.
func (o Options) routeRequest(r *pb.RouteRequest) *pb.RouteReply {
	reply := &pb.RouteReply{Id: r.GetId()}
	route, err := o.route(r.GetDestination())
	if err != nil {
		reply.Fault = fault(err)
		return reply
	}
	reply.Netdev, reply.Index, reply.Mac, reply.Mtu = route.Netdev, uint32(route.Index), route.MAC, uint32(route.MTU)
	if route.Gateway.IsValid() {
		reply.Gateway = route.Gateway.String()
	}
	if route.Source.IsValid() {
		reply.Source = route.Source.String()
	}
	return reply
}

func (o Options) route(destination string) (Route, error) {
	to, err := netip.ParseAddr(destination)
	if err != nil || to.Zone() != "" {
		return Route{}, fmt.Errorf("destination %.80q: must be an IPv4 or IPv6 address: %w", destination, cube.ErrInvalid)
	}
	if o.Route == nil {
		return Route{}, fmt.Errorf("this daemon looks up no routes: %w", cube.ErrUnsupported)
	}
	return o.Route(to)
}
