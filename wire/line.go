// SPDX-License-Identifier: Apache-2.0

package wire

// The fields of a packet in one line, as the target LOG of iptables writes them.

import (
	"encoding/binary"
	"fmt"
	"net"
	"strings"
)

// Line describes a frame, of which the end may be missing: MAC addresses, then the fields of IP and of the protocol above,
// with the names that iptables gives to them.
func Line(frame []byte) string {
	if len(frame) < ethLen {
		return "TRUNCATED"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "MAC=%s:%s:%02x:%02x", net.HardwareAddr(frame[:6]), net.HardwareAddr(frame[6:12]), frame[12], frame[13])
	p, err := ParseIP(untagged(frame))
	if err != nil {
		return b.String()
	}
	if p.V6() {
		line6(&b, &p)
	} else {
		line4(&b, &p)
	}
	lineProtocol(&b, &p)
	return b.String()
}

// untagged returns the frame without its VLAN tags, of which two are known.
func untagged(frame []byte) []byte {
	for range 2 {
		if t := EtherType(frame); t != 0x8100 && t != 0x88a8 || len(frame) < ethLen+4 {
			break
		}
		frame = append(append([]byte{}, frame[:12]...), frame[16:]...)
	}
	return frame
}

func line4(b *strings.Builder, p *Packet) {
	d := p.Data
	fmt.Fprintf(b, " SRC=%s DST=%s LEN=%d TOS=0x%02X PREC=0x%02X TTL=%d ID=%d", p.Src, p.Dst, binary.BigEndian.Uint16(d[2:]),
		d[1]&0x1e, d[1]&0xe0, p.TTL, p.ID)
	flags := binary.BigEndian.Uint16(d[6:])
	for _, f := range []struct {
		bit  uint16
		name string
	}{{0x8000, " CE"}, {0x4000, " DF"}, {0x2000, " MF"}} {
		if flags&f.bit != 0 {
			b.WriteString(f.name)
		}
	}
	if p.Offset > 0 {
		fmt.Fprintf(b, " FRAG:%d", p.Offset/8)
	}
}

func line6(b *strings.Builder, p *Packet) {
	first := binary.BigEndian.Uint32(p.Data)
	fmt.Fprintf(b, " SRC=%s DST=%s LEN=%d TC=%d HOPLIMIT=%d FLOWLBL=%d", p.Src, p.Dst, binary.BigEndian.Uint16(p.Data[4:])+ipv6Len,
		first>>20&0xff, p.TTL, first&0xfffff)
	if p.Fragment() {
		fmt.Fprintf(b, " FRAG:%d ID:%08x", p.Offset, p.ID)
	}
}

// protocolNames are the names of protocols in the log.
var protocolNames = map[uint8]string{ProtoTCP: "TCP", ProtoUDP: "UDP", ProtoICMP: "ICMP", ProtoICMPv6: "ICMPv6", 136: "UDPLITE", 51: "AH", 50: "ESP"}

func lineProtocol(b *strings.Builder, p *Packet) {
	name, ok := protocolNames[p.Proto]
	if !ok {
		fmt.Fprintf(b, " PROTO=%d", p.Proto)
		return
	}
	fmt.Fprintf(b, " PROTO=%s", name)
	is := p.Payload
	if p.Offset > 0 {
		return
	}
	if len(is) < 8 {
		fmt.Fprintf(b, " INCOMPLETE [%d bytes]", len(is))
		return
	}
	switch p.Proto {
	case ProtoTCP:
		lineTCP(b, is)
	case ProtoUDP, 136:
		fmt.Fprintf(b, " SPT=%d DPT=%d LEN=%d", binary.BigEndian.Uint16(is), binary.BigEndian.Uint16(is[2:]), binary.BigEndian.Uint16(is[4:]))
	case ProtoICMP, ProtoICMPv6:
		fmt.Fprintf(b, " TYPE=%d CODE=%d", is[0], is[1])
		if is[0] == EchoRequest4 || is[0] == 0 || is[0] == EchoRequest6 || is[0] == EchoRequest6+1 {
			fmt.Fprintf(b, " ID=%d SEQ=%d", binary.BigEndian.Uint16(is[4:]), binary.BigEndian.Uint16(is[6:]))
		}
	}
}

func lineTCP(b *strings.Builder, is []byte) {
	fmt.Fprintf(b, " SPT=%d DPT=%d", binary.BigEndian.Uint16(is), binary.BigEndian.Uint16(is[2:]))
	if len(is) < tcpLen {
		fmt.Fprintf(b, " INCOMPLETE [%d bytes]", len(is))
		return
	}
	fmt.Fprintf(b, " WINDOW=%d RES=0x%02X ", binary.BigEndian.Uint16(is[14:]), is[12]&0x0f<<2)
	for _, f := range []struct {
		bit  byte
		name string
	}{{0x80, "CWR "}, {0x40, "ECE "}, {0x20, "URG "}, {tcpACK, "ACK "}, {0x08, "PSH "}, {tcpRST, "RST "}, {tcpSYN, "SYN "}, {tcpFIN, "FIN "}} {
		if is[13]&f.bit != 0 {
			b.WriteString(f.name)
		}
	}
	fmt.Fprintf(b, "URGP=%d", binary.BigEndian.Uint16(is[18:]))
}
