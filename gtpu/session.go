// SPDX-License-Identifier: Apache-2.0

package gtpu

// The PDU Session Container (TS 38.415, 5.5.2).

import "slices"

// sessionContainer is the type of its extension header.
const sessionContainer = 0x85

// Session is what a PDU Session Container says of a packet.
type Session struct {
	// Uplink is of packets from a user; others are for one.
	Uplink bool
	// QFI is the QoS flow, 0 to 63.
	QFI uint8
	// Reflective asks the user's device to give packets of this flow in the other direction the same QoS (RQI). Not for uplink.
	Reflective bool
}

// Extension returns the extension header.
func (s Session) Extension() Extension {
	content := []byte{0, s.QFI & 0x3f}
	switch {
	case s.Uplink:
		content[0] = 1 << 4
	case s.Reflective:
		content[1] |= 0x40
	}
	return Extension{sessionContainer, content}
}

// Session returns what the message's PDU Session Container says, the last one if there are several; false if there is none.
func (m *Message) Session() (s Session, ok bool) {
	for _, x := range slices.Backward(m.Extensions) {
		if x.Type == sessionContainer && len(x.Content) >= 2 {
			s = Session{Uplink: x.Content[0]>>4 == 1, QFI: x.Content[1] & 0x3f}
			s.Reflective = !s.Uplink && x.Content[1]&0x40 != 0
			return s, true
		}
	}
	return s, false
}
