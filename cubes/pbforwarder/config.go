// SPDX-License-Identifier: Apache-2.0

package pbforwarder

// The configuration in Go.

import (
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	Ports    []cube.Port `json:"ports"`
	MaxRules uint32      `json:"max-rules"`
}

// Rule is an entry of the list `rules`. There may be many rules, so they are passed one by one.
type Rule struct {
	ID uint32 `json:"id"`
	Fields
	Not     *Fields `json:"not,omitempty"`
	OutPort string  `json:"out_port,omitempty"`
	Action  Action  `json:"action"`
}

// Fields are the conditions of a rule, or the negated ones. Fields that are nil or zero match anything.
type Fields struct {
	InPort     string          `json:"in_port,omitempty"`
	VLAN       *uint32         `json:"vlan,omitempty"`
	EtherType  *inet.EtherType `json:"ethertype,omitempty"`
	SrcMAC     *inet.MACMatch  `json:"src_mac,omitempty"`
	DstMAC     *inet.MACMatch  `json:"dst_mac,omitempty"`
	SrcIP      *inet.Prefix    `json:"src_ip,omitempty"`
	DstIP      *inet.Prefix    `json:"dst_ip,omitempty"`
	SrcSet     string          `json:"src_set,omitempty"`
	DstSet     string          `json:"dst_set,omitempty"`
	DSCP       *uint8          `json:"dscp,omitempty"`
	L4Proto    *inet.Protocol  `json:"l4_proto,omitempty"`
	SrcPort    *inet.Ports     `json:"src_port,omitempty"`
	DstPort    *inet.Ports     `json:"dst_port,omitempty"`
	TCPFlags   *inet.TCPFlags  `json:"tcp_flags,omitempty"`
	ICMPType   *inet.ICMPMatch `json:"icmp_type,omitempty"`
	ICMPv6Type *inet.ICMPMatch `json:"icmpv6_type,omitempty"`
}

// Action is the leaf `action`; its values are those of enum pbforwarder_action.
type Action uint32

// The actions.
const (
	Drop Action = iota
	Slowpath
	Forward
)

// UnmarshalText parses the model's name of an action.
func (a *Action) UnmarshalText(text []byte) (err error) {
	*a, err = cube.Enum[Action]("action", text, "DROP", "SLOWPATH", "FORWARD")
	return err
}
