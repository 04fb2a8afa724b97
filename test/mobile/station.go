// SPDX-License-Identifier: Apache-2.0

// Package mobile has base stations and phones for tests: those of package ran, in namespaces, until the test ends.
package mobile

import (
	"net"
	"net/netip"
	"strconv"
	"testing"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/ran"
)

// Station is a base station. What should not come to it fails the test.
type Station struct {
	*ran.Station
	t testing.TB
}

// Phone is a phone with its tunnel.
type Phone = ran.Phone

// NewStation starts a station at an address of a namespace, until the test ends. The gateway is the other end of its tunnels.
func NewStation(t testing.TB, in *netns.Namespace, address, gateway string) *Station {
	t.Helper()
	s := &Station{t: t}
	in.Must(func() (err error) {
		s.Station, err = ran.NewStation(netip.MustParseAddr(address), netip.MustParseAddr(gateway))
		return err
	})
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		for _, fault := range s.Faults() {
			t.Error(fault)
		}
	})
	return s
}

// Room lets a socket hold many packets, so that none is lost while its reader waits for a CPU.
func Room(t testing.TB, c *net.UDPConn) {
	t.Helper()
	if err := ran.Room(c); err != nil {
		t.Fatal(err)
	}
}

// Attach gives a phone its addresses, at a TUN or TAP device of a namespace, and its tunnel, until the test ends.
func (s *Station) Attach(in *netns.Namespace, device string, p *Phone, addresses ...string) {
	s.t.Helper()
	in.Must(func() error { return s.Station.Attach(device, p) })
	s.t.Cleanup(func() { _ = p.Close() }) // its namespace may be gone
	in.Run("ip", "link", "set", device, "up", "mtu", strconv.Itoa(ran.MTU))
	for _, a := range addresses {
		in.Run("ip", "addr", "add", a, "dev", device, "nodad")
	}
}
