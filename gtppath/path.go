// SPDX-License-Identifier: Apache-2.0

// Package gtppath is the user-space part of GTP-U tunnel endpoints, for cubes whose programs use <pcn/gtpu_end.h>: it supervises
// the paths to peers (base stations or other user plane functions), and answers the messages and packets that programs hand to it
// (3GPP TS 29.281).
package gtppath

import (
	"errors"
	"net/netip"
	"time"

	"github.com/polycube/polycube/bucket"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// Settings are the configuration of a cube.
type Settings struct {
	// Locals are the local tunnel addresses.
	Locals []Address
	// EchoInterval is the time from an answer to the next Echo Request; 0 disables them. An unanswered request is retransmitted
	// after EchoTimeout, and the peer is down after EchoRequests unanswered ones.
	EchoInterval, EchoTimeout time.Duration
	EchoRequests              int
}

// Local returns the source address of tunnels of a network instance, by its number, to a peer; false if it has none of the peer's
// family.
func (s *Settings) Local(peer netip.Addr, instance uint32) (local netip.Addr, ok bool) {
	for _, a := range s.Locals {
		if Instance(a.Instance) == instance && a.Address.Is4() == peer.Is4() && (!ok || a.Address.Less(local)) {
			local, ok = a.Address, true
		}
	}
	return local, ok
}

// Options are callbacks of the cube, never called concurrently with its other functions. Each may be nil.
type Options struct {
	// Changed is called when a peer goes up or down. A peer is neither until Echo Requests were answered or have timed out.
	Changed func(peer netip.Addr, up bool)
	// Indicated is called when a peer reports that it does not know a tunnel.
	Indicated func(from netip.Addr, teid uint32)
}

// InstanceOf returns the number of the network instance of a local address.
func (s *Settings) InstanceOf(local netip.Addr) (instance uint32, ok bool) {
	for _, a := range s.Locals {
		if a.Address == local {
			return Instance(a.Instance), true
		}
	}
	return 0, false
}

// Limits is struct pcn_gtpu_end_limits: rate limits for user space, of messages about paths and about failures.
type Limits struct{ Paths, Failures bucket.Limit }

// newLimits returns the fixed limits: thousands of base stations may send requests once a minute, all at the same time.
func newLimits() (l Limits, err error) {
	if l.Paths, err = bucket.New(2000, time.Second, 4000); err != nil {
		return l, err
	}
	l.Failures, err = bucket.New(500, time.Second, 500)
	return l, err
}

// Path is the user-space part of a cube that terminates tunnels. Its methods must not be called concurrently.
type Path struct {
	env      cube.Env
	options  Options
	settings Settings
	peers    map[netip.Addr]*peer
	messages Messages
	parent   cube.Parent
	ids      uint16 // of the IPv4 packets that are sent

	locals table.Table[inet.Address, uint32]
	limits table.Table[uint32, Limits]
	// macs has an entry for each peer, which programs set when they receive a packet from it. Above the 48 bits of the address is
	// the network instance, if another process has added the peer.
	macs table.Table[inet.Address, uint64]
}

// New returns the user-space part of a cube. It sends nothing before Configure.
func New(env cube.Env, o Options) *Path {
	p := &Path{
		env: env, options: o, peers: map[netip.Addr]*peer{},
		locals: table.New[inet.Address, uint32](env, "addresses"), limits: table.New[uint32, Limits](env, "limits"),
		macs: table.New[inet.Address, uint64](env, "stations"),
	}
	env.Every(time.Second, p.tick)
	return p
}

// SetParent sets what the cube is attached to, whose MAC address its frames use as their source.
func (p *Path) SetParent(parent cube.Parent) { p.parent = parent }

// Begin takes over the maps of a previous daemon, and removes peers that are no longer wanted.
func (p *Path) Begin(wanted map[netip.Addr]bool) error {
	var gone []inet.Address
	var all error
	for address := range p.macs.All(&all) {
		if !wanted[address.Addr()] {
			gone = append(gone, address)
		}
	}
	limits, err := newLimits()
	if err := errors.Join(err, all); err != nil {
		return err
	}
	if err := p.limits.Set(0, limits); err != nil {
		return err
	}
	_, err = p.macs.DeleteAll(gone)
	return err
}

// Configure writes the local addresses, and applies the settings.
func (p *Path) Configure(s Settings, undo *cube.Undo) error {
	want := map[inet.Address]uint32{}
	for _, a := range s.Locals {
		want[inet.AddressOf(a.Address)] = Instance(a.Instance)
	}
	back, err := table.Replace(p.locals, want).Do()
	if err != nil {
		return err
	}
	was := p.settings
	p.settings = s
	undo.Push(func() error {
		p.settings = was
		if back == nil {
			return nil
		}
		return back()
	})
	return nil
}
