// SPDX-License-Identifier: Apache-2.0

package firewall

// Reports of packets from the program: the log, and answers to rejected packets.

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/wire"
)

// The kinds of reports: enum firewall_kind.
const (
	logged = iota
	rejected
	aboutSession
)

// frameMax is FIREWALL_FRAME.
const frameMax = 108

// report is struct firewall_report.
type report struct {
	Counter, Length, Ifindex uint32
	FrameLength              uint16
	TCI                      uint16
	Tagged                   uint8
	Out                      uint8
	_                        uint16
	Frame                    [frameMax]byte
}

// Notify receives the reports of the program.
func (f *firewall) Notify(kind uint32, data []byte) {
	if kind == aboutSession {
		f.events.Notify(data)
		return
	}
	var is report
	if n, err := binary.Decode(data, binary.NativeEndian, &is); err != nil || n != len(data) || is.FrameLength > frameMax || is.Out >= uint8(directions) {
		return
	}
	d := Direction(is.Out)
	rule, position := f.byCounter(d, is.Counter)
	if rule == nil {
		return // it was removed meanwhile
	}
	if kind == logged {
		f.log(&is, d, rule, position)
		return
	}
	if answer := rule.answer(is.Frame[:is.FrameLength]); answer != nil {
		if is.Tagged != 0 {
			answer = tag(answer, is.TCI)
		}
		if err := f.env.Send(&cube.PacketOut{Direction: cube.Direction(1 - d), Trip: cube.Trip{Netdev: f.netdevOf(&is)}, Data: answer}); err != nil {
			f.env.Logger().Debug("answer a rejected packet", "error", err)
		}
	}
}

// netdevOf is the index of the netdev of a report, if the firewall has many: at the host's stack.
func (f *firewall) netdevOf(is *report) int {
	if f.interfaces.netdevs == nil {
		return 0
	}
	return int(is.Ifindex)
}

// place is the name for the log of where a packet is received or sent.
func (f *firewall) place(is *report) string {
	if f.netdevOf(is) == 0 {
		return f.parent
	}
	return cmp.Or(f.interfaces.netdevs[int(is.Ifindex)], strconv.Itoa(int(is.Ifindex)))
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

// tag adds a VLAN tag to a frame.
func tag(frame []byte, tci uint16) []byte {
	out := append(append([]byte{}, frame[:12]...), 0x81, 0x00)
	out = binary.BigEndian.AppendUint16(out, tci)
	return append(out, frame[12:]...)
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
func (f *firewall) log(is *report, d Direction, r *rule, position int) {
	text := ""
	if r.is.Description != nil {
		text = *r.is.Description
	}
	in, out := f.place(is), ""
	if d == Egress {
		in, out = "", in
	}
	f.env.Logger().Info(fmt.Sprintf("IN=%s OUT=%s %s", in, out, wire.Line(is.Frame[:is.FrameLength])),
		"chain", d.String(), "rule", position, "description", text)
}
