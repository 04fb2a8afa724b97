// SPDX-License-Identifier: Apache-2.0

// Package gtpu reads and writes messages of GTP-U, the tunnels of mobile networks (3GPP TS 29.281), with their extension
// headers and the PDU Session Container (TS 38.415). <pcn/gtpu.h> does the same in the fast path.
//
//	m, err := gtpu.Parse(datagram)
//	if c, ok := m.Session(); ok { ... c.QFI ... }
package gtpu

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Port is the UDP port of GTP-U.
const Port = 2152

// Type is the type of a message.
type Type uint8

// The types of messages.
const (
	EchoRequest         Type = 1
	EchoResponse        Type = 2
	ErrorIndication     Type = 26
	SupportedExtensions Type = 31
	EndMarker           Type = 254
	PDU                 Type = 255 // G-PDU: a packet of a user
)

// Errors of messages that are none. They are those of enum pcn_gtpu_read.
var (
	// ErrVersion is a message of another version, or of GTP'.
	ErrVersion = errors.New("not GTP-U version 1")
	// ErrMalformed is a message that is shorter than it says, or has more than MaxExtensions.
	ErrMalformed = errors.New("malformed GTP-U message")
	// ErrUnknown is a message with an extension header that a receiver must know, but this package does not.
	ErrUnknown = errors.New("unknown extension header")
)

// MaxExtensions is how many extension headers a message may have.
const MaxExtensions = 8

// Message is a message.
type Message struct {
	Type Type
	TEID uint32
	// Sequence is nil if the message has no sequence number.
	Sequence *uint16
	// PDUNumber is nil if the message has no N-PDU number.
	PDUNumber  *uint8
	Extensions []Extension
	// Payload is the packet of a G-PDU, and the information elements of another message.
	Payload []byte
}

// Extension is an extension header.
type Extension struct {
	Type uint8
	// Content is what is between its length and the type of the next one: 2 bytes, or 4 more, and so on.
	Content []byte
}

// required reports whether a receiver must know an extension header of a type.
func required(kind uint8) bool { return kind&0x80 != 0 }

// The bits of the first byte.
const (
	version1      = 0x30 // version 1, and not GTP'
	hasExtensions = 4
	hasSequence   = 2
	hasPDUNumber  = 1
	// header is the length of what all messages begin with.
	header = 8
)

// Parse reads a message, the payload of a UDP datagram. Its result refers to b. With ErrUnknown, the error says which extension
// header it is, and the message has those before it.
func Parse(b []byte) (m Message, err error) {
	if len(b) < header {
		return m, fmt.Errorf("%d bytes: %w", len(b), ErrMalformed)
	}
	m.Type, m.TEID = Type(b[1]), binary.BigEndian.Uint32(b[4:])
	if b[0]&0xf0 != version1 {
		return m, fmt.Errorf("the first byte is %#02x: %w", b[0], ErrVersion)
	}
	length := header + int(binary.BigEndian.Uint16(b[2:]))
	if length > len(b) {
		return m, fmt.Errorf("%d bytes instead of %d: %w", len(b), length, ErrMalformed)
	}
	flags, rest := b[0], b[header:length]
	if flags&(hasExtensions|hasSequence|hasPDUNumber) != 0 {
		if len(rest) < 4 {
			return m, fmt.Errorf("%d bytes in place of sequence number, N-PDU number and extension: %w", len(rest), ErrMalformed)
		}
		if flags&hasSequence != 0 {
			n := binary.BigEndian.Uint16(rest)
			m.Sequence = &n
		}
		if flags&hasPDUNumber != 0 {
			m.PDUNumber = &rest[2]
		}
		next := rest[3]
		rest = rest[4:]
		if flags&hasExtensions != 0 {
			if rest, err = m.extensions(next, rest); err != nil {
				return m, err
			}
		}
	}
	m.Payload = rest
	return m, nil
}

// extensions reads extension headers, the first of which is of type next. It returns what follows.
func (m *Message) extensions(next uint8, b []byte) ([]byte, error) {
	for range MaxExtensions {
		if next == 0 {
			return b, nil
		}
		if len(b) < 4 || b[0] == 0 || len(b) < 4*int(b[0]) {
			return b, fmt.Errorf("extension header %#02x: %w", next, ErrMalformed)
		}
		if required(next) && next != sessionContainer {
			return b, fmt.Errorf("%#02x: %w", next, ErrUnknown)
		}
		length := 4 * int(b[0])
		m.Extensions = append(m.Extensions, Extension{next, b[1 : length-1 : length-1]})
		next, b = b[length-1], b[length:]
	}
	if next != 0 {
		return b, fmt.Errorf("more than %d extension headers: %w", MaxExtensions, ErrMalformed)
	}
	return b, nil
}

// Append appends the message to b. The error wraps ErrMalformed if it cannot be written: it is longer than 65,535 bytes, or the
// content of an extension header has no length that such contents have.
func (m *Message) Append(b []byte) ([]byte, error) {
	from := len(b)
	b = append(b, version1, uint8(m.Type), 0, 0)
	b = binary.BigEndian.AppendUint32(b, m.TEID)
	flags := byte(version1)
	if m.Sequence != nil || m.PDUNumber != nil || len(m.Extensions) > 0 {
		optional := [4]byte{}
		if m.Sequence != nil {
			flags |= hasSequence
			binary.BigEndian.PutUint16(optional[:], *m.Sequence)
		}
		if m.PDUNumber != nil {
			flags |= hasPDUNumber
			optional[2] = *m.PDUNumber
		}
		if len(m.Extensions) > 0 {
			flags |= hasExtensions
			optional[3] = m.Extensions[0].Type
		}
		b = append(b, optional[:]...)
	}
	if len(m.Extensions) > MaxExtensions {
		return b[:from], fmt.Errorf("%d extension headers: %w", len(m.Extensions), ErrMalformed)
	}
	for i, x := range m.Extensions {
		length := len(x.Content) + 2
		if length%4 != 0 || length > 4*0xff || x.Type == 0 {
			return b[:from], fmt.Errorf("extension header %#02x with %d bytes: %w", x.Type, len(x.Content), ErrMalformed)
		}
		b = append(append(b, byte(length/4)), x.Content...)
		if i+1 < len(m.Extensions) {
			b = append(b, m.Extensions[i+1].Type)
		} else {
			b = append(b, 0)
		}
	}
	b = append(b, m.Payload...)
	length := len(b) - from - header
	if length > 0xffff {
		return b[:from], fmt.Errorf("%d bytes: %w", length, ErrMalformed)
	}
	b[from] = flags
	binary.BigEndian.PutUint16(b[from+2:], uint16(length))
	return b, nil
}
