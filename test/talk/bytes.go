// SPDX-License-Identifier: Apache-2.0

package talk

import (
	"encoding/binary"

	"github.com/polycube/polycube/conntrack"
)

// Bytes are the bytes of a segment between two ports; the checksum is 0.
func Bytes(p conntrack.Segment, ports [2]uint16) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, ports[0]), ports[1])
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.Seq), p.Ack)
	b = append(b, 5<<4, byte(p.Flags))
	b = binary.BigEndian.AppendUint16(b, p.Window)
	b = append(b, 0, 0, 0, 0)
	if p.Scale != conntrack.NoScale {
		b[12] = 6 << 4
		b = append(b, 3, 3, p.Scale, 1)
	}
	return append(b, make([]byte, p.Length)...)
}
