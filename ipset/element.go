// SPDX-License-Identifier: Apache-2.0

package ipset

// Elements of sets.

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/polycube/polycube/inet"
)

// Element is an element of a set, or a range of elements that one command names.
type Element struct {
	// First and Last are the addresses of the types with ip, and of a range in those with net.
	First, Last netip.Addr
	// Net is the prefix of the types with net; invalid for a range.
	Net netip.Prefix
	// Protocol is that of the ports: TCP if none was given.
	Protocol uint8
	// FirstPort and LastPort are the ports; of ICMP, the type times 256 plus the code.
	FirstPort, LastPort uint16
	// Second is the second address of hash:ip,port,ip.
	Second netip.Addr
	MAC    inet.MAC
	// Set is the name of the set in a list:set.
	Set string
}

// protocols are the protocols of elements with ports.
var protocols = map[string]uint8{"tcp": 6, "udp": 17, "sctp": 132, "udplite": 136, "icmp": 1, "icmpv6": 58}

// Element reads the text of an element of a set with the header.
func (h Header) Element(text string) (e Element, err error) {
	kinds := types[h.Type]
	parts := strings.Split(text, ",")
	if len(parts) != len(kinds) {
		return e, fmt.Errorf("element %q of a set of type %s has %d parts, not %d", text, h.Type, len(parts), len(kinds))
	}
	for i, kind := range kinds {
		switch kind {
		case "ip", "net":
			err = h.addresses(&e, parts[i], kind == "net")
		case "address":
			e.Second, err = h.address(parts[i])
		case "port":
			err = e.port(parts[i])
		case "ports":
			e.FirstPort, e.LastPort, err = portRange(strings.TrimPrefix(strings.TrimPrefix(parts[i], "tcp:"), "udp:"))
			if err == nil && (e.FirstPort < h.First || e.LastPort > h.Last) {
				err = fmt.Errorf("element %q is out of the range %d-%d of the set", text, h.First, h.Last)
			}
		case "mac":
			e.MAC, err = inet.ParseMAC(strings.ToLower(parts[i]))
		case "set":
			e.Set, err = setName(parts[i])
		}
		if err != nil {
			return Element{}, err
		}
	}
	return e, nil
}

// address reads an address of the family of the set.
func (h Header) address(text string) (netip.Addr, error) {
	a, err := netip.ParseAddr(text)
	if err != nil || a.Zone() != "" || a.Is4() != (h.Family == 4) {
		return a, fmt.Errorf("bad IPv%d address %q", h.Family, text)
	}
	return a, nil
}

// addresses reads an address, a prefix or a range.
func (h Header) addresses(e *Element, text string, net bool) (err error) {
	first, last, ranged := strings.Cut(text, "-")
	host, length, masked := strings.Cut(first, "/")
	if e.First, err = h.address(host); err != nil {
		return err
	}
	if e.Last = e.First; ranged {
		if e.Last, err = h.address(last); err != nil || masked || e.Last.Less(e.First) {
			return fmt.Errorf("bad range of addresses %q", text)
		}
		return nil
	}
	bits := e.First.BitLen()
	if masked {
		if bits, err = strconv.Atoi(length); err != nil || bits < 1 || bits > e.First.BitLen() {
			return fmt.Errorf("bad prefix %q: its length is from 1 to %d", text, e.First.BitLen())
		}
	}
	p := netip.PrefixFrom(e.First, bits).Masked()
	if net {
		*e = Element{Net: p}
		return nil
	}
	e.First, e.Last = p.Addr(), lastOf(p)
	return nil
}

// lastOf returns the last address of a prefix.
func lastOf(p netip.Prefix) netip.Addr {
	raw := p.Addr().AsSlice()
	for bit := p.Bits(); bit < len(raw)*8; bit++ {
		raw[bit/8] |= 0x80 >> (bit % 8)
	}
	a, _ := netip.AddrFromSlice(raw)
	return a
}

// port reads [PROTOCOL:]PORT[-PORT].
func (e *Element) port(text string) (err error) {
	name, rest, named := strings.Cut(text, ":")
	e.Protocol = 6
	if named {
		n, known := protocols[name]
		if number, err := strconv.ParseUint(name, 10, 8); err == nil && number > 0 {
			n, known = uint8(number), true
		}
		if e.Protocol, text = n, rest; !known {
			return fmt.Errorf("unknown protocol %q of a port", name)
		}
	}
	switch e.Protocol {
	case 6, 17, 132, 136:
		e.FirstPort, e.LastPort, err = portRange(text)
	case 1, 58:
		e.FirstPort, err = icmpOf(text, e.Protocol == 58)
		e.LastPort = e.FirstPort
	default:
		if text != "0" {
			err = fmt.Errorf("bad port %q: a protocol without ports has port 0", text)
		}
	}
	return err
}

// icmpOf reads a type and code, or the name of an echo.
func icmpOf(text string, six bool) (uint16, error) {
	echo := map[string]uint16{"echo-request": 8 << 8, "ping": 8 << 8, "echo-reply": 0, "pong": 0}
	if six {
		echo = map[string]uint16{"echo-request": 128 << 8, "ping": 128 << 8, "echo-reply": 129 << 8, "pong": 129 << 8}
	}
	if n, ok := echo[text]; ok {
		return n, nil
	}
	kind, code, _ := strings.Cut(text, "/")
	t, err := strconv.ParseUint(kind, 10, 8)
	c, err2 := strconv.ParseUint(code, 10, 8)
	if err != nil || err2 != nil {
		return 0, fmt.Errorf("bad ICMP type %q: it is TYPE/CODE, echo-request or echo-reply", text)
	}
	return uint16(t<<8 | c), nil
}

// portRange reads PORT or PORT-PORT, in any order.
func portRange(text string) (first, last uint16, err error) {
	a, b, ranged := strings.Cut(text, "-")
	if !ranged {
		b = a
	}
	low, ok := inet.ParsePort(a)
	high, ok2 := inet.ParsePort(b)
	if !ok || !ok2 {
		return 0, 0, fmt.Errorf("bad port %q", text)
	}
	return min(low, high), max(low, high), nil
}

// protocolNames are the protocols as ipset prints them.
var protocolNames = map[uint8]string{6: "tcp", 17: "udp", 132: "sctp", 136: "udplite", 1: "icmp", 58: "icmpv6"}

// Text returns an element as ipset prints it. A range that ipset does not print keeps its ends.
func (h Header) Text(e Element) string {
	var parts []string
	for _, kind := range types[h.Type] {
		switch kind {
		case "ip", "net":
			parts = append(parts, addressText(e))
		case "address":
			parts = append(parts, e.Second.String())
		case "port":
			parts = append(parts, portText(e))
		case "ports":
			parts = append(parts, portsText(e))
		case "mac":
			parts = append(parts, strings.ToUpper(e.MAC.String()))
		case "set":
			parts = append(parts, e.Set)
		}
	}
	return strings.Join(parts, ",")
}

func addressText(e Element) string {
	switch {
	case e.Net.IsValid() && e.Net.Bits() == e.Net.Addr().BitLen():
		return e.Net.Addr().String()
	case e.Net.IsValid():
		return e.Net.String()
	case e.First == e.Last:
		return e.First.String()
	}
	return e.First.String() + "-" + e.Last.String()
}

func portsText(e Element) string {
	if e.FirstPort == e.LastPort {
		return strconv.Itoa(int(e.FirstPort))
	}
	return fmt.Sprintf("%d-%d", e.FirstPort, e.LastPort)
}

func portText(e Element) string {
	name := protocolNames[e.Protocol]
	kind, code := e.FirstPort>>8, e.FirstPort&0xff
	switch {
	case name == "":
		return fmt.Sprintf("%d:0", e.Protocol)
	case name == "icmp" && e.FirstPort == 8<<8, name == "icmpv6" && e.FirstPort == 128<<8:
		return name + ":echo-request"
	case name == "icmp" && e.FirstPort == 0, name == "icmpv6" && e.FirstPort == 129<<8:
		return name + ":echo-reply"
	case name == "icmp" || name == "icmpv6":
		return fmt.Sprintf("%s:%d/%d", name, kind, code)
	}
	return name + ":" + portsText(e)
}
