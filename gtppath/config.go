// SPDX-License-Identifier: Apache-2.0

package gtppath

// The Go types of the YANG module polycube-gtp.

import (
	"cmp"
	"fmt"
	"hash/crc32"
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
)

// Config is the grouping `paths`: embed it in the configuration of a cube.
type Config struct {
	Addresses    []Address `json:"local-address"`
	MTU          uint16    `json:"mtu"`
	EchoInterval uint16    `json:"echo-interval"`
	EchoTimeout  uint16    `json:"echo-timeout"`
	EchoRequests uint8     `json:"echo-requests"`
}

// Address is a local tunnel address, and its network instance; "" if that has no name.
type Address struct {
	Address  netip.Addr `json:"address"`
	Instance string     `json:"network-instance,omitempty"`
}

// Tunnel is struct pcn_gtpu_end_tunnel: a tunnel of a network instance with a name.
type Tunnel struct{ TEID, Instance uint32 }

// Instance returns the number of a network instance in programs, of 16 bits: 0 if it has no name. It depends on the name alone, so
// it is the same in all processes, and after a restart.
func Instance(name string) uint32 {
	if name == "" {
		return 0
	}
	return 1 + crc32.ChecksumIEEE([]byte(name))%0xffff
}

// Check returns an error if two network instances have the same number.
func (c *Config) Check() error {
	names := map[uint32]string{}
	for _, a := range c.Addresses {
		n := Instance(a.Instance)
		if other := cmp.Or(names[n], a.Instance); other != a.Instance {
			return fmt.Errorf("local-address %s: network-instance %s cannot be told from %s: choose another name: %w", a.Address, a.Instance, other, cube.ErrInvalid)
		}
		names[n] = a.Instance
	}
	return nil
}

// Settings returns the configured settings.
func (c *Config) Settings() Settings {
	s := Settings{EchoInterval: time.Duration(c.EchoInterval) * time.Second, EchoTimeout: time.Duration(c.EchoTimeout) * time.Second,
		EchoRequests: int(c.EchoRequests)}
	s.Locals = c.Addresses
	return s
}
