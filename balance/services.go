// SPDX-License-Identifier: Apache-2.0

package balance

// The map of services, which programs find packets' services in. A service keeps its number through restarts, because pins
// have it; the number of a removed service is not used again until its pins are gone.

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// By is enum pcn_balance_by: what tells flows apart.
type By uint8

// The ways to tell flows apart.
const (
	BySource By = 0
	ByHosts  By = 1
	ByFlow   By = 3
	ByQUIC   By = 7
)

// Wanted is what a service is to be.
type Wanted struct {
	By      By
	Timeout uint8 // of pins, in units
	Flags   uint16
	// Members are the servers of new flows, and Order is how their table has them.
	Members []Member
	Order   Order
}

// serviceEntry is struct pcn_service.
type serviceEntry struct {
	Pool    uint64
	ID      uint32
	By      By
	Timeout uint8
	Flags   uint16
}

// Services are the services of a cube. They are not safe for concurrent use.
type Services struct {
	tables  *Tables
	entries table.Table[serviceKey, serviceEntry]
	most    uint32
	known   map[ServiceID]serviceEntry
	echo    map[netip.Addr]bool
	numbers map[uint32]bool
	// left are the entries of an earlier daemon that have not been set yet.
	left    map[serviceKey]serviceEntry
	resting []uint32 // numbers of removed services
	next    uint32
	// reserved are the numbers of services that are not set yet.
	reserved map[ServiceID]uint32
}

// NewServices returns the services of a cube, with numbers below `most`. Begin opens them.
func NewServices(env cube.Env, tables *Tables, most uint32) *Services {
	return &Services{
		tables: tables, entries: table.New[serviceKey, serviceEntry](env, "services"), most: most,
		known: map[ServiceID]serviceEntry{}, echo: map[netip.Addr]bool{}, numbers: map[uint32]bool{}, left: map[serviceKey]serviceEntry{},
		reserved: map[ServiceID]uint32{},
	}
}

// Begin adopts the numbers of an earlier daemon.
func (s *Services) Begin() error {
	var err error
	for k, e := range s.entries.All(&err) {
		s.left[k] = e
		if e.ID != 0 {
			s.numbers[e.ID] = true
		}
	}
	return err
}

// Prune removes what an earlier daemon had and this one does not, after all services are set.
func (s *Services) Prune() (err error) {
	for k, e := range s.left {
		_, failed := s.entries.Delete(k)
		err = errors.Join(err, failed)
		if e.ID != 0 {
			s.resting = append(s.resting, e.ID)
		}
	}
	clear(s.left)
	return err
}

// inherited is the number that a service had in an earlier daemon, 0 if it was not there.
func (s *Services) inherited(id ServiceID) uint32 {
	for _, k := range id.keys() {
		if e, ok := s.left[k]; ok && e.ID != 0 {
			return e.ID
		}
	}
	return 0
}

// number returns the number of a service: that of an earlier daemon, or a new one.
func (s *Services) number(id ServiceID) (uint32, error) {
	if is := s.inherited(id); is != 0 {
		return is, nil
	}
	for range s.most {
		if s.next++; s.next >= s.most {
			s.next = 1
		}
		if !s.numbers[s.next] {
			s.numbers[s.next] = true
			return s.next, nil
		}
	}
	return 0, fmt.Errorf("the limit of %d services is reached: %w", s.most-1, cube.ErrFull)
}

// Reserve returns the number that a service has, or will have once it is set.
func (s *Services) Reserve(id ServiceID) (number uint32, err error) {
	if is, known := s.known[id]; known {
		return is.ID, nil
	}
	number, known := s.reserved[id]
	if !known {
		if number, err = s.number(id); err == nil {
			s.reserved[id] = number
		}
	}
	return number, err
}

// Set makes a service what is wanted, and returns its number. Packets see it as it was, or as it is to be. After an error
// the service is as it was, or has a part of its protocols: set it again.
func (s *Services) Set(id ServiceID, w Wanted) (number uint32, err error) {
	is, known := s.known[id]
	if !known {
		if is.ID, err = s.Reserve(id); err != nil {
			return 0, err
		}
	}
	pool, err := s.tables.Get(w.Members, w.Order)
	if err != nil {
		return 0, err
	}
	entry := serviceEntry{Pool: pool, ID: is.ID, By: w.By, Timeout: w.Timeout, Flags: w.Flags}
	if !known || entry != is {
		for _, k := range id.keys() {
			if err := s.entries.Set(k, entry); err != nil {
				s.tables.Release(pool)
				return 0, err
			}
			delete(s.left, k)
		}
	}
	s.tables.Release(is.Pool)
	s.known[id] = entry
	delete(s.reserved, id)
	return entry.ID, nil
}

// Remove removes a service, if it is there.
func (s *Services) Remove(id ServiceID) error {
	is, known := s.known[id]
	if !known {
		if number, ok := s.reserved[id]; ok {
			s.resting = append(s.resting, number)
			delete(s.reserved, id)
		}
		return nil
	}
	for _, k := range id.keys() {
		if _, err := s.entries.Delete(k); err != nil {
			return err
		}
	}
	s.tables.Release(is.Pool)
	s.resting = append(s.resting, is.ID)
	delete(s.known, id)
	return nil
}

// Swept makes the numbers of removed services available again, after Pins.Sweep has removed their pins.
func (s *Services) Swept() {
	for _, number := range s.resting {
		delete(s.numbers, number)
	}
	s.resting = nil
}

// Known returns the number of a service; false if there is no such service.
func (s *Services) Known(id ServiceID) (number uint32, ok bool) {
	is, ok := s.known[id]
	return is.ID, ok
}

// IsNew reports whether a service is not there yet, nor was in an earlier daemon, so that what its number has counted was another
// one's.
func (s *Services) IsNew(id ServiceID) bool {
	_, known := s.known[id]
	return !known && s.inherited(id) == 0
}

// echoKeys are the keys of ICMP for an address.
func echoKey(a netip.Addr) serviceKey {
	k := serviceKey{Address: inet.AddressOf(a), Protocol: inet.ICMP}
	if a.Is6() {
		k.Protocol = inet.ICMPv6
	}
	return k
}

// SetEcho sets the virtual addresses, and whether each answers echo requests. They are entries of the map for ICMP, without a
// number; their flags are 1 if it answers.
func (s *Services) SetEcho(addresses map[netip.Addr]bool) error {
	for a := range s.echo {
		if _, stays := addresses[a]; stays {
			continue
		}
		if err := s.DropEcho(a); err != nil {
			return err
		}
	}
	for a, answers := range addresses {
		if err := s.PutEcho(a, answers); err != nil {
			return err
		}
	}
	return nil
}

// PutEcho sets whether a virtual address answers echo requests.
func (s *Services) PutEcho(a netip.Addr, answers bool) error {
	delete(s.left, echoKey(a))
	if was, known := s.echo[a]; known && was == answers {
		return nil
	}
	var e serviceEntry
	if answers {
		e.Flags = 1
	}
	if err := s.entries.Set(echoKey(a), e); err != nil {
		return err
	}
	s.echo[a] = answers
	return nil
}

// DropEcho removes a virtual address that PutEcho or SetEcho set, if it is there.
func (s *Services) DropEcho(a netip.Addr) error {
	if _, known := s.echo[a]; !known {
		return nil
	}
	if _, err := s.entries.Delete(echoKey(a)); err != nil {
		return err
	}
	delete(s.echo, a)
	return nil
}
