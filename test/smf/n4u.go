// SPDX-License-Identifier: Apache-2.0

package smf

// N4-U: packets between devices and the SMF, in tunnels through the UPF (TS 29.244 5.3.4). The SMF is the first router of an
// IPv6 session: it answers Router Solicitations with the session's prefix (TS 23.501 5.8.2.2.3, RFC 4861).

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"sync"

	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/test/pkt"
)

// Types of messages of ICMPv6.
const (
	routerSolicitation  = 133
	routerAdvertisement = 134
)

// routerLink is the address of the router on each link.
const routerLink = "fe80::1"

// Link is the N4-U of a session.
type Link struct {
	// Prefix is that of the session, of 64 bits, MTU that of its link.
	Prefix netip.Prefix
	MTU    uint32
	// TEID is that of packets from the UPF to the SMF, ToDevice that of packets to the device.
	TEID, ToDevice uint32
}

// Router is the SMF's end of the tunnels of N4-U.
type Router struct {
	conn  *net.UDPConn
	upf   netip.AddrPort
	ended chan struct{}

	mu       sync.Mutex // guards what follows
	links    map[uint32]Link
	answered map[uint32]int
	faults   []string
}

// NewRouter opens a socket of GTP-U. The UPF is the other end of its tunnels.
func NewRouter(local, upf netip.Addr) (*Router, error) {
	conn, err := net.ListenUDP("udp", net.UDPAddrFromAddrPort(netip.AddrPortFrom(local, gtpu.Port)))
	if err != nil {
		return nil, fmt.Errorf("SMF: N4-U: %w", err)
	}
	r := &Router{conn: conn, upf: netip.AddrPortFrom(upf, gtpu.Port), ended: make(chan struct{}), links: map[uint32]Link{}, answered: map[uint32]int{}}
	go r.receive()
	return r, nil
}

// Close closes the socket. The error says what has come and should not have.
func (r *Router) Close() error {
	err := r.conn.Close()
	<-r.ended
	for _, fault := range r.faults {
		err = errors.Join(err, errors.New("SMF: N4-U: "+fault))
	}
	return err
}

// Serve answers the solicitations of a session.
func (r *Router) Serve(l Link) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.links[l.TEID] = l
}

// Answered is the number of solicitations that came in a tunnel and were answered.
func (r *Router) Answered(teid uint32) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.answered[teid]
}

func (r *Router) receive() {
	defer close(r.ended)
	b := make([]byte, 65536)
	for {
		n, from, err := r.conn.ReadFromUDPAddrPort(b)
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			continue
		}
		r.mu.Lock()
		if err := r.take(b[:n], from); err != nil && len(r.faults) < 10 {
			r.faults = append(r.faults, err.Error())
		}
		r.mu.Unlock()
	}
}

// take answers a message: an Echo Request, or a Router Solicitation in a tunnel.
func (r *Router) take(b []byte, from netip.AddrPort) error {
	m, err := gtpu.Parse(b)
	if err != nil {
		return fmt.Errorf("% x: %w", b[:min(len(b), 64)], err)
	}
	if m.Type == gtpu.EchoRequest && m.Sequence != nil {
		return r.send(gtpu.Echo(true, *m.Sequence), from)
	}
	l, ok := r.links[m.TEID]
	if m.Type != gtpu.PDU || !ok {
		return fmt.Errorf("a message of type %d with TEID %d", m.Type, m.TEID)
	}
	ip := m.Payload
	const header = 40
	if len(ip) < header+8 || ip[0]>>4 != 6 || ip[6] != pkt.ProtoICMPv6 || ip[7] != 255 || ip[header] != routerSolicitation {
		return fmt.Errorf("not a Router Solicitation: % x", ip)
	}
	source := netip.AddrFrom16([16]byte(ip[8:24]))
	destination := netip.AddrFrom16([16]byte(ip[24:40]))
	if pkt.Sum(pkt.PseudoHeader(source.String(), destination.String(), pkt.ProtoICMPv6, len(ip)-header), ip[header:]) != 0xffff {
		return fmt.Errorf("a Router Solicitation with a wrong checksum: % x", ip)
	}
	r.answered[m.TEID]++
	return r.send(gtpu.Message{Type: gtpu.PDU, TEID: l.ToDevice, Payload: l.advertisement()}, r.upf)
}

func (r *Router) send(m gtpu.Message, to netip.AddrPort) error {
	b, err := m.Append(nil)
	if err == nil {
		_, err = r.conn.WriteToUDPAddrPort(b, to)
	}
	return err
}

// advertisement is a Router Advertisement to all nodes: this router is the default one, and devices make addresses of the prefix.
func (l Link) advertisement() []byte {
	const (
		hopLimit, minutes    = 64, 30
		lifetime             = 60 * minutes
		toAll                = "ff02::1"
		prefix, mtu          = 3, 5 // options
		autonomous           = 0x40 // the prefix is not on-link (TS 23.501)
		prefixWords, oneWord = 4, 1 // lengths of options, in 8 bytes
	)
	body := []byte{0, 0, 0, 0, 0, 0, 0, 0} // reachable time and retransmission timer: unspecified
	body = append(body, prefix, prefixWords, byte(l.Prefix.Bits()), autonomous)
	body = binary.BigEndian.AppendUint32(body, lifetime)
	body = binary.BigEndian.AppendUint32(body, lifetime)
	body = append(body, 0, 0, 0, 0)
	body = append(body, l.Prefix.Masked().Addr().AsSlice()...)
	body = append(body, mtu, oneWord, 0, 0)
	body = binary.BigEndian.AppendUint32(body, l.MTU)
	message := pkt.ICMPv6Message(routerLink, toAll, routerAdvertisement, 0, hopLimit<<24|lifetime, body)
	return pkt.IPv6Header{From: routerLink, To: toAll, Next: pkt.ProtoICMPv6, HopLimit: 255}.Packet(message)
}
