// SPDX-License-Identifier: Apache-2.0

package nat

// The rules. There may be ten thousand of each kind, so only changes are processed.

import (
	"errors"
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// SnatEntry is a rule of `snat`.
type SnatEntry struct {
	ID          uint32       `json:"id"`
	InternalNet netip.Prefix `json:"internal-net"`
	ExternalIP  External     `json:"external-ip"`
	PortFirst   uint16       `json:"port-first,omitempty"`
	PortLast    uint16       `json:"port-last,omitempty"`
}

// DnatEntry is a rule of `dnat`.
type DnatEntry struct {
	ID         uint32     `json:"id"`
	ExternalIP External   `json:"external-ip"`
	InternalIP netip.Addr `json:"internal-ip"`
}

// ForwardEntry is a rule of `port-forwarding`.
type ForwardEntry struct {
	ID               uint32     `json:"id"`
	ExternalIP       External   `json:"external-ip"`
	ExternalPort     uint16     `json:"external-port"`
	ExternalPortLast uint16     `json:"external-port-last,omitempty"`
	Proto            Protocol   `json:"proto"`
	InternalIP       netip.Addr `json:"internal-ip"`
	InternalPort     uint16     `json:"internal-port"`
}

// External is the model's type: an address, alone or with a prefix length, which is how it is shown.
type External struct {
	netip.Prefix
	// bare says that it was given without a prefix length.
	bare bool
}

// UnmarshalText parses either form.
func (e *External) UnmarshalText(text []byte) (err error) {
	e.Prefix, e.bare, err = inet.ParsePrefix("external address", string(text))
	return err
}

// single refuses a pool where one address is required.
func (e External) single() error {
	if !e.IsSingleIP() {
		return fmt.Errorf("external-ip %s: must be a single address, not a network: %w", e, cube.ErrInvalid)
	}
	return nil
}

// Protocol is the model's type `protocol`.
type Protocol uint8

const (
	protoTCP Protocol = iota
	protoUDP
	protoAll
)

var protocolNames = []string{"tcp", "udp", "all"}

// UnmarshalText parses the model's name.
func (p *Protocol) UnmarshalText(text []byte) error {
	n, err := cube.Enum[uint32]("proto", text, protocolNames...)
	*p = Protocol(n)
	return err
}

// MarshalText returns the name in the model.
func (p Protocol) MarshalText() ([]byte, error) { return []byte(protocolNames[p]), nil }

// rule is an entry of one of the lists.
type rule interface {
	number() uint32
	// check refuses values that the model cannot exclude.
	check() error
}

func (e *SnatEntry) number() uint32    { return e.ID }
func (e *DnatEntry) number() uint32    { return e.ID }
func (e *ForwardEntry) number() uint32 { return e.ID }

func (e *SnatEntry) check() error {
	if e.InternalNet.Addr().Is4In6() || e.ExternalIP.Addr().Is4In6() {
		return mapped()
	}
	if e.InternalNet.Addr().Is4() != e.ExternalIP.Addr().Is4() {
		return families("internal-net", e.InternalNet.Addr())
	}
	if e.ExternalIP.Addr().BitLen()-e.ExternalIP.Bits() > 16 {
		return fmt.Errorf("external-ip %s: a pool has at most 65536 addresses: %w", e.ExternalIP, cube.ErrInvalid)
	}
	if e.ExternalIP.Addr().IsUnspecified() {
		return unspecified("external-ip")
	}
	_, _, err := portRange(e.PortFirst, e.PortLast)
	return err
}

func (e *DnatEntry) check() error { return checkDestination(e.ExternalIP, e.InternalIP) }

func (e *ForwardEntry) check() error {
	if err := checkDestination(e.ExternalIP, e.InternalIP); err != nil {
		return err
	}
	if e.ExternalPortLast == 0 {
		return nil
	}
	if e.ExternalPortLast < e.ExternalPort {
		return fmt.Errorf("external-port %d is greater than external-port-last %d: %w", e.ExternalPort, e.ExternalPortLast, cube.ErrInvalid)
	}
	if n := e.ExternalPortLast - e.ExternalPort; n > 65535-e.InternalPort {
		return fmt.Errorf("internal-port %d: the last of %d ports from there is above 65535: %w", e.InternalPort, n+1, cube.ErrInvalid)
	}
	return nil
}

func checkDestination(external External, internal netip.Addr) error {
	if err := external.single(); err != nil {
		return err
	}
	if external.Addr().Is4In6() || internal.Is4In6() {
		return mapped()
	}
	if external.Addr().Is4() != internal.Is4() {
		return families("internal-ip", internal)
	}
	if internal.IsUnspecified() {
		return unspecified("internal-ip")
	}
	if external.Addr().IsUnspecified() {
		return unspecified("external-ip")
	}
	return nil
}

func families(leaf string, a netip.Addr) error {
	other := "IPv4"
	if a.Is4() {
		other = "IPv6"
	}
	return fmt.Errorf("%s %s: the external address is an %s address: %w", leaf, a, other, cube.ErrInvalid)
}

func mapped() error {
	return fmt.Errorf("write an IPv4 address as a.b.c.d, not as ::ffff:a.b.c.d: %w", cube.ErrInvalid)
}

func unspecified(leaf string) error {
	return fmt.Errorf("%s: the unspecified address cannot be used: %w", leaf, cube.ErrInvalid)
}

// ruleSet contains the rules in effect, with indexes for uniqueness.
type ruleSet struct {
	snat    map[uint32]*SnatEntry
	dnat    map[uint32]*DnatEntry
	forward map[uint32]*ForwardEntry
	// nets and hosts find rules by the addresses that they translate, ports the rules of an address.
	nets  map[netip.Prefix]uint32
	hosts map[netip.Addr]uint32
	ports map[netip.Addr]*portRules
}

func newRuleSet() ruleSet {
	return ruleSet{snat: map[uint32]*SnatEntry{}, dnat: map[uint32]*DnatEntry{}, forward: map[uint32]*ForwardEntry{},
		nets: map[netip.Prefix]uint32{}, hosts: map[netip.Addr]uint32{}, ports: map[netip.Addr]*portRules{}}
}

// change is a rule that was added, removed or changed.
type change struct {
	list     string
	old, new rule
}

// The names of the lists.
const (
	listSnat    = "snat"
	listDnat    = "dnat"
	listForward = "port-forwarding"
)

func decode(changes []cube.EntryChange) ([]change, error) {
	var out []change
	for _, c := range changes {
		list := strings.Join(c.List, " ")
		var d change
		var err error
		switch one := []cube.EntryChange{c}; list {
		case "rule snat entry":
			d, err = decodeOne[SnatEntry](listSnat, one)
		case "rule dnat entry":
			d, err = decodeOne[DnatEntry](listDnat, one)
		case "rule port-forwarding entry":
			d, err = decodeOne[ForwardEntry](listForward, one)
		default:
			err = fmt.Errorf("%s: %w", list, cube.ErrNotFound)
		}
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// decodeOne returns nil for nil.
func decodeOne[E any, P interface {
	*E
	rule
}](list string, c []cube.EntryChange) (change, error) {
	d, err := cube.DecodeEntries[E](c)
	if err != nil {
		return change{}, err
	}
	out := change{list: list}
	if d[0].Old != nil {
		out.old = P(d[0].Old)
	}
	if d[0].New != nil {
		out.new = P(d[0].New)
		if err := out.new.check(); err != nil {
			return change{}, fmt.Errorf("rule %s entry %d: %w", list, out.new.number(), err)
		}
	}
	return out, nil
}

// after checks changes, and returns the constants of the programs for the resulting rules.
func (s *ruleSet) after(changes []change) (map[string]any, error) {
	// Making the changes shows whether they are possible.
	if err := s.apply(changes); err != nil {
		return nil, err
	}
	defer s.takeBack(changes)
	return map[string]any{"has_sources": len(s.snat) > 0, "has_forwards": len(s.dnat)+len(s.forward) > 0}, nil
}

// changeRules changes the maps, or leaves them unchanged. created says that they may contain the rules of a previous
// run of the cube. The returned function undoes a successful change.
func (n *nat) changeRules(changes []change, created bool) (func() error, error) {
	e := &edit{n: n}
	err := e.rules(changes)
	if err == nil && created {
		if err = n.adopt(n.rules.forwardEntries(changes)); err == nil {
			err = n.masquerade()
		}
	}
	if err != nil {
		return nil, errors.Join(err, e.undo.Run())
	}
	n.sweep.sweepNow()
	return func() error {
		n.sweep.sweepNow()
		return e.undo.Run()
	}, nil
}

// apply changes the set, or leaves it unchanged.
func (s *ruleSet) apply(changes []change) error {
	for _, c := range changes {
		if c.old != nil {
			s.remove(c.old)
		}
	}
	for i, c := range changes {
		if c.new == nil {
			continue
		}
		if err := s.add(c.new); err != nil {
			for _, done := range slices.Backward(changes[:i]) {
				if done.new != nil {
					s.remove(done.new)
				}
			}
			for _, c := range changes {
				if c.old != nil {
					s.mustAdd(c.old)
				}
			}
			return fmt.Errorf("rule %s entry %d: %w", c.list, c.new.number(), err)
		}
	}
	return nil
}

// takeBack undoes a successful apply.
func (s *ruleSet) takeBack(changes []change) {
	for _, c := range changes {
		if c.new != nil {
			s.remove(c.new)
		}
	}
	for _, c := range changes {
		if c.old != nil {
			s.mustAdd(c.old)
		}
	}
}

// mustAdd restores a previous rule.
func (s *ruleSet) mustAdd(r rule) {
	if err := s.add(r); err != nil {
		panic(fmt.Sprintf("no space for an existing rule: %v", err))
	}
}

// add adds a rule unless one for the same packets exists.
func (s *ruleSet) add(r rule) error {
	switch r := r.(type) {
	case *SnatEntry:
		if other, ok := s.nets[r.InternalNet]; ok {
			return fmt.Errorf("internal-net %s is already used by entry %d: %w", r.InternalNet, other, cube.ErrExists)
		}
		s.nets[r.InternalNet], s.snat[r.ID] = r.ID, r
	case *DnatEntry:
		if other, ok := s.hosts[r.ExternalIP.Addr()]; ok {
			return fmt.Errorf("external-ip %s is already used by entry %d: %w", r.ExternalIP, other, cube.ErrExists)
		}
		s.hosts[r.ExternalIP.Addr()], s.dnat[r.ID] = r.ID, r
	case *ForwardEntry:
		p := s.ports[r.ExternalIP.Addr()]
		if p == nil {
			p = &portRules{}
		}
		if err := p.add(r); err != nil {
			return err
		}
		s.ports[r.ExternalIP.Addr()], s.forward[r.ID] = p, r
	}
	return nil
}

func (s *ruleSet) remove(r rule) {
	switch r := r.(type) {
	case *SnatEntry:
		delete(s.nets, r.InternalNet)
		delete(s.snat, r.ID)
	case *DnatEntry:
		delete(s.hosts, r.ExternalIP.Addr())
		delete(s.dnat, r.ID)
	case *ForwardEntry:
		p := s.ports[r.ExternalIP.Addr()]
		if p.remove(r); p.empty() {
			delete(s.ports, r.ExternalIP.Addr())
		}
		delete(s.forward, r.ID)
	}
}

// free returns the number for an appended rule: after all others, or the lowest free one if there is none after them.
func free[E any](entries map[uint32]E) uint32 {
	next := uint64(0)
	for id := range entries {
		next = max(next, uint64(id)+1)
	}
	if next <= math.MaxUint32 {
		return uint32(next)
	}
	for id := uint32(0); ; id++ {
		if _, taken := entries[id]; !taken {
			return id
		}
	}
}
