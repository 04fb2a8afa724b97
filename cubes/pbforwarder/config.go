// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// The model's tree in Go.

import (
	"bytes"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Config is what the model's tree decodes into.
type Config struct {
	Ports    []cube.Port `json:"ports"`
	MaxRules uint32      `json:"max-rules"`
}

// Rule is an entry of the list `rules`. What is nil or zero is not looked at. There may be many, so they come one by one.
type Rule struct {
	ID      uint32    `json:"id"`
	InPort  string    `json:"in_port,omitempty"`
	VLAN    *uint32   `json:"vlan,omitempty"`
	SrcMAC  *MAC      `json:"src_mac,omitempty"`
	DstMAC  *MAC      `json:"dst_mac,omitempty"`
	SrcIP   *Prefix   `json:"src_ip,omitempty"`
	DstIP   *Prefix   `json:"dst_ip,omitempty"`
	L4Proto *Protocol `json:"l4_proto,omitempty"`
	SrcPort *Ports    `json:"src_port,omitempty"`
	DstPort *Ports    `json:"dst_port,omitempty"`
	OutPort string    `json:"out_port,omitempty"`
	Action  Action    `json:"action"`
}

// MAC is an address and the bits of it that count.
type MAC struct{ Address, Mask [6]byte }

// UnmarshalText reads aa:bb:cc:dd:ee:ff, alone or with a mask behind a slash.
func (m *MAC) UnmarshalText(text []byte) error {
	address, mask, ok := strings.Cut(string(text), "/")
	if !ok {
		mask = "ff:ff:ff:ff:ff:ff"
	}
	for _, part := range []struct {
		text string
		into *[6]byte
	}{{address, &m.Address}, {mask, &m.Mask}} {
		mac, err := net.ParseMAC(part.text)
		if err != nil || len(mac) != len(part.into) {
			return fmt.Errorf("MAC address %q: %w", text, cube.ErrInvalid)
		}
		copy(part.into[:], mac)
	}
	return nil
}

// Prefix is an address or a prefix.
type Prefix struct{ netip.Prefix }

// UnmarshalText reads an address, or a prefix.
func (p *Prefix) UnmarshalText(text []byte) error {
	if prefix, err := netip.ParsePrefix(string(text)); err == nil {
		p.Prefix = prefix.Masked()
		return nil
	}
	addr, err := netip.ParseAddr(string(text))
	if err != nil {
		return fmt.Errorf("address %q: %w", text, cube.ErrInvalid)
	}
	p.Prefix = netip.PrefixFrom(addr, addr.BitLen())
	return nil
}

// Protocol is a protocol above IP.
type Protocol uint8

// protocols are those with a name in the model.
var protocols = map[string]Protocol{
	"UDP": 17, "TCP": 6, "ICMP": 1, "ICMPV6": 58, "SCTP": 132, "UDPLITE": 136, "DCCP": 33, "GRE": 47, "ESP": 50, "AH": 51,
	"IGMP": 2, "OSPF": 89, "VRRP": 112,
}

// UnmarshalJSON reads a name or a number.
func (p *Protocol) UnmarshalJSON(data []byte) error {
	text := string(bytes.Trim(data, `"`))
	if known, ok := protocols[text]; ok {
		*p = known
		return nil
	}
	number, err := strconv.ParseUint(text, 10, 8)
	if err != nil {
		return fmt.Errorf("protocol %s: %w", data, cube.ErrInvalid)
	}
	*p = Protocol(number)
	return nil
}

// Ports is a range of ports.
type Ports struct{ First, Last uint16 }

// UnmarshalJSON reads a port, or the first and the last of a range.
func (p *Ports) UnmarshalJSON(data []byte) error {
	first, last, ok := strings.Cut(string(bytes.Trim(data, `"`)), "-")
	if !ok {
		last = first
	}
	for _, part := range []struct {
		text string
		into *uint16
	}{{first, &p.First}, {last, &p.Last}} {
		number, err := strconv.ParseUint(part.text, 10, 16)
		if err != nil {
			return fmt.Errorf("ports %s: %w", data, cube.ErrInvalid)
		}
		*part.into = uint16(number)
	}
	if p.First > p.Last {
		return fmt.Errorf("ports %s: the first is above the last: %w", data, cube.ErrInvalid)
	}
	return nil
}

// Action is the leaf `action`; its values are those of enum pbforwarder_action.
type Action uint32

// The actions.
const (
	Drop Action = iota
	Slowpath
	Forward
)

// UnmarshalText reads the model's name of an action.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "DROP", "SLOWPATH", "FORWARD")
	return err
}
