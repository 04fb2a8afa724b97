// SPDX-License-Identifier: Apache-2.0

package firewall

// The configuration in Go, except for the rules, which come one by one.

import (
	"maps"
	"slices"

	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/report"
)

// Config is the decoded configuration.
type Config struct {
	zone.Settings
	zone.Records
	Conntrack         Switch    `json:"conntrack"`
	SessionZone       zone.Name `json:"session-zone"`
	AcceptEstablished Switch    `json:"accept-established"`
	Families          []Family  `json:"families"`
	LogLimit          uint32    `json:"log-limit"`
	RejectLimit       uint32    `json:"reject-limit"`
	Chain             []Chain   `json:"chain"`
}

// Chain is an entry of the list `chain`, without its rules.
type Chain struct {
	Name    Direction `json:"name"`
	Default Action    `json:"default"`
}

// Switch is a leaf that is ON or OFF.
type Switch uint32

// The values of a switch.
const (
	Off Switch = iota
	On
)

// UnmarshalText parses the model's name.
func (s *Switch) UnmarshalText(text []byte) (err error) {
	*s, err = cube.Enum[Switch]("switch", text, "OFF", "ON")
	return err
}

// Family is a version of IP.
type Family uint32

// The families. The zero value of a rule's family is none.
const (
	NoFamily Family = iota
	IPv4
	IPv6
)

// UnmarshalText parses the model's name.
func (f *Family) UnmarshalText(text []byte) error {
	is, err := cube.Enum[Family]("family", text, "ipv4", "ipv6")
	*f = is + IPv4
	return err
}

// Direction is a chain: cube.Ingress or cube.Egress.
type Direction uint32

// The chains.
const (
	Ingress Direction = iota
	Egress
	directions
)

// chainNames are the names of the chains.
var chainNames = [directions]string{"INGRESS", "EGRESS"}

// UnmarshalText parses the model's name.
func (d *Direction) UnmarshalText(text []byte) (err error) {
	*d, err = cube.Enum[Direction]("chain", text, chainNames[:]...)
	return err
}

func (d Direction) String() string { return chainNames[d] }

// defaultOf returns the default action of a chain.
func (c *Config) defaultOf(d Direction) Action {
	for _, chain := range c.Chain {
		if chain.Name == d {
			return chain.Default
		}
	}
	return Accept
}

// covers reports whether rules that name no family are for one.
func (c *Config) covers(f Family) bool { return slices.Contains(c.Families, f) }

// constants returns the values of the program's constants.
func (c *Config) constants() (map[string]any, error) {
	all, err := report.Limits(c.LogLimit, c.RejectLimit)
	if err != nil {
		return nil, err
	}
	if err := c.AddConstants(all); err != nil {
		return nil, err
	}
	maps.Copy(all, map[string]any{
		"conntrack": c.Conntrack == On, "accept_established": c.AcceptEstablished == On,
		"ipv4": c.covers(IPv4), "ipv6": c.covers(IPv6), "tcp_options": c.Options(),
		"session_zone_shared": c.SessionZone != "",
	})
	return all, nil
}
