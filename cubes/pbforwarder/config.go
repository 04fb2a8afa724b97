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

// Rule is an entry of the list `rules`. Fields that are nil or zero match anything. There may be many rules, so they
// are passed one by one.
type Rule struct {
	ID      uint32         `json:"id"`
	InPort  string         `json:"in_port,omitempty"`
	VLAN    *uint32        `json:"vlan,omitempty"`
	SrcMAC  *inet.MACMatch `json:"src_mac,omitempty"`
	DstMAC  *inet.MACMatch `json:"dst_mac,omitempty"`
	SrcIP   *inet.Prefix   `json:"src_ip,omitempty"`
	DstIP   *inet.Prefix   `json:"dst_ip,omitempty"`
	L4Proto *inet.Protocol `json:"l4_proto,omitempty"`
	SrcPort *inet.Ports    `json:"src_port,omitempty"`
	DstPort *inet.Ports    `json:"dst_port,omitempty"`
	OutPort string         `json:"out_port,omitempty"`
	Action  Action         `json:"action"`
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
