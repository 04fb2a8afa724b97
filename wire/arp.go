// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net/netip"
)

// ARP operations.
const (
	ARPRequest = 1
	ARPReply   = 2
)

const arpLen = 28

// arpHead is the header for Ethernet and IPv4 addresses.
var arpHead = []byte{0, 1, 8, 0, 6, 4}

// ARP is a packet of the Address Resolution Protocol for IPv4 over Ethernet (RFC 826).
type ARP struct {
	// To is the destination of the frame.
	To        MAC
	Op        uint16
	SenderMAC MAC
	Sender    netip.Addr
	TargetMAC MAC
	Target    netip.Addr
}

// ParseARP parses a frame. An invalid MAC address of the sender makes it malformed.
func ParseARP(frame []byte) (ARP, error) {
	if EtherType(frame) != EtherARP || len(frame) < ethLen+arpLen || !bytes.HasPrefix(frame[ethLen:], arpHead) {
		return ARP{}, fmt.Errorf("ARP: %w", ErrMalformed)
	}
	b := frame[ethLen:]
	a := ARP{To: Destination(frame), Op: binary.BigEndian.Uint16(b[6:])}
	copy(a.SenderMAC[:], b[8:])
	a.Sender = netip.AddrFrom4([4]byte(b[14:18]))
	copy(a.TargetMAC[:], b[18:])
	a.Target = netip.AddrFrom4([4]byte(b[24:28]))
	if a.Op != ARPRequest && a.Op != ARPReply || !a.SenderMAC.Station() {
		return ARP{}, fmt.Errorf("ARP from %s: %w", a.SenderMAC, ErrMalformed)
	}
	return a, nil
}

// Frame encodes the packet.
func (a ARP) Frame() []byte {
	b := ethernet(a.To, a.SenderMAC, EtherARP)
	b = append(b, arpHead...)
	b = binary.BigEndian.AppendUint16(b, a.Op)
	b = append(b, a.SenderMAC[:]...)
	b = append(b, a.Sender.AsSlice()...)
	b = append(b, a.TargetMAC[:]...)
	return append(b, a.Target.AsSlice()...)
}

// Probe reports whether the packet asks if any station has an address, without claiming it (RFC 5227 1.1).
func (a ARP) Probe() bool { return a.Op == ARPRequest && a.Sender.IsUnspecified() }

// Announcement reports whether the packet announces the sender's address.
func (a ARP) Announcement() bool { return a.Sender == a.Target }

// WhoHas requests the owner of target: from all stations, or from its last known owner.
func WhoHas(target netip.Addr, to MAC, sender netip.Addr, senderMAC MAC) ARP {
	return ARP{To: to, Op: ARPRequest, SenderMAC: senderMAC, Sender: sender, Target: target}
}

// ProbeARP asks whether any station has the address already.
func ProbeARP(a netip.Addr, senderMAC MAC) ARP {
	return WhoHas(a, Broadcast, netip.IPv4Unspecified(), senderMAC)
}

// AnnounceARP announces the owner of the address (RFC 5227 2.3).
func AnnounceARP(a netip.Addr, senderMAC MAC) ARP { return WhoHas(a, Broadcast, a, senderMAC) }
