// SPDX-License-Identifier: Apache-2.0

package upf

// The configuration in Go; a test compares it with the model.

import (
	"fmt"
	"net/netip"
	"slices"

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

// maxInstances is UPF_INSTANCES.
const maxInstances = 8

// locals is struct upf_locals: the first address of each family, in numerical order, of each network instance.
type locals struct {
	Instance [maxInstances]uint32
	Address  [maxInstances][2]inet.Address // IPv4, IPv6
	Count    uint32
}

// locals returns the local addresses for the program, first those without a network instance.
func (c *Config) locals() (l locals, err error) {
	if err := c.Check(); err != nil {
		return l, err
	}
	names := []string{""}
	for _, a := range c.Addresses {
		if !slices.Contains(names, a.Instance) {
			names = append(names, a.Instance)
		}
	}
	s := c.Settings()
	for _, name := range names {
		number := gtppath.Instance(name)
		v4, has4 := s.Local(netip.IPv4Unspecified(), number)
		v6, has6 := s.Local(netip.IPv6Unspecified(), number)
		if !has4 && !has6 {
			continue
		}
		if l.Count == maxInstances {
			return l, fmt.Errorf("local-address: more than %d network instances: %w", maxInstances, cube.ErrFull)
		}
		l.Instance[l.Count] = number
		if has4 {
			l.Address[l.Count][0] = inet.AddressOf(v4)
		}
		if has6 {
			l.Address[l.Count][1] = inet.AddressOf(v6)
		}
		l.Count++
	}
	return l, nil
}

// sizes returns the table sizes, which are fixed when the cube is created.
func (c *Config) sizes() map[string]uint32 {
	return map[string]uint32{
		"tunnels": 2 * c.MaxSessions, "named_tunnels": 2 * c.MaxSessions, "devices4": c.MaxSessions, "devices6": c.MaxSessions, "routes": 2 * c.MaxSessions, "stations": c.MaxSessions,
		"queues": c.MaxSessions + 1, "rules": c.MaxRules + 1, "meters": c.MaxMeters + 1, "usages": c.MaxUsages + 1, "lists": c.MaxFlowLists + 1,
		"redirects": c.MaxRedirects + 1,
	}
}
