// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/gopacket/gopacket"
	"github.com/gopacket/gopacket/layers"

	"github.com/polycube/polycube/cube"
)

// PacketGrammar is the syntax of a packet.
const PacketGrammar = `a packet is its bytes in hex, or layers with " / " between them: ` +
	`eth MAC > MAC | vlan ID | arp who-has IP tell IP | ip IP > IP [ttl N] | icmp echo|reply [id N] [seq N] | ` +
	`udp PORT > PORT | tcp PORT > PORT [flags SFRPA] | payload N|0xHEX|"TEXT"`

// Limits of a packet.
const (
	minFrame = 60
	maxText  = 1 << 18
	// MaxInjected is the longest frame that can be injected.
	MaxInjected = 9018
)

// ParsePacket builds a frame from a description. If the description is in words and has no eth layer, station is the
// destination, unless it is nil.
func ParsePacket(text string, station net.HardwareAddr) ([]byte, error) {
	frame, err := parsePacket(text, station)
	if err == nil && (len(frame) < 14 || len(frame) > MaxInjected) {
		err = fmt.Errorf("it has %d bytes, but a frame has 14 to %d", len(frame), MaxInjected)
	}
	if err != nil {
		return nil, fmt.Errorf("packet: %w: %w", err, cube.ErrInvalid)
	}
	return frame, nil
}

func parsePacket(text string, station net.HardwareAddr) ([]byte, error) {
	if len(text) > maxText {
		return nil, fmt.Errorf("its description is longer than %d bytes", maxText)
	}
	if raw, ok := hexBytes(text); ok {
		return raw, nil
	}
	p := parser{eth: &layers.Ethernet{SrcMAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, DstMAC: net.HardwareAddr{2, 0, 0, 0, 0, 2}}}
	if station != nil {
		p.eth.DstMAC = station
	}
	parts, err := split(text)
	if err != nil {
		return nil, err
	}
	for i, part := range parts {
		if len(part) == 0 {
			return nil, errors.New("a layer is empty; " + PacketGrammar)
		}
		if err := p.layer(part, i == 0); err != nil {
			return nil, fmt.Errorf("%s: %w", strings.Join(part, " "), err)
		}
	}
	return p.frame()
}

// hexBytes parses bytes in hex, with spaces, colons or 0x between them.
func hexBytes(text string) ([]byte, bool) {
	clean := strings.NewReplacer(" ", "", ":", "", "\n", "", "\t", "").Replace(strings.TrimPrefix(strings.TrimSpace(text), "0x"))
	raw, err := hex.DecodeString(clean)
	return raw, err == nil && len(raw) > 0
}

// split splits a description into layers, and those into words. A quoted text is one word.
func split(text string) ([][]string, error) {
	out := [][]string{nil}
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimLeft(rest, " \t\n") {
		last := len(out) - 1
		if rest[0] == '"' {
			end := strings.IndexByte(rest[1:], '"')
			if end < 0 {
				return nil, errors.New("a quote is not closed")
			}
			out[last] = append(out[last], rest[:end+2])
			rest = rest[end+2:]
			continue
		}
		word := rest
		if i := strings.IndexAny(rest, " \t\n"); i >= 0 {
			word = rest[:i]
		}
		rest = rest[len(word):]
		if word == "/" {
			out = append(out, nil)
			continue
		}
		out[last] = append(out[last], word)
	}
	return out, nil
}

// parser collects the layers of a packet.
type parser struct {
	eth     *layers.Ethernet
	layers  []gopacket.SerializableLayer // after the Ethernet header
	setType func(layers.EthernetType)    // of the header before the next layer
	v4      *layers.IPv4
	v6      *layers.IPv6
	done    bool // a payload ends a packet
}

func (p *parser) layer(words []string, first bool) error {
	if p.done {
		return errors.New("nothing can follow a payload")
	}
	args := words[1:]
	switch words[0] {
	case "eth":
		if !first {
			return errors.New("eth must come first")
		}
		return p.ethernet(args)
	case "vlan":
		return p.vlan(args)
	case "arp":
		return p.arp(args)
	case "ip":
		return p.ip(args)
	case "icmp":
		return p.icmp(args)
	case "udp", "tcp":
		return p.transport(words[0], args)
	case "payload":
		return p.payload(args)
	}
	return errors.New("unknown layer; " + PacketGrammar)
}

func (p *parser) ethernet(args []string) error {
	from, to, rest, err := pair(args)
	if err != nil || len(rest) > 0 {
		return errors.New("write eth MAC > MAC")
	}
	if p.eth.SrcMAC, err = mac(from); err == nil {
		p.eth.DstMAC, err = mac(to)
	}
	return err
}

func mac(text string) (net.HardwareAddr, error) {
	m, err := net.ParseMAC(text)
	if err != nil || len(m) != 6 {
		return nil, fmt.Errorf("%s is not a MAC address", text)
	}
	return m, nil
}

// pair parses "A > B" and returns what follows.
func pair(args []string) (from, to string, rest []string, err error) {
	if len(args) < 3 || args[1] != ">" {
		return "", "", nil, errors.New("expected two values with > between them")
	}
	return args[0], args[2], args[3:], nil
}

// number parses a number from 0 to most.
func number(text string, most uint64) (uint64, error) {
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil || n > most {
		return 0, fmt.Errorf("%s is not a number from 0 to %d", text, most)
	}
	return n, nil
}

// link records the ethertype after Ethernet or a tag.
func (p *parser) link(t layers.EthernetType) {
	if p.setType == nil {
		p.eth.EthernetType = t
		return
	}
	p.setType(t)
}

func (p *parser) vlan(args []string) error {
	if p.v4 != nil || p.v6 != nil || len(args) != 1 {
		return errors.New("write vlan ID, after eth")
	}
	id, err := number(args[0], 4095)
	if err != nil {
		return err
	}
	p.link(layers.EthernetTypeDot1Q)
	tag := &layers.Dot1Q{VLANIdentifier: uint16(id)}
	p.setType = func(t layers.EthernetType) { tag.Type = t }
	p.layers = append(p.layers, tag)
	return nil
}

func (p *parser) arp(args []string) error {
	if len(args) != 4 || args[0] != "who-has" || args[2] != "tell" {
		return errors.New("write arp who-has IP tell IP")
	}
	who, err1 := netip.ParseAddr(args[1])
	tell, err2 := netip.ParseAddr(args[3])
	if err1 != nil || err2 != nil || !who.Is4() || !tell.Is4() {
		return errors.New("its addresses must be IPv4")
	}
	p.link(layers.EthernetTypeARP)
	p.layers = append(p.layers, &layers.ARP{
		AddrType: layers.LinkTypeEthernet, Protocol: layers.EthernetTypeIPv4, HwAddressSize: 6, ProtAddressSize: 4,
		Operation: layers.ARPRequest, SourceHwAddress: p.eth.SrcMAC, SourceProtAddress: tell.AsSlice(),
		DstHwAddress: make([]byte, 6), DstProtAddress: who.AsSlice(),
	})
	p.done = true
	return nil
}

func (p *parser) ip(args []string) error {
	if p.v4 != nil || p.v6 != nil {
		return errors.New("only one ip layer is allowed")
	}
	a, b, rest, err := pair(args)
	if err != nil {
		return errors.New("write ip IP > IP [ttl N]")
	}
	from, err1 := netip.ParseAddr(a)
	to, err2 := netip.ParseAddr(b)
	if err1 != nil || err2 != nil || from.Is4() != to.Is4() || from.Zone() != "" || to.Zone() != "" {
		return errors.New("expected two IP addresses of the same version")
	}
	ttl := uint64(64)
	if len(rest) > 0 {
		if len(rest) != 2 || rest[0] != "ttl" {
			return errors.New("only ttl N can follow")
		}
		if ttl, err = number(rest[1], 255); err != nil {
			return err
		}
	}
	if from.Is4() {
		p.link(layers.EthernetTypeIPv4)
		p.v4 = &layers.IPv4{Version: 4, TTL: uint8(ttl), SrcIP: from.AsSlice(), DstIP: to.AsSlice(), Protocol: 253}
		p.layers = append(p.layers, p.v4)
		return nil
	}
	p.link(layers.EthernetTypeIPv6)
	p.v6 = &layers.IPv6{Version: 6, HopLimit: uint8(ttl), SrcIP: from.AsSlice(), DstIP: to.AsSlice(), NextHeader: 253}
	p.layers = append(p.layers, p.v6)
	return nil
}

// carry records the protocol in the ip layer, which must exist.
func (p *parser) carry(protocol layers.IPProtocol) (gopacket.NetworkLayer, error) {
	switch {
	case p.v4 != nil && p.v4.Protocol == 253:
		p.v4.Protocol = protocol
		return p.v4, nil
	case p.v6 != nil && p.v6.NextHeader == 253:
		p.v6.NextHeader = protocol
		return p.v6, nil
	}
	return nil, errors.New("an ip layer must come right before it")
}

func (p *parser) icmp(args []string) error {
	if p.v4 == nil {
		return errors.New("an IPv4 layer must come right before it")
	}
	if _, err := p.carry(layers.IPProtocolICMPv4); err != nil {
		return err
	}
	kinds := map[string]uint8{"echo": layers.ICMPv4TypeEchoRequest, "reply": layers.ICMPv4TypeEchoReply}
	if len(args) == 0 || len(args)%2 == 0 {
		return errors.New("write icmp echo|reply [id N] [seq N]")
	}
	kind, ok := kinds[args[0]]
	if !ok {
		return errors.New("must be echo or reply")
	}
	l := &layers.ICMPv4{TypeCode: layers.CreateICMPv4TypeCode(kind, 0), Id: 1, Seq: 1}
	for i := 1; i < len(args); i += 2 {
		n, err := number(args[i+1], 65535)
		switch {
		case err != nil:
			return err
		case args[i] == "id":
			l.Id = uint16(n)
		case args[i] == "seq":
			l.Seq = uint16(n)
		default:
			return fmt.Errorf("%s: only id and seq can follow", args[i])
		}
	}
	p.layers = append(p.layers, l)
	return nil
}

func (p *parser) transport(protocol string, args []string) error {
	a, b, rest, err := pair(args)
	if err != nil {
		return fmt.Errorf("write %s PORT > PORT", protocol)
	}
	from, err1 := number(a, 65535)
	to, err2 := number(b, 65535)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	if protocol == "udp" {
		if len(rest) > 0 {
			return fmt.Errorf("%s: nothing can follow the ports", rest[0])
		}
		under, err := p.carry(layers.IPProtocolUDP)
		if err != nil {
			return err
		}
		l := &layers.UDP{SrcPort: layers.UDPPort(from), DstPort: layers.UDPPort(to)}
		p.layers = append(p.layers, l)
		return l.SetNetworkLayerForChecksum(under)
	}
	under, err := p.carry(layers.IPProtocolTCP)
	if err != nil {
		return err
	}
	l := &layers.TCP{SrcPort: layers.TCPPort(from), DstPort: layers.TCPPort(to), Window: 65535, SYN: len(rest) == 0}
	if err := tcpFlags(l, rest); err != nil {
		return err
	}
	p.layers = append(p.layers, l)
	return l.SetNetworkLayerForChecksum(under)
}

func tcpFlags(l *layers.TCP, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if len(args) != 2 || args[0] != "flags" {
		return errors.New("only flags can follow")
	}
	for _, f := range args[1] {
		bit := map[rune]*bool{'S': &l.SYN, 'F': &l.FIN, 'R': &l.RST, 'P': &l.PSH, 'A': &l.ACK, '.': &l.ACK}[f]
		if bit == nil {
			return fmt.Errorf("%q is not a flag: use S F R P A", f)
		}
		*bit = true
	}
	return nil
}

func (p *parser) payload(args []string) error {
	if len(args) != 1 {
		return errors.New("write payload N, payload 0xHEX or payload \"TEXT\"")
	}
	p.done = true
	var data []byte
	switch word := args[0]; {
	case strings.HasPrefix(word, `"`):
		data = []byte(strings.Trim(word, `"`))
	case strings.HasPrefix(word, "0x"):
		raw, err := hex.DecodeString(word[2:])
		if err != nil {
			return fmt.Errorf("%s is not hexadecimal", word)
		}
		data = raw
	default:
		n, err := number(word, MaxInjected)
		if err != nil {
			return err
		}
		data = make([]byte, n)
	}
	p.layers = append(p.layers, gopacket.Payload(data))
	return nil
}

// frame writes the packet with lengths and checksums, padded to the minimum size of a frame.
func (p *parser) frame() ([]byte, error) {
	header := append(append([]byte{}, p.eth.DstMAC...), p.eth.SrcMAC...)
	header = append(header, byte(p.eth.EthernetType>>8), byte(p.eth.EthernetType))
	buf := gopacket.NewSerializeBuffer()
	if err := gopacket.SerializeLayers(buf, gopacket.SerializeOptions{FixLengths: true, ComputeChecksums: true}, p.layers...); err != nil {
		return nil, fmt.Errorf("cannot be encoded: %w", err)
	}
	frame := append(header, buf.Bytes()...)
	if len(frame) < minFrame {
		frame = append(frame, make([]byte, minFrame-len(frame))...)
	}
	return frame, nil
}
