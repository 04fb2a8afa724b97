// SPDX-License-Identifier: Apache-2.0

// Package gtphandler ends the GTP-U tunnels of a mobile network's users: it takes their packets out, and puts packets for them
// in. Package gtppath answers the messages that are no packets of users, and watches the paths to base stations.
package gtphandler

import (
	"context"
	"embed"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
)

// files are the model and the compiled programs.
//
//go:embed gtphandler.yang gtphandler.tc.o gtphandler.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newHandler}) }

type handler struct {
	env   cube.Env
	path  *gtppath.Path
	users *users
	// conf is the configuration without its entries.
	conf *Config
}

func newHandler(env cube.Env) (cube.Instance, error) {
	h := &handler{env: env}
	h.path = gtppath.New(env, gtppath.Options{Changed: h.stationChanged, Indicated: h.indicated})
	h.users = newUsers(env, h.path)
	return cube.Instance{Prepare: cube.Typed(h.prepare), State: h.state, PacketIn: h.path.PacketIn, ParentChanged: h.path.SetParent}, nil
}

// stationChanged logs that a base station goes up or down.
func (h *handler) stationChanged(address netip.Addr, up bool) {
	if up {
		h.env.Logger().Info("base station is up", "address", address)
	} else {
		h.env.Logger().Warn("base station is down", "address", address, "unanswered", h.conf.EchoRequests)
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
	change, err := h.users.prepare(c.Entries, h.conf, conf, c.Created())
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
		for _, m := range change.left {
			h.path.SendEndMarker(m)
		}
		change.left = nil
		return nil, nil
	}
	plan := cube.Plan{Before: []cube.Step{cube.Effect(commit), cube.Effect(change.commit)}, After: []cube.Step{cube.Effect(markers)}}
	if c.New != nil {
		plan.Constants = map[string]any{"mtu": uint32(conf.MTU)}
	}
	if c.Created() {
		// What replaces something else is there before that is gone.
		most := conf.MaxUsers
		plan.MapSizes = map[string]uint32{"users4": 2 * most, "users6": 2 * most, "tunnels": 2 * most, "stations": 2 * most, "counts": most}
	}
	return plan, nil
}
