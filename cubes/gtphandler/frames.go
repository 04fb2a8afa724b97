// SPDX-License-Identifier: Apache-2.0

package gtphandler

// Frames that the program hands to user space: addresses are learned and age, broadcasts are copied to sessions, and the cube
// answers as the host that has the local addresses.

import (
	"errors"
	"net/netip"
	"slices"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/gtppath"
	"github.com/polycube/polycube/gtpu"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// Reasons of frames: enum gtphandler_slowpath_reason.
const (
	reasonLearn = gtppath.OwnReason + iota
	reasonGroup
	reasonHost
)

// looked is how many base stations are looked for in a second.
const looked = 100

// frames counts frames: the container `frames` of the model.
type frames struct {
	Copied     uint64 `json:"group-frames-copied"`
	NotCopied  uint64 `json:"not-copied"`
	Learned    uint64 `json:"addresses-learned"`
	Refused    uint64 `json:"addresses-refused"`
	Neighbours uint64 `json:"neighbours-answered"`
	Echoes     uint64 `json:"echo-requests-answered"`
	Invalid    uint64 `json:"invalid"`
}

// packetIn takes a frame of the reasons above.
func (s *sessions) packetIn(in *cube.PacketIn) {
	switch {
	case len(in.Data) < in.Length:
		s.frames.Invalid++
	case in.Reason == reasonLearn:
		s.learn(in)
	case in.Reason == reasonGroup:
		s.copy(in)
	default:
		s.host(in)
	}
}

// again lets the program process a frame once more.
func (s *sessions) again(in *cube.PacketIn, to cube.Direction, teid uint32) {
	s.send(&cube.PacketOut{
		Direction: to, Recirculate: true, Data: in.Data, Trip: in.Trip, TrafficClass: in.TrafficClass, Offload: in.Offload,
		Metadata: [4]uint32{teid},
	})
}

func (s *sessions) send(p *cube.PacketOut) {
	if err := s.env.Send(p); err != nil {
		s.env.Logger().Debug("send a frame", "error", err)
	}
}

// learn learns the source of the frame in a message. The program then decides on the message once more: the address may be that of
// another session, or the session has enough of them.
func (s *sessions) learn(in *cube.PacketIn) {
	ip, err := wire.ParseIP(in.Data)
	var m gtpu.Message
	if err == nil {
		d, ok := ip.Datagram()
		if !ok {
			err = wire.ErrMalformed
		} else {
			m, err = gtpu.Parse(d.Payload)
		}
	}
	is := s.of[m.TEID]
	if err != nil || is == nil || len(m.Payload) < 14 {
		s.frames.Invalid++
		return
	}
	source := wire.Source(m.Payload)
	mac := inet.MACOf(source[:])
	_, learned := s.stations[mac]
	_, fixed := s.fixed[mac]
	if !learned && !fixed && is.row.Fixed == 0 && is.row.Full == 0 {
		if len(s.stations)+len(s.fixed) >= int(s.conf.MaxMACs) {
			s.frames.Refused++
			return
		}
		if err := s.enterStation(mac, is); err != nil {
			s.env.Logger().Error("learn a MAC address", "address", mac, "teid", is.TEID, "error", err)
			return
		}
	}
	s.again(in, cube.Ingress, 0)
}

// enterStation gives a session one more address.
func (s *sessions) enterStation(mac inet.MAC, is *session) error {
	now, err := cube.TimeCoarse()
	if err == nil {
		err = s.places.Set(mac, place{Seen: now, TEID: is.TEID})
	}
	if err != nil {
		return err
	}
	s.stations[mac] = is.TEID
	s.frames.Learned++
	return s.mark(is, number(s.stations)[is.TEID])
}

// mark notes whether a session with that many learned addresses learns no more.
func (s *sessions) mark(is *session, learned int) error {
	if full := is.full(learned); full != is.row.Full {
		is.row.Full = full
		return s.rows.Set(is.TEID, is.row)
	}
	return nil
}

func (s *sessions) sweepNow() {
	if err := s.sweep(); err != nil {
		s.env.Logger().Error("age the learned MAC addresses", "error", err)
	}
}

// sweep forgets the learned addresses that are silent.
func (s *sessions) sweep() error {
	now, err := cube.TimeCoarse()
	if err != nil || len(s.stations) == 0 {
		return err
	}
	var gone []inet.MAC
	for mac, p := range s.places.All(&err) {
		if p.Fixed == 0 && aging.Aged(now, p.Seen, s.limit()) {
			gone = append(gone, mac)
		}
	}
	if err != nil || len(gone) == 0 {
		return err
	}
	if _, err = s.places.DeleteAll(gone); err != nil {
		return err
	}
	for _, mac := range gone {
		delete(s.stations, mac)
	}
	numbers := number(s.stations)
	for teid, is := range s.of {
		err = errors.Join(err, s.mark(is, numbers[teid]))
	}
	return err
}

// copy sends a broadcast or multicast frame to all sessions but the one that it is from.
func (s *sessions) copy(in *cube.PacketIn) {
	s.frames.Copied++
	for teid := range s.of {
		if teid != in.Metadata[0] {
			s.again(in, cube.Egress, teid)
		}
	}
}

// host answers as the host that has the local addresses.
func (s *sessions) host(in *cube.PacketIn) {
	own := wire.MAC(s.own.Bytes())
	var answer []byte
	switch arp, err := wire.ParseARP(in.Data); {
	case err == nil && s.local(arp.Target):
		s.seen(arp.Sender, arp.SenderMAC)
		if arp.Op == wire.ARPReply {
			return
		}
		s.frames.Neighbours++
		answer = wire.ARP{To: arp.SenderMAC, Op: wire.ARPReply, SenderMAC: own, Sender: arp.Target, TargetMAC: arp.SenderMAC, Target: arp.Sender}.Frame()
	case err == nil:
		return // it is about others
	default:
		if answer = s.answer(in.Data, own); answer == nil {
			return
		}
	}
	s.send(&cube.PacketOut{Direction: cube.Egress, Data: answer, Trip: in.Trip})
}

// answer answers a packet of IP: a Neighbor Solicitation, or an echo request.
func (s *sessions) answer(frame []byte, own wire.MAC) []byte {
	if n, err := wire.ParseND(frame); err == nil {
		switch {
		case n.Advertisement:
			s.seen(n.Target, n.Link)
		case s.local(n.Target):
			s.frames.Neighbours++
			a := n.Advertise(own)
			a.Router = false
			return a.Frame()
		}
		return nil
	}
	ip, err := wire.ParseIP(frame)
	switch {
	case err != nil:
		s.frames.Invalid++
	case ip.Echo() && s.local(ip.Dst):
		s.frames.Echoes++
		return ip.EchoReply(wire.Source(frame), own)
	}
	return nil // routers advertise themselves, and errors are about what others have sent
}

// local reports whether an address is one of this end.
func (s *sessions) local(a netip.Addr) bool {
	return slices.ContainsFunc(s.conf.Addresses, func(l gtppath.Address) bool { return l.Address == a })
}

// seen notes where a base station is that was not heard in a tunnel.
func (s *sessions) seen(station netip.Addr, mac wire.MAC) {
	if !mac.Station() {
		return
	}
	if err := s.path.Found(station, inet.MACOf(mac[:])); err != nil {
		s.env.Logger().Error("store the MAC address of a base station", "address", station, "error", err)
	}
}

// look asks for base stations that were not heard, some in each second.
func (s *sessions) look() {
	if s.conf == nil || s.conf.Type != Ethernet || s.own == 0 {
		return
	}
	unheard, err := s.path.Unheard()
	if err != nil {
		s.env.Logger().Error("resolve base stations", "error", err)
		return
	}
	for range min(looked, len(unheard)) {
		s.asked = (s.asked + 1) % len(unheard)
		station := unheard[s.asked]
		if local, ok := s.path.Source(station); ok {
			s.send(&cube.PacketOut{Direction: cube.Egress, Data: neigh.Request(station, wire.MAC{}, s.own.Bytes(), netip.PrefixFrom(local, 0))})
		}
	}
}

// read returns the counters of frames.
func (s *sessions) read(programs counter.Set) (f frames, err error) {
	f = s.frames
	f.NotCopied, err = programs.Sum("not-copied")
	return f, err
}
