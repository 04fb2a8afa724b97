// SPDX-License-Identifier: Apache-2.0

package inet

// Protocols above IP, by name and by number.

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Protocol is the number of a protocol above IP: the type `protocol-match`.
type Protocol uint8

// The protocols that have names in models.
const (
	ICMP    Protocol = 1
	IGMP    Protocol = 2
	TCP     Protocol = 6
	UDP     Protocol = 17
	DCCP    Protocol = 33
	GRE     Protocol = 47
	ESP     Protocol = 50
	AH      Protocol = 51
	ICMPv6  Protocol = 58
	OSPF    Protocol = 89
	VRRP    Protocol = 112
	SCTP    Protocol = 132
	UDPLite Protocol = 136
)

// ProtocolNames are protocols by name; others are written as numbers.
type ProtocolNames map[string]Protocol

// Protocols are all protocols with names, as the type `protocol-match` writes them.
var Protocols = ProtocolNames{
	"ICMP": ICMP, "IGMP": IGMP, "TCP": TCP, "UDP": UDP, "DCCP": DCCP, "GRE": GRE, "ESP": ESP, "AH": AH,
	"ICMPV6": ICMPv6, "OSPF": OSPF, "VRRP": VRRP, "SCTP": SCTP, "UDPLITE": UDPLite,
}

// LowerCase are the lower-case names of some protocols.
func (n ProtocolNames) LowerCase(only ...Protocol) ProtocolNames {
	out := make(ProtocolNames, len(only))
	for _, p := range only {
		out[strings.ToLower(n.Name(p))] = p
	}
	return out
}

// Name returns the name of a protocol, or its number.
func (n ProtocolNames) Name(p Protocol) string {
	for name, known := range n {
		if known == p {
			return name
		}
	}
	return strconv.Itoa(int(p))
}

// Parse parses a name, spelled as in n, or a decimal number.
func (n ProtocolNames) Parse(text string) (p Protocol, ok bool) {
	if p, ok = n[text]; ok {
		return p, true
	}
	number, err := strconv.ParseUint(text, 10, 8)
	return Protocol(number), err == nil
}

// String returns the form of the models.
func (p Protocol) String() string { return Protocols.Name(p) }

// UnmarshalJSON parses a name or a number.
func (p *Protocol) UnmarshalJSON(data []byte) error {
	known, ok := Protocols.Parse(string(bytes.Trim(data, `"`)))
	if !ok {
		return fmt.Errorf("protocol %s: %w", data, cube.ErrInvalid)
	}
	*p = known
	return nil
}
