// SPDX-License-Identifier: Apache-2.0

package router

// Routes follow their port: while it is DOWN or its netdev has no carrier, packets do not use routes through it.

import (
	"fmt"
	"maps"
	"time"
)

// carrierHold is how long the carrier must be back before routes use the port again.
const carrierHold = 100 * time.Millisecond

// portLink is the reported state of a port.
type portLink struct {
	up, works bool
	// held is set while the carrier is lost, and for a moment after that, until release is called.
	held    bool
	release func()
}

// why returns why no route uses a port, "" if routes do. A port without a report is DOWN.
func (l *portLink) why(p *portState) string {
	switch {
	case l == nil, !l.up:
		return fmt.Sprintf("port %s is DOWN", p.name)
	case !p.detect:
		return ""
	case !l.works:
		return fmt.Sprintf("port %s has no carrier", p.name)
	case l.held:
		return fmt.Sprintf("port %s has had carrier for less than %v", p.name, carrierHold)
	}
	return ""
}

func (l *portLink) hold(held bool) {
	if l.held = held; l.release != nil {
		l.release()
		l.release = nil
	}
}

// portLinks are the reported states of ports, by name.
type portLinks map[string]*portLink

// of returns that of a port, which is DOWN until it is reported.
func (p portLinks) of(port string) *portLink {
	l := p[port]
	if l == nil {
		l = &portLink{}
		p[port] = l
	}
	return l
}

// PortChanged records whether a port has a peer.
func (r *router) PortChanged(port string, up bool) {
	l := r.links.of(port)
	l.up = up
	l.hold(false) // the carrier of the new peer was not lost
	r.followLinks()
}

// LinkChanged records whether the link of a port works.
func (r *router) LinkChanged(port string, works bool) {
	if index, ok := r.env.PortIndex(port); ok {
		r.slow.portUp(index, works)
	}
	l := r.links.of(port)
	returns := works && l.held
	l.works = works
	l.hold(l.up && !works || returns)
	if returns {
		l.release = r.env.After(carrierHold, func() {
			l.release = nil
			l.hold(false)
			r.followLinks()
		})
	}
	r.followLinks()
}

// followLinks updates routes to the reported state of ports.
func (r *router) followLinks() {
	maps.DeleteFunc(r.links, func(port string, _ *portLink) bool { return r.now.byName[port] == nil })
	down := r.downPorts(r.now)
	if maps.Equal(down, r.rib.down) {
		return
	}
	if _, err := r.rib.follow(down, nil); err != nil {
		r.env.Logger().Error("update routes after a change of ports", "error", err)
	}
}

// downPorts returns the ports of a layout that no route uses.
func (r *router) downPorts(l *layout) map[uint16]bool {
	down := map[uint16]bool{}
	for index, p := range l.ports {
		if r.links[p.name].why(p) != "" {
			down[index] = true
		}
	}
	return down
}

// whyUnused returns why packets do not use a route to a destination, "" if they do.
func (r *router) whyUnused(d *destination, is route) string {
	if p := r.now.ports[is.port]; is.kind == kindUnicast && p != nil && r.rib.down[is.port] {
		return r.links[p.name].why(p)
	}
	if r.rib.uses(d, is) {
		return ""
	}
	routes := r.rib.bestRoutes(d)
	if len(routes) == 0 {
		return "no space left for it"
	}
	best := routes[0]
	switch {
	case best.kind == kindLocal:
		return "it is an address of the router"
	case best.origin != is.origin:
		return fmt.Sprintf("a %s route is used", best.origin)
	case best.cost != is.cost:
		return fmt.Sprintf("a route with pathcost %d is used", best.cost)
	}
	return fmt.Sprintf("a %s route with the same pathcost is used", specialWord(best.kind))
}
