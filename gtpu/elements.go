// SPDX-License-Identifier: Apache-2.0

package gtpu

// Information elements of messages that are no G-PDUs, and these messages.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
)

// Types of information elements (TS 29.281, 8.1).
const (
	ElementRecovery   = 14  // one byte, which receivers ignore
	ElementTEID       = 16  // TEID Data I
	ElementAddress    = 133 // GTP-U Peer Address
	ElementExtensions = 141 // Extension Header Type List
	ElementPrivate    = 255
)

// Element is an information element.
type Element struct {
	Type  uint8
	Value []byte
}

// fixed are the lengths of elements without a length of their own.
var fixed = map[uint8]int{ElementRecovery: 1, ElementTEID: 4}

// Elements reads the information elements of a payload. Its result refers to b. The error wraps ErrMalformed.
func Elements(b []byte) (all []Element, err error) {
	for len(b) > 0 {
		kind := b[0]
		length, ok := fixed[kind]
		b = b[1:]
		switch {
		case !ok && kind < 0x80:
			return nil, fmt.Errorf("element %d of unknown length: %w", kind, ErrMalformed)
		case kind == ElementExtensions && len(b) > 0:
			length, b = int(b[0]), b[1:]
		case !ok && len(b) >= 2:
			length, b = int(binary.BigEndian.Uint16(b)), b[2:]
		case !ok:
			length = 1 // more than there is
		}
		if length > len(b) {
			return nil, fmt.Errorf("element %d has %d bytes instead of %d: %w", kind, len(b), length, ErrMalformed)
		}
		all = append(all, Element{kind, b[:length:length]})
		b = b[length:]
	}
	return all, nil
}

// appended appends the element to b.
func (e Element) appended(b []byte) []byte {
	b = append(b, e.Type)
	switch {
	case e.Type == ElementExtensions:
		b = append(b, uint8(len(e.Value)))
	case e.Type >= 0x80:
		b = binary.BigEndian.AppendUint16(b, uint16(len(e.Value)))
	}
	return append(b, e.Value...)
}

// Echo returns a request, or the response to one with this sequence number.
func Echo(response bool, sequence uint16) Message {
	if !response {
		return Message{Type: EchoRequest, Sequence: &sequence}
	}
	return Message{Type: EchoResponse, Sequence: &sequence, Payload: Element{ElementRecovery, []byte{0}}.appended(nil)}
}

// Indication returns an Error Indication: a G-PDU was sent to this address, which has no tunnel of this TEID.
func Indication(teid uint32, address netip.Addr) Message {
	payload := Element{ElementTEID, binary.BigEndian.AppendUint32(nil, teid)}.appended(nil)
	payload = Element{ElementAddress, address.AsSlice()}.appended(payload)
	var sequence uint16
	return Message{Type: ErrorIndication, Sequence: &sequence, Payload: payload}
}

// Indicated returns what an Error Indication says: the TEID that its sender does not know, and the address to which the packet was
// sent. The error wraps ErrMalformed.
func (m *Message) Indicated() (teid uint32, address netip.Addr, err error) {
	elements, err := Elements(m.Payload)
	if err != nil {
		return 0, address, err
	}
	found := false
	for _, e := range elements {
		switch e.Type {
		case ElementTEID:
			teid, found = binary.BigEndian.Uint32(e.Value), true
		case ElementAddress:
			address, _ = netip.AddrFromSlice(e.Value)
		}
	}
	if !found || !address.IsValid() {
		return 0, address, fmt.Errorf("an Error Indication without TEID or address: %w", ErrMalformed)
	}
	return teid, address, nil
}

// Supported returns the answer to a message with an unknown extension header: those that this package knows.
func Supported() Message {
	var sequence uint16
	return Message{Type: SupportedExtensions, Sequence: &sequence, Payload: Element{ElementExtensions, []byte{sessionContainer}}.appended(nil)}
}

// End returns an End Marker: no more packets come through a tunnel.
func End(teid uint32) Message { return Message{Type: EndMarker, TEID: teid} }
