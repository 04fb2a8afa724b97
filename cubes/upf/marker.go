// SPDX-License-Identifier: Apache-2.0

package upf

// End Markers of tunnels whose packets enter other tunnels: an intermediate UPF forwards them, after the packets (TS 23.501
// 5.8.2.9).

import (
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/pdusession"
	"github.com/polycube/polycube/wire"
)

// reasonTunnelEnded is UPF_TUNNEL_ENDED.
const reasonTunnelEnded = reasonWaits + 1

// messages are the counters of the container `messages` that the cube maintains itself.
type messages struct {
	EndMarkersForwarded uint64 `json:"end-markers-forwarded"`
	EndMarkersDiscarded uint64 `json:"end-markers-discarded"`
	HTTPRedirected      uint64 `json:"http-redirected"`
	HTTPInvalid         uint64 `json:"http-invalid"`
}

// ended is a received End Marker.
type ended struct {
	of    gtppath.Tunnel
	trip  cube.Trip
	frame []byte
	// rows is the number of rows with packets ahead of it. crowded: one of them had no room for it.
	rows    int
	crowded bool
}

// tunnelEnded takes an End Marker from the program. Buffered packets of its tunnel are sent first.
func (u *upf) tunnelEnded(p *cube.PacketIn) {
	e := &ended{of: gtppath.Tunnel{TEID: p.Metadata[0], Instance: u.instanceOf(p.Data)}, trip: p.Trip, frame: append([]byte(nil), p.Data...)}
	all, err := u.tunnels.Onward(e.of)
	if err != nil || len(p.Data) < p.Length {
		u.env.Logger().Debug("End Marker dropped", "tunnel", e.of, "error", err)
		u.messages.EndMarkersDiscarded++
		return
	}
	e.rows++ // so that it is not sent before all rows have it
	for _, o := range all {
		if o.QueueRow == 0 || o.Action != pdusession.Wait && u.buffer.queues.Waiting(o.QueueRow) == 0 {
			continue
		}
		e.rows++
		if !u.buffer.follow(o.QueueRow, e) {
			e.rows--
			e.crowded = true
		}
	}
	u.passOn(e)
}

// instanceOf returns the network instance of the local address that a frame was sent to.
func (u *upf) instanceOf(frame []byte) uint32 {
	ip, err := wire.ParseIP(frame)
	if err != nil {
		return 0
	}
	instance, _ := u.settings.InstanceOf(ip.Dst)
	return instance
}

// passOn sends an End Marker into the next tunnels, once no row has packets ahead of it.
func (u *upf) passOn(e *ended) {
	if e.rows--; e.rows > 0 {
		return
	}
	all, err := u.tunnels.Onward(e.of)
	if err != nil || e.crowded {
		u.env.Logger().Debug("End Marker dropped", "tunnel", e.of, "crowded", e.crowded, "error", err)
		all = nil
	}
	var sent []pdusession.Onward
	for _, o := range all {
		to := pdusession.Onward{Peer: o.Peer, TEID: o.TEID, Instance: o.Instance}
		if o.Action == pdusession.Pass && o.Peer.IsValid() && !slices.Contains(sent, to) && u.sendOn(e, to) {
			sent = append(sent, to)
		}
	}
	u.messages.EndMarkersForwarded += uint64(len(sent))
	if len(sent) == 0 {
		u.messages.EndMarkersDiscarded++
	}
}

// sendOn sends an End Marker into a tunnel, along the path of the packets: through the cube behind.
func (u *upf) sendOn(e *ended, to pdusession.Onward) bool {
	from, ok := u.settings.Local(to.Peer, to.Instance)
	if !ok {
		return false
	}
	m := gtpu.End(to.TEID)
	payload, err := m.Append(nil)
	if err == nil {
		d := wire.Datagram{Src: netip.AddrPortFrom(from, gtpu.Port), Dst: netip.AddrPortFrom(to.Peer, gtpu.Port), Payload: payload}
		err = u.env.Send(&cube.PacketOut{Direction: cube.Ingress, Data: d.Frame(wire.Destination(e.frame), wire.Source(e.frame)), Trip: e.trip})
	}
	if err != nil {
		u.env.Logger().Debug("send an End Marker", "to", to.Peer, "error", err)
	}
	return err == nil
}
