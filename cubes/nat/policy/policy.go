// SPDX-License-Identifier: Apache-2.0

package policy

// Compilation of chains: each jump is followed by a copy of the chain that it enters, and that by the rest of the calling chain. So
// a walk only moves forward, and needs no stack to return.

import (
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
)

// MaxRows is how many rows there may be: NAT_STEPS.
const MaxRows = 32768

// maxDepth is how many chains may wait for others to return.
const maxDepth = 16

// Families are those of the chains of a Policy.
var Families = [...]language.Family{language.IPv4, language.IPv6}

// hooks are the chains that packets meet: enum nat_hook.
var hooks = [...]string{"PREROUTING", "INPUT", "OUTPUT", "POSTROUTING"}

// Place is a rule of a chain, or the policy of the chain if At is -1.
type Place struct {
	Family language.Family
	Chain  string
	At     int
}

// Policy is a compiled table nat.
type Policy struct {
	Rows []Row
	// of are the rows of each rule, of which those of a chain that several rules jump to have more than one.
	of map[Place][]uint32
}

// compiler compiles the chains of one family.
type compiler struct {
	out    *Policy
	family language.Family
	chains map[string]*commands.Chain
	hook   string
	inside []string
}

// errRows says that there are too many rows.
var errRows = fmt.Errorf("the table nat has more than %d rules, where each jump counts those of the chain again", MaxRows)

// Compile compiles the chains of the table of both families.
func Compile(tables [len(Families)]*commands.View) (*Policy, error) {
	p := &Policy{Rows: make([]Row, len(Families)*len(hooks)), of: map[Place][]uint32{}}
	for f, family := range Families {
		c := &compiler{out: p, family: family, chains: map[string]*commands.Chain{}}
		for _, chain := range tables[f].Chains {
			c.chains[chain.Name] = chain
		}
		for h, hook := range hooks {
			head := &p.Rows[f*len(hooks)+h]
			head.Hit = uint32(len(p.Rows))
			c.hook = hook
			if err := c.chain(c.chains[hook]); err != nil {
				return nil, fmt.Errorf("%s: table nat: %w", program(family), err)
			}
			c.add(Place{family, hook, -1}, Row{Does: accept})
		}
	}
	if len(p.Rows) > MaxRows {
		return nil, errRows
	}
	return p, nil
}

func program(family language.Family) string {
	if family == language.IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

// add appends a row, and returns its number.
func (c *compiler) add(place Place, r Row) uint32 {
	at := uint32(len(c.out.Rows))
	c.out.Rows = append(c.out.Rows, r)
	c.out.of[place] = append(c.out.of[place], at)
	c.out.Rows[at].State = c.out.of[place][0]
	return at
}

// chain appends the rows of a chain, and leads those that return to what is appended next.
func (c *compiler) chain(chain *commands.Chain) error {
	if len(c.out.Rows) > MaxRows {
		return errRows
	}
	if slices.Contains(c.inside, chain.Name) || len(c.inside) > maxDepth {
		return fmt.Errorf("chain %s: jumps lead back to it, or are nested by more than %d chains", chain.Name, maxDepth)
	}
	c.inside = append(c.inside, chain.Name)
	var returning []uint32 // rows whose hit is the end of the chain
	for at := range chain.Rules {
		back, err := c.rule(chain, at)
		if err != nil {
			return fmt.Errorf("chain %s: rule %d: %w", chain.Name, at+1, err)
		}
		returning = append(returning, back...)
	}
	c.inside = c.inside[:len(c.inside)-1]
	for _, at := range returning {
		c.out.Rows[at].Hit = uint32(len(c.out.Rows))
	}
	return nil
}

// rule appends the rows of a rule. It returns those that lead a packet that matches to the end of the chain.
func (c *compiler) rule(chain *commands.Chain, at int) (returning []uint32, err error) {
	r := &chain.Rules[at]
	row, err := rowOf(r)
	if err != nil {
		return nil, err
	}
	place := Place{c.family, chain.Name, at}
	behind := uint32(len(c.out.Rows)) + 1
	row.Miss, row.Hit = behind, behind
	switch t := r.Target.(type) {
	case nil:
	case language.Verdict:
		if t == "RETURN" {
			return []uint32{c.add(place, row)}, nil
		}
		if row.Does = accept; t != "ACCEPT" {
			return nil, fmt.Errorf("-j %s: the table nat is not intended for filtering", t)
		}
	case language.Jump:
		return c.jump(place, row, t)
	case language.NAT:
		if c.hook == "INPUT" {
			return nil, fmt.Errorf("-j %s: the sources of what the host receives cannot be translated in the chain INPUT; use POSTROUTING of the sender", t.Kind)
		}
		if err := row.translate(t); err != nil {
			return nil, fmt.Errorf("-j %s: %w", t.Kind, err)
		}
	default:
		return nil, fmt.Errorf("-j %s: not supported in the table nat", t.Name())
	}
	c.add(place, row)
	return nil, nil
}

// jump appends the row of a rule that jumps, and a copy of the chain.
func (c *compiler) jump(place Place, row Row, t language.Jump) (returning []uint32, err error) {
	to := c.chains[t.Chain]
	if to == nil {
		return nil, errors.New("there is no chain " + t.Chain)
	}
	at := c.add(place, row)
	if err := c.chain(to); err != nil {
		return nil, err
	}
	if t.Goto { // at its end, the caller returns
		returning = []uint32{uint32(len(c.out.Rows))}
		c.out.Rows = append(c.out.Rows, Row{})
	}
	c.out.Rows[at].Miss = uint32(len(c.out.Rows))
	return returning, nil
}

// Counts returns what a rule has counted, given the rows as they are now.
func (p *Policy) Counts(place Place, rows map[uint32]Row) (n commands.Counts) {
	for _, at := range p.of[place] {
		n.Packets += rows[at].Packets
		n.Bytes += rows[at].Bytes
	}
	return n
}

// SetCounts sets the counters of a rule in p.Rows, and returns the numbers of the rows.
func (p *Policy) SetCounts(place Place, to commands.Counts) []uint32 {
	for i, at := range p.of[place] {
		if i > 0 {
			to = commands.Counts{}
		}
		p.Rows[at].Packets, p.Rows[at].Bytes = to.Packets, to.Bytes
	}
	return p.of[place]
}

// All are the rows by their numbers.
func (p *Policy) All() iter.Seq2[uint32, Row] {
	return func(yield func(uint32, Row) bool) {
		for i, r := range p.Rows {
			if !yield(uint32(i), r) {
				return
			}
		}
	}
}

// Same reports whether rows that are there say the same, whatever they have counted.
func (p *Policy) Same(rows map[uint32]Row) bool {
	if len(rows) != len(p.Rows) {
		return false
	}
	for i, r := range p.Rows {
		if !r.same(rows[uint32(i)]) {
			return false
		}
	}
	return true
}
