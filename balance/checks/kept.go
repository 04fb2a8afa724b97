// SPDX-License-Identifier: Apache-2.0

package checks

// The maps: which packets are answers to checks, and what the next daemon is to know.

import (
	"bytes"
	"fmt"
	"time"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/health"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/probe"
)

// targetKey is struct pcn_check_target.
type targetKey struct {
	Address  inet.Address
	Port     [2]byte
	Protocol inet.Protocol
	Zero     uint8
}

// healthKey is struct pcn_health_key.
type healthKey struct {
	Service [24]byte
	Server  balance.Key
}

// healthEntry is struct pcn_health.
type healthEntry struct {
	Since  uint64
	Status health.Status
	Error  [52]byte
}

// idOf returns the ID of a check.
func idOf(k Key) string { return fmt.Sprintf("%s %x", k.Service, k.Server) }

// healthKeyOf returns the key of a server of a service in the map of their health.
func healthKeyOf(k Key) (out healthKey) {
	a := inet.AddressOf(k.Service.VIP)
	copy(out.Service[:], a[:])
	out.Service[16], out.Service[17], out.Service[18] = byte(k.Service.Port>>8), byte(k.Service.Port), byte(k.Service.Proto)
	out.Server = k.Server
	return out
}

// keep writes what is known of a server, for the next daemon.
func (c *Checks) keep(is *Check, why string) {
	e := healthEntry{Since: uint64(is.since.UnixMilli()), Status: is.status}
	copy(e.Error[:], why)
	if err := c.healths.Set(healthKeyOf(is.key), e); err != nil {
		c.env.Logger().Warn("store the health of a server", "error", err)
	}
}

// into is the reverse.
func (e *healthEntry) into(is *Check) {
	is.status, is.known, is.since = e.Status, true, time.UnixMilli(int64(e.Since))
	is.last.Error = string(bytes.TrimRight(e.Error[:], "\x00"))
}

// writeTarget tells the program which ports answers of a target come to.
func (c *Checks) writeTarget(t probe.Target) error {
	k := targetKey{Address: inet.AddressOf(t.Addr), Port: [2]byte{byte(t.Port >> 8), byte(t.Port)}, Protocol: inet.TCP}
	switch {
	case t.Port == 0 && t.Addr.Is6():
		k.Protocol = inet.ICMPv6
	case t.Port == 0:
		k.Protocol = inet.ICMP
	}
	if ports := c.path.Ports(t); ports > 0 {
		return c.targets.Set(k, ports)
	}
	_, err := c.targets.Delete(k)
	return err
}
