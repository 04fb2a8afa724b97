// SPDX-License-Identifier: Apache-2.0

package gtppath

// Handles messages other than packets of users, and packets that are too big for their tunnel. The program limits their rate.

import (
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/wire"
)

// Reasons of packets: enum pcn_gtpu_end_slowpath_reason.
const (
	reasonEcho = 32 + iota
	reasonUnknownTunnel
	reasonUnknownExtension
	reasonErrorIndication
	reasonTooBig
	reasonSegment
	// OwnReason is the first reason that a cube may define itself: PacketIn handles those before it.
	OwnReason
)

// Messages counts what user space has received and sent: the container `messages` of models.
type Messages struct {
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

// Messages returns the counters.
func (p *Path) Messages() Messages { return p.messages }

// PacketIn takes a packet from the program, for a reason before OwnReason.
func (p *Path) PacketIn(in *cube.PacketIn) {
	ip, err := wire.ParseIP(in.Data)
	if err != nil || len(in.Data) < in.Length {
		p.messages.Invalid++
		return
	}
	switch in.Reason {
	case reasonTooBig:
		p.tooBig(in, &ip)
		return
	case reasonSegment:
		pieces, err := ip.Segments(int(in.Offload.GSOSize))
		p.again(in, pieces, err, &p.messages.Segmented)
		return
	}
	d, ok := ip.Datagram()
	if !ok || d.Dst.Port() != gtpu.Port {
		p.messages.Invalid++
		return
	}
	m, _ := gtpu.Parse(d.Payload) // an unknown extension header is an error
	switch in.Reason {
	case reasonEcho:
		p.echo(in, &d, &m)
	case reasonUnknownTunnel:
		p.messages.ErrorsSent++
		p.answer(in, &d, gtpu.Port, gtpu.Indication(m.TEID, d.Dst.Addr()))
	case reasonUnknownExtension:
		p.messages.Extensions++
		p.answer(in, &d, gtpu.Port, gtpu.Supported())
	case reasonErrorIndication:
		p.indicated(&d, &m)
	}
}

// echo answers a request, or notes a response.
func (p *Path) echo(in *cube.PacketIn, d *wire.Datagram, m *gtpu.Message) {
	switch {
	case m.Sequence == nil:
		p.messages.Invalid++
	case m.Type == gtpu.EchoRequest:
		p.messages.EchoAnswered++
		p.answer(in, d, d.Src.Port(), gtpu.Echo(true, *m.Sequence))
	case p.answered(d.Src.Addr(), *m.Sequence):
		p.messages.EchoResponses++
	default:
		p.messages.Invalid++
	}
}

// indicated notifies the cube that a peer does not know a tunnel.
func (p *Path) indicated(d *wire.Datagram, m *gtpu.Message) {
	teid, _, err := m.Indicated()
	if err != nil || p.peers[d.Src.Addr()] == nil {
		p.messages.Invalid++
		return
	}
	p.messages.ErrorsReceived++
	if p.options.Indicated != nil {
		p.options.Indicated(d.Src.Addr(), teid)
	}
}

// answer sends a message to the sender of a packet.
func (p *Path) answer(in *cube.PacketIn, d *wire.Datagram, port uint16, m gtpu.Message) {
	p.send(in.Trip, d.Dst.Addr(), netip.AddrPortFrom(d.Src.Addr(), port), wire.Source(in.Data), wire.Destination(in.Data), m)
}

// ask sends an Echo Request to a peer.
func (p *Path) ask(to *peer, from netip.Addr, mac inet.MAC) {
	p.send(cube.Trip{}, from, netip.AddrPortFrom(to.address, gtpu.Port), wire.MAC(mac.Bytes()), p.own(), gtpu.Echo(false, to.sequence))
}

// EndMarker is the last message of a tunnel that a cube has left.
type EndMarker struct {
	from, to netip.Addr
	mac      inet.MAC
	teid     uint32
}

// EndMarker returns the message for the remote end of a tunnel. The peer must be in use now, but need not be when the message is
// sent, after the last packet.
func (p *Path) EndMarker(from, to netip.Addr, teid uint32) (EndMarker, error) {
	mac, err := p.mac(to)
	return EndMarker{from: from, to: to, mac: mac, teid: teid}, err
}

// SendEndMarker notifies a peer that no more packets will follow in a tunnel, if its MAC address is known.
func (p *Path) SendEndMarker(m EndMarker) {
	if m.mac == 0 {
		return
	}
	p.messages.EndMarkers++
	p.send(cube.Trip{}, m.from, netip.AddrPortFrom(m.to, gtpu.Port), wire.MAC(m.mac.Bytes()), p.own(), gtpu.End(m.teid))
}

// own returns the source MAC address of frames to peers.
func (p *Path) own() (mac wire.MAC) {
	copy(mac[:], p.parent.MAC)
	return mac
}

// send sends a message out of the port.
func (p *Path) send(trip cube.Trip, from netip.Addr, to netip.AddrPort, toMAC, fromMAC wire.MAC, m gtpu.Message) {
	payload, err := m.Append(nil)
	if err == nil {
		d := wire.Datagram{Src: netip.AddrPortFrom(from, gtpu.Port), Dst: to, Payload: payload}
		err = p.env.Send(&cube.PacketOut{Direction: cube.Egress, Data: d.Frame(toMAC, fromMAC), Trip: trip})
	}
	if err != nil {
		p.env.Logger().Debug("send a message", "to", to, "type", m.Type, "error", err)
	}
}

// tooBig fragments a packet if its sender allows that, and otherwise reports the MTU to the sender.
func (p *Path) tooBig(in *cube.PacketIn, ip *wire.Packet) {
	mtu := int(in.Metadata[0])
	if !ip.V6() && !ip.DontFragment {
		pieces, err := ip.Fragments(mtu)
		p.again(in, pieces, err, &p.messages.Fragmented)
		return
	}
	if !ip.Answerable(wire.TooBig) {
		p.messages.Invalid++
		return
	}
	p.messages.TooBig++
	p.ids++
	e := wire.Error{Kind: wire.TooBig, MTU: mtu, From: ip.Dst, ID: p.ids}
	// It returns to the cube that has sent the packet.
	out := cube.PacketOut{Direction: cube.Ingress, Data: e.Frame(ip, wire.Source(in.Data), wire.Destination(in.Data)), Trip: in.Trip}
	if err := p.env.Send(&out); err != nil {
		p.env.Logger().Debug("answer a packet that is too big", "error", err)
	}
}

// again sends the pieces of a packet through the program again, and counts the packet; err is set if it could not be split.
func (p *Path) again(in *cube.PacketIn, pieces [][]byte, err error, counter *uint64) {
	if err != nil {
		p.messages.Invalid++
		return
	}
	*counter++
	for _, piece := range pieces {
		out := cube.PacketOut{Direction: cube.Egress, Recirculate: true, Data: piece, Trip: in.Trip, TrafficClass: in.TrafficClass}
		if err := p.env.Send(&out); err != nil {
			p.env.Logger().Debug("send a piece of a packet", "error", err)
		}
	}
}
