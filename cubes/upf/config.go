// SPDX-License-Identifier: Apache-2.0

package upf

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/inet"
)

// Config is the decoded configuration.
type Config struct {
	gtppath.Config
	MaxSessions  uint32           `json:"max-sessions"`
	MaxRules     uint32           `json:"max-rules"`
	MaxMeters    uint32           `json:"max-meters"`
	MaxUsages    uint32           `json:"max-usages"`
	MaxFlowLists uint32           `json:"max-flow-lists"`
	MaxRedirects uint32           `json:"max-redirects"`
	Packets      uint32           `json:"buffered-packets"`
	Bytes        uint32           `json:"buffered-bytes"`
	Queue        *inet.QueueClass `json:"guaranteed-queue"`
}

// check refuses network instances: sessions do not name them.
func (c *Config) check() error {
	for _, a := range c.Addresses {
		if a.Instance != "" {
			return fmt.Errorf("local-address %s: network-instance: a upf has one: %w", a.Address, cube.ErrUnsupported)
		}
	}
	return nil
}

// local is struct upf_local: the first address of each family, in numerical order.
type local struct{ IPv4, IPv6 inet.Address }

func (c *Config) local() (l local) {
	s := c.Settings()
	if v4, ok := s.Local(netip.IPv4Unspecified(), ""); ok {
		l.IPv4 = inet.AddressOf(v4)
	}
	if v6, ok := s.Local(netip.IPv6Unspecified(), ""); ok {
		l.IPv6 = inet.AddressOf(v6)
	}
	return l
}

// sizes returns the table sizes, which are fixed when the cube is created.
func (c *Config) sizes() map[string]uint32 {
	return map[string]uint32{
		"tunnels": 2 * c.MaxSessions, "devices4": c.MaxSessions, "devices6": c.MaxSessions, "routes": 2 * c.MaxSessions, "stations": c.MaxSessions,
		"queues": c.MaxSessions + 1, "rules": c.MaxRules + 1, "meters": c.MaxMeters + 1, "usages": c.MaxUsages + 1, "lists": c.MaxFlowLists + 1,
		"redirects": c.MaxRedirects + 1,
	}
}
