// SPDX-License-Identifier: Apache-2.0

package gtppath

// Peers: their MAC addresses, and whether they answer (path management of TS 29.281, 7.2).

import (
	"net/netip"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// Status is the status of the path to a peer, as in models.
type Status string

// The statuses.
const (
	Unknown Status = "UNKNOWN"
	Up      Status = "UP"
	Down    Status = "DOWN"
)

// State is the state of a peer. MAC is empty if no packet from it was received, and Users is its number of uses.
type State struct {
	Address netip.Addr `json:"address"`
	Status  Status     `json:"status"`
	MAC     string     `json:"mac,omitempty"`
	Users   int        `json:"-"`
}

// peer is the remote end of tunnels.
type peer struct {
	address netip.Addr
	// instance is the network instance of the latest use.
	instance uint32
	users    int
	status   Status
	// due is when the next Echo Request is sent, sequence its number, and waiting the number of unanswered ones.
	due      time.Time
	sequence uint16
	waiting  int
}

// States returns the state of all peers.
func (p *Path) States() ([]State, error) {
	all := make([]State, 0, len(p.peers))
	for _, is := range p.peers {
		mac, err := p.mac(is.address)
		if err != nil {
			return nil, err
		}
		s := State{Address: is.address, Status: is.status, Users: is.users}
		if mac != 0 {
			s.MAC = mac.String()
		}
		all = append(all, s)
	}
	return all, nil
}

// macBits are those of a MAC address in the map `stations`.
const macBits = 48

// Station returns the value of a new peer in the map `stations`, for a process that writes it: its MAC address is not known.
func Station(instance uint32) uint64 { return uint64(instance) << macBits }

// mac returns the learned MAC address of a peer; 0 if there is none.
func (p *Path) mac(address netip.Addr) (inet.MAC, error) {
	mac, _, err := p.macs.Get(inet.AddressOf(address))
	return inet.MAC(mac & (1<<macBits - 1)), err
}

// Unheard returns the peers without a learned MAC address, in a stable order.
func (p *Path) Unheard() (all []netip.Addr, err error) {
	for address := range p.peers {
		mac, err := p.mac(address)
		if err != nil {
			return nil, err
		}
		if mac == 0 {
			all = append(all, address)
		}
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return all, nil
}

// Found sets the MAC address of a peer that has none yet.
func (p *Path) Found(address netip.Addr, mac inet.MAC) error {
	if p.peers[address] == nil {
		return nil
	}
	was, err := p.mac(address)
	if err != nil || was != 0 {
		return err
	}
	return p.macs.Set(inet.AddressOf(address), uint64(mac))
}

// Source returns the address that messages to a peer come from: one of the network instance that has used it last. It returns
// false if there is none.
func (p *Path) Source(address netip.Addr) (netip.Addr, bool) {
	is := p.peers[address]
	if is == nil {
		return netip.Addr{}, false
	}
	return p.settings.Local(address, is.instance)
}

// Use adds a user of a peer, with tunnels of a network instance. The MAC address of a peer is learned and its path supervised as
// long as it has users.
func (p *Path) Use(address netip.Addr, instance uint32, undo *cube.Undo) error {
	is := p.peers[address]
	if is == nil {
		if _, err := p.macs.Add(inet.AddressOf(address), 0); err != nil {
			return err
		}
		is = &peer{address: address, status: Unknown}
		p.peers[address] = is
	}
	is.users++
	was := is.instance
	is.instance = instance
	undo.Push(func() error {
		is.instance = was
		return p.drop(is)
	})
	return nil
}

// Unuse removes a user of a peer.
func (p *Path) Unuse(address netip.Addr, undo *cube.Undo) error {
	is := p.peers[address]
	mac, err := p.mac(address)
	if err != nil {
		return err
	}
	undo.Push(func() error {
		if is.users++; is.users > 1 {
			return nil
		}
		p.peers[address] = is
		return p.macs.Set(inet.AddressOf(address), uint64(mac))
	})
	return p.drop(is)
}

// drop removes a user; a peer without users is removed.
func (p *Path) drop(is *peer) error {
	if is.users--; is.users > 0 {
		return nil
	}
	delete(p.peers, is.address)
	_, err := p.macs.Delete(inet.AddressOf(is.address))
	return err
}

// answered records that a peer has answered an Echo Request. It reports whether one was outstanding.
func (p *Path) answered(from netip.Addr, sequence uint16) bool {
	is := p.peers[from]
	if is == nil || is.waiting == 0 || sequence != is.sequence {
		return false
	}
	is.waiting = 0
	is.due = time.Now().Add(p.settings.EchoInterval)
	p.becomes(is, Up)
	return true
}

// becomes sets the status of a peer, and notifies the cube if it changes.
func (p *Path) becomes(is *peer, s Status) {
	if is.status == s {
		return
	}
	is.status = s
	if p.options.Changed != nil {
		p.options.Changed(is.address, s == Up)
	}
}

// tick sends the Echo Requests that are due. A peer without a learned MAC address cannot be sent one.
func (p *Path) tick() {
	if p.settings.EchoInterval == 0 {
		return
	}
	now := time.Now()
	for _, is := range p.peers {
		if now.Before(is.due) {
			continue
		}
		mac, err := p.mac(is.address)
		from, ok := p.settings.Local(is.address, is.instance)
		if err != nil || !ok || mac == 0 {
			continue
		}
		if is.waiting >= p.settings.EchoRequests {
			is.waiting = 0
			is.due = now.Add(p.settings.EchoInterval)
			p.becomes(is, Down)
			continue
		}
		if is.waiting == 0 {
			is.sequence++ // a retransmitted request has the same number
		}
		is.waiting++
		is.due = now.Add(p.settings.EchoTimeout)
		p.messages.EchoRequestsSent++
		p.ask(is, from, mac)
	}
}
