// SPDX-License-Identifier: Apache-2.0

package nat

// A NAT and the oracle in parallel: both process each packet and each change.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

// rig is a NAT between two ports that processes all packets.
type rig struct {
	*bpftest.Lab
	t      testing.TB
	name   string
	nat    *nat
	tables *tables
	wires  []*bpftest.Wire // with live
	totals wireTotals
	pass   func(in bool, frame []byte) (bpftest.Outcome, []byte, error)
	o      *oracle
	base   [len(oracle{}.counted)]uint64 // the counters when the sequence began
	seen   map[int]*passage
	trail  []trace
	ends   map[string]int // how packets ended
	doing  op
}

// trace is the result of an operation's packet.
type trace struct {
	op
	in         bool
	frame, got []byte
	want       string // the required result
	fate       string
}

func (e trace) String() string {
	dir := map[bool]string{false: "out", true: "in"}[e.in]
	return fmt.Sprintf("%s\n\t%s %x\n\twant %s; %s %x", e.op, dir, e.frame, e.want, e.fate, e.got)
}

// fuzzSessions is max-sessions: small, so that the tables of IPv6 are full sometimes.
const fuzzSessions = 1024

// newRig creates a rig at the hook of a type, whose packets are run or, with live, sent.
func newRig(t testing.TB, typ cube.Type, live bool) *rig {
	r := &rig{t: t, name: strings.ToLower(string(typ)), ends: map[string]int{}}
	ours := modeltest.Service(t, files)
	services := slices.DeleteFunc(slices.Clone(cube.Services()), func(s cube.Service) bool { return s.Model == ours.Model })
	ours.New = func(env cube.Env) (cube.Instance, error) { r.nat = newNAT(env); return r.nat.instance(), nil }
	services = append(services, ours)
	o := bpftest.Options{Hosts: 2, Type: typ, Services: services}
	if live {
		r.name += " on the wire"
	}
	r.Lab = bpftest.New(t, o)
	newBench(t, r.Lab, fmt.Sprintf(`{"max-sessions":%d,"timeout":{"tcp-transitory":3600,"udp":3600,"icmp":3600,"other":3600}}`, fuzzSessions))
	r.tables = tablesOf(t, r.Lab)
	r.pass = func(in bool, frame []byte) (bpftest.Outcome, []byte, error) {
		return r.TryBytes(map[bool]string{false: "veth1", true: "veth2"}[in], frame)
	}
	if live {
		r.wires = r.Wires()
		r.pass = func(in bool, frame []byte) (bpftest.Outcome, []byte, error) {
			return r.TryWire(r.wires, map[bool]int{false: 0, true: 1}[in], frame)
		}
	}
	return r
}

// run executes a sequence of operations from the beginning, and returns what went wrong.
func (r *rig) run(start Behaviour, ops []op) error {
	if err := r.reset(start); err != nil {
		return fmt.Errorf("%s: beginning: %w", r.name, err)
	}
	for _, o := range ops {
		r.doing = o
		if err := r.do(o); err != nil {
			return fmt.Errorf("%s: %s: %w", r.name, o, err)
		}
	}
	if err := r.settle(); err != nil {
		return fmt.Errorf("%s: in the end: %w", r.name, err)
	}
	return nil
}

// do does an operation.
func (r *rig) do(o op) error {
	if !slices.Contains(packets, o.verb) {
		if err := r.change(o); err != nil {
			return err
		}
		return r.settle()
	}
	in, frame, ok := o.build(r.seen)
	if !ok {
		return nil
	}
	if err := r.send(in, frame); err != nil {
		return err
	}
	if r.o.loose {
		return r.settle()
	}
	return nil
}

// send gives a frame to the NAT and compares the result with the oracle's.
func (r *rig) send(in bool, frame []byte) error {
	out, got, err := r.pass(in, frame)
	if errors.Is(err, bpftest.ErrRefused) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%x: %w", frame, err)
	}
	v := &verdict{rig: r, in: in, frame: frame, sight: dissect(frame), out: out, got: got}
	err = v.hold()
	r.trail = append(r.trail, trace{r.doing, in, frame, got, v.want, out.Fate + out.Sent})
	r.ends[v.end()]++
	if err != nil {
		return fmt.Errorf("%w\n%s", err, r.trail[len(r.trail)-1])
	}
	return nil
}

// verdict is the result of one packet, and the required one.
type verdict struct {
	*rig
	in    bool
	frame []byte
	sight *sight
	out   bpftest.Outcome
	got   []byte
	want  string
	// outside is set if the packet must leave to the outside. expected is its required form, without checksums if
	// it is translated.
	outside, translated bool
	expected            []byte
}

// end names the result of the packet.
func (v *verdict) end() string {
	kind := v.sight.look.String()
	if v.out.Verdict == "drop" {
		return strings.TrimPrefix(v.out.Fate, "n ") + ": " + kind
	}
	return fmt.Sprintf("%s: %s", strings.Fields(v.want)[0], kind)
}

// hold compares the packet with the oracle's ruling.
func (v *verdict) hold() error {
	rule := v.o.rule(v.sight, v.in)
	v.outside, v.expected, v.want = !v.in, v.frame, rule.String()
	if rule.opens != nil {
		f, err := v.opened(rule.opens)
		if err != nil || f == nil {
			return err
		}
		rule.flow, rule.to = f, f.external
	}
	if rule.sender != nil {
		if err := v.resent(rule.sender); err != nil {
			return err
		}
	}
	v.apply(v.sight, rule, v.in)
	if rule.turns {
		rule = v.turned()
	}
	if rule.drop != "" {
		if v.out.Verdict != "drop" || v.out.Fate != "n "+rule.drop || v.out.Sent != "" {
			return fmt.Errorf("it is counted as %+v, want it dropped as %s", v.out, rule.drop)
		}
		return nil
	}
	port := map[bool]string{true: "f:p2", false: "f:p1"}[v.outside]
	if v.out.Verdict != "send" || v.out.Sent != port || v.out.Fate != "" {
		return fmt.Errorf("it is counted as %+v, want it sent by %s", v.out, port)
	}
	if !v.translated && !bytes.Equal(v.got, v.expected) {
		return errors.New("it changed, and should not")
	}
	if err := v.sight.differ(v.frame, v.expected, v.got); err != nil {
		return err
	}
	v.remember()
	return nil
}

// apply is the required result of one direction for the packet.
func (v *verdict) apply(s *sight, rule ruling, in bool) {
	if rule.drop != "" || rule.same || rule.sender != nil {
		return
	}
	v.o.seen(s, in, len(v.frame), rule.flow, rule.to, rule.turns)
	v.expected, v.translated = s.translated(v.expected, in, rule.to), true
}

// resent is an ICMP error that has to leave with an external address as its sender's.
func (v *verdict) resent(p *opening) error {
	if v.out.Verdict == "drop" {
		return nil // that is an error below
	}
	at := dissect(v.got).from
	if !slices.Contains(v.o.addresses(p), at.addr) {
		return fmt.Errorf("its sender is %s, want one of %v", at.addr, v.o.addresses(p))
	}
	v.o.paired(p, at.addr)
	v.expected, v.translated = bytes.Clone(v.frame), true
	v.sight.write(v.expected, false, at)
	return nil
}

// turned sends the packet back in.
func (v *verdict) turned() ruling {
	v.o.counted[hairpinned]++
	v.outside, v.expected = false, bytes.Clone(v.expected)
	copy(v.expected, v.frame[6:12])
	copy(v.expected[6:], v.frame[:6])
	s := dissect(v.expected)
	rule := v.o.rule(s, true)
	v.want += ", turned: " + rule.String()
	v.apply(s, rule, true)
	return rule
}

// opened is the session that the packet had to open, nil if it was refused as it had to be.
func (v *verdict) opened(p *opening) (*flow, error) {
	dropped, reason := v.out.Verdict == "drop", strings.TrimPrefix(v.out.Fate, "n ")
	if dropped && (!p.turns || reason == p.refused || slices.Contains(p.perhaps, reason)) {
		v.want += ", refused: " + reason
		left, err := v.o.refuse(p, reason)
		if err == nil && left {
			err = v.left(p)
		}
		return nil, err
	}
	var at endpoint
	if !dropped {
		at, _ = dissect(v.got).sides(false)
	}
	if dropped || p.turns && v.sight.look == query || p.perhaps != nil {
		// On the way back in, the packet was dropped, or changed again; or it is unknown whether there is a
		// mapping.
		var alone bool
		var err error
		if at, alone, err = v.entry(p.pair); err != nil {
			return nil, err
		}
		if !p.alone && alone { // it was refused although its mapping was created
			if err := v.left(p); err != nil {
				return nil, err
			}
			p.alone = true
		}
	}
	f, err := v.o.chosen(p, at)
	if err == nil {
		v.want += fmt.Sprintf(" as %v", at)
	}
	return f, err
}

// left records the mapping that a refused session left.
func (v *verdict) left(p *opening) error {
	at, _, err := v.entry(pair{p.local, endpoint{addr: unspecifiedLike(p.local.addr)}, p.proto})
	if err == nil {
		_, err = v.o.claim(p, at)
	}
	v.o.loose = true
	return err
}

// entry returns the external endpoint of a session or, without a remote address, a mapping from the table, and whether it has
// no mapping.
func (r *rig) entry(k pair) (at endpoint, alone bool, err error) {
	key := keyOf(k.local, k.remote, k.proto)
	if k.remote.addr.IsUnspecified() {
		key = key.bare()
	}
	s, ok := r.tables.find(key)
	if !ok {
		return endpoint{}, false, fmt.Errorf("there is no session %v", k)
	}
	return s.external(), !s.is(flagMapped), nil
}

// remember stores a packet that came out for others that refer to it.
func (v *verdict) remember() {
	after := dissect(v.got)
	if slices.Contains([]look{ported, unchanging, query, portless}, after.look) && after.look == v.sight.look {
		v.seen[v.doing.id] = &passage{in: v.in, outside: v.outside, translated: v.translated, got: v.got, before: v.sight, after: after}
	}
}

func (r ruling) String() string {
	switch {
	case r.drop != "":
		return r.drop
	case r.same:
		return "untouched"
	case r.sender != nil:
		return fmt.Sprintf("sent with another address than %s", r.sender.local.addr)
	case r.opens != nil:
		return fmt.Sprintf("opened for %v, turned %v", r.opens.pair, r.turns)
	}
	return fmt.Sprintf("translated to %v, turned %v", r.to, r.turns)
}
