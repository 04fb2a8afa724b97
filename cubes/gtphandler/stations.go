// SPDX-License-Identifier: Apache-2.0

package gtphandler

// Base stations: where they are, and whether they answer (path management of TS 29.281, 7.2).

import (
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// status is that of the path to a base station.
type status string

const (
	unknown status = "UNKNOWN"
	up      status = "UP"
	down    status = "DOWN"
)

// station is a base station of users.
type station struct {
	address netip.Addr
	users   int
	status  status
	// due is when the next Echo Request is sent, sequence its number, and waiting how many have not been answered.
	due      time.Time
	sequence uint16
	waiting  int
}

type stations struct {
	of map[netip.Addr]*station
	// macs has an entry for each station, which programs write when they hear it.
	macs table.Table[inet.Address, uint64]
}

func newStations(env cube.Env) *stations {
	return &stations{of: map[netip.Addr]*station{}, macs: table.New[inet.Address, uint64](env, "stations")}
}

// begin removes entries of an earlier daemon that are not wanted any more.
func (s *stations) begin(wanted map[netip.Addr]bool) error {
	var gone []inet.Address
	var err error
	for address := range s.macs.All(&err) {
		if !wanted[address.Addr()] {
			gone = append(gone, address)
		}
	}
	if err != nil {
		return err
	}
	_, err = s.macs.DeleteAll(gone)
	return err
}

// mac returns where a station was heard; 0 if it was not.
func (s *stations) mac(address netip.Addr) (inet.MAC, error) {
	mac, _, err := s.macs.Get(inet.AddressOf(address))
	return inet.MAC(mac), err
}

// use counts a user of a station.
func (s *stations) use(address netip.Addr, undo *cube.Undo) error {
	is := s.of[address]
	if is == nil {
		if _, err := s.macs.Add(inet.AddressOf(address), 0); err != nil {
			return err
		}
		is = &station{address: address, status: unknown}
		s.of[address] = is
	}
	is.users++
	undo.Push(func() error { return s.drop(is) })
	return nil
}

// unuse is the reverse.
func (s *stations) unuse(address netip.Addr, undo *cube.Undo) error {
	is := s.of[address]
	mac, err := s.mac(address)
	if err != nil {
		return err
	}
	undo.Push(func() error {
		if is.users++; is.users > 1 {
			return nil
		}
		s.of[address] = is
		return s.macs.Set(inet.AddressOf(address), uint64(mac))
	})
	return s.drop(is)
}

// drop counts a user less; a station without users is forgotten.
func (s *stations) drop(is *station) error {
	if is.users--; is.users > 0 {
		return nil
	}
	delete(s.of, is.address)
	_, err := s.macs.Delete(inet.AddressOf(is.address))
	return err
}

// answered notes that a station has answered an Echo Request. It reports whether it was asked.
func (h *handler) answered(from netip.Addr, sequence uint16) bool {
	is := h.stations.of[from]
	if is == nil || is.waiting == 0 || sequence != is.sequence {
		return false
	}
	is.waiting = 0
	is.due = time.Now().Add(time.Duration(h.conf.EchoInterval) * time.Second)
	if is.status != up {
		h.env.Logger().Info("base station is up", "address", from)
		is.status = up
	}
	return true
}

// tick sends the Echo Requests that are due. A station that was not heard is not asked: nobody knows where it is.
func (h *handler) tick() {
	if h.conf == nil || h.conf.EchoInterval == 0 {
		return
	}
	now := time.Now()
	for _, is := range h.stations.of {
		if now.Before(is.due) {
			continue
		}
		mac, err := h.stations.mac(is.address)
		from, none := h.conf.local(is.address)
		if err != nil || none != nil || mac == 0 {
			continue
		}
		if is.waiting >= int(h.conf.EchoRequests) {
			if is.status != down {
				h.env.Logger().Warn("base station is down", "address", is.address, "unanswered", is.waiting)
				is.status = down
			}
			is.waiting = 0
			is.due = now.Add(time.Duration(h.conf.EchoInterval) * time.Second)
			continue
		}
		if is.waiting == 0 {
			is.sequence++ // a repeated request has the same number
		}
		is.waiting++
		is.due = now.Add(time.Duration(h.conf.EchoTimeout) * time.Second)
		h.messages.EchoRequestsSent++
		h.ask(is, from, mac)
	}
}
