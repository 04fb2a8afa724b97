// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Packets that do not fit the MTU with a tunnel's header.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/wire"
)

// reasonTooBig is LBDSR_ANSWER_TOO_BIG.
const reasonTooBig = 32 + 1

// stateTunnel are the leaves of the container `tunnel` that are state: what has become of packets that were too big.
type stateTunnel struct {
	Answered   uint64 `json:"answered"`
	Fragmented uint64 `json:"fragmented"`
	Unanswered uint64 `json:"unanswered"`
}

// tooBig fragments a packet if its sender allows that, and else tells the sender the MTU, in the name of the service. The
// program limits how many there are.
func (b *balancer) tooBig(p *cube.PacketIn) {
	ip, err := wire.ParseIP(p.Data)
	mtu, port := int(p.Metadata[0]), b.ways.portAt(p.Port)
	if err != nil || port == nil || len(p.Data) < p.Length {
		b.tooBigs.Unanswered++
		return
	}
	if !ip.V6() && !ip.DontFragment {
		pieces, err := ip.Fragments(mtu)
		if err != nil {
			b.tooBigs.Unanswered++
			return
		}
		b.tooBigs.Fragmented++
		for _, piece := range pieces {
			out := cube.PacketOut{Port: p.Port, Direction: cube.Ingress, Data: piece, Trip: p.Trip, TrafficClass: p.TrafficClass}
			if err := b.env.Send(&out); err != nil {
				b.env.Logger().Debug("send a fragment", "error", err)
			}
		}
		return
	}
	if !ip.Answerable(wire.TooBig) {
		b.tooBigs.Unanswered++
		return
	}
	b.tooBigs.Answered++
	b.ids++
	e := wire.Error{Kind: wire.TooBig, MTU: mtu, From: ip.Dst, ID: b.ids}
	b.ways.send(p.Port, e.Frame(&ip, wire.Source(p.Data), wire.MAC(b.ways.macOf(port).Bytes())))
}
