// SPDX-License-Identifier: Apache-2.0

// Package gtphandler terminates the GTP-U tunnels of a mobile network's users: it decapsulates their packets or Ethernet frames, and
// encapsulates those to them. Package gtppath answers all other messages, and supervises the paths to base stations.
package gtphandler

import (
	"context"
	"embed"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/gtppath"
)

// files are the model and the compiled programs.
//
//go:embed gtphandler.yang gtphandler.tc.o gtphandler.xdp.o
var files embed.FS

// frameCounters are the names of enum gtphandler_frame_counter.
var frameCounters = counter.Of(files, "gtphandler_frame_counter")

func init() { cube.Register(cube.Service{Files: files, New: newHandler}) }

type handler struct {
	env      cube.Env
	path     *gtppath.Path
	users    *users
	sessions *sessions
	programs counter.Set
	// conf is the configuration without its entries.
	conf *Config
}

func newHandler(env cube.Env) (cube.Instance, error) {
	h := &handler{env: env}
	h.path = gtppath.New(env, gtppath.Options{Changed: h.stationChanged, Indicated: h.indicated})
	counters := newCounters(env)
	h.users, h.sessions = newUsers(env, h.path, counters), newSessions(env, h.path, counters)
	h.programs = frameCounters.In(env, "frame_counters")
	return cube.Instance{Prepare: cube.Typed(h.prepare), State: h.state, PacketIn: h.packetIn, ParentChanged: h.setParent}, nil
}

// packetIn takes a packet from the program.
func (h *handler) packetIn(in *cube.PacketIn) {
	if in.Reason < gtppath.OwnReason {
		h.path.PacketIn(in)
		return
	}
	h.sessions.packetIn(in)
}

func (h *handler) setParent(parent cube.Parent) {
	h.path.SetParent(parent)
	h.sessions.setParent(parent)
}

// stationChanged logs that a base station goes up or down, and adds an event.
func (h *handler) stationChanged(address netip.Addr, up bool) {
	if up {
		h.env.Logger().Info("base station is up", "address", address)
		author.Announce(h.env, "UP", fmt.Sprintf("base station %s is UP", address))
	} else {
		h.env.Logger().Warn("base station is down", "address", address, "unanswered", h.conf.EchoRequests)
		author.Announce(h.env, "DOWN", fmt.Sprintf("base station %s is DOWN: %d Echo Requests were not answered", address, h.conf.EchoRequests))
	}
}

// indicated logs that a base station does not know a tunnel.
func (h *handler) indicated(from netip.Addr, teid uint32) {
	h.env.Logger().Warn("a base station does not know a tunnel", "address", from, "teid", teid)
}

func (h *handler) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	conf := c.New
	if conf == nil { // only entries change
		conf = h.conf
	}
	if err := conf.Check(); err != nil {
		return cube.Plan{}, err
	}
	change, err := h.users.prepare(c.Entries, h.conf, conf, c.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	framed, err := h.sessions.prepare(conf, c.Created())
	if err != nil {
		return cube.Plan{}, err
	}
	commit := func() (func() error, error) {
		was := h.conf
		h.conf = conf
		return func() error {
			h.conf = was
			return nil
		}, nil
	}
	markers := func() (func() error, error) {
		for _, m := range slices.Concat(change.left, framed.left) {
			h.path.SendEndMarker(m)
		}
		change.left, framed.left = nil, nil
		return nil, nil
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(commit), cube.Effect(change.commit)}, After: []cube.Step{cube.Effect(markers)}}
	if c.New != nil {
		plan.Before = append(plan.Before, cube.Effect(framed.commit))
		plan.Constants = conf.constants()
	}
	if c.Created() {
		plan.MapSizes = conf.sizes()
		if conf.Type == Ethernet {
			plan.Programs = map[cube.ProgramSlot]*cube.Program{
				{Direction: cube.Ingress}: {Function: "gtphandler_frames_in"}, {Direction: cube.Egress}: {Function: "gtphandler_frames_out"},
			}
		}
	}
	return plan, nil
}

// constants are those of the program.
func (c *Config) constants() map[string]any {
	refresh := aging.Refresh(time.Duration(c.AgingTime) * time.Second)
	return map[string]any{"mtu": uint32(c.MTU), "refresh_ns": uint64(refresh)}
}

// sizes are those of the maps. What replaces something else is there before that is gone.
func (c *Config) sizes() map[string]uint32 {
	users, routes, sessions, macs, most := c.MaxUsers, c.MaxRoutes, uint32(1), uint32(1), c.MaxUsers
	if c.Type == Ethernet {
		users, routes, sessions, macs, most = 1, 1, c.MaxSessions, c.MaxMACs, c.MaxSessions
	}
	return map[string]uint32{
		"users4": 2 * users, "users6": 2 * users, "networks": 2 * routes, "tunnels": 2 * users, "named_tunnels": 2 * users, "stations": 2 * most, "counts": most,
		"sessions": 2 * sessions, "macs": 2 * macs,
	}
}
