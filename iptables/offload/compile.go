// SPDX-License-Identifier: Apache-2.0

package offload

// Compiles the chains of a hook.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
)

// Verb is what becomes of a packet that an entry matches.
type Verb uint8

// The verbs: enum efw_verb in C.
const (
	Miss Verb = iota
	Drop
	Accept
	Return
	Count // and the next entry
	Jump
	Goto
)

// Setting is what the host says about the packets that a netdev receives.
type Setting struct {
	// In is the name of the netdev, Netdevs those of the host with their interface index: 0 if it has more than 16 bits.
	In      string
	Netdevs map[string]uint16
	// NoDrop and NoAccept say why verdicts of a hook are not given at all, if not empty.
	NoDrop, NoAccept map[string]string
}

// ID identifies a rule while it exists, also if others come and go.
type ID struct {
	Chain, Text string
	// Nth counts the rules of the chain with the same text.
	Nth int
}

// Entry is an entry of the search.
type Entry struct {
	Order uint32
	classifier.Match
	Verb Verb
	// To is the number of the chain of Jump and Goto.
	To uint32
	// Rule counts its packets; unless Verb is Miss.
	Rule ID
}

// Program is what the program does at a hook.
type Program struct {
	Entries []Entry
	// First is the number of the first chain.
	First uint32
	// Policy is Drop, Accept or Miss, and PolicyRule its counter.
	Policy     Verb
	PolicyRule ID
	// Lines are the report: of the chains of the hook, in their order.
	Lines []Line
}

// Answer is how much of a rule was offloaded.
type Answer string

// The answers.
const (
	Yes    Answer = "YES"
	Partly Answer = "PARTLY"
	No     Answer = "NO"
)

// Line is what was decided on a rule, or on a policy.
type Line struct {
	Hook, Chain string
	// Number counts the rules of the chain from 1, as iptables does; 0 is the policy.
	Number    int
	Text      string
	Offloaded Answer
	Reason    string
	Rule      ID
	// Packets and Bytes are the kernel's counters.
	Packets, Bytes uint64
}

// The order of an entry: its chain, and its place there. maxChains is how many a result has room for: EFW_CHAINS.
const (
	chainShift = 20
	maxChains  = 512
)

// compiler compiles the chains of a hook.
type compiler struct {
	s       *Setting
	hook    string
	table   *Table
	numbers map[string]uint32
	// led are the chains that an entry leads to.
	led   map[string]bool
	out   Program
	place uint32
}

// PolicyText is the text of a policy's ID, which no rule has.
const PolicyText = "\x00policy"

// Compile compiles the chains of a hook. A table without the chain, or none, is a hook without rules, where there is nothing
// to do.
func Compile(s *Setting, hook string, t *Table) *Program {
	c := &compiler{s: s, hook: hook, table: t, numbers: map[string]uint32{}, led: map[string]bool{}}
	base := (*Chain)(nil)
	if t != nil {
		base = t.chain(hook)
	}
	if base == nil {
		return &c.out
	}
	c.out.First = c.number(hook)
	c.led[hook] = true
	for done := map[string]bool{}; ; { // in the order in which they are led to, so that led is known
		next := slices.IndexFunc(t.Chains, func(one Chain) bool { return c.led[one.Name] && !done[one.Name] })
		if next < 0 {
			break
		}
		done[t.Chains[next].Name] = true
		c.chain(&t.Chains[next])
	}
	c.unreached()
	at := func(name string) int {
		return slices.IndexFunc(t.Chains, func(one Chain) bool { return one.Name == name })
	}
	slices.SortStableFunc(c.out.Lines, func(a, b Line) int { return cmp.Compare(at(a.Chain), at(b.Chain)) })
	return &c.out
}

// number returns the number of a chain; 0 if there are too many.
func (c *compiler) number(name string) uint32 {
	if n := c.numbers[name]; n != 0 {
		return n
	}
	if len(c.numbers)+1 >= maxChains {
		return 0
	}
	c.numbers[name] = uint32(len(c.numbers) + 1)
	return c.numbers[name]
}

// chain compiles a chain.
func (c *compiler) chain(is *Chain) {
	number := c.number(is.Name)
	c.place = 0
	var barrier barrier
	nth := map[string]int{}
	for i := range is.Rules {
		r := &is.Rules[i]
		line := Line{
			Hook: c.hook, Chain: is.Name, Number: i + 1, Text: r.Text, Rule: ID{is.Name, r.Text, nth[r.Text]},
			Packets: r.Packets, Bytes: r.Bytes,
		}
		nth[r.Text]++
		if barrier.whole {
			line.Offloaded, line.Reason = No, barrier.reason()
		} else {
			c.rule(r, number, i+1, &line, &barrier)
		}
		c.out.Lines = append(c.out.Lines, line)
	}
	if is.Name == c.hook {
		c.policy(is, &barrier)
	}
}

// barrier is what the rules of a chain before one leave for the stack.
type barrier struct {
	first int  // number of the first such rule, 0: none
	whole bool // it may match every packet
}

func (b *barrier) add(number int, match classifier.Match) {
	if b.first == 0 {
		b.first = number
	}
	if match == (classifier.Match{}) {
		b.first, b.whole = number, true
	}
}

func (b *barrier) reason() string {
	if b.whole {
		return fmt.Sprintf("rule %d may match every packet, and only the stack can tell", b.first)
	}
	return fmt.Sprintf("packets that rule %d may match are left to the stack", b.first)
}

// policy decides on the policy of the hook's chain.
func (c *compiler) policy(is *Chain, b *barrier) {
	verb := Accept
	if is.Policy == "DROP" {
		verb = Drop
	}
	line := Line{
		Hook: c.hook, Chain: is.Name, Text: "policy " + is.Policy, Rule: ID{is.Name, PolicyText, 0},
		Packets: is.Packets, Bytes: is.Bytes,
	}
	switch why := c.refusal(verb); {
	case why != "":
		line.Offloaded, line.Reason = No, why
	case b.whole:
		line.Offloaded, line.Reason = No, b.reason()
	default:
		c.out.Policy, c.out.PolicyRule = verb, line.Rule
		line.Offloaded = Yes
		if b.first != 0 {
			line.Offloaded, line.Reason = Partly, b.reason()
		}
	}
	c.out.Lines = append(c.out.Lines, line)
}

// refusal says why a verdict is not given at all.
func (c *compiler) refusal(v Verb) string {
	if v == Drop {
		return c.s.NoDrop[c.hook]
	}
	if v == Accept {
		return c.s.NoAccept[c.hook]
	}
	return ""
}

// rule compiles a rule.
func (c *compiler) rule(r *Rule, chain uint32, number int, line *Line, b *barrier) {
	is, why := r.Is, ""
	if is == nil {
		is, why = r.Hull, r.Why
		if is == nil {
			is = &language.Rule{}
		}
	}
	conditions := c.s.conditionsOf(c.hook, is)
	verb, to := c.target(is.Target)
	switch {
	case conditions.never:
		line.Offloaded, line.Reason = Yes, "no packet of this netdev and hook matches it"
		return
	case why != "":
	case conditions.left != "":
		why = fmt.Sprintf("the fast path cannot evaluate %s", conditions.left)
	case verb == Miss:
		why = fmt.Sprintf("only the stack can carry out the target %s", is.Target.Name())
	case c.refusal(verb) != "":
		// What matches meets no further rule, so later ones lose nothing, unless the state of the packet is not known.
		if !conditions.state {
			b = &barrier{}
		}
		c.emit(Entry{Match: conditions.match}, chain, conditions, number, b)
		line.Offloaded, line.Reason = No, c.refusal(verb)
		return
	}
	if why != "" {
		c.emit(Entry{Match: conditions.match}, chain, conditions, number, b)
		line.Offloaded, line.Reason = No, why
		return
	}
	line.Offloaded = Yes
	if b.first != 0 {
		line.Offloaded, line.Reason = Partly, b.reason()
	} else if conditions.state {
		line.Offloaded, line.Reason = Partly, "only for packets that open a connection"
	}
	c.emit(Entry{Match: conditions.match, Verb: verb, To: to, Rule: line.Rule}, chain, conditions, number, b)
	if to != 0 {
		c.led[is.Target.(language.Jump).Chain] = true
	}
}

// emit adds the entries of a rule. One about the state of connections is a barrier for packets whose state is not known, and
// says nothing about new ones unless it asks for them.
func (c *compiler) emit(e Entry, chain uint32, is conditions, number int, b *barrier) {
	add := func(e Entry) {
		e.Order = chain<<chainShift | c.place
		c.place++
		c.out.Entries = append(c.out.Entries, e)
	}
	if !is.state || is.isNew && e.Verb == Miss { // the same for packets of any state
		if e.Verb == Miss {
			b.add(number, e.Match)
		}
		add(e)
		return
	}
	unknown := Entry{Match: e.Match}
	unknown.State(0, StateNew)
	b.add(number, unknown.Match)
	add(unknown)
	if is.isNew {
		e.State(StateNew, StateNew)
		add(e)
	}
}

// target returns what the program does with packets that a rule matches.
func (c *compiler) target(t language.Target) (v Verb, to uint32) {
	switch t := t.(type) {
	case nil:
		return Count, 0
	case language.Verdict:
		return map[language.Verdict]Verb{"ACCEPT": Accept, "DROP": Drop, "RETURN": Return}[t], 0
	case language.Jump:
		if c.table.chain(t.Chain) == nil {
			return Miss, 0
		}
		n := c.number(t.Chain)
		switch {
		case n == 0:
			return Miss, 0
		case t.Goto:
			return Goto, n
		}
		return Jump, n
	}
	return Miss, 0
}

// unreached reports the rules of chains that no entry leads to.
func (c *compiler) unreached() {
	for i := range c.table.Chains {
		is := &c.table.Chains[i]
		if is.Policy != "-" || c.led[is.Name] {
			continue
		}
		nth := map[string]int{}
		for n, r := range is.Rules {
			c.out.Lines = append(c.out.Lines, Line{
				Hook: c.hook, Chain: is.Name, Number: n + 1, Text: r.Text, Rule: ID{is.Name, r.Text, nth[r.Text]},
				Offloaded: No, Reason: "no offloaded rule leads to the chain", Packets: r.Packets, Bytes: r.Bytes,
			})
			nth[r.Text]++
		}
	}
}
