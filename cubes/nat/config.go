// SPDX-License-Identifier: Apache-2.0

package nat

// The configuration in Go, except for the rules, which are passed one by one.

import (
	"fmt"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/conntrack/zone"
	"github.com/polycube/polycube/cube"
)

// Config is the decoded configuration.
type Config struct {
	Rule        Rule      `json:"rule"`
	Behaviour   Behaviour `json:"behaviour"`
	Timeout     Timeout   `json:"timeout"`
	MaxSessions uint32    `json:"max-sessions"`
	SessionZone zone.Name `json:"session-zone"`
	Table       []Table   `json:"table"`
	zone.Events
}

// Rule is the container `rule`.
type Rule struct {
	Snat           struct{}   `json:"snat"`
	Masquerade     Masquerade `json:"masquerade"`
	Dnat           struct{}   `json:"dnat"`
	PortForwarding struct{}   `json:"port-forwarding"`
}

// Masquerade is the container `masquerade`.
type Masquerade struct {
	Enabled   bool   `json:"enabled"`
	PortFirst uint16 `json:"port-first"`
	PortLast  uint16 `json:"port-last"`
}

// Behaviour is the container `behaviour`.
type Behaviour struct {
	Mapping        Mapping        `json:"mapping"`
	Filtering      Filtering      `json:"filtering"`
	OtherProtocols OtherProtocols `json:"other-protocols"`
	Overload       bool           `json:"overload"`
	InboundRefresh bool           `json:"inbound-refresh"`
	Hairpin        bool           `json:"hairpin"`
}

// Mapping is enum nat_mapping.
type Mapping uint32

// UnmarshalText parses the model's name.
func (m *Mapping) UnmarshalText(text []byte) (err error) {
	*m, err = cube.Enum[Mapping]("mapping", text, "endpoint-independent", "address-and-port-dependent")
	return err
}

// Filtering is enum nat_filtering.
type Filtering uint32

// UnmarshalText parses the model's name.
func (f *Filtering) UnmarshalText(text []byte) (err error) {
	*f, err = cube.Enum[Filtering]("filtering", text, "endpoint-independent", "address-dependent", "address-and-port-dependent")
	return err
}

// OtherProtocols is enum nat_other.
type OtherProtocols uint32

// UnmarshalText parses the model's name.
func (o *OtherProtocols) UnmarshalText(text []byte) (err error) {
	*o, err = cube.Enum[OtherProtocols]("other-protocols", text, "drop", "pass", "translate")
	return err
}

// Timeout is the container `timeout`; all are in seconds.
type Timeout struct {
	TCPEstablished uint32 `json:"tcp-established"`
	TCPTransitory  uint32 `json:"tcp-transitory"`
	UDP            uint32 `json:"udp"`
	ICMP           uint32 `json:"icmp"`
	Other          uint32 `json:"other"`
}

// least returns the shortest timeout.
func (t Timeout) least() time.Duration {
	return time.Duration(min(t.TCPEstablished, t.TCPTransitory, t.UDP, t.ICMP, t.Other)) * time.Second
}

// check refuses values that the model cannot exclude.
func (c *Config) check() error {
	m := c.Rule.Masquerade
	if _, _, err := portRange(m.PortFirst, m.PortLast); err != nil {
		return fmt.Errorf("rule masquerade: %w", err)
	}
	if !c.hasTable() {
		return nil
	}
	if m.Enabled {
		return errMixed
	}
	if c.SessionZone != "" {
		return fmt.Errorf("session-zone: a NAT with the table nat has its own sessions: %w", cube.ErrUnsupported)
	}
	return nil
}

// errMixed is what a NAT says that would have both kinds of rules.
var errMixed = fmt.Errorf("table: a NAT with the table nat of iptables has no rules of its own; delete those below rule: %w", cube.ErrInvalid)

// hasTable reports whether the rules are those of the table nat. It may have none, and sessions of rules that it had.
func (c *Config) hasTable() bool { return len(c.Table) > 0 }

// portRange returns the ports to choose from in the form of the fast path: 0 and 0 for the default.
func portRange(first, last uint16) (uint16, uint16, error) {
	if first == 0 && last == 0 {
		return 0, 0, nil
	}
	if first == 0 {
		first = min(1024, last)
	}
	if last == 0 {
		last = 65535
	}
	if first > last {
		return 0, 0, fmt.Errorf("port-first %d is greater than port-last %d: %w", first, last, cube.ErrInvalid)
	}
	return first, last, nil
}

// constants returns the values of the program's constants, except for those that say which rules exist.
func (c *Config) constants() (map[string]any, error) {
	b, least := c.Behaviour, c.Timeout.least()
	if c.SessionZone != "" {
		least = time.Second // others may have shorter timeouts
	}
	all := map[string]any{
		"mapping": uint32(b.Mapping), "filtering": uint32(b.Filtering), "other_protocols": uint32(b.OtherProtocols),
		"has_masquerade": c.Rule.Masquerade.Enabled, "overload": b.Overload, "inbound_refresh": b.InboundRefresh, "hairpin": b.Hairpin,
		"refresh_ns": uint64(aging.Refresh(least)), "has_policy": c.hasTable(),
	}
	return all, c.AddConstants(all)
}

// spaces are those of the maps of sessions, nil if the NAT has its own.
func (c *Config) spaces() map[string]string {
	if c.SessionZone == "" {
		return nil
	}
	out := map[string]string{}
	for _, name := range sharedMaps {
		out[name] = string(c.SessionZone)
	}
	return out
}
