// SPDX-License-Identifier: Apache-2.0

package classifier

// The configuration in Go; a test compares it with the model.

import (
	"encoding/binary"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/classifier/conditions"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration, without its entries.
type Config struct {
	Faces          Faces        `json:"faces"`
	Default        *uint32      `json:"default-class"`
	MaxClasses     uint32       `json:"max-classes"`
	MaxSubscribers uint32       `json:"max-subscribers"`
	MaxLists       uint32       `json:"max-flow-lists"`
	Classes        []Class      `json:"traffic-class"`
	Subscribers    []Subscriber `json:"subscriber"`
}

// Class is an entry of the list `traffic-class`. Entries come one by one.
type Class struct {
	ID        uint32         `json:"id"`
	Class     *uint32        `json:"class"`
	Priority  uint32         `json:"priority"`
	Direction Direction      `json:"direction"`
	SMAC      *inet.MACMatch `json:"smac"`
	DMAC      *inet.MACMatch `json:"dmac"`
	EtherType *EtherType     `json:"ethtype"`
	SrcIP     *inet.Prefix   `json:"srcip"`
	DstIP     *inet.Prefix   `json:"dstip"`
	L4Proto   *inet.Protocol `json:"l4proto"`
	SPort     *inet.Ports    `json:"sport"`
	DPort     *inet.Ports    `json:"dport"`
	QoS
}

// QoS has fields about the quality of service.
type QoS struct {
	DSCP *uint8 `json:"dscp"`
	QFI  *uint8 `json:"qfi"`
}

// Subscriber is an entry of the list `subscriber`. Entries come one by one.
type Subscriber struct {
	Address netip.Addr `json:"address"`
	Class   uint32     `json:"class"`
	Flows   []Flow     `json:"flow"`
}

// Flow is a service data flow of a subscriber.
type Flow struct {
	Precedence uint32         `json:"precedence"`
	Remote     *inet.Prefix   `json:"remote"`
	L4Proto    *inet.Protocol `json:"l4proto"`
	RemotePort *inet.Ports    `json:"remote-port"`
	LocalPort  *inet.Ports    `json:"local-port"`
	QoS
	Class uint32 `json:"class"`
}

// Faces is an enumeration of the model, with the numbers of enum classifier_faces.
type Faces uint32

// Direction is an enumeration of the model. The numbers but the last are those of sets of rules.
type Direction uint32

// The directions.
const (
	Ingress Direction = iota
	Egress
	Both
)

// EtherType is a name or a number of the model.
type EtherType inet.EtherType

// UnmarshalText parses the model's value.
func (f *Faces) UnmarshalText(text []byte) (err error) {
	*f, err = cube.Enum[Faces]("faces", text, "SUBSCRIBERS", "NETWORK")
	return err
}

// UnmarshalText parses the model's value.
func (d *Direction) UnmarshalText(text []byte) (err error) {
	*d, err = cube.Enum[Direction]("direction", text, "INGRESS", "EGRESS", "BOTH")
	return err
}

// UnmarshalText parses the model's value.
func (e *EtherType) UnmarshalText(text []byte) error {
	switch string(text) {
	case "ARP":
		*e = 0x0806
	case "IP":
		*e = 0x0800
	case "IPV6":
		*e = 0x86dd
	default:
		return (*inet.EtherType)(e).UnmarshalText(text)
	}
	return nil
}

// constants returns those of the program.
func (c *Config) constants() map[string]any {
	is := map[string]any{"faces": uint32(c.Faces), "has_default": uint32(0), "default_class": uint32(0)}
	if c.Default != nil {
		is["has_default"], is["default_class"] = uint32(1), *c.Default
	}
	return is
}

// sizes returns those of the maps. Rules and lists that replace others are there before these are gone.
func (c *Config) sizes() map[string]uint32 {
	return map[string]uint32{"rules": 2 * c.MaxClasses, "subscribers4": c.MaxSubscribers, "subscribers6": c.MaxSubscribers, "lists": 2*c.MaxLists + 1}
}

// class returns what packets get.
func (c *Class) class() uint32 {
	if c.Class != nil {
		return *c.Class
	}
	return c.ID
}

// match returns the conditions of a rule.
func (c *Class) match(m *classifier.Match) error {
	return conditions.Match(m, conditions.List{
		conditions.SourceMAC("smac", c.SMAC), conditions.DestinationMAC("dmac", c.DMAC),
		conditions.EtherType("ethtype", (*inet.EtherType)(c.EtherType)),
		conditions.Protocol("l4proto", c.L4Proto),
		conditions.Source("srcip", c.SrcIP), conditions.Destination("dstip", c.DstIP),
		conditions.SourcePorts("sport", ports(c.SPort)), conditions.DestinationPorts("dport", ports(c.DPort)),
		conditions.DSCP("dscp", c.DSCP), c.qfi(),
	}, nil)
}

// qfi is the condition about the QFI, which the program writes where others have the port.
func (q *QoS) qfi() conditions.Condition {
	if q.QFI == nil {
		return conditions.Condition{}
	}
	return conditions.Of("qfi", func(m *classifier.Match) error {
		m.InPort(uint16(*q.QFI))
		return nil
	})
}

func ports(p *inet.Ports) inet.PortList {
	if p == nil {
		return nil
	}
	return inet.PortList{*p}
}

// key returns where the maps have a subscriber: in one of them, under its IPv4 address or the upper half of its IPv6 addresses.
func (s *Subscriber) key() (key, error) {
	is := inet.AddressOf(s.Address)
	high, low := binary.BigEndian.Uint64(is[:8]), binary.BigEndian.Uint64(is[8:])
	switch {
	case s.Address.Is4():
		return key{address: low & 0xffffffff}, nil
	case low != 0:
		return key{}, fmt.Errorf("address: a subscriber has a /64 IPv6 prefix: use its first address, %s: %w",
			netip.PrefixFrom(s.Address, 64).Masked().Addr(), cube.ErrInvalid)
	}
	return key{ipv6: true, address: high}, nil
}
