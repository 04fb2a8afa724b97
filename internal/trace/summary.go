// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"net"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"
)

// Summarise describes a frame of length bytes, of which data are the first, on one line, like tcpdump: addresses,
// protocol, and its main fields.
func Summarise(data []byte, length int) string {
	p := gopacket.NewPacket(data, layers.LayerTypeEthernet, gopacket.DecodeOptions{Lazy: true, NoCopy: true})
	eth, _ := p.Layer(layers.LayerTypeEthernet).(*layers.Ethernet)
	if eth == nil {
		return fmt.Sprintf("not an Ethernet frame, length %d", length)
	}
	var b strings.Builder
	for _, l := range p.Layers() {
		if tag, ok := l.(*layers.Dot1Q); ok {
			fmt.Fprintf(&b, "vlan %d, ", tag.VLANIdentifier)
		}
	}
	switch net := p.NetworkLayer().(type) {
	case *layers.IPv4:
		ip(&b, p, net.SrcIP, net.DstIP, net.Protocol.String(), net.FragOffset != 0)
	case *layers.IPv6:
		ip(&b, p, net.SrcIP, net.DstIP, net.NextHeader.String(), false)
	default:
		other(&b, p, eth)
	}
	fmt.Fprintf(&b, ", length %d", length)
	return b.String()
}

// ip writes addresses, with ports if the protocol has them, and the rest.
func ip(b *strings.Builder, p gopacket.Packet, from, to net.IP, protocol string, later bool) {
	switch l := transport(p).(type) {
	case *layers.TCP:
		fmt.Fprintf(b, "%s.%d > %s.%d: TCP [%s], seq %d", from, l.SrcPort, to, l.DstPort, flags(l), l.Seq)
		if l.ACK {
			fmt.Fprintf(b, ", ack %d", l.Ack)
		}
	case *layers.UDP:
		fmt.Fprintf(b, "%s.%d > %s.%d: UDP", from, l.SrcPort, to, l.DstPort)
	case *layers.ICMPv4:
		fmt.Fprintf(b, "%s > %s: ICMP %s", from, to, echo(l.TypeCode.String(), l.Id, l.Seq))
	case *layers.ICMPv6:
		fmt.Fprintf(b, "%s > %s: ICMPv6 %s", from, to, l.TypeCode)
	default:
		fmt.Fprintf(b, "%s > %s: %s", from, to, protocol)
		if later {
			b.WriteString(" fragment")
		}
	}
}

func transport(p gopacket.Packet) gopacket.Layer {
	for _, t := range []gopacket.LayerType{layers.LayerTypeTCP, layers.LayerTypeUDP, layers.LayerTypeICMPv4, layers.LayerTypeICMPv6} {
		if l := p.Layer(t); l != nil {
			return l
		}
	}
	return nil
}

// flags are the flags of a TCP segment in tcpdump's letters.
func flags(t *layers.TCP) string {
	var b strings.Builder
	for _, f := range []struct {
		set    bool
		letter byte
	}{{t.SYN, 'S'}, {t.FIN, 'F'}, {t.PSH, 'P'}, {t.RST, 'R'}, {t.URG, 'U'}, {t.ACK, '.'}, {t.ECE, 'E'}, {t.CWR, 'W'}} {
		if f.set {
			b.WriteByte(f.letter)
		}
	}
	if b.Len() == 0 {
		return "none"
	}
	return b.String()
}

func echo(what string, id, seq uint16) string {
	switch what {
	case "EchoRequest":
		return fmt.Sprintf("echo request, id %d, seq %d", id, seq)
	case "EchoReply":
		return fmt.Sprintf("echo reply, id %d, seq %d", id, seq)
	}
	return what
}

// other writes packets other than IP.
func other(b *strings.Builder, p gopacket.Packet, eth *layers.Ethernet) {
	if a, ok := p.Layer(layers.LayerTypeARP).(*layers.ARP); ok && len(a.SourceProtAddress) == 4 && len(a.DstProtAddress) == 4 {
		from, to := net.IP(a.SourceProtAddress), net.IP(a.DstProtAddress)
		if a.Operation == layers.ARPRequest {
			fmt.Fprintf(b, "ARP who has %s, tell %s", to, from)
		} else {
			fmt.Fprintf(b, "ARP %s is at %s", from, net.HardwareAddr(a.SourceHwAddress))
		}
		return
	}
	kind := eth.EthernetType
	for _, l := range p.Layers() {
		if tag, ok := l.(*layers.Dot1Q); ok {
			kind = tag.Type
		}
	}
	fmt.Fprintf(b, "%s > %s, ethertype 0x%04x", eth.SrcMAC, eth.DstMAC, uint16(kind))
}
