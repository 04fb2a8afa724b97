// SPDX-License-Identifier: Apache-2.0

package router

// ICMP and ICMPv6 messages of the router itself: errors for packets that it cannot forward, and echo replies. Errors
// are limited by the source that they go to, in addition to the program's limit by port (RFC 1812 4.3.2.8, RFC 4443
// 2.4(f)).

import (
	"net/netip"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// refuse answers a packet with an error, if that is allowed.
func (s *slow) refuse(p *cube.PacketIn, k wire.Kind, mtu int) {
	ip, err := wire.ParseIP(p.Data)
	if err != nil {
		s.counters.Malformed++
		return
	}
	turned := p.Trip.Turned && s.ours(ip.Src) // a translation has set that source
	if !ip.Answerable(k) || s.ours(ip.Src) && !turned || s.broadcast(ip.Dst) {
		return
	}
	if !s.limiter.admit(ip.Src, clock()) {
		s.counters.ErrorsSuppressed++
		return
	}
	from, ok := s.errorSource(p.Port, &ip)
	if !ok {
		return
	}
	s.ids++
	e := wire.Error{Kind: k, MTU: mtu, From: from, ID: s.ids}
	send := s.back
	if turned {
		send = s.offer
	}
	if send(p, &ip, func(to, mac wire.MAC) []byte { return e.Frame(&ip, to, mac) }) {
		s.counters.ErrorsSent++
	}
}

// offer offers an error about a packet that a transparent cube of a port turned to that port, where its source is
// known.
func (s *slow) offer(p *cube.PacketIn, _ *wire.Packet, frame func(to, from wire.MAC) []byte) bool {
	port := s.ports[p.Port]
	if port == nil {
		return false
	}
	err := s.env.Send(&cube.PacketOut{Port: p.Port, Direction: cube.Egress, Offer: true, Data: frame(port.station(), port.station())})
	if err != nil {
		s.env.Logger().Debug("send an ICMP error", "port", port.name, "error", err)
	}
	return err == nil
}

// errorSource returns the source address of an error: the destination of the packet, if it is the router's; otherwise
// the primary address of the ingress port, or any other address of the router if that port has none of the family. A
// link-local source is answered from a link-local address.
func (s *slow) errorSource(index uint16, ip *wire.Packet) (netip.Addr, bool) {
	if s.ours(ip.Dst) { // RFC 4443 2.2(a)
		return ip.Dst, true
	}
	linkLocal := ip.V6() && ip.Src.IsLinkLocalUnicast()
	if port := s.ports[index]; port != nil {
		if a, ok := port.first(ip.V6(), linkLocal); ok {
			return a, true
		}
	}
	var best netip.Addr
	for _, p := range s.ports {
		if a, ok := p.first(ip.V6(), false); ok && (!best.IsValid() || a.Less(best)) {
			best = a
		}
	}
	return best, best.IsValid()
}

func (s *slow) ours(a netip.Addr) bool {
	for _, p := range s.ports {
		if has(p.addresses, a) {
			return true
		}
	}
	return false
}

// broadcast reports whether an address is the broadcast address of one of the router's links.
func (s *slow) broadcast(a netip.Addr) bool {
	if !a.Is4() {
		return false
	}
	for _, p := range s.ports {
		for _, n := range p.addresses {
			if n.Bits() < 31 && n.Contains(a) && broadcast(n) == a {
				return true
			}
		}
	}
	return false
}

// back sends an answer to the sender of a packet: by the route to its source. If that uses the ingress port, it goes to
// the station that sent the packet; otherwise to the neighbour, which may have to be resolved.
func (s *slow) back(p *cube.PacketIn, ip *wire.Packet, frame func(to, from wire.MAC) []byte) bool {
	index, gateway, ok := p.Port, netip.Addr{}, true
	if !ip.V6() || !ip.Src.IsLinkLocalUnicast() {
		index, gateway, ok = s.r.lookup(ip.Src)
	}
	port, there := s.ports[index]
	if !ok || !there {
		return false
	}
	station := wire.Source(p.Data)
	if index == p.Port && station.Station() {
		s.send(index, frame(station, port.station()))
		return true
	}
	k := neigh.Key{Addr: ip.Src, Port: index}
	if gateway.IsValid() {
		k.Addr = gateway
	}
	h := &held{out: true, port: index, key: k, data: frame(wire.MAC{}, port.station())}
	return s.table.Packet(k, neigh.Origin{Port: p.Port, Source: ip.Src}, h, len(h.data), clock())
}

// local processes a packet for an address of the router.
func (s *slow) local(p *cube.PacketIn) {
	ip, err := wire.ParseIP(p.Data)
	if err != nil {
		s.counters.Malformed++
		return
	}
	now := clock()
	if ip.Dst.IsMulticast() {
		s.echoOfMany(p, &ip)
		return
	}
	switch {
	case ip.Echo():
		if ip.More {
			s.echoes.begin(&ip, now)
		}
	case ip.Offset > 0 && s.echoes.continues(&ip, now):
	default:
		s.refuseClosed(p, &ip)
		return
	}
	if s.back(p, &ip, ip.EchoReply) {
		s.counters.EchoReplies++
	}
}

// allRouters is the group of all routers of a link.
var allRouters = netip.MustParseAddr("ff02::2")

// echoOfMany answers an echo request to a group that the router is in, from one of its own addresses (RFC 4443 4.2).
func (s *slow) echoOfMany(p *cube.PacketIn, ip *wire.Packet) {
	port := s.ports[p.Port]
	if port == nil || ip.Dst != wire.AllNodes && ip.Dst != allRouters || !ip.Echo() || ip.Fragment() {
		return
	}
	from, ok := port.first(true, ip.Src.IsLinkLocalUnicast())
	if !ok {
		return
	}
	to := ip.SentTo(from)
	if s.back(p, &to, to.EchoReply) {
		s.counters.EchoReplies++
	}
}

// noNextHeader is the IPv6 protocol number for "no next header".
const noNextHeader = 59

// refuseClosed answers packets without a listener.
func (s *slow) refuseClosed(p *cube.PacketIn, ip *wire.Packet) {
	switch {
	case ip.Offset > 0 || ip.Proto == wire.ProtoICMP || ip.Proto == wire.ProtoICMPv6 || ip.Proto == noNextHeader:
	case ip.BrokenUDP():
		s.counters.Malformed++
	case ip.Proto == wire.ProtoUDP || ip.Proto == wire.ProtoTCP:
		s.refuse(p, wire.NoPort, 0)
	default:
		s.refuse(p, wire.NoProtocol, 0)
	}
}

// echoes records fragmented echo requests, so that later fragments can be recognized.
type echoes struct{ until map[echoKey]time.Duration }

type echoKey struct {
	src, dst netip.Addr
	id       uint32
}

// Later fragments after this time belong to another packet; and the maximum number of packets that are recorded.
const (
	echoTime = 5 * time.Second
	echoMax  = 1024
)

func (e *echoes) begin(p *wire.Packet, now time.Duration) {
	if e.until == nil {
		e.until = map[echoKey]time.Duration{}
	}
	if len(e.until) >= echoMax {
		for k, until := range e.until {
			if until <= now {
				delete(e.until, k)
			}
		}
	}
	if len(e.until) < echoMax {
		e.until[echoKey{p.Src, p.Dst, p.ID}] = now + echoTime
	}
}

func (e *echoes) continues(p *wire.Packet, now time.Duration) bool {
	return (p.Proto == wire.ProtoICMP || p.Proto == wire.ProtoICMPv6) && e.until[echoKey{p.Src, p.Dst, p.ID}] > now
}

// limiter contains token buckets by source. A source is an IPv4 address or a /64.
type limiter struct{ full map[netip.Addr]time.Duration }

// Errors to a source: one per limitCost on average, a burst of limitBurst; and the maximum number of sources.
const (
	limitCost    = 50 * time.Millisecond
	limitBurst   = 40
	limitSources = 4096
)

// admit reports whether a source may be sent one more error. full is when its bucket will be full again.
func (l *limiter) admit(source netip.Addr, now time.Duration) bool {
	if source.Is6() {
		p, _ := source.Prefix(64)
		source = p.Addr()
	}
	if l.full == nil {
		l.full = map[netip.Addr]time.Duration{}
	}
	full, known := l.full[source]
	if !known && len(l.full) >= limitSources {
		for a, at := range l.full {
			if at <= now {
				delete(l.full, a)
			}
		}
		if len(l.full) >= limitSources {
			return false
		}
	}
	full = max(full, now) + limitCost
	if full-now > limitBurst*limitCost {
		return false
	}
	l.full[source] = full
	return true
}
