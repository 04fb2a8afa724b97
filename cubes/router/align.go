// SPDX-License-Identifier: Apache-2.0

package router

// A port and its netdev have the same addresses. The framework writes and follows IP addresses and a configured MAC
// address; a port without one uses the netdev's, so that frames for it do not require promiscuous mode.

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Alignment returns the addresses that ports share with their netdevs.
func (r *router) Alignment(conf json.RawMessage) (map[string]cube.Alignment, error) {
	c := new(Config)
	if err := json.Unmarshal(conf, c); err != nil {
		return nil, fmt.Errorf("decode the configuration: %w", err)
	}
	if !c.aligns() {
		return nil, nil
	}
	out := make(map[string]cube.Alignment, len(c.Ports))
	for _, p := range c.Ports {
		if p.Align == AlignOff || p.IP.Addr().IsLinkLocalUnicast() {
			continue
		}
		a := cube.Alignment{ReadOnly: p.Align == AlignPort}
		for _, ip := range p.addresses() {
			if !ip.Addr().IsLinkLocalUnicast() {
				a.Addresses = append(a.Addresses, ip)
			}
		}
		if m, err := net.ParseMAC(p.Mac); err == nil {
			a.MAC = m
		}
		out[p.Name] = a
	}
	return out, nil
}

// aligns reports whether ports share addresses with their netdevs. Ports of a router with a namespace share the
// addresses of the interfaces there, and with fib=host the addresses belong to the host's stack.
func (c *Config) aligns() bool { return !c.Shadow && c.Fib != "host" }

// macOf returns the MAC address of a port without a configured one: its netdev's, or a locally administered one, which
// stays the same as long as the port exists.
func (r *router) macOf(p Port, index uint16) inet.MAC {
	peer := r.peers[p.Name]
	if p.Align != AlignOff && peer.Netdev != "" && len(peer.MAC) == 6 && peer.MAC[0]&1 == 0 {
		r.macs[index] = inet.MACOf(peer.MAC)
	}
	m, ok := r.macs[index]
	if !ok {
		var b [6]byte
		_, _ = rand.Read(b[:]) // never fails
		b[0] = b[0]&^1 | 2
		m = inet.MACOf(b[:])
		r.macs[index] = m
	}
	return m
}

// followMAC gives ports without a configured MAC address those of their netdevs. A port that lost its netdev gets a new
// one: another port may have that netdev now.
func (r *router) followMAC(port string, was cube.Peer) error {
	index, ok := r.env.PortIndex(port)
	if !ok || r.conf == nil {
		return nil
	}
	if was.Netdev != "" && r.peers[port].Netdev == "" {
		delete(r.macs, index)
	}
	next, err := newLayout(r.conf, r.env, r.macOf)
	if err != nil {
		return err
	}
	if s := r.now.ports[index]; s == nil || next.ports[index] == nil || s.mac == next.ports[index].mac {
		return nil
	}
	_, err = r.arrange(next)
	return err
}
