// SPDX-License-Identifier: Apache-2.0

package lbrp

// Packets for services without servers.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/wire"
)

// Enum lbrp_slowpath_reason.
const (
	reasonRefuse = 32 + iota
	reasonNeighbour
	reasonCheck
)

// packetIn processes a packet that the program does not finish.
func (b *balancer) packetIn(p *cube.PacketIn) {
	switch p.Reason {
	case reasonRefuse:
		b.refuse(p)
	case reasonNeighbour:
		b.checks.received(p)
	case reasonCheck:
		b.checks.Answered(p)
	}
}

// refuse answers a packet for a service without servers, in the name of the service. The program limits how often.
func (b *balancer) refuse(p *cube.PacketIn) {
	frame := b.refusal(p.Data)
	if frame == nil {
		return
	}
	if err := b.env.Send(&cube.PacketOut{Port: p.Port, Direction: cube.Egress, Data: frame}); err != nil {
		b.env.Logger().Debug("send a refusal", "error", err)
	}
}

// refusal returns the answer to a packet: an RST to a segment of TCP, an ICMP error to others; nil if there is none.
func (b *balancer) refusal(data []byte) []byte {
	ip, err := wire.ParseIP(data)
	if err != nil {
		return nil
	}
	to, from := wire.Source(data), wire.Destination(data)
	if ip.Proto == wire.ProtoTCP {
		return wire.Reset(&ip, to, from)
	}
	kind := wire.NoPort
	if ip.Echo() {
		kind = wire.NoNeighbour
	}
	if !ip.Answerable(kind) {
		return nil
	}
	b.ids++
	e := wire.Error{Kind: kind, From: ip.Dst, ID: b.ids}
	return e.Frame(&ip, to, from)
}
