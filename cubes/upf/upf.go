// SPDX-License-Identifier: Apache-2.0

// Package upf is the user plane function of a mobile core: its programs, their slow path and its configuration. Sessions are
// installed by the program polycube-upf (package pdusession).
package upf

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/pdusession"
)

// files are the model and the compiled programs.
//
//go:embed upf.yang upf.tc.o upf.xdp.o
var files embed.FS

func init() { cube.Register(cube.Service{Files: files, New: newUPF}) }

// reasonWaits is UPF_WAITS, the first reason of packets after those of gtppath.
const reasonWaits = gtppath.OwnReason

type upf struct {
	env     cube.Env
	paths   *gtppath.Path
	buffer  *buffer
	devices *pdusession.Devices
	tunnels *pdusession.Tunnels
	http    *redirector
	// messages counts End Markers and HTTP requests by outcome.
	messages messages
	teller   pdusession.Teller
	// settings are those of the paths.
	settings gtppath.Settings
}

func newUPF(env cube.Env) (cube.Instance, error) {
	u := &upf{env: env, buffer: newBuffer(env), devices: pdusession.NewDevices(env), tunnels: pdusession.NewTunnels(env), teller: pdusession.NewTeller(env)}
	u.buffer.arrived, u.http = u.passOn, newRedirector(env, &u.messages)
	u.paths = gtppath.New(env, gtppath.Options{Changed: u.pathChanged, Indicated: u.indicated})
	env.Every(time.Second, u.tick)
	return cube.Instance{
		Prepare: cube.Typed(u.prepare), State: u.state, Page: u.page, Action: u.action, PacketIn: u.packetIn,
		ParentChanged: u.paths.SetParent, Close: u.close,
	}, nil
}

func (u *upf) prepare(_ context.Context, c cube.ChangeOf[Config]) (cube.Plan, error) {
	conf := c.New
	locals, err := conf.locals()
	if err != nil {
		return cube.Plan{}, err
	}
	queue := uint32(0)
	if conf.Queue != nil {
		if u.env.Type() != cube.TypeTC {
			return cube.Plan{}, fmt.Errorf("guaranteed-queue: only packets at TC pass through the queues of Linux: create the upf with type=TC: %w", cube.ErrUnsupported)
		}
		queue = uint32(*conf.Queue)
	}
	settings := conf.Settings()
	commit := func() (func() error, error) {
		var undo cube.Undo
		if c.Created() {
			if err := errors.Join(u.paths.Follow(), u.buffer.begin(), u.http.begin()); err != nil {
				return nil, err
			}
		}
		if err := u.paths.Configure(settings, &undo); err != nil {
			return nil, errors.Join(err, undo.Run())
		}
		was, limit := u.settings, u.buffer.limit
		u.settings, u.buffer.limit = settings, int(conf.Bytes)
		undo.Push(func() error {
			u.settings, u.buffer.limit = was, limit
			return nil
		})
		return undo.Run, nil
	}
	plan := cube.Plan{
		Before:    []cube.Step{cube.Effect(commit)},
		Constants: map[string]any{"mtu": uint32(conf.MTU), "buffered_packets": conf.Packets, "guaranteed_queue": queue, "locals": locals},
	}
	if c.Created() {
		plan.MapSizes = conf.sizes()
	}
	return plan, nil
}

func (u *upf) packetIn(p *cube.PacketIn) {
	switch p.Reason {
	case reasonWaits:
		u.buffer.take(p)
	case reasonTunnelEnded:
		u.tunnelEnded(p)
	case reasonHTTP:
		u.http.take(p)
	default:
		u.paths.PacketIn(p)
	}
}

// tick picks up the peers that polycube-upf has added and removed.
func (u *upf) tick() {
	if err := u.paths.Follow(); err != nil {
		u.env.Logger().Debug("read the peers", "error", err)
	}
	u.buffer.tick()
}

// pathChanged announces that a path has failed or works again, and notifies polycube-upf of a failed one.
func (u *upf) pathChanged(peer netip.Addr, up bool) {
	if up {
		author.Announce(u.env, "UP", fmt.Sprintf("peer %s is UP", peer))
		return
	}
	author.Announce(u.env, "DOWN", fmt.Sprintf("peer %s is DOWN: it does not answer Echo Requests", peer))
	u.tell(pdusession.PathDown, peer, 0)
}

// indicated notifies it that a peer does not know a tunnel.
func (u *upf) indicated(from netip.Addr, teid uint32) { u.tell(pdusession.ErrorIndication, from, teid) }

func (u *upf) tell(kind pdusession.NoticeKind, peer netip.Addr, teid uint32) {
	if err := u.teller.Tell(kind, peer, teid); err != nil {
		u.env.Logger().Debug("notify polycube-upf", "error", err)
	}
}

// action carries out end-marker.
func (u *upf) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if len(path) != 1 || path[0] != "end-marker" {
		return cube.ActionResult{}, fmt.Errorf("%v: %w", path, cube.ErrNotFound)
	}
	var to struct {
		Peer     netip.Addr `json:"tunnel-endpoint"`
		Instance string     `json:"network-instance"`
		TEID     uint32     `json:"remote-teid"`
	}
	if err := json.Unmarshal(input, &to); err != nil {
		return cube.ActionResult{}, fmt.Errorf("end-marker: %w: %w", cube.ErrInvalid, err)
	}
	from, ok := u.settings.Local(to.Peer, gtppath.Instance(to.Instance))
	if !ok {
		where := ""
		if to.Instance != "" {
			where = " in network-instance " + to.Instance
		}
		return cube.ActionResult{}, fmt.Errorf("tunnel-endpoint %s: no local-address of its family%s: add one: %w", to.Peer, where, cube.ErrInvalid)
	}
	marker, err := u.paths.EndMarker(from, to.Peer, to.TEID)
	if err == nil {
		u.paths.SendEndMarker(marker)
	}
	return cube.ActionResult{}, err
}

func (u *upf) close() {
	if err := errors.Join(u.buffer.queues.Close(), u.devices.Close(), u.tunnels.Close(), u.http.urls.Close()); err != nil {
		u.env.Logger().Error("close the tables", "error", err)
	}
}
