// SPDX-License-Identifier: Apache-2.0

package nat

// The maps of nat.h in Go; a test compares the types with the C structs.

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"runtime"
	"time"
	"unsafe"

	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/counter"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
)

// origin is enum nat_origin and, in the map of rules and in sessions, the member whose rule it is.
type origin uint8

// memberShift is NAT_MEMBER_SHIFT.
const memberShift = 2

// kind is the origin without the member, of a member with it.
func (o origin) kind() origin           { return o & (1<<memberShift - 1) }
func (o origin) of(member uint8) origin { return o.kind() | origin(member)<<memberShift }
func (o origin) member() uint8          { return uint8(o >> memberShift) }

const (
	originSnat origin = iota
	originMasquerade
	originDnat
	originForwarding
)

// String returns the model's name.
func (o origin) String() string {
	return originNames[o.kind()]
}

var originNames = [...]string{"snat", "masquerade", "dnat", "portforwarding"}

// port is in network byte order.
type port [2]byte

func portOf(n uint16) (p port) {
	binary.BigEndian.PutUint16(p[:], n)
	return p
}

func (p port) number() uint16 { return binary.BigEndian.Uint16(p[:]) }

// sourceKey is struct nat_source_key.
type sourceKey struct {
	Bits uint32
	Addr inet.Address
}

func sourceKeyOf(p netip.Prefix) sourceKey {
	return sourceKey{Bits: bitsOf(p), Addr: inet.AddressOf(p.Masked().Addr())}
}

// bitsOf returns the length of a prefix in 16-byte addresses.
func bitsOf(p netip.Prefix) uint32 {
	if p.Addr().Is4() {
		return uint32(p.Bits()) + 96
	}
	return uint32(p.Bits())
}

// source is struct nat_source.
type source struct {
	Rule                uint32
	Count               uint32
	First               inet.Address
	PortFirst, PortLast uint16
	Origin              origin
	_                   [3]uint8
}

// forwardKey is struct nat_forward_key.
type forwardKey struct {
	Bits  uint32
	Addr  inet.Address
	Proto uint8
	_     uint8
	Port  port
}

// The lengths of keys of the map `forwards`.
const (
	addressBits = 128
	protoBits   = addressBits + 16
	portBits    = protoBits + 16
)

// forward is struct nat_forward.
type forward struct {
	Rule   uint32
	To     inet.Address
	Port   port
	Base   port
	Origin origin
	_      [3]uint8
}

// Zones of the table of sessions: NAT_IN and NAT_V6, combined.
const (
	zoneOutside = 1 << iota // as seen outside
	zoneIPv6
	zones
)

// key is struct nat_key.
type key struct {
	Local, Remote         inet.Address
	LocalPort, RemotePort port
	Zone                  uint16
	Proto                 uint8
	_                     uint8
}

// entry returns the key as the table has it.
func (k key) entry() conns.Key { return *(*conns.Key)(unsafe.Pointer(&k)) }

// keyOf is the key of a session as seen inside.
func keyOf(internal, remote endpoint, proto uint8) key {
	k := key{Local: inet.AddressOf(internal.addr), Remote: inet.AddressOf(remote.addr), LocalPort: portOf(internal.port),
		RemotePort: portOf(remote.port), Proto: proto}
	if !internal.addr.Unmap().Is4() {
		k.Zone = zoneIPv6
	}
	return k
}

// bare is the key of the mapping of the local endpoint.
func (k key) bare() key {
	return key{Local: k.Local, LocalPort: k.LocalPort, Zone: k.Zone, Proto: k.Proto}
}

// session is struct nat_session: a session, or a mapping, as seen on one side. Its methods are for those as seen inside.
type session struct {
	Key                  key
	Status               uint32
	InSeen               uint32 // units of 2^26 ns, 0: never
	Seen                 uint64
	Progress             conntrack.Progress // side 0 is inside
	Rule                 uint32
	AddrDelta, PortDelta uint16
	Port                 port
	Flags                uint8
	Origin               origin
	Addr                 inet.Address
	Created              uint64
	Packets, Bytes       uint64
	InPackets, InBytes   uint64
}

var _ [unsafe.Sizeof(conns.Entry{})]byte = [unsafe.Sizeof(session{})]byte{}

// sessionOf is an entry of the table as the session that it is.
func sessionOf(e *conns.Entry) *session { return (*session)(unsafe.Pointer(e)) }

// seenUnit is NAT_SEEN_UNIT.
const seenUnit = 26

// inAge is the time since the last packet of the other direction.
func (s *session) inAge(now uint64) (time.Duration, bool) {
	return max(0, time.Duration(int32(uint32(now>>seenUnit)-s.InSeen))<<seenUnit), s.InSeen != 0
}

// twin is the key of the other side.
func (s *session) twin() key {
	k := s.Key
	k.Local, k.LocalPort, k.Zone = s.Addr, s.Port, k.Zone^zoneOutside
	return k
}

func (s *session) internal() endpoint { return endpoint{s.Key.Local.Addr(), s.Key.LocalPort.number()} }
func (s *session) remote() endpoint   { return endpoint{s.Key.Remote.Addr(), s.Key.RemotePort.number()} }
func (s *session) external() endpoint { return endpoint{s.Addr.Addr(), s.Port.number()} }

// is reports whether a flag is set.
func (s *session) is(flag uint8) bool { return s.Flags&flag != 0 }

// isInboundAlone reports whether a session only says that no rule translates a connection from outside. It is neither listed nor
// announced.
func (s *session) isInboundAlone() bool { return s.is(flagOwn) && s.is(flagInbound) }

// The bits of session.Flags that matter here.
const (
	// flagMapping: not a session but the claim of an external endpoint.
	flagMapping = 1 << 0
	// flagInbound: the first packet came from outside.
	flagInbound = 1 << 1
	// flagOwn: the address stays.
	flagOwn = 1 << 4
	// flagMapped: packets from outside find the session through its mapping; it is not in the table as seen outside.
	flagMapped = 1 << 5
)

// endpoint is an address with a port, or with the id of ICMP queries.
type endpoint struct {
	addr netip.Addr
	port uint16
}

// tables are the maps.
type tables struct {
	env      cube.Env
	sources  table.Table[sourceKey, source]
	forwards table.Table[forwardKey, forward]
	members  table.Table[uint32, member]
	counters counter.Set
	// sessions is nil before the steps of the first plan.
	sessions *conns.Table
}

func newTables(env cube.Env) tables {
	return tables{env: env, sources: table.New[sourceKey, source](env, "sources"), forwards: table.New[forwardKey, forward](env, "forwards"),
		members: table.New[uint32, member](env, "members"), counters: counters.In(env, "counters")}
}

// open opens the table of sessions, with room for a number of them if it is new.
func (t *tables) open(most uint32) (err error) {
	t.sessions, err = conns.Open(t.env, entriesFor(most))
	return err
}

func (t *tables) close() error {
	if t.sessions == nil {
		return nil
	}
	err := t.sessions.Close()
	t.sessions = nil
	return err
}

// limits are how many entries each zone may have: a session may have its own mapping, and has one entry as seen outside: its
// mapping's or, without one, its own. IPv6, which rarely needs a NAT, gets a quarter.
func limits(most uint32) [zones]uint32 {
	return [zones]uint32{0: 2 * most, zoneOutside: most, zoneIPv6: most / 2, zoneIPv6 | zoneOutside: most / 4}
}

// entriesFor is how many entries the table needs: some may have ended and not be removed yet, or be kept by CPUs.
func entriesFor(most uint32) int {
	sum := 32 * runtime.NumCPU()
	for _, limit := range limits(most) {
		sum += int(limit)
	}
	return sum + int(most/8)
}

// resize changes the number of sessions. It refuses one that is too small for those that exist.
func (t *tables) resize(most uint32) error {
	if _, err := t.sessions.Remove(func(*conns.Entry) bool { return false }); err != nil {
		return err
	}
	for zone, limit := range limits(most) {
		if n := t.sessions.Count(uint16(zone)); uint32(n) > limit {
			return fmt.Errorf("max-sessions %d: %d entries do not fit: the limit would be %d: %w", most, n, limit, cube.ErrFull)
		}
	}
	if t.sessions.Size() != entriesFor(most) {
		if err := t.sessions.Resize(entriesFor(most)); err != nil {
			return err
		}
	}
	t.limit(most)
	return nil
}

// limit sets the limits of the zones.
func (t *tables) limit(most uint32) {
	for zone, limit := range limits(most) {
		t.sessions.Limit(uint16(zone), limit)
	}
}

// find returns the session with a key.
func (t *tables) find(k key) (session, bool) {
	e, ok := t.sessions.Find(k.entry())
	return *sessionOf(&e), ok
}
