// SPDX-License-Identifier: Apache-2.0

package nat

// The forwarded ports of an external address, and their prefixes in the map `forwards`: the fast path finds the rule
// for a port in one lookup, so precedence between rules is resolved here.

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// last returns the last external port of a rule.
func (e *ForwardEntry) last() uint16 { return max(e.ExternalPort, e.ExternalPortLast) }

// portRules are the rules of one external address: by Protocol, ordered by port, without overlaps.
type portRules struct {
	by [3][]*ForwardEntry
}

func (p *portRules) empty() bool { return len(p.by[0])+len(p.by[1])+len(p.by[2]) == 0 }

// search finds the first rule that ends at or after a port.
func search(rules []*ForwardEntry, port uint16) int {
	i, _ := slices.BinarySearchFunc(rules, port, func(e *ForwardEntry, port uint16) int { return int(e.last()) - int(port) })
	return i
}

func (p *portRules) add(e *ForwardEntry) error {
	rules := p.by[e.Proto]
	i := search(rules, e.ExternalPort)
	if i < len(rules) && rules[i].ExternalPort <= e.last() {
		return fmt.Errorf("external-ip %s, external-port %d of %s is already used by entry %d: %w", e.ExternalIP,
			max(e.ExternalPort, rules[i].ExternalPort), protocolNames[e.Proto], rules[i].ID, cube.ErrExists)
	}
	p.by[e.Proto] = slices.Insert(rules, i, e)
	return nil
}

func (p *portRules) remove(e *ForwardEntry) {
	if i := search(p.by[e.Proto], e.ExternalPort); i < len(p.by[e.Proto]) {
		p.by[e.Proto] = slices.Delete(p.by[e.Proto], i, i+1)
	}
}

// overlapping returns the rules of a protocol with ports from first to last.
func (p *portRules) overlapping(proto Protocol, first, last uint16) []*ForwardEntry {
	if p == nil {
		return nil
	}
	rules := p.by[proto]
	from := search(rules, first)
	to := from
	for to < len(rules) && rules[to].ExternalPort <= last {
		to++
	}
	return rules[from:to]
}

// numbers contains the protocol numbers.
var numbers = [...]uint8{protoTCP: uint8(inet.TCP), protoUDP: uint8(inet.UDP)}

// pieces adds a rule's map entries to a set: for each of its protocols and each port range without a more specific rule
// for that protocol.
func (p *portRules) pieces(e *ForwardEntry, into map[forwardKey]forward) {
	value := forward{Rule: e.ID, To: inet.AddressOf(e.InternalIP), Port: portOf(e.InternalPort), Base: portOf(e.ExternalPort), Origin: originForwarding}
	for proto := protoTCP; proto < protoAll; proto++ {
		if e.Proto != proto && e.Proto != protoAll {
			continue
		}
		first, last := int(e.ExternalPort), int(e.last())
		if e.Proto == protoAll {
			for _, other := range p.overlapping(proto, e.ExternalPort, e.last()) {
				put(into, e, proto, first, int(other.ExternalPort)-1, value)
				first = int(other.last()) + 1
			}
		}
		put(into, e, proto, first, last, value)
	}
}

// put adds the prefixes that cover the ports from first to last.
func put(into map[forwardKey]forward, e *ForwardEntry, proto Protocol, first, last int, value forward) {
	for first <= last {
		free := min(bits.TrailingZeros16(uint16(first)), 16)
		for free > 0 && first+1<<free-1 > last {
			free--
		}
		into[forwardKey{Bits: portBits - uint32(free), Addr: inet.AddressOf(e.ExternalIP.Addr()), Proto: numbers[proto], Port: portOf(uint16(first))}] = value
		first += 1 << free
	}
}

// forwardEntries returns the map entries for rules, and for other rules whose entries depend on them: rules for all
// protocols if one for a single protocol changes.
func (s *ruleSet) forwardEntries(changes []change) map[forwardKey]forward {
	out := map[forwardKey]forward{}
	for _, c := range changes {
		for _, r := range []rule{c.old, c.new} {
			switch r := r.(type) {
			case *DnatEntry:
				if is, ok := s.dnat[r.ID]; ok {
					out[forwardKey{Bits: addressBits, Addr: inet.AddressOf(is.ExternalIP.Addr())}] =
						forward{Rule: is.ID, To: inet.AddressOf(is.InternalIP), Origin: originDnat}
				}
			case *ForwardEntry:
				if is, ok := s.forward[r.ID]; ok {
					s.ports[is.ExternalIP.Addr()].pieces(is, out)
				}
				if r.Proto == protoAll {
					continue
				}
				p := s.ports[r.ExternalIP.Addr()]
				for _, all := range p.overlapping(protoAll, r.ExternalPort, r.last()) {
					p.pieces(all, out)
				}
			}
		}
	}
	return out
}
