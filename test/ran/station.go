// SPDX-License-Identifier: Apache-2.0

// Package ran is the radio side of a mobile network, for tests and demonstrations: base stations with real sockets of GTP-U,
// and phones with a TUN device each, or a TAP device for Ethernet sessions. Sockets and devices are of the network namespace of the calling thread.
package ran

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/gtpu"
)

// Station is a base station. It answers Echo Requests.
type Station struct {
	conn    *net.UDPConn
	gateway netip.AddrPort
	ended   chan struct{}

	mu     sync.Mutex
	phones map[uint32]*Phone // by the TEID of packets to them
	ends   []uint32          // TEIDs of End Markers
	// packets are those for phones, and late those after the End Marker of their tunnel.
	packets, late int
	faults        []string
	// errors: Error Indications may come.
	errors bool
}

// Phone is a phone with its tunnel.
type Phone struct {
	// Uplink is the TEID of packets from it, Downlink that of packets to it.
	Uplink, Downlink uint32
	// QFI is that of its packets in both directions; 0 for packets without a PDU Session Container.
	QFI uint8
	// Ethernet: its session is of Ethernet frames, and its device is a TAP device.
	Ethernet bool

	station atomic.Pointer[Station]
	tun     *os.File
	ended   chan struct{}
}

// MTU is that of a phone's device: its packets fit into a tunnel over Ethernet.
const MTU = 1400

// NewStation starts a station at an address. The gateway is the other end of its tunnels.
func NewStation(address, gateway netip.Addr) (*Station, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(address, gtpu.Port)))
	if err == nil {
		if err = Room(conn); err != nil {
			_ = conn.Close()
		}
	}
	if err != nil {
		return nil, fmt.Errorf("base station: %w", err)
	}
	s := &Station{conn: conn, gateway: netip.AddrPortFrom(gateway, gtpu.Port), ended: make(chan struct{}), phones: map[uint32]*Phone{}}
	go s.receive()
	return s, nil
}

// Close ends the station.
func (s *Station) Close() error {
	err := s.conn.Close()
	<-s.ended
	return err
}

// Faults returns what has come and should not have, the first ten.
func (s *Station) Faults() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.faults)
}

// Room lets a socket hold many packets, so that none is lost while its reader waits for a CPU.
func Room(c *net.UDPConn) error {
	raw, err := c.SyscallConn()
	if err == nil {
		var failed error
		err = raw.Control(func(fd uintptr) { failed = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, 64<<20) })
		err = errors.Join(err, failed)
	}
	if err != nil {
		return fmt.Errorf("room for packets: %w", err)
	}
	return nil
}

// Attach makes the device of a phone, which is down and has no address, and its tunnel.
func (s *Station) Attach(device string, p *Phone) error {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("open /dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq(device)
	kind := uint16(unix.IFF_TUN)
	if p.Ethernet {
		kind = unix.IFF_TAP
	}
	if err == nil {
		ifr.SetUint16(kind | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		_ = unix.Close(fd)
		return fmt.Errorf("make the device %s: %w", device, err)
	}
	p.tun, p.ended = os.NewFile(uintptr(fd), device), make(chan struct{})
	p.station.Store(s)
	s.Expect(p, p.Downlink)
	go p.send()
	return nil
}

// Close removes the phone's device.
func (p *Phone) Close() error {
	err := p.tun.Close()
	<-p.ended
	return err
}

// Expect makes the station deliver packets with a TEID to a phone that comes from another one.
func (s *Station) Expect(p *Phone, downlink uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phones[downlink] = p
}

// Take gives a phone's packets to this station, too.
func (s *Station) Take(p *Phone) { p.station.Store(s) }

// Packets returns how many packets of users have come.
func (s *Station) Packets() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.packets
}

// AfterEnd returns how many packets of users have come after an End Marker for their tunnel.
func (s *Station) AfterEnd() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.late
}

// Ends returns the TEIDs of the End Markers that have come.
func (s *Station) Ends() []uint32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]uint32(nil), s.ends...)
}

// AllowErrors says that Error Indications may come from now on.
func (s *Station) AllowErrors() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errors = true
}

// fault notes what should not come.
func (s *Station) fault(format string, args ...any) {
	if len(s.faults) < 10 {
		s.faults = append(s.faults, fmt.Sprintf("base station %s: "+format, append([]any{s.conn.LocalAddr()}, args...)...))
	}
}

// send puts the packets of a phone into its tunnel.
func (p *Phone) send() {
	defer close(p.ended)
	packet := make([]byte, 2048)
	for {
		n, err := p.tun.Read(packet)
		if err != nil {
			return
		}
		m := gtpu.Message{Type: gtpu.PDU, TEID: p.Uplink, Payload: packet[:n]}
		if p.QFI != 0 {
			m.Extensions = []gtpu.Extension{gtpu.Session{Uplink: true, QFI: p.QFI}.Extension()}
		}
		s := p.station.Load()
		s.reply(s.gateway, m)
	}
}

// reply sends a message. Its loss is that of a packet.
func (s *Station) reply(to netip.AddrPort, m gtpu.Message) {
	if b, err := m.Append(nil); err == nil {
		_, _ = s.conn.WriteToUDPAddrPort(b, to)
	}
}

// receive takes messages from the socket.
func (s *Station) receive() {
	defer close(s.ended)
	b := make([]byte, 65536)
	for {
		n, from, err := s.conn.ReadFromUDPAddrPort(b)
		if err != nil {
			return
		}
		m, err := gtpu.Parse(b[:n])
		s.mu.Lock()
		switch {
		case err != nil:
			s.fault("% x: %v", b[:min(n, 32)], err)
		case m.Type == gtpu.EchoRequest && m.Sequence != nil:
			s.reply(from, gtpu.Echo(true, *m.Sequence))
		case m.Type == gtpu.EndMarker:
			s.ends = append(s.ends, m.TEID)
		case m.Type == gtpu.PDU:
			s.deliver(&m)
		case m.Type == gtpu.ErrorIndication && s.errors:
		default:
			s.fault("message of type %d", m.Type)
		}
		s.mu.Unlock()
	}
}

// deliver gives a packet to its phone.
func (s *Station) deliver(m *gtpu.Message) {
	p := s.phones[m.TEID]
	if p == nil {
		s.fault("a packet with TEID %d", m.TEID)
		return
	}
	if session, has := m.Session(); has != (p.QFI != 0) || session.QFI != p.QFI || session.Uplink {
		s.fault("a packet with %+v, want QFI %d", session, p.QFI)
	}
	if s.packets++; slices.Contains(s.ends, m.TEID) {
		s.late++
	}
	_, _ = p.tun.Write(m.Payload) // its loss is that of a packet
}
