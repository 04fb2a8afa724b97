// SPDX-License-Identifier: Apache-2.0

// Package session is the control plane of <pcn/balance_session.h>: it reads the sessions of a load balancer in its table of
// connections, removes those that have expired, and counts those of each server.
package session

import (
	"unsafe"

	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/flow"
	"github.com/polycube/polycube/inet"
)

// Key is the ends of packets: struct pcn_session_key.
type Key struct {
	Source, Destination         inet.Address
	SourcePort, DestinationPort flow.Port
	Zone                        uint16
	Protocol                    inet.Protocol
	IPv6                        uint8
}

// Session is an entry of a session: struct pcn_session. There is one for each direction.
type Session struct {
	Key                         Key
	Status                      uint32
	Generation                  uint32
	Seen                        uint64
	Progress                    conntrack.Progress // side 0 is the client
	Server                      uint32
	Source, Destination         inet.Address
	SourcePort, DestinationPort flow.Port
	AddressDelta, PortDelta     uint16
	Flags                       uint8
	_                           [3]uint8
	Created                     uint32
	Own                         [2]uint64
}

var (
	_ [unsafe.Sizeof(conns.Entry{})]byte = [unsafe.Sizeof(Session{})]byte{}
	_ [unsafe.Sizeof(conns.Key{})]byte   = [unsafe.Sizeof(Key{})]byte{}
)

// PCN_SESSION_REPLY and PCN_SESSION_TWIN_ZONE.
const (
	flagReply    = 0x01
	flagTwinZone = 0x04
)

// Of is an entry of the table as the session that it is.
func Of(e *conns.Entry) *Session { return (*Session)(unsafe.Pointer(e)) }

// Entry returns the key as the table has it.
func (k Key) Entry() conns.Key { return *(*conns.Key)(unsafe.Pointer(&k)) }

// IsReply reports whether this is the entry for the server's packets.
func (s *Session) IsReply() bool { return s.Flags&flagReply != 0 }

// Twin is the key of the other entry.
func (s *Session) Twin() conns.Key {
	k := Key{
		Source: s.Destination, Destination: s.Source, SourcePort: s.DestinationPort, DestinationPort: s.SourcePort,
		Protocol: s.Key.Protocol, IPv6: s.Key.IPv6,
	}
	if s.Flags&flagTwinZone != 0 {
		k.Zone = 1
	}
	return k.Entry()
}

// IsEstablished reports whether the session is a connection of TCP that both ends have opened, and not both closed.
func (s *Session) IsEstablished() bool {
	return s.Progress.Replied() && s.Progress.State >= conntrack.Open && s.Progress.State < conntrack.LastAck
}

// isActive reports whether the session counts for its server: it is not closing, and this is its entry for the client's packets.
func (s *Session) isActive() bool { return !s.IsReply() && s.Progress.State < conntrack.LastAck }

// Room returns the size of a table for a number of sessions.
func Room(sessions uint32) int { return conns.Room(2 * int(sessions)) }
