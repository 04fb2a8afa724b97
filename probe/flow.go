// SPDX-License-Identifier: Apache-2.0

package probe

// What a packet says about the check that it belongs to.

import (
	"encoding/binary"

	"github.com/polycube/polycube/wire"
)

// Types of ICMP and ICMPv6.
const (
	echoReply    = 0
	echoRequest  = 8
	echoRequest6 = 128
	echoReply6   = 129
)

const (
	tcpLen  = 20
	echoLen = 8
)

// flow are the ports of a packet: far is that of the target, near the one that says which server it is.
type flow struct{ far, near uint16 }

// flowOf returns the flow of a packet of a check, or of an answer; false if it can be neither.
func flowOf(ip *wire.Packet, out bool) (f flow, ok bool) {
	b := ip.Payload
	switch {
	case ip.Proto == wire.ProtoTCP && len(b) >= tcpLen:
		source, destination := binary.BigEndian.Uint16(b), binary.BigEndian.Uint16(b[2:])
		if out {
			return flow{far: destination, near: source}, destination != 0
		}
		return flow{far: source, near: destination}, source != 0
	case len(b) < echoLen, ip.Proto != wire.ProtoICMP && !ip.V6(), ip.Proto != wire.ProtoICMPv6 && ip.V6():
		return flow{}, false
	}
	kind := byte(echoReply)
	switch {
	case out && ip.V6():
		kind = echoRequest6
	case out:
		kind = echoRequest
	case ip.V6():
		kind = echoReply6
	}
	return flow{near: binary.BigEndian.Uint16(b[4:])}, b[0] == kind && b[1] == 0
}
