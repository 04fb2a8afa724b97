// SPDX-License-Identifier: Apache-2.0

package gtphandler

// Messages that are no packets of users, and packets that are too big for their tunnel. The program limits how many come.

import (
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/wire"
)

// Reasons of packets: enum gtphandler_slowpath_reason.
const (
	reasonEcho = 32 + iota
	reasonUnknownTunnel
	reasonUnknownExtension
	reasonErrorIndication
	reasonTooBig
	reasonSegment
)

// messages is the container `messages`.
type messages struct {
	EchoAnswered     uint64 `json:"echo-requests-answered"`
	EchoRequestsSent uint64 `json:"echo-requests-sent"`
	EchoResponses    uint64 `json:"echo-responses"`
	ErrorsSent       uint64 `json:"error-indications-sent"`
	ErrorsReceived   uint64 `json:"error-indications-received"`
	EndMarkers       uint64 `json:"end-markers-sent"`
	Extensions       uint64 `json:"extensions-answered"`
	TooBig           uint64 `json:"too-big-answered"`
	Fragmented       uint64 `json:"fragmented"`
	Segmented        uint64 `json:"segmented"`
	Invalid          uint64 `json:"invalid"`
}

// packetIn takes a packet from the program.
func (h *handler) packetIn(p *cube.PacketIn) {
	ip, err := wire.ParseIP(p.Data)
	if err != nil || len(p.Data) < p.Length {
		h.messages.Invalid++
		return
	}
	switch p.Reason {
	case reasonTooBig:
		h.tooBig(p, &ip)
		return
	case reasonSegment:
		pieces, err := ip.Segments(int(p.Offload.GSOSize))
		h.again(p, pieces, err, &h.messages.Segmented)
		return
	}
	d, ok := ip.Datagram()
	if !ok || d.Dst.Port() != gtpu.Port {
		h.messages.Invalid++
		return
	}
	m, _ := gtpu.Parse(d.Payload) // an unknown extension header is an error
	switch p.Reason {
	case reasonEcho:
		h.echo(p, &d, &m)
	case reasonUnknownTunnel:
		h.messages.ErrorsSent++
		h.answer(p, &d, gtpu.Port, gtpu.Indication(m.TEID, d.Dst.Addr()))
	case reasonUnknownExtension:
		h.messages.Extensions++
		h.answer(p, &d, gtpu.Port, gtpu.Supported())
	case reasonErrorIndication:
		h.indicated(&d, &m)
	}
}

// echo answers a request, or notes a response.
func (h *handler) echo(p *cube.PacketIn, d *wire.Datagram, m *gtpu.Message) {
	switch {
	case m.Sequence == nil:
		h.messages.Invalid++
	case m.Type == gtpu.EchoRequest:
		h.messages.EchoAnswered++
		h.answer(p, d, d.Src.Port(), gtpu.Echo(true, *m.Sequence))
	case h.answered(d.Src.Addr(), *m.Sequence):
		h.messages.EchoResponses++
	default:
		h.messages.Invalid++
	}
}

// indicated notes that a base station does not know a tunnel.
func (h *handler) indicated(d *wire.Datagram, m *gtpu.Message) {
	teid, _, err := m.Indicated()
	if err != nil || h.stations.of[d.Src.Addr()] == nil {
		h.messages.Invalid++
		return
	}
	h.messages.ErrorsReceived++
	h.env.Logger().Warn("a base station does not know a tunnel", "address", d.Src.Addr(), "teid", teid)
}

// answer sends a message to where a packet has come from.
func (h *handler) answer(p *cube.PacketIn, d *wire.Datagram, port uint16, m gtpu.Message) {
	h.send(p.Trip, d.Dst.Addr(), netip.AddrPortFrom(d.Src.Addr(), port), wire.Source(p.Data), wire.Destination(p.Data), m)
}

// ask sends an Echo Request to a base station.
func (h *handler) ask(s *station, from netip.Addr, mac inet.MAC) {
	h.send(cube.Trip{}, from, netip.AddrPortFrom(s.address, gtpu.Port), wire.MAC(mac.Bytes()), h.own(), gtpu.Echo(false, s.sequence))
}

// endMarker tells a base station that no more packets come through a tunnel.
func (h *handler) endMarker(l left) {
	if l.mac == 0 {
		return // it has never been heard
	}
	h.messages.EndMarkers++
	h.send(cube.Trip{}, l.from, netip.AddrPortFrom(l.to, gtpu.Port), wire.MAC(l.mac.Bytes()), h.own(), gtpu.End(l.teid))
}

// own returns the address that frames to base stations come from.
func (h *handler) own() (mac wire.MAC) {
	copy(mac[:], h.parent.MAC)
	return mac
}

// send sends a message out of the port.
func (h *handler) send(trip cube.Trip, from netip.Addr, to netip.AddrPort, toMAC, fromMAC wire.MAC, m gtpu.Message) {
	payload, err := m.Append(nil)
	if err == nil {
		d := wire.Datagram{Src: netip.AddrPortFrom(from, gtpu.Port), Dst: to, Payload: payload}
		err = h.env.Send(&cube.PacketOut{Direction: cube.Egress, Data: d.Frame(toMAC, fromMAC), Trip: trip})
	}
	if err != nil {
		h.env.Logger().Debug("send a message", "to", to, "type", m.Type, "error", err)
	}
}

// tooBig fragments a packet if its sender allows that, and else tells the sender the MTU.
func (h *handler) tooBig(p *cube.PacketIn, ip *wire.Packet) {
	mtu := int(p.Metadata[0])
	if !ip.V6() && !ip.DontFragment {
		pieces, err := ip.Fragments(mtu)
		h.again(p, pieces, err, &h.messages.Fragmented)
		return
	}
	if !ip.Answerable(wire.TooBig) {
		h.messages.Invalid++
		return
	}
	h.messages.TooBig++
	h.ids++
	e := wire.Error{Kind: wire.TooBig, MTU: mtu, From: ip.Dst, ID: h.ids}
	// It goes back to the cube that has sent the packet.
	out := cube.PacketOut{Direction: cube.Ingress, Data: e.Frame(ip, wire.Source(p.Data), wire.Destination(p.Data)), Trip: p.Trip}
	if err := h.env.Send(&out); err != nil {
		h.env.Logger().Debug("answer a packet that is too big", "error", err)
	}
}

// again sends the pieces of a packet through the program once more, and counts the packet; err: it has none.
func (h *handler) again(p *cube.PacketIn, pieces [][]byte, err error, counter *uint64) {
	if err != nil {
		h.messages.Invalid++
		return
	}
	*counter++
	for _, piece := range pieces {
		out := cube.PacketOut{Direction: cube.Egress, Recirculate: true, Data: piece, Trip: p.Trip, TrafficClass: p.TrafficClass}
		if err := h.env.Send(&out); err != nil {
			h.env.Logger().Debug("send a piece of a packet", "error", err)
		}
	}
}
