// SPDX-License-Identifier: Apache-2.0

package firewall

// Reports of packets from the program: the log, and answers to rejected packets.

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/report"
	"github.com/polycube/polycube/wire"
)

// Notify receives the reports of the program.
func (f *firewall) Notify(kind uint32, data []byte) {
	if kind == zone.AboutSession {
		f.events.Notify(data)
		return
	}
	is, ok := report.Read(data)
	if !ok {
		return
	}
	d := Ingress
	if is.Out {
		d = Egress
	}
	rule, position := f.byCounter(d, is.Rule)
	if rule == nil {
		return // it was removed meanwhile
	}
	if report.Kind(kind) == report.Logged {
		f.log(&is, d, rule, position)
		return
	}
	if answer := rule.answer(is.Frame); answer != nil {
		if err := f.env.Send(&cube.PacketOut{Direction: cube.Direction(1 - d), Trip: cube.Trip{Netdev: f.netdevOf(&is)}, Data: answer}); err != nil {
			f.env.Logger().Debug("answer a rejected packet", "error", err)
		}
	}
}

// netdevOf is the index of the netdev of a report, if the firewall has many: at the host's stack.
func (f *firewall) netdevOf(is *report.Report) int {
	if f.interfaces.netdevs == nil {
		return 0
	}
	return is.Netdev
}

// place is the name for the log of where a packet is received or sent.
func (f *firewall) place(is *report.Report) string {
	if f.netdevOf(is) == 0 {
		return f.parent
	}
	return cmp.Or(f.interfaces.netdevs[is.Netdev], strconv.Itoa(is.Netdev))
}

// byCounter returns the rule with a counter, and its position.
func (f *firewall) byCounter(d Direction, counter uint32) (*rule, int) {
	for i, r := range f.chains[d] {
		if r.counter == counter {
			return r, i
		}
	}
	return nil, 0
}

// answer returns the frame that tells the sender of a packet that the rule rejects it; nil if there is to be none.
func (r *rule) answer(frame []byte) []byte {
	is, ok := flow.Read(frame)
	if !ok || is.Has&flow.IP == 0 || int(is.L3) < 14 {
		return nil
	}
	// The packet without its VLAN tags, which the answer gets again.
	bare := append(append([]byte{}, frame[:12]...), frame[is.L3-2:]...)
	answer := r.bareAnswer(bare, &is)
	if answer == nil {
		return nil
	}
	return append(append(append([]byte{}, answer[:12]...), frame[12:is.L3-2]...), answer[12:]...)
}

// bareAnswer is answer for an untagged packet.
func (r *rule) bareAnswer(frame []byte, is *flow.Flow) []byte {
	packet, err := wire.ParseIP(frame)
	if err != nil {
		return nil
	}
	to, from := wire.Source(frame), wire.Destination(frame)
	if r.is.RejectWith == TCPReset || r.is.RejectWith == RejectDefault && is.Has&flow.TCP != 0 {
		return wire.Reset(&packet, to, from)
	}
	kind := map[RejectWith]wire.Kind{RejectDefault: wire.NoPort, PortUnreachable: wire.NoPort, HostUnreachable: wire.NoNeighbour,
		AdminProhibited: wire.Prohibited}[r.is.RejectWith]
	if !packet.Answerable(kind) {
		return nil
	}
	return wire.Error{Kind: kind, From: packet.Dst}.Frame(&packet, to, from)
}

// log writes a line with the fields of iptables.
func (f *firewall) log(is *report.Report, d Direction, r *rule, position int) {
	text := ""
	if r.is.Description != nil {
		text = *r.is.Description
	}
	in, out := f.place(is), ""
	if d == Egress {
		in, out = "", in
	}
	f.env.Logger().Info(fmt.Sprintf("IN=%s OUT=%s %s", in, out, wire.Line(is.Frame)),
		"chain", d.String(), "rule", position, "description", text)
}
