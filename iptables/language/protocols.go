// SPDX-License-Identifier: Apache-2.0

package language

import (
	"fmt"
	"strconv"
	"strings"
)

// The protocols that options depend on.
const (
	protoICMP    = 1
	protoTCP     = 6
	protoUDP     = 17
	protoDCCP    = 33
	protoICMPv6  = 58
	protoSCTP    = 132
	protoUDPLite = 136
)

// protocols are the protocols that iptables prints by name, on a Debian: its own and those of /etc/protocols.
var protocols = map[string]uint8{
	"icmp": 1, "igmp": 2, "ggp": 3, "ipencap": 4, "st": 5, "tcp": 6, "egp": 8, "igp": 9, "pup": 12, "udp": 17,
	"hmp": 20, "xns-idp": 22, "rdp": 27, "iso-tp4": 29, "dccp": 33, "xtp": 36, "ddp": 37, "idpr-cmtp": 38,
	"ipv6": 41, "ipv6-route": 43, "ipv6-frag": 44, "idrp": 45, "rsvp": 46, "gre": 47, "esp": 50, "ah": 51,
	"skip": 57, "ipv6-icmp": 58, "ipv6-nonxt": 59, "ipv6-opts": 60, "rspf": 73, "vmtp": 81, "eigrp": 88,
	"ospf": 89, "ax.25": 93, "ipip": 94, "etherip": 97, "encap": 98, "pim": 103, "ipcomp": 108, "vrrp": 112,
	"l2tp": 115, "isis": 124, "sctp": 132, "fc": 133, "mobility-header": 135, "udplite": 136, "mpls-in-ip": 137,
	"manet": 138, "hip": 139, "shim6": 140, "wesp": 141, "rohc": 142, "ethernet": 143,
}

// ProtocolNumber returns the number of a protocol that iptables prints by name.
func ProtocolNumber(name string) (uint8, bool) {
	n, ok := protocols[name]
	return n, ok
}

// protocolNames are the names by number.
var protocolNames = func() map[uint8]string {
	names := make(map[uint8]string, len(protocols))
	for name, n := range protocols {
		names[n] = name
	}
	return names
}()

// protocol reads a name or a number. 0 and `all` are any protocol.
func protocol(text string, family Family) (uint8, error) {
	name := strings.ToLower(text)
	switch {
	case name == "all" || name == "ip" && family == IPv4 || name == "hopopt":
		return 0, nil
	case name == "icmpv6":
		return protoICMPv6, nil
	}
	if n, ok := protocols[name]; ok {
		return n, nil
	}
	if n, ok := number(text, 255); ok {
		return uint8(n), nil
	}
	return 0, fmt.Errorf("unknown protocol %q", text)
}

// String returns the name that iptables prints, or the number.
func (p Protocol) String() string {
	if name, ok := protocolNames[p.Number]; ok {
		return name
	}
	return strconv.Itoa(int(p.Number))
}
