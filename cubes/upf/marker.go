// SPDX-License-Identifier: Apache-2.0

package upf

// End Markers of tunnels whose packets enter other tunnels: an intermediate UPF forwards them, after the packets (TS 23.501
// 5.8.2.9).

import (
	"net/netip"
	"slices"

	"github.com/polycube/polycube/cube"
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
	teid  uint32
	trip  cube.Trip
	frame []byte
	// rows is the number of rows with packets ahead of it. crowded: one of them had no room for it.
	rows    int
	crowded bool
}

// tunnelEnded takes an End Marker from the program. Buffered packets of its tunnel are sent first.
func (u *upf) tunnelEnded(p *cube.PacketIn) {
	e := &ended{teid: p.Metadata[0], trip: p.Trip, frame: append([]byte(nil), p.Data...)}
	all, err := u.tunnels.Onward(e.teid)
	if err != nil || len(p.Data) < p.Length {
		u.env.Logger().Debug("End Marker dropped", "teid", e.teid, "error", err)
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

// passOn sends an End Marker into the next tunnels, once no row has packets ahead of it.
func (u *upf) passOn(e *ended) {
	if e.rows--; e.rows > 0 {
		return
	}
	all, err := u.tunnels.Onward(e.teid)
	if err != nil || e.crowded {
		u.env.Logger().Debug("End Marker dropped", "teid", e.teid, "crowded", e.crowded, "error", err)
		all = nil
	}
	var sent []pdusession.Onward
	for _, o := range all {
		to := pdusession.Onward{Peer: o.Peer, TEID: o.TEID}
		if o.Action == pdusession.Pass && o.Peer.IsValid() && !slices.Contains(sent, to) && u.sendOn(e, o.Peer, o.TEID) {
			sent = append(sent, to)
		}
	}
	u.messages.EndMarkersForwarded += uint64(len(sent))
	if len(sent) == 0 {
		u.messages.EndMarkersDiscarded++
	}
}

// sendOn sends an End Marker into a tunnel, along the path of the packets: through the cube behind.
func (u *upf) sendOn(e *ended, peer netip.Addr, teid uint32) bool {
	from, ok := u.settings.Local(peer, "")
	if !ok {
		return false
	}
	m := gtpu.End(teid)
	payload, err := m.Append(nil)
	if err == nil {
		d := wire.Datagram{Src: netip.AddrPortFrom(from, gtpu.Port), Dst: netip.AddrPortFrom(peer, gtpu.Port), Payload: payload}
		err = u.env.Send(&cube.PacketOut{Direction: cube.Ingress, Data: d.Frame(wire.Destination(e.frame), wire.Source(e.frame)), Trip: e.trip})
	}
	if err != nil {
		u.env.Logger().Debug("send an End Marker", "to", peer, "error", err)
	}
	return err == nil
}
