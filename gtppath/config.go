// SPDX-License-Identifier: Apache-2.0

package gtppath

// The Go types of the YANG module polycube-gtp.

import (
	"net/netip"
	"time"
)

// Config is the grouping `paths`: embed it in the configuration of a cube.
type Config struct {
	Addresses    []Address `json:"local-address"`
	MTU          uint16    `json:"mtu"`
	EchoInterval uint16    `json:"echo-interval"`
	EchoTimeout  uint16    `json:"echo-timeout"`
	EchoRequests uint8     `json:"echo-requests"`
}

// Address is a local tunnel address.
type Address struct {
	Address netip.Addr `json:"address"`
}

// Settings returns the configured settings.
func (c *Config) Settings() Settings {
	s := Settings{EchoInterval: time.Duration(c.EchoInterval) * time.Second, EchoTimeout: time.Duration(c.EchoTimeout) * time.Second,
		EchoRequests: int(c.EchoRequests)}
	for _, a := range c.Addresses {
		s.Locals = append(s.Locals, a.Address)
	}
	return s
}
