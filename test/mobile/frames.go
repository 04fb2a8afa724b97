// SPDX-License-Identifier: Apache-2.0

package mobile

// Frames for tests that run programs on them.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/pkt"
)

// Datagram is a UDP datagram between two addresses.
func Datagram(from, to string, sport, dport uint16, payload []byte, tos byte) []byte {
	udp := pkt.UDPDatagram(from, to, sport, dport, payload)
	if strings.Contains(from, ":") {
		return pkt.IPv6Header{From: from, To: to, Next: pkt.ProtoUDP, HopLimit: 64, Class: tos}.Packet(udp)
	}
	return pkt.IPv4Header{From: from, To: to, Protocol: pkt.ProtoUDP, TTL: 64, TOS: tos, Fragment: 0x4000}.Packet(udp)
}

// Frame is a packet in a frame between two MAC addresses.
func Frame(from, to string, packet []byte) []byte {
	return pkt.EthernetFrame(pkt.MAC(to), pkt.MAC(from), KindOf(packet), packet)
}

// KindOf is the EtherType of a packet.
func KindOf(packet []byte) uint16 {
	if packet[0]>>4 == 6 {
		return 0x86dd
	}
	return 0x0800
}

// Message is a message of GTP-U between two addresses, as a packet.
func Message(from, to string, m gtpu.Message) []byte {
	b, err := m.Append(nil)
	if err != nil {
		panic(err)
	}
	return Datagram(from, to, 3000, gtpu.Port, b, 0)
}

// Tunnelled is a message of GTP-U as it was received: the outer headers, and what is in them.
type Tunnelled struct {
	FromMAC, ToMAC string
	From, To       netip.Addr
	TOS            byte
	Message        gtpu.Message
}

// ReadTunnel reads a frame with a message of GTP-U. The outer headers must be right: lengths, ports and checksums.
func ReadTunnel(frame []byte) (is Tunnelled, err error) {
	is.ToMAC, is.FromMAC = fmt.Sprintf("% x", frame[:6]), fmt.Sprintf("% x", frame[6:12])
	ip := frame[14:]
	header, next, length := 20, ip[9], int(binary.BigEndian.Uint16(ip[2:]))
	if binary.BigEndian.Uint16(frame[12:]) == 0x86dd {
		header, next, length = 40, ip[6], int(binary.BigEndian.Uint16(ip[4:]))+40
		is.From, is.To = netip.AddrFrom16([16]byte(ip[8:24])), netip.AddrFrom16([16]byte(ip[24:40]))
		is.TOS = byte(binary.BigEndian.Uint32(ip) >> 20)
	} else {
		is.From, is.To = netip.AddrFrom4([4]byte(ip[12:16])), netip.AddrFrom4([4]byte(ip[16:20]))
		is.TOS = ip[1]
		if pkt.Sum(ip[:20]) != 0xffff {
			return is, fmt.Errorf("wrong header checksum: %x", ip[:20])
		}
	}
	if length > len(ip) || next != pkt.ProtoUDP {
		return is, fmt.Errorf("%d bytes, protocol %d: %x", length, next, ip)
	}
	udp := ip[header:length]
	check := udp[6] != 0 || udp[7] != 0
	switch {
	case int(binary.BigEndian.Uint16(udp[4:])) != len(udp) || binary.BigEndian.Uint16(udp[2:]) != gtpu.Port:
		err = fmt.Errorf("wrong length or port: %x", udp[:8])
	case check && pkt.Sum(pkt.PseudoHeader(is.From.String(), is.To.String(), pkt.ProtoUDP, len(udp)), udp) != 0xffff, !check && header == 40:
		err = errors.New("wrong checksum of UDP")
	default:
		is.Message, err = gtpu.Parse(udp[8:])
	}
	return is, err
}
