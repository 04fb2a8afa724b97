// SPDX-License-Identifier: Apache-2.0

// Package pkt builds frames for tests, layer by layer from the outside in:
//
//	pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").VLAN(10).IPv4("10.0.0.1", "10.0.0.2").UDP(1000, 53).Payload(32).Bytes()
//
// Lengths, checksums and the types that link one layer to the next are filled in. A packet that cannot be built is an
// error in the test, so everything panics instead of returning errors.
package pkt

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Broadcast is the address of all stations.
const Broadcast = "ff:ff:ff:ff:ff:ff"

// Frame is a frame that is being built. Its methods add a layer and return the same Frame.
type Frame struct {
	// header is written here, because gopacket would pad the frame to 60 bytes.
	header [14]byte
	layers []gopacket.SerializableLayer
	// next sets the type of the following layer in the layer before it.
	next func(layers.EthernetType)
	// proto does the same after an IP header.
	proto func(layers.IPProtocol)
	// network is the header that a transport checksum covers.
	network gopacket.NetworkLayer
}

// Eth starts a frame from one MAC address to another.
func Eth(from, to string) *Frame {
	f := &Frame{}
	copy(f.header[:], MAC(to))
	copy(f.header[6:], MAC(from))
	f.next = func(t layers.EthernetType) { binary.BigEndian.PutUint16(f.header[12:], uint16(t)) }
	return f.EtherType(0x88b5)
}

// MAC parses a MAC address, and panics if the text is none.
func MAC(text string) net.HardwareAddr {
	addr, err := net.ParseMAC(text)
	if err != nil {
		panic(fmt.Sprintf("pkt: %v", err))
	}
	return addr
}

// Prefixes parses prefixes, and panics if a text is none.
func Prefixes(texts ...string) (list []netip.Prefix) {
	for _, t := range texts {
		list = append(list, netip.MustParsePrefix(t))
	}
	return list
}

// EtherType sets the type of a frame whose payload is not one of the layers below; without it the type is 0x88b5, for
// local experiments.
func (f *Frame) EtherType(t uint16) *Frame {
	f.next(layers.EthernetType(t))
	return f
}

// VLAN adds an 802.1Q tag with an id and priority 0.
func (f *Frame) VLAN(id uint16) *Frame { return f.tag(layers.EthernetTypeDot1Q, id, 0) }

// PriorityVLAN adds an 802.1Q tag with an id and a priority.
func (f *Frame) PriorityVLAN(id uint16, priority uint8) *Frame {
	return f.tag(layers.EthernetTypeDot1Q, id, priority)
}

// ServiceVLAN adds an 802.1ad tag, the outer one of a pair.
func (f *Frame) ServiceVLAN(id uint16) *Frame { return f.tag(layers.EthernetTypeQinQ, id, 0) }

func (f *Frame) tag(t layers.EthernetType, id uint16, priority uint8) *Frame {
	tag := &layers.Dot1Q{VLANIdentifier: id, Priority: priority, Type: 0x88b5}
	f.next(t)
	f.next = func(t layers.EthernetType) { tag.Type = t }
	f.layers = append(f.layers, tag)
	return f
}

// ARPRequest requests the owner of an address.
func (f *Frame) ARPRequest(fromMAC, from, who string) *Frame {
	return f.arp(layers.ARPRequest, fromMAC, from, "00:00:00:00:00:00", who)
}

// ARPReply tells a station the MAC address of an address.
func (f *Frame) ARPReply(fromMAC, from, toMAC, to string) *Frame {
	return f.arp(layers.ARPReply, fromMAC, from, toMAC, to)
}

func (f *Frame) arp(operation uint16, fromMAC, from, toMAC, to string) *Frame {
	f.next(layers.EthernetTypeARP)
	f.layers = append(f.layers, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, Operation: operation,
		HwAddressSize: 6, ProtAddressSize: 4,
		SourceHwAddress: MAC(fromMAC), SourceProtAddress: ip(from), DstHwAddress: MAC(toMAC), DstProtAddress: ip(to),
	})
	return f
}

func ip(text string) net.IP { return netip.MustParseAddr(text).AsSlice() }

// IPv4Options change an IPv4 header.
type IPv4Options struct {
	TTL, TOS      uint8 // TTL 64 when 0
	ID            uint16
	DontFragment  bool
	MoreFragments bool
	// Offset of a fragment in units of 8 bytes.
	Offset uint16
}

// IPv4 adds an IPv4 header.
func (f *Frame) IPv4(from, to string, opts ...IPv4Options) *Frame {
	h := &layers.IPv4{Version: 4, TTL: 64, SrcIP: ip(from), DstIP: ip(to), Protocol: layers.IPProtocol(253)}
	for _, o := range opts {
		if o.TTL > 0 {
			h.TTL = o.TTL
		}
		h.TOS, h.Id, h.FragOffset = o.TOS, o.ID, o.Offset
		if o.DontFragment {
			h.Flags |= layers.IPv4DontFragment
		}
		if o.MoreFragments {
			h.Flags |= layers.IPv4MoreFragments
		}
	}
	f.next(layers.EthernetTypeIPv4)
	f.layers, f.network = append(f.layers, h), h
	f.proto = func(p layers.IPProtocol) { h.Protocol = p }
	return f
}

// IPv6 adds an IPv6 header with a hop limit of 64.
func (f *Frame) IPv6(from, to string) *Frame {
	h := &layers.IPv6{Version: 6, HopLimit: 64, SrcIP: ip(from), DstIP: ip(to), NextHeader: layers.IPProtocol(253)}
	f.next(layers.EthernetTypeIPv6)
	f.layers, f.network = append(f.layers, h), h
	f.proto = func(p layers.IPProtocol) { h.NextHeader = p }
	return f
}

// Protocol sets the protocol of a packet whose payload is not one of the layers below; without it the protocol is 253,
// for experiments.
func (f *Frame) Protocol(p uint8) *Frame {
	if f.proto == nil {
		panic("pkt: a protocol wants an IP header before it")
	}
	f.proto(layers.IPProtocol(p))
	return f
}

// UDP adds a UDP header.
func (f *Frame) UDP(from, to uint16) *Frame {
	h := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
	return f.transport(layers.IPProtocolUDP, h, h.SetNetworkLayerForChecksum)
}

// TCPFlags are the flags of a TCP header and its sequence numbers.
type TCPFlags struct {
	SYN, ACK, FIN, RST, PSH bool
	Seq, Ack                uint32
}

// TCP adds a TCP header.
func (f *Frame) TCP(from, to uint16, flags TCPFlags) *Frame {
	h := &layers.TCP{SrcPort: layers.TCPPort(from), DstPort: layers.TCPPort(to), Window: 65535,
		SYN: flags.SYN, ACK: flags.ACK, FIN: flags.FIN, RST: flags.RST, PSH: flags.PSH, Seq: flags.Seq, Ack: flags.Ack}
	return f.transport(layers.IPProtocolTCP, h, h.SetNetworkLayerForChecksum)
}

// Echo adds an ICMP echo request.
func (f *Frame) Echo(id, seq uint16) *Frame {
	h := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(layers.ICMPv4TypeEchoRequest, 0), Id: id, Seq: seq}
	return f.transport(layers.IPProtocolICMPv4, h, nil)
}

func (f *Frame) transport(p layers.IPProtocol, h gopacket.SerializableLayer, cover func(gopacket.NetworkLayer) error) *Frame {
	if f.proto == nil {
		panic("pkt: a transport header wants an IP header before it")
	}
	f.proto(p)
	if cover != nil {
		if err := cover(f.network); err != nil {
			panic(fmt.Sprintf("pkt: %v", err))
		}
	}
	f.layers = append(f.layers, h)
	return f
}

// Payload adds n bytes that count up from 0.
func (f *Frame) Payload(n int) *Frame {
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i)
	}
	return f.Data(data)
}

// Data appends bytes.
func (f *Frame) Data(data []byte) *Frame {
	f.layers = append(f.layers, gopacket.Payload(data))
	return f
}

// Bytes returns the frame, without the padding to 60 bytes that a wire may add.
func (f *Frame) Bytes() []byte {
	buf := gopacket.NewSerializeBuffer()
	opts := gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}
	if err := gopacket.SerializeLayers(buf, opts, f.layers...); err != nil {
		panic(fmt.Sprintf("pkt: %v", err))
	}
	return append(f.header[:len(f.header):len(f.header)], buf.Bytes()...)
}
