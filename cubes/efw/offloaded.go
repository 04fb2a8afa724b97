// SPDX-License-Identifier: Apache-2.0

package efw

// The host's rules that the program applies.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/iptables/offload"
)

// families are those of addresses, in the order of the sets; familyNames are the model's.
var families = [...]language.Family{language.IPv4, language.IPv6}

var familyNames = [...]string{"IPV4", "IPV6"}

// hookEntry is struct efw_hook.
type hookEntry struct{ Chain, Result uint32 }

// compiled are the host's rules in compiled form.
type compiled struct {
	programs [len(families)][len(offload.Hooks)]*offload.Program
	checks   [len(families)][]offload.Check
	// tracked are the flags of the gate, udpTimeout is its timeout.
	tracked    uint16
	udpTimeout uint32
}

// compile compiles the rules of a host.
func compile(hosts hosts) *compiled {
	c := &compiled{}
	for f, host := range hosts {
		bases, setting, isTracked, checks := host.Judge()
		c.checks[f] = checks
		if isTracked {
			c.tracked |= tracked | tracked<<1<<f
		}
		if host.KeepsEntries() {
			c.udpTimeout = uint32(host.UDPTimeout.Milliseconds())
		}
		for h, hook := range offload.Hooks {
			c.programs[f][h] = offload.Compile(setting, hook, bases[hook])
		}
	}
	return c
}

// judges reports whether the program decides on any packet, or tells cubes behind it that the host accepts one.
func (c *compiled) judges() bool {
	verdict := func(v offload.Verb) bool { return v == offload.Drop || v == offload.Accept || v == offload.Stack }
	for f := range c.programs {
		for _, p := range c.programs[f] {
			if verdict(p.Policy) || slices.ContainsFunc(p.Entries, func(e offload.Entry) bool { return verdict(e.Verb) }) {
				return true
			}
		}
	}
	return false
}

// offloaded are the rules in effect.
type offloaded struct {
	sets  [matcherSet]*ruleSet
	hooks table.Table[uint32, hookEntry]

	is         *compiled // nil: none
	generation uint64
	took       time.Duration
}

func newOffloaded(env cube.Env) *offloaded {
	o := &offloaded{hooks: table.New[uint32, hookEntry](env, "hooks")}
	for n := range o.sets {
		o.sets[n] = newRuleSet(env, classifier.New(env, uint32(n)), uint32(n))
	}
	return o
}

// open opens the maps.
func (o *offloaded) open() error {
	var errs []error
	for _, s := range o.sets {
		errs = append(errs, s.open())
	}
	return errors.Join(errs...)
}

// close releases the maps.
func (o *offloaded) close() error {
	var errs []error
	for _, s := range o.sets {
		errs = append(errs, s.close())
	}
	return errors.Join(errs...)
}

// key names a rule's counter.
func key(id offload.ID) string { return fmt.Sprintf("%s %d %s", id.Chain, id.Nth, id.Text) }

// put replaces the rules by those of a compilation, while the gate is closed.
func (o *offloaded) put(c *compiled) error {
	for f := range families {
		for h := range offload.Hooks {
			number := uint32(h*len(families) + f)
			if err := o.putProgram(number, c.programs[f][h]); err != nil {
				return fmt.Errorf("%s %s: %w", familyNames[f], offload.Hooks[h], err)
			}
		}
	}
	o.is = c
	o.generation++
	return nil
}

// putProgram replaces the rules of one hook and family.
func (o *offloaded) putProgram(number uint32, p *offload.Program) error {
	entries := make([]entry, len(p.Entries))
	for i, e := range p.Entries {
		entries[i] = entry{order: e.Order, match: e.Match, verb: e.Verb, to: e.To}
		if e.Verb.Counts() {
			entries[i].key = key(e.Rule)
		}
	}
	// All rules have a counter: those that are no longer offloaded keep their counts.
	var keys []string
	for _, l := range p.Lines {
		keys = append(keys, key(l.Rule))
	}
	s := o.sets[number]
	change, err := s.prepare(entries, keys...)
	if err != nil {
		return err
	}
	if _, err := change.commit(); err != nil {
		return err
	}
	if err := change.free(); err != nil {
		return err
	}
	is := hookEntry{Chain: p.First, Result: uint32(p.Policy)}
	if p.Policy.Counts() {
		is.Result |= s.indexes[key(p.PolicyRule)] << counterShift
	}
	return o.hooks.Set(number, is)
}

// counted returns the fast path's counters of the rules of a hook and family, by their keys.
func (o *offloaded) counted(family, hook int) (map[string]inet.Count, error) {
	var keys []string
	for _, l := range o.is.programs[family][hook].Lines {
		keys = append(keys, key(l.Rule))
	}
	return o.sets[hook*len(families)+family].counts(keys)
}

// countedIn returns the fast path's counters of the rules of a family at all hooks, by their keys.
func (o *offloaded) countedIn(family int) (map[string]inet.Count, error) {
	out := map[string]inet.Count{}
	for hook := range offload.Hooks {
		counts, err := o.counted(family, hook)
		if err != nil {
			return nil, err
		}
		for name, n := range counts {
			out[name] = plus(out[name], n)
		}
	}
	return out, nil
}

// plus adds two counters.
func plus(a, b inet.Count) inet.Count {
	return inet.Count{Packets: a.Packets + b.Packets, Bytes: a.Bytes + b.Bytes}
}
