// SPDX-License-Identifier: Apache-2.0

package stp

// The encoding of BPDUs (clause 9).

import (
	"encoding/binary"
	"errors"
)

// Types of BPDUs.
const (
	typeConfig = 0x00
	typeTCN    = 0x80
	typeRST    = 0x02
)

// Lengths of BPDUs in bytes; received ones may be longer.
const (
	lenTCN    = 4
	lenConfig = 35
	lenRST    = 36
)

// Bits of the flags octet.
const (
	flagTC         = 0x01
	flagProposal   = 0x02
	flagLearning   = 0x10
	flagForwarding = 0x20
	flagAgreement  = 0x40
	flagTCAck      = 0x80
	roleShift      = 2
)

// Errors of Receive.
var (
	ErrMalformed = errors.New("not a BPDU")
	ErrTooOld    = errors.New("the message age has reached the maximum")
	ErrOwn       = errors.New("the BPDU is this port's own")
	ErrNoPort    = errors.New("the port is not up")
)

// message is a BPDU that passed the checks of 9.3.4.
type message struct {
	Type   uint8
	Flags  uint8
	Vector vector
	Times  times
}

// role is the sender's. A configuration BPDU comes from a designated port, and so does one with an unknown role
// (9.2.9).
func (m message) role() Role {
	if m.Type != typeRST {
		return DesignatedPort
	}
	switch m.Flags >> roleShift & 3 {
	case 1:
		return AlternatePort
	case 2:
		return RootPort
	}
	return DesignatedPort
}

func (m message) has(flag uint8) bool { return m.Flags&flag != 0 }

func roleBits(r Role) uint8 {
	switch r {
	case AlternatePort, BackupPort:
		return 1 << roleShift
	case RootPort:
		return 2 << roleShift
	case DesignatedPort:
		return 3 << roleShift
	case DisabledPort:
	}
	return 0
}

// parse decodes a BPDU; a hostile neighbour may append or omit bytes.
func parse(b []byte) (message, error) {
	if len(b) < lenTCN || binary.BigEndian.Uint16(b) != 0 {
		return message{}, ErrMalformed
	}
	m := message{Type: b[3]}
	switch {
	case m.Type == typeTCN:
		return m, nil
	case m.Type == typeConfig && len(b) >= lenConfig:
	case m.Type == typeRST && b[2] >= byte(RSTP) && len(b) >= lenRST:
	default:
		return message{}, ErrMalformed
	}
	m.Flags = b[4]
	if m.Type == typeConfig {
		m.Flags &= flagTC | flagTCAck
	}
	m.Vector = vector{
		Root:   BridgeID(binary.BigEndian.Uint64(b[5:])),
		Cost:   binary.BigEndian.Uint32(b[13:]),
		Bridge: BridgeID(binary.BigEndian.Uint64(b[17:])),
		Port:   PortID(binary.BigEndian.Uint16(b[25:])),
	}
	age, maxAge := binary.BigEndian.Uint16(b[27:]), binary.BigEndian.Uint16(b[29:])
	// In an RST BPDU, expired information ages out at once instead: its sender revoked what the port knows about
	// it.
	if m.Type == typeConfig && age >= maxAge {
		return message{}, ErrTooOld
	}
	m.Times = times{seconds(age), seconds(maxAge), seconds(binary.BigEndian.Uint16(b[31:])),
		seconds(binary.BigEndian.Uint16(b[33:]))}.clamped()
	return m, nil
}

// seconds rounds 256ths of a second.
func seconds(v uint16) uint16 { return uint16((uint32(v) + 128) >> 8) }

// bytes returns the BPDU as sent.
func (m message) bytes() []byte {
	if m.Type == typeTCN {
		return header(lenTCN, typeTCN, STP)
	}
	b := header(lenConfig, m.Type, STP)
	if m.Type == typeRST {
		b = header(lenRST, m.Type, RSTP) // the last octet is the length of version 1 information: 0
	}
	b[4] = m.Flags
	binary.BigEndian.PutUint64(b[5:], uint64(m.Vector.Root))
	binary.BigEndian.PutUint32(b[13:], m.Vector.Cost)
	binary.BigEndian.PutUint64(b[17:], uint64(m.Vector.Bridge))
	binary.BigEndian.PutUint16(b[25:], uint16(m.Vector.Port))
	for i, t := range [...]uint16{m.Times.MessageAge, m.Times.MaxAge, m.Times.HelloTime, m.Times.ForwardDelay} {
		binary.BigEndian.PutUint16(b[27+2*i:], t<<8)
	}
	return b
}

func header(length int, kind uint8, v Version) []byte {
	b := make([]byte, length)
	b[2], b[3] = byte(v), kind
	return b
}
