// SPDX-License-Identifier: Apache-2.0

package nat

// Reading sessions: in pages, one by one, or all if there are few.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/conntrack"
	conns "github.com/polycube/polycube/conntrack/table"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// shownWhole is the maximum number of sessions shown when the whole cube is read.
const shownWhole = 1000

// entry is an entry of the list `natting-table`.
type entry struct {
	InternalSrc     netip.Addr `json:"internal-src"`
	InternalDst     netip.Addr `json:"internal-dst"`
	InternalSport   uint16     `json:"internal-sport"`
	InternalDport   uint16     `json:"internal-dport"`
	Proto           string     `json:"proto"`
	OriginatingRule string     `json:"originating-rule"`
	RuleID          *uint32    `json:"rule-id,omitempty"`
	ExternalIP      netip.Addr `json:"external-ip"`
	ExternalPort    uint16     `json:"external-port"`
	State           string     `json:"state"`
	Age             uint32     `json:"age"`
	Expires         uint32     `json:"expires"`
	Duration        uint32     `json:"duration"`
	PacketsOut      uint64     `json:"packets-out"`
	BytesOut        uint64     `json:"bytes-out"`
	PacketsIn       uint64     `json:"packets-in"`
	BytesIn         uint64     `json:"bytes-in"`
}

// The states of a session.
const (
	stateOpening     = "opening"
	stateEstablished = "established"
	stateClosing     = "closing"
)

// stateOf returns the model's name: a connection that one side has closed is established as long as the other sends.
func stateOf(p *conntrack.Progress) string {
	switch {
	case p.State >= conntrack.LastAck:
		return stateClosing
	case p.Replied() && (p.State >= conntrack.Open || p.State == conntrack.Replied):
		return stateEstablished
	}
	return stateOpening
}

// protocols are the protocols that `natting-table` shows by name.
var protocols = inet.Protocols.LowerCase(inet.TCP, inet.UDP, inet.ICMP, inet.ICMPv6, inet.SCTP)

func protoName(proto uint8) string { return protocols.Name(inet.Protocol(proto)) }

func protoOf(name string) (uint8, error) {
	proto, ok := protocols.Parse(strings.ToLower(name))
	if !ok {
		return 0, fmt.Errorf("protocol %.20q: %w", name, cube.ErrNotFound)
	}
	return uint8(proto), nil
}

// show returns a session as shown.
func (n *nat) show(is *session, now uint64) entry {
	is.adopt()
	age := aging.Age(now, is.Seen)
	inPackets, inBytes := is.InPackets, is.InBytes
	inAge, received := is.inAge(now)
	if !is.is(flagMapped) {
		var other session
		other, received = n.tables.find(is.twin())
		inAge, inPackets, inBytes = aging.Age(now, other.Seen), other.Packets, other.Bytes
	}
	if received {
		age = min(age, inAge)
	}
	timeout := n.group.timeout(is.Origin.member(), n.config.Timeout).of(is)
	internal, remote, external := is.internal(), is.remote(), is.external()
	e := entry{
		InternalSrc: internal.addr, InternalDst: remote.addr, InternalSport: internal.port, InternalDport: remote.port,
		Proto: protoName(is.Key.Proto), OriginatingRule: is.Origin.String(), ExternalIP: external.addr, ExternalPort: external.port,
		State: stateOf(&is.Progress), Age: seconds(age), Expires: seconds(max(0, timeout-age)), Duration: seconds(aging.Age(now, is.Created)),
		PacketsOut: is.Packets, BytesOut: is.Bytes, PacketsIn: inPackets, BytesIn: inBytes,
	}
	if is.Origin.kind() != originMasquerade && !n.config.hasTable() {
		e.RuleID = &is.Rule
	}
	return e
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// Page returns a page of sessions, in no particular order.
func (n *nat) Page(_ context.Context, path []string, q cube.PageQuery) (page cube.Page, err error) {
	if !slices.Equal(path, []string{"natting-table"}) {
		return cube.Page{}, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	cursor := uint64(0)
	if q.After != "" {
		if cursor, err = strconv.ParseUint(q.After, 10, 24); err != nil {
			return page, fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", q.After, cube.ErrInvalid)
		}
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return page, err
	}
	_, next := n.tables.sessions.Page(uint32(cursor), q.Limit, func(e *conns.Entry) bool {
		is := sessionOf(e)
		if is.is(flagMapping) || is.isInboundAlone() || is.Key.Zone&zoneOutside != 0 || err != nil {
			return false
		}
		var raw json.RawMessage
		if raw, err = n.raw(is, now); err != nil || q.Matches != nil && !q.Matches(raw) {
			return false
		}
		page.Entries = append(page.Entries, raw)
		return true
	})
	if next != 0 {
		page.Next = strconv.Itoa(int(next))
	}
	return page, err
}

func (n *nat) raw(is *session, now uint64) (json.RawMessage, error) {
	raw, err := json.Marshal(n.show(is, now))
	if err != nil {
		return nil, fmt.Errorf("encode a session: %w", err)
	}
	return raw, nil
}

// sessionKeys are the keys of an entry of `natting-table`.
type sessionKeys struct {
	internal, remote endpoint
	proto            uint8
}

// parseKeys parses the five keys. Invalid ones match no session.
func parseKeys(words []string) (k sessionKeys, err error) {
	if len(words) != 5 {
		return k, fmt.Errorf("natting-table %s: %w", strings.Join(words, " "), cube.ErrNotFound)
	}
	for i, e := range []*endpoint{&k.internal, &k.remote} {
		if e.addr, err = netip.ParseAddr(words[i]); err != nil {
			return k, fmt.Errorf("address %.40q: %w", words[i], cube.ErrNotFound)
		}
		var ok bool
		if e.port, ok = inet.ParsePort(words[2+i]); !ok {
			return k, fmt.Errorf("port %.20q: %w", words[2+i], cube.ErrNotFound)
		}
	}
	if k.internal.addr.Is4() != k.remote.addr.Is4() {
		return k, fmt.Errorf("%s and %s are of different address families: %w", k.internal.addr, k.remote.addr, cube.ErrNotFound)
	}
	k.proto, err = protoOf(words[4])
	return k, err
}

// one returns a session, or nil.
func (n *nat) one(words []string) (json.RawMessage, error) {
	k, err := parseKeys(words)
	if err != nil {
		return nil, nil //nolint:nilerr // it is no session
	}
	is, ok := n.tables.find(keyOf(k.internal, k.remote, k.proto))
	if !ok || is.is(flagMapping) || is.isInboundAlone() {
		return nil, nil
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	return n.raw(&is, now)
}

// DeleteState ends one session, or all.
func (n *nat) DeleteState(_ context.Context, path []string) error {
	if len(path) == 0 || path[0] != "natting-table" {
		return fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	defer n.sweep.sweepNow()
	if len(path) == 1 {
		return n.flush()
	}
	k, err := parseKeys(path[1:])
	if err != nil {
		return err
	}
	is, ok := n.tables.find(keyOf(k.internal, k.remote, k.proto))
	if !ok || is.is(flagMapping) {
		return fmt.Errorf("no such session: %w", cube.ErrNotFound)
	}
	n.end(&is)
	n.tables.sessions.End(is.Key.entry())
	return nil
}

// end stops packets from outside for a session that is about to end.
func (n *nat) end(is *session) {
	if !is.is(flagMapped) {
		n.tables.sessions.End(is.twin().entry())
	}
}

// flush ends all sessions and mappings: packets from outside are stopped first.
func (n *nat) flush() error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	n.flushed, n.sweep.last = now, nil
	return n.tables.removeAll(func(*session) bool { return true })
}
