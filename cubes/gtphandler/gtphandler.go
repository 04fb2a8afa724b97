// SPDX-License-Identifier: Apache-2.0

// Package gtphandler ends the GTP-U tunnels of a mobile network's users: it takes their packets out, and puts packets for them
// in. It answers the messages that are no packets of users, and watches the paths to base stations.
package gtphandler

import (
	"context"
	"embed"
	"time"

	"github.com/polycube/polycube/cube"
)

// files are the model and the compiled programs.
//
//go:embed gtphandler.yang gtphandler.tc.o gtphandler.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newHandler}) }

type handler struct {
	env      cube.Env
	users    *users
	stations *stations
	messages messages
	parent   cube.Parent
	ids      uint16 // of the IPv4 packets that are sent
	// conf is the configuration without its entries.
	conf *Config
}

func newHandler(env cube.Env) (cube.Instance, error) {
	h := &handler{env: env, stations: newStations(env)}
	h.users = newUsers(env, h.stations)
	env.Every(time.Second, h.tick)
	return cube.Instance{Prepare: cube.Typed(h.prepare), State: h.state, PacketIn: h.packetIn,
		ParentChanged: func(p cube.Parent) { h.parent = p }}, nil
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
			h.endMarker(m)
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
