// SPDX-License-Identifier: Apache-2.0

// The structures shared with the framework's eBPF programs: the Go side of bpf/core/abi.h. A test compares the layouts
// with the types of the compiled programs.

package slowpath

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/polycube/polycube/cube"
)

// Limits of the fast path.
const (
	maxCubes = 1024
	maxPorts = 512
)

// The kinds of Target: enum pcn_target.
const (
	// ToRX: as received on the cube's port.
	ToRX uint16 = iota
	// ToTX: as sent to the cube's port.
	ToTX
	// ToIn: the transparent cube's ingress program.
	ToIn
	// ToInNext: after the transparent cube's ingress program.
	ToInNext
	// ToOut: the transparent cube's egress program.
	ToOut
	// ToOutNext: after the transparent cube's egress program.
	ToOutNext
	// ToNamespace: as sent to the cube's namespace, through the interface of the port.
	ToNamespace
	// ToOffer: as offered to the transparent cubes of the cube's port.
	ToOffer
	targets
)

// Kinds of records: enum pcn_record_kind.
const (
	recordPacket = 1
	recordLog    = 2
	recordFlood  = 3
	recordNotify = 4
	// recordFloodSet is a packet for a set of the cube's ports.
	recordFloodSet = 6
)

// Flags of records.
const (
	flagVLAN   = 1
	flagEgress = 2
	flagXDP    = 4
	// mdShift is the offset of the flags of md.
	mdShift = 16
)

// The bits of md.flags: PCN_MD_TURNED, PCN_MD_OFFERED and PCN_MD_FROM.
const (
	mdTurned  = 0x10
	mdOffered = 0x20
	mdFrom    = 7
)

// md is struct pcn_md.
type md struct {
	InPort, OutPort, Reason, Hops             uint16
	PacketLen, TrafficClass, FlowHash, Tenant uint32
	MD                                        [4]uint32
	PassIfindex                               uint32
	Turns, Flags, TraceID, Pad, Cube, Pad2    uint16
	Reserved                                  [2]uint32
}

// resume is struct pcn_resume.
type resume struct {
	MD           md
	Cube, Target uint16
	Pad          uint32
}

// down is struct pcn_down.
type down struct {
	State, Pad uint32
	Resume     resume
}

// States of down.
const (
	downIdle     = 0
	downSet      = 1
	downConsumed = 2
)

// share is struct pcn_share.
type share struct{ Produced, Consumed uint64 }

// control is struct pcn_control.
type control struct{ Sleeping, Pad uint32 }

// record is the header of struct pcn_record, without the packet that follows.
type record struct {
	kind, cube, port, reason uint16
	flags                    uint32
	len, caplen, size        uint32
	ifindex, trafficClass    uint32
	gsoSize, gsoSegs         uint32
	vlanProto                [2]byte // as on the wire
	vlanTCI                  uint16
	hops                     uint32
	md                       [4]uint32
	flowHash, tenant         uint32
}

const recordHead = 72

// An Ethernet header, and the longest frame with a VLAN tag for an IP packet.
const (
	ethernetHead = 14
	maxFrame     = 65535 + 18
	vlanTag      = 4
	// maxCapture is more than the largest size class of the fast path.
	maxCapture = 128 << 10
)

// Errors of records. They are created once, because a flood of such records must not create garbage.
var (
	errRecordShort = errors.New("truncated header")
	errRecordData  = errors.New("its length exceeds the record")
	errRecordLen   = errors.New("its packet is shorter than its captured length")
	errRecordFrame = errors.New("its packet is not an Ethernet frame, or is too long")
	errRecordGSO   = errors.New("its segment size is out of range")
	errRecordKind  = errors.New("its kind is unknown")
)

// decode decodes the header of a record. It does not check it: even an invalid record is charged to a cube.
func (r *record) decode(b []byte) error {
	if len(b) < recordHead {
		return errRecordShort
	}
	b = b[:recordHead]
	e := binary.NativeEndian
	r.kind, r.cube, r.port, r.reason = e.Uint16(b[0:]), e.Uint16(b[2:]), e.Uint16(b[4:]), e.Uint16(b[6:])
	r.flags, r.len, r.caplen, r.size = e.Uint32(b[8:]), e.Uint32(b[12:]), e.Uint32(b[16:]), e.Uint32(b[20:])
	r.ifindex, r.trafficClass = e.Uint32(b[24:]), e.Uint32(b[28:])
	r.gsoSize, r.gsoSegs = e.Uint32(b[32:]), e.Uint32(b[36:])
	r.vlanProto, r.vlanTCI, r.hops = [2]byte(b[40:42]), e.Uint16(b[42:]), e.Uint32(b[44:])
	r.md = [4]uint32{e.Uint32(b[48:]), e.Uint32(b[52:]), e.Uint32(b[56:]), e.Uint32(b[60:])}
	r.flowHash, r.tenant = e.Uint32(b[64:]), e.Uint32(b[68:])
	return nil
}

// body is what follows the header of a decoded record; b is the record.
func (r *record) body(b []byte) ([]byte, error) {
	if uint64(r.caplen) > uint64(len(b)-recordHead) {
		return nil, errRecordData
	}
	return b[recordHead : recordHead+int(r.caplen)], nil
}

// checkPacket checks that a record with that body can be passed on as a packet.
func (r *record) checkPacket(body []byte) error {
	switch {
	case r.len < r.caplen:
		return errRecordLen
	case len(body) < ethernetHead || len(body) > maxCapture:
		return errRecordFrame
	case r.gsoSize > 0xffff || r.gsoSegs > 0xffff:
		return errRecordGSO
	}
	return nil
}

// frame copies a frame into buf, with the VLAN tag that the kernel keeps outside the packet inserted, and returns its
// length.
func (r *record) frame(body, buf []byte) int {
	if r.flags&flagVLAN == 0 || len(body) < ethernetHead {
		return copy(buf, body)
	}
	n := copy(buf, body[:12])
	n += copy(buf[n:], r.vlanProto[:])
	binary.BigEndian.PutUint16(buf[n:], r.vlanTCI)
	return n + 2 + copy(buf[n+2:], body[12:])
}

// packet fills p and m. The bytes are copied into buf, so that a handler may change them in place: a write to the ring
// would crash the process. The VLAN tag that the kernel keeps outside the packet is inserted again.
func (r *record) packet(body, buf []byte, p *cube.PacketIn, m *Meta) {
	n := r.frame(body, buf)
	*p = cube.PacketIn{
		Port:         r.port,
		Reason:       r.reason,
		Metadata:     r.md,
		TrafficClass: r.trafficClass,
		Trip: cube.Trip{
			Hops:     uint16(min(r.hops, 0xffff)),
			Netdev:   int(r.ifindex),
			FlowHash: r.flowHash,
			Tenant:   r.tenant,
			Turned:   r.flags>>mdShift&mdTurned != 0,
			Offered:  r.flags>>mdShift&mdOffered != 0,
		},
		Offload: cube.Offload{GSOSize: uint16(r.gsoSize), GSOSegs: uint16(r.gsoSegs)},
		Length:  int(r.len) + n - len(body),
		Data:    buf[:n:n],
	}
	if p.Trip.Offered {
		p.Trip.OfferedFrom = uint16(r.flags >> (mdShift + mdFrom))
	}
	if r.flags&flagEgress != 0 {
		p.Direction = cube.Egress
	}
	*m = Meta{Ifindex: int(r.ifindex), XDP: r.flags&flagXDP != 0, Set: r.kind == recordFloodSet}
}

// Meta is where a packet leaves or enters the fast path, which only the framework knows.
type Meta struct {
	// Ifindex is the netdev where the packet entered, whose stack receives it when it is passed; 0 is none. On the way
	// down it replaces that of a packet whose Trip has none.
	Ifindex int
	// XDP says that the packet comes from, or goes to, programs at the XDP hook.
	XDP bool
	// Generic says that the packet goes to programs of generic XDP, which can send to every netdev. Native XDP
	// silently loses what it sends to a VLAN device, to a bridge, or to a veth whose other end does not poll.
	Generic bool
	// Set says that a flood goes to a set of ports, which the packet's Metadata names.
	Set bool
}

// Target is where a packet enters the fast path.
type Target struct {
	Cube uint16
	// Kind is one of ToRX to ToOutNext.
	Kind uint16
}

// TargetOf is the kind of target for a packet of a cube.
func TargetOf(transparent bool, p *cube.PacketOut) uint16 {
	out := p.Direction == cube.Egress
	switch {
	case !transparent && p.Namespace:
		return ToNamespace
	case !transparent && p.Offer:
		return ToOffer
	case !transparent && out:
		return ToTX
	case !transparent:
		return ToRX
	case p.Recirculate && out:
		return ToOut
	case p.Recirculate:
		return ToIn
	case out:
		return ToOutNext
	}
	return ToInNext
}

// check refuses values that the fast path does not support.
func (t Target) check(port uint16) error {
	switch {
	case t.Cube == 0 || t.Cube >= maxCubes:
		return fmt.Errorf("cube %d: identifiers range from 1 to %d", t.Cube, maxCubes-1)
	case t.Kind >= targets:
		return fmt.Errorf("target %d: kinds range from 0 to %d", t.Kind, targets-1)
	case port >= maxPorts:
		return fmt.Errorf("port %d: indexes range from 0 to %d", port, maxPorts-1)
	}
	return nil
}
