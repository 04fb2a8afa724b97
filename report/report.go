// SPDX-License-Identifier: Apache-2.0

// Package report reads the reports of packets that rules log or reject (pcn/report.h), and makes what the sender of a
// rejected one is told.
package report

import (
	"encoding/binary"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/wire"
)

// Kind is what a report is about: enum pcn_report_kind.
type Kind uint32

// The kinds. Messages of a cube's own come after them.
const (
	Logged Kind = iota
	Rejected
)

// frameMax is PCN_REPORT_FRAME.
const frameMax = 108

// The bits of a message's flags: PCN_REPORT_OUT and PCN_REPORT_TAGGED.
const (
	flagOut    = 1
	flagTagged = 2
)

// message is struct pcn_report.
type message struct {
	Rule, Length, Ifindex, From uint32
	FrameLength, Flags          uint8
	TCI                         uint16
	Frame                       [frameMax]byte
}

// Report is a packet that a rule logs or rejects.
type Report struct {
	// Rule is what the program calls the rule.
	Rule uint32
	// Netdev is the index of the netdev where the packet is received, or sent if Out is set; then Received is that of the
	// netdev that received it, or 0.
	Netdev, Received int
	Out              bool
	// Length is that of the packet; Frame is its beginning, with its Ethernet header and VLAN tags.
	Length int
	Frame  []byte
}

// Read reads a message; false if it is malformed.
func Read(data []byte) (Report, bool) {
	var m message
	if n, err := binary.Decode(data, binary.NativeEndian, &m); err != nil || n != len(data) || m.FrameLength > frameMax {
		return Report{}, false
	}
	r := Report{Rule: m.Rule, Netdev: int(m.Ifindex), Received: int(m.From), Out: m.Flags&flagOut != 0, Length: int(m.Length)}
	r.Frame = m.Frame[:m.FrameLength]
	if m.Flags&flagTagged != 0 && m.FrameLength >= 12 {
		r.Frame = tagged(r.Frame, m.TCI)
	}
	return r, true
}

// tagged returns a frame with a VLAN tag.
func tagged(frame []byte, tci uint16) []byte {
	out := append(append([]byte{}, frame[:12]...), 0x81, 0x00)
	out = binary.BigEndian.AppendUint16(out, tci)
	return append(out, frame[12:]...)
}

// Limits returns the constants log_limit and reject_limit of a program, for so many packets per second.
func Limits(logs, rejects uint32) (map[string]any, error) {
	log, err := bucket.New(uint64(logs), time.Second, logs)
	if err != nil {
		return nil, err
	}
	reject, err := bucket.New(uint64(rejects), time.Second, rejects)
	return map[string]any{"log_limit": log, "reject_limit": reject}, err
}

// Packet returns the packet behind the Ethernet header and VLAN tags; false if it is none of IP.
func (r *Report) Packet() (wire.Packet, bool) {
	is, ok := flow.Read(r.Frame)
	if !ok || is.Has&flow.IP == 0 || int(is.L3) < 14 {
		return wire.Packet{}, false
	}
	packet, err := wire.ParseIP(append(append([]byte{}, r.Frame[:12]...), r.Frame[is.L3-2:]...))
	return packet, err == nil
}
