// SPDX-License-Identifier: Apache-2.0

package nat

// Reading sessions: in pages, one by one, or all if there are few.

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/aging"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
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

func stateOf(proto uint8, state uint32) string {
	const fins = outFIN | inFIN
	switch {
	case inet.Protocol(proto) == inet.TCP && (state&(outRST|inRST) != 0 || state&fins == fins):
		return stateClosing
	case state&outACK != 0 && state&inACK != 0:
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

// show returns a session as shown. in is the information of the other direction.
func (n *nat) show(is session, in half, now uint64) entry {
	timeout := n.config.Timeout.of(is.proto, is.State)
	age := aging.Age(now, is.Seen)
	if in.Seen != 0 {
		age = min(age, aging.Age(now, in.Seen))
	}
	e := entry{
		InternalSrc: is.internal.addr, InternalDst: is.remote.addr, InternalSport: is.internal.port, InternalDport: is.remote.port,
		Proto: protoName(is.proto), OriginatingRule: is.Origin.String(), ExternalIP: is.external.addr, ExternalPort: is.external.port,
		State: stateOf(is.proto, is.State), Age: seconds(age), Expires: seconds(max(0, timeout-age)), Duration: seconds(aging.Age(now, is.Created)),
		PacketsOut: is.Packets, BytesOut: is.Bytes, PacketsIn: in.Packets, BytesIn: in.Bytes,
	}
	if is.Origin != originMasquerade {
		e.RuleID = &is.Rule
	}
	return e
}

func seconds(d time.Duration) uint32 { return uint32(d / time.Second) }

// Page returns a page of sessions. IPv4 comes first.
func (n *nat) Page(_ context.Context, path []string, q cube.PageQuery) (cube.Page, error) {
	if !slices.Equal(path, []string{"natting-table"}) {
		return cube.Page{}, fmt.Errorf("%s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	which, after, _ := strings.Cut(q.After, ".")
	q.After = after
	switch which {
	case "", "4":
		page, err := pageOf(n, &n.tables.v4, q)
		if page.Next != "" {
			page.Next = "4." + page.Next
		} else {
			page.Next = "6." // the next page contains the rest
		}
		return page, err
	case "6":
		page, err := pageOf(n, &n.tables.v6, q)
		if page.Next != "" {
			page.Next = "6." + page.Next
		}
		return page, err
	}
	return cube.Page{}, fmt.Errorf("after %.80q: not a position in the list: use the value from the previous page: %w", q.After, cube.ErrInvalid)
}

// pageOf reads a page of one family.
func pageOf[K comparable, V any](n *nat, f *family[K, V], q cube.PageQuery) (page cube.Page, err error) {
	now, err := cube.TimeCoarse()
	if err != nil {
		return page, err
	}
	shown := map[K]json.RawMessage{}
	var failed error
	keep := func(k K, v V) bool {
		if f.half(v).Flags&flagMapping != 0 {
			return false
		}
		raw, err := rawEntry(n, f, k, v, now)
		if err != nil {
			failed = err
			return false
		}
		if q.Matches != nil && !q.Matches(raw) {
			return false
		}
		shown[k] = raw
		return true
	}
	entries, next, err := f.egress.Page(q.After, q.Limit, keep)
	if err == nil {
		err = failed
	}
	if err != nil {
		return page, err
	}
	page.Next = next
	for _, e := range entries {
		page.Entries = append(page.Entries, shown[e.Key])
	}
	return page, nil
}

func rawEntry[K comparable, V any](n *nat, f *family[K, V], k K, v V, now uint64) (json.RawMessage, error) {
	other, err := otherHalf(f, k, v)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(n.show(f.session(k, v), other, now))
	if err != nil {
		return nil, fmt.Errorf("encode a session: %w", err)
	}
	return raw, nil
}

// otherHalf returns the other direction of a session of the egress table: all 0 if that is gone.
func otherHalf[K comparable, V any](f *family[K, V], k K, v V) (half, error) {
	if is := f.session(k, v); is.Flags&flagMapped != 0 {
		return is.in.half(), nil
	}
	other, _, err := f.ingress.Get(f.twin(k, v))
	return f.half(other), err
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
	if k.internal.addr.Is4() {
		return oneOf(n, &n.tables.v4, k)
	}
	return oneOf(n, &n.tables.v6, k)
}

func oneOf[K comparable, V any](n *nat, f *family[K, V], keys sessionKeys) (json.RawMessage, error) {
	k := f.key(keys.internal, keys.remote, keys.proto)
	v, ok, err := f.egress.Get(k)
	if err != nil || !ok || f.half(v).Flags&flagMapping != 0 {
		return nil, err
	}
	now, err := cube.TimeCoarse()
	if err != nil {
		return nil, err
	}
	return rawEntry(n, f, k, v, now)
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
	if k.internal.addr.Is4() {
		return deleteOne(&n.tables.v4, k)
	}
	return deleteOne(&n.tables.v6, k)
}

func deleteOne[K comparable, V any](f *family[K, V], keys sessionKeys) error {
	k := f.key(keys.internal, keys.remote, keys.proto)
	v, ok, err := f.egress.Get(k)
	if err != nil {
		return err
	}
	if !ok || f.half(v).Flags&flagMapping != 0 {
		return fmt.Errorf("no such session: %w", cube.ErrNotFound)
	}
	if f.half(v).Flags&flagMapped != 0 {
		return dropSessions(f, nil, []K{k})
	}
	return dropSessions(f, []K{f.twin(k, v)}, []K{k})
}

// flushTime limits the time of a request to end all sessions; the next sweep ends the rest.
const flushTime = 5 * time.Second

// flush ends all sessions and mappings: packets from outside are stopped first.
func (n *nat) flush() error {
	now, err := cube.TimeCoarse()
	if err != nil {
		return err
	}
	n.flushed, n.sweep.last = now, nil
	until := time.Now().Add(flushTime)
	for _, empty := range []func() error{
		func() error { return drain(n.tables.v4.ingress, until) }, func() error { return drain(n.tables.v6.ingress, until) },
		func() error { return drain(n.tables.v4.egress, until) }, func() error { return drain(n.tables.v6.egress, until) },
	} {
		if err := empty(); err != nil {
			return err
		}
	}
	return nil
}

// drain empties a table within the time limit.
func drain[K comparable, V any](table table.Table[K, V], until time.Time) (err error) {
	taken := 0
	for range table.Drain(&err) {
		if taken++; taken%1024 == 0 && time.Now().After(until) {
			break
		}
	}
	return err
}
