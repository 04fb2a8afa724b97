// SPDX-License-Identifier: Apache-2.0

package n4

// The socket. A reader fills the inbox; what does not fit is lost, as it would be in the socket, and the SMF sends it again.

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"time"
)

const maxDatagram = 65535

// endpoint is the socket, with the clock and the counters.
type endpoint struct {
	config   Config
	log      *slog.Logger
	conn     *net.UDPConn
	inbox    chan datagram
	buffers  sync.Pool
	out      []outgoing
	timers   timers
	counters counters
	// recovery is the recovery time stamp of this end.
	recovery time.Time
}

// read receives until the socket is closed.
func (s *endpoint) read() error {
	for {
		buffer := *s.buffers.Get().(*[]byte)
		n, from, err := s.conn.ReadFromUDPAddrPort(buffer)
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			// An ICMP error of an earlier datagram is reported here; the socket still works.
			s.buffers.Put(&buffer)
			continue
		}
		from = netip.AddrPortFrom(from.Addr().Unmap(), from.Port())
		// The message is kept until it is carried out, so it gets memory of its size.
		d := datagram{from, append([]byte(nil), buffer[:n]...)}
		s.buffers.Put(&buffer)
		select {
		case s.inbox <- d:
		default:
			s.counters.lost.Add(1)
		}
	}
}

// send queues a message. If it depends on what is being stored, it is sent once that is on the disk.
func (s *endpoint) send(to netip.AddrPort, bytes []byte, depends bool) {
	s.out = append(s.out, outgoing{datagram{to, bytes}, depends})
}

// sendAll sends what is queued; if nothing could be stored, only what does not depend on it. A message that is lost here is
// sent again, as one that is lost on the way.
func (s *endpoint) sendAll(stored bool) {
	var rest []outgoing
	for _, d := range s.out {
		if d.depends && !stored {
			if len(rest) < maxReceived {
				rest = append(rest, d)
			}
			continue
		}
		if _, err := s.conn.WriteToUDPAddrPort(d.bytes, d.peer); err != nil {
			s.counters.unsent++
			s.log.Debug("N4 send", "peer", d.peer, "error", err)
		}
	}
	s.out = append(s.out[:0], rest...)
}

// localFor returns the address that an SMF sees.
func (s *endpoint) localFor(peer netip.Addr) (netip.Addr, error) {
	if a := s.config.Address.Addr(); !a.IsUnspecified() {
		return a, nil
	}
	// Connecting a UDP socket sends nothing; it looks up the route.
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(netip.AddrPortFrom(peer, Port)))
	if err != nil {
		return netip.Addr{}, fmt.Errorf("route to %v: %w", peer, err)
	}
	local := c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	return local.WithZone(""), c.Close()
}
