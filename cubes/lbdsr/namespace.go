// SPDX-License-Identifier: Apache-2.0

package lbdsr

// A load balancer with a namespace (shadow=true): its interfaces have the addresses of the ports, and virtual addresses with
// a live server are routes in it, which a routing daemon there announces.

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/advertise"
)

// interfaces returns the interfaces of ports in the namespace.
func (w *ways) interfaces(conf json.RawMessage) (map[string]cube.Interface, error) {
	c := new(Config)
	if err := json.Unmarshal(conf, c); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	out := map[string]cube.Interface{}
	for i := range c.Ports {
		p := &c.Ports[i]
		m := w.macIn(c, p).Bytes()
		is := cube.Interface{MAC: net.HardwareAddr(m[:])}
		for _, six := range []bool{false, true} {
			if a, _ := p.address(six); a.IsValid() {
				is.Addresses = append(is.Addresses, a)
			}
		}
		out[p.Name] = is
	}
	return out, nil
}

// portFollows returns the edits that give a port the addresses of its interface in the namespace. A port has one address of
// a family: the one that it had, else the first one.
func portFollows(port string, was, is cube.Interface) ([]cube.Edit, error) {
	var edits []cube.Edit
	if is.MAC != nil && !slices.Equal(was.MAC, is.MAC) {
		edits = append(edits, cube.Edit{Path: []string{"ports", port, "mac"}, Value: is.MAC.String()})
	}
	for _, six := range []bool{false, true} {
		leaf := []string{"ports", port, "ip"}
		if six {
			leaf[2] = "ip6"
		}
		before, after := ofFamily(was.Addresses, six), ofFamily(is.Addresses, six)
		switch {
		case len(before) > 0 && slices.Contains(after, before[0]):
		case len(after) > 0:
			edits = append(edits, cube.Edit{Path: leaf, Value: after[0].String()})
		case len(before) > 0:
			edits = append(edits, cube.Edit{Delete: true, Path: leaf})
		}
	}
	return edits, nil
}

// ofFamily returns the addresses of a family.
func ofFamily(all []netip.Prefix, six bool) []netip.Prefix {
	return slices.DeleteFunc(slices.Clone(all), func(p netip.Prefix) bool { return p.Addr().Is6() != six })
}

// toNamespace gives ARP and neighbour discovery to the namespace, which resolves neighbours itself.
func (w *ways) toNamespace(p *cube.PacketIn) {
	if !w.conf.Shadow {
		return
	}
	out := cube.PacketOut{Port: p.Port, Namespace: true, Data: p.Data, Trip: p.Trip}
	if err := w.env.Send(&out); err != nil {
		w.env.Logger().Debug("pass a packet to the namespace", "error", err)
	}
}

// announcer has the virtual addresses that are routes in the namespace.
type announcer struct {
	env cube.Env
	// now is what the namespace has; nil: not known. must says that it may have to change.
	now  []netip.Prefix
	must bool
}

// update makes the routes in the namespace the virtual addresses that are announced, if these may have changed.
func (a *announcer) update(conf *Config, services map[ServiceID]*wanted, live map[ServiceID]uint32) {
	if !a.must || !conf.Shadow {
		return
	}
	want := announced(services, live)
	if a.now == nil || !slices.Equal(want, a.now) {
		err := advertise.Set(a.env, want)
		switch {
		case errors.Is(err, cube.ErrNotFound):
			return // the namespace is not there yet
		case err != nil:
			a.env.Logger().Error("announce virtual addresses", "error", err)
			return
		}
		a.now = want
	}
	a.must = false
}

// doubt compares with what the namespace really has, the next time: someone may have removed routes.
func (a *announcer) doubt() { a.now, a.must = nil, true }

// announced returns the virtual addresses that are announced: those of a service that asks for it and has a live server.
func announced(services map[ServiceID]*wanted, live map[ServiceID]uint32) []netip.Prefix {
	out := []netip.Prefix{}
	for id, w := range services {
		if w.conf.Announce && live[id] > 0 {
			out = append(out, netip.PrefixFrom(id.VIP, id.VIP.BitLen()))
		}
	}
	slices.SortFunc(out, netip.Prefix.Compare)
	return slices.Compact(out)
}
