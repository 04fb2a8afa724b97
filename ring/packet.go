// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"encoding/binary"
	"errors"
	"time"

	"github.com/polycube/polycube/cube"
)

// Packet is a packet that a program copied to the ring with pcn_ring_packet.
type Packet struct {
	// Time is when the program wrote it, by the monotonic clock of the system (CLOCK_MONOTONIC).
	Time time.Duration
	// Kind is the number that the program gave it.
	Kind uint16
	// InPort and OutPort are those of the packet's metadata; a transparent cube has none.
	InPort, OutPort uint16
	// XDP says that a program at XDP wrote it.
	XDP bool
	// Netdev is the interface index of the netdev where the packet entered.
	Netdev   int
	FlowHash uint32
	// Metadata are the cube's own words.
	Metadata [4]uint32
	// Offload is set for a superframe, at TC.
	Offload cube.Offload
	// Length is that of the frame in bytes, of a superframe as a whole, with its VLAN tags. Data are its first bytes.
	Length int
	// Data is valid only during the call, and must not be changed: it is usually the ring itself, and a write to it ends
	// the process.
	Data []byte
	// inserted: Data are a copy, with a tag.
	inserted bool
}

// Flags of a record: PCN_RING_VLAN and PCN_RING_XDP.
const (
	flagVLAN = 1
	flagXDP  = 2
)

const (
	// recordHead is the size of struct pcn_ring_record without the frame.
	recordHead = 56
	// macs is the size of the two addresses in front of a frame's VLAN tag.
	macs = 12
	// maxCapture is the largest size class.
	maxCapture = 65536 + 4096
	vlanTag    = 4
)

// Created once, because a flood of such records must not create garbage.
var (
	errShort  = errors.New("truncated header")
	errBeyond = errors.New("its length exceeds the record")
	errLength = errors.New("its packet is shorter than its captured length")
)

// decode decodes a record into p. The tag that TC keeps outside the frame is inserted in a copy of the frame in buf, of
// at least maxCapture+vlanTag bytes.
func (p *Packet) decode(b, buf []byte) error {
	if len(b) < recordHead {
		return errShort
	}
	e := binary.NativeEndian
	length, captured := e.Uint32(b[8:]), e.Uint32(b[12:])
	switch {
	case uint64(captured) > uint64(len(b)-recordHead) || captured > maxCapture:
		return errBeyond
	case captured > length:
		return errLength
	}
	flags := e.Uint16(b[18:])
	*p = Packet{
		Time: time.Duration(e.Uint64(b[0:])),
		Kind: e.Uint16(b[16:]), InPort: e.Uint16(b[20:]), OutPort: e.Uint16(b[22:]), XDP: flags&flagXDP != 0,
		Netdev: int(e.Uint32(b[32:])), FlowHash: e.Uint32(b[36:]),
		Metadata: [4]uint32{e.Uint32(b[40:]), e.Uint32(b[44:]), e.Uint32(b[48:]), e.Uint32(b[52:])},
		Offload:  cube.Offload{GSOSize: e.Uint16(b[28:]), GSOSegs: e.Uint16(b[30:])},
		Length:   int(length), Data: b[recordHead : recordHead+captured : recordHead+captured],
	}
	if flags&flagVLAN != 0 && captured >= macs {
		n := copy(buf, p.Data[:macs])
		n += copy(buf[n:], b[24:26])
		binary.BigEndian.PutUint16(buf[n:], e.Uint16(b[26:]))
		n += 2
		n += copy(buf[n:], p.Data[macs:])
		p.Data, p.Length, p.inserted = buf[:n:n], p.Length+vlanTag, true
	}
	return nil
}
