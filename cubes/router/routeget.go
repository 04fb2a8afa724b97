// SPDX-License-Identifier: Apache-2.0

package router

// The action route-get: which routes packets to an address use, and why not the others.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
)

// routeAnswer is the output of route-get.
type routeAnswer struct {
	Result string         `json:"result"`
	Route  []matchedRoute `json:"route"`
}

type matchedRoute struct {
	Network   string `json:"network"`
	Nexthop   string `json:"nexthop"`
	Interface string `json:"interface,omitempty"`
	Pathcost  uint32 `json:"pathcost"`
	Protocol  string `json:"protocol"`
	Used      bool   `json:"used"`
	Reason    string `json:"reason"`
}

// Action runs the actions of the model.
func (r *router) Action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if !slices.Equal(path, []string{"route-get"}) {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", path, cube.ErrUnsupported)
	}
	var in struct{ Address netip.Addr }
	if err := json.Unmarshal(input, &in); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the address: %w", err)
	}
	a, err := r.routeGet(in.Address)
	return cube.ActionResult{Output: a}, err
}

func (r *router) routeGet(to netip.Addr) (*routeAnswer, error) {
	switch {
	case r.conf != nil && r.conf.Fib == "host":
		return nil, fmt.Errorf("fib is host, so the host's routes are used: run `ip route get %s`: %w", to, cube.ErrInvalid)
	case to.IsLinkLocalUnicast() || to.Zone() != "":
		return nil, fmt.Errorf("%s is link-local, and such addresses are not routed: %w", to, cube.ErrInvalid)
	case to.IsMulticast() || to.Is4In6():
		return nil, fmt.Errorf("%s: routes to this address are not allowed: %w", to, cube.ErrInvalid)
	}
	out := &routeAnswer{Route: []matchedRoute{}}
	for bits := to.BitLen(); bits >= 0; bits-- {
		p, _ := to.Prefix(bits)
		d := r.rib.table[p]
		if d == nil {
			continue
		}
		best := r.rib.bestRoutes(d)
		routes := slices.Clone(d.routes)
		slices.SortStableFunc(routes, route.compare)
		for _, is := range routes {
			s := r.show(p, d, is)
			m := matchedRoute{s.Network, s.Nexthop, s.Interface, s.Pathcost, s.Protocol, s.Reason == "" && out.Result == "", s.Reason}
			switch {
			case m.Used && len(routes) > len(best):
				m.Reason = "longest prefix match, best route"
			case m.Used:
				m.Reason = "longest prefix"
			case m.Reason == "":
				m.Reason = "a longer prefix matches"
			}
			out.Route = append(out.Route, m)
		}
		if out.Result == "" {
			out.Result = r.becomes(to, best)
		}
	}
	if out.Result == "" {
		out.Result = "answered with ICMP network unreachable: no route"
	}
	return out, nil
}

// becomes describes what happens to packets that use routes, "" if there are none.
func (r *router) becomes(to netip.Addr, best []route) string {
	if len(best) == 0 {
		return ""
	}
	is := best[0]
	name, _ := r.env.PortName(is.port)
	switch {
	case is.kind == kindLocal:
		return fmt.Sprintf("delivered to the router: it is an address of port %s", r.now.own[to])
	case is.kind == kindBroadcast:
		return "dropped: it is the broadcast address of a network"
	case is.kind == kindBlackhole:
		return "dropped by a blackhole route"
	case is.kind == kindUnreachable:
		return "answered with ICMP host unreachable"
	case is.kind == kindProhibit:
		return "answered with ICMP administratively prohibited"
	case len(best) > 1:
		return fmt.Sprintf("sent by one of %d routes, chosen per flow", len(best))
	case is.gateway.IsValid():
		return fmt.Sprintf("sent to %s by port %s", is.gateway, name)
	}
	return fmt.Sprintf("sent by port %s to %s, which is directly connected", name, to)
}
