// SPDX-License-Identifier: Apache-2.0

package router

// Packets that the fast path cannot finish: those with an unknown neighbour, those that must be answered with an error,
// those for the router itself, and those that must be fragmented. Anybody may have sent them. Their rate is limited in
// the program (punt.h), by port and kind; the state kept about them is limited here.

import (
	"encoding/binary"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/neigh"
	"github.com/polycube/polycube/wire"
)

// The reasons of packets, enum router_slowpath_reason of the program.
const (
	reasonUnresolved uint16 = 32 + iota
	reasonHostFailed
	reasonTimeExceeded
	reasonNoRoute
	reasonUnreachableRoute
	reasonProhibitRoute
	reasonTooBig
	reasonFragment
	reasonBeyondScope
	reasonLocal
	reasonARP
	reasonND
)

// noticeStale is ROUTER_NOTIFY_STALE: a stale neighbour is used.
const noticeStale = 1

// slow is the slow path of a router.
type slow struct {
	env cube.Env
	r   *router
	// detect says whether new addresses are checked for duplicates.
	detect bool
	// committing is set while a change is being applied: the router's own packets would not reach their destination
	// then. later are the requests of that time.
	committing bool
	later      []question

	neighbours table.Table[addressKey, neighbourEntry]
	addresses  table.Table[addressKey, addressEntry]
	table      *neigh.Table[*held]
	claims     *neigh.Claims
	ports      map[uint16]*portState
	up         map[uint16]bool
	limiter    limiter
	echoes     echoes
	counters   slowCounters
	ids        uint16 // of IPv4 packets
	// fresh says that no ports are known yet, restored that the maps come from a previous run of the router.
	fresh, restored bool
	stop            func()
}

// slowCounters are the container `slow-path`.
type slowCounters struct {
	ErrorsSent       uint64 `json:"icmp-errors-sent"`
	ErrorsSuppressed uint64 `json:"icmp-errors-suppressed"`
	EchoReplies      uint64 `json:"echo-replies"`
	Fragments        uint64 `json:"fragments-created"`
	Malformed        uint64 `json:"malformed"`
	Resolved         uint64 `json:"neighbours-resolved"`
	Unanswered       uint64 `json:"neighbours-unanswered"`
	TableFull        uint64 `json:"neighbours-not-learned"`
	Queued           uint64 `json:"packets-queued"`
	Released         uint64 `json:"packets-released"`
	Expired          uint64 `json:"packets-expired"`
	QueueFull        uint64 `json:"packets-queue-full"`
	Refused          uint64 `json:"packets-refused"`
}

// question is a request to a neighbour.
type question struct {
	key neigh.Key
	to  wire.MAC
}

// held is a queued packet.
type held struct {
	// out says that it is one of the router's own, which leaves by port; others re-enter at the port where they
	// came in.
	out     bool
	port    uint16
	key     neigh.Key
	class   uint32
	trip    cube.Trip
	offload cube.Offload
	data    []byte
}

// tick is the interval of checks for due work.
const tick = 100 * time.Millisecond

// room is the number of entries that strangers can fill: a quarter is reserved for configured ones.
func room(entries uint32) neigh.Limits {
	return neigh.Limits{
		Entries: int(entries) / 4 * 3, PortEntries: int(entries) / 2,
		Incomplete: 1024, PortIncomplete: 256, SourceIncomplete: 32,
		Queue: 8, Bytes: 4 << 20, PortBytes: 1 << 20,
	}
}

// newSlow creates the slow path, which is inactive until begin.
func newSlow(env cube.Env, r *router) *slow {
	return &slow{env: env, r: r, neighbours: r.t.neighbours, addresses: r.t.addresses, up: map[uint16]bool{}}
}

// begin adopts the configuration and, the first time, the maps of a previous run of the router. The returned function
// undoes it.
func (s *slow) begin(conf *Config, entries uint32) (undo func(), err error) {
	detect := s.detect
	s.detect = conf.Arp.DuplicateDetection
	aging := time.Duration(conf.Arp.AgingTime) * time.Second
	if s.table != nil {
		was := s.table.Timing().Aging
		s.table.Resize(room(entries))
		s.table.Retime(aging, clock())
		return func() {
			s.detect = detect
			s.table.Retime(was, clock())
		}, nil
	}
	timing := neigh.DefaultTiming
	timing.Aging = aging
	s.table = neigh.New[*held](s, room(entries), timing, func(err error) {
		s.env.Logger().Error("write neighbour state", "error", err)
	})
	s.claims = neigh.NewClaims(s)
	s.fresh = true
	for _, p := range s.r.t.ports.All(&err) {
		s.restored = s.restored || p.Mac != 0
	}
	if err != nil {
		return nil, err
	}
	if s.stop == nil {
		s.stop = s.env.Every(tick, s.tick)
	}
	return func() { s.table, s.ports = nil, nil }, s.restore()
}

// count returns the counters, including those of the table.
func (s *slow) count() *slowCounters {
	if s.table == nil {
		return nil
	}
	c, n := s.counters, s.table.Counters
	c.Resolved, c.Unanswered, c.TableFull = n.Resolved, n.Unanswered, n.TableFull
	c.Queued, c.Released, c.Expired, c.QueueFull, c.Refused = n.Waited, n.Released, n.Expired, n.QueueFull, n.Refused
	return &c
}

// restore reads the neighbours of a previous run.
func (s *slow) restore() error {
	now := clock()
	type found struct {
		key addressKey
		is  neighbourEntry
	}
	var all []found
	var err error
	for k, n := range s.neighbours.All(&err) {
		all = append(all, found{k, n})
	}
	for _, f := range all {
		s.table.Restore(f.key.key(), wire.MAC(f.is.Mac.Bytes()), neigh.State(f.is.State), time.Duration(f.is.Confirmed), now)
	}
	return err
}

// clock returns the time of pcn_time_coarse.
func clock() time.Duration {
	now, err := cube.TimeCoarse()
	if err != nil {
		panic(err) // every supported kernel has it, and the first reading happens before the router is in use
	}
	return time.Duration(now)
}

func (s *slow) tick() {
	if s.table == nil {
		return
	}
	now := clock()
	for _, q := range s.later {
		s.Ask(q.key, q.to)
	}
	s.later = nil
	s.table.Tick(now)
	if at, ok := s.claims.Next(); ok && at <= now {
		s.claims.Tick(now)
	}
}

// packetIn processes a packet from the fast path.
func (s *slow) packetIn(p *cube.PacketIn) {
	if s.table == nil {
		return
	}
	switch p.Reason {
	case reasonUnresolved:
		s.unresolved(p)
	case reasonHostFailed:
		s.refuse(p, wire.NoNeighbour, 0)
	case reasonTimeExceeded:
		s.refuse(p, wire.TimeExceeded, 0)
	case reasonNoRoute:
		s.refuse(p, wire.NoRoute, 0)
	case reasonUnreachableRoute:
		s.refuse(p, wire.RouteUnreachable, 0)
	case reasonProhibitRoute:
		s.refuse(p, wire.Prohibited, 0)
	case reasonBeyondScope:
		s.refuse(p, wire.BeyondScope, 0)
	case reasonTooBig:
		s.refuse(p, wire.TooBig, int(p.Metadata[1]))
	case reasonFragment:
		s.fragment(p, int(p.Metadata[1]))
	case reasonLocal:
		s.local(p)
	case reasonARP:
		s.arp(p)
	case reasonND:
		s.nd(p)
	}
}

// notify processes a message from the fast path.
func (s *slow) notify(kind uint32, data []byte) {
	var k addressKey
	if kind != noticeStale || s.table == nil || len(data) != binary.Size(k) {
		return
	}
	copy(k.Address[:], data)
	k.Port = binary.NativeEndian.Uint16(data[len(k.Address):])
	s.table.Used(k.key(), clock())
}

// unresolved processes a packet whose neighbour the fast path does not know.
func (s *slow) unresolved(p *cube.PacketIn) {
	ip, err := wire.ParseIP(p.Data)
	if err != nil {
		s.counters.Malformed++
		return
	}
	k := neigh.Key{Addr: ip.Dst, Port: uint16(p.Metadata[0])}
	if gateway, ok := s.r.hops.address(p.Metadata[1]); ok {
		k.Addr = gateway
	}
	if _, ok := s.ports[k.Port]; !ok {
		return // the port was deleted while the packet was in transit
	}
	s.table.Packet(k, neigh.Origin{Port: p.Port, Source: ip.Src}, hold(p), len(p.Data), clock())
}

// hold copies a packet.
func hold(p *cube.PacketIn) *held {
	return &held{port: p.Port, class: p.TrafficClass, trip: p.Trip, offload: p.Offload, data: append([]byte(nil), p.Data...)}
}

// packet is the inverse of hold.
func (h *held) packet() *cube.PacketIn {
	return &cube.PacketIn{Port: h.port, TrafficClass: h.class, Trip: h.trip, Offload: h.offload, Data: h.data, Length: len(h.data)}
}

// send sends a frame of the router out of a port, if the port has a peer: a frame without a receiver is not counted as
// lost.
func (s *slow) send(port uint16, frame []byte) {
	if !s.up[port] {
		return
	}
	if err := s.env.Send(&cube.PacketOut{Port: port, Direction: cube.Egress, Data: frame}); err != nil {
		s.env.Logger().Debug("send a packet from the router", "port", port, "error", err)
	}
}

// again sends a packet through the fast path once more.
func (s *slow) again(p *cube.PacketIn, frame []byte) {
	err := s.env.Send(&cube.PacketOut{
		Port: p.Port, Direction: cube.Ingress, TrafficClass: p.TrafficClass, Trip: p.Trip, Offload: p.Offload, Data: frame,
	})
	if err != nil {
		s.env.Logger().Debug("forward a packet", "port", p.Port, "error", err)
	}
}

// fragment fragments a packet; the fragments go through the fast path.
func (s *slow) fragment(p *cube.PacketIn, mtu int) {
	ip, err := wire.ParseIP(p.Data)
	if err != nil {
		s.counters.Malformed++
		return
	}
	pieces, err := ip.Fragments(mtu)
	if err != nil {
		s.counters.Malformed++
		return
	}
	p.Offload = cube.Offload{}
	for _, frame := range pieces {
		s.counters.Fragments++
		s.again(p, frame)
	}
}
