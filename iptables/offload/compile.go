// SPDX-License-Identifier: Apache-2.0

package offload

// Compiles the chains of a hook.

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/polycube/polycube/classifier"
)

// Verb is what happens to a packet that an entry matches.
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
	Stack // accept it and pass it to the stack, which decides again: only cubes behind this one use the verdict
)

// Setting describes the host as far as it concerns packets that a netdev receives.
type Setting struct {
	// In is the name of the netdev, Netdevs those of the host with their interface index: 0 if it has more than 16 bits.
	In      string
	Netdevs map[string]uint16
	// NoDrop and NoAccept say, by hook, why packets are never dropped or accepted, if not empty.
	NoDrop, NoAccept map[string]string
	// OnlyEstablished is whether the program accepts only packets of established connections, and leaves other accepted packets to
	// the stack. If false, it does not know of any packet that its connection is established.
	OnlyEstablished bool
}

// ID identifies a rule while it exists, even if others come and go.
type ID struct {
	Chain, Text string
	// Nth counts the rules of the chain with the same text.
	Nth int
}

// Entry is an entry of the classifier.
type Entry struct {
	Order uint32
	classifier.Match
	Verb Verb
	// To is the number of the chain of Jump and Goto.
	To uint32
	// Rule counts its packets; unless Verb is Miss or Stack.
	Rule ID
}

// Program is what the eBPF program executes at a hook.
type Program struct {
	Entries []Entry
	// First is the number of the first chain.
	First uint32
	// Policy is Drop, Accept, Stack or Miss, and PolicyRule its counter.
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

// Line is the decision on a rule or policy.
type Line struct {
	Hook, Chain string
	// Number counts the rules of the chain from 1, as iptables does; 0 is the policy.
	Number    int
	Text      string
	Offloaded Answer
	Reason    string
	Rule      ID
	// Uncounted is whether the kernel does not count its packets; Packets and Bytes are the kernel's counters otherwise. Both is
	// whether they are about packets of both families.
	Uncounted, Both bool
	Packets, Bytes  uint64
}

// The order of an entry: its chain, and its position there. maxChains is how many chains fit in a result: EFW_CHAINS.
const (
	chainShift = 20
	maxChains  = 512
)

// place is a chain reached from a particular base chain, which determines where an accepted packet continues.
type place struct {
	base  int
	chain string
	way   way
}

// way says what of the chain is meant.
type way uint8

const (
	itself way = iota
	end        // what happens to packets at the end of a base chain
	inner      // a chain that a base chain goes to without return, turned into one that returns to its end
)

// innerRule counts entries that are not rules of the host.
var innerRule = ID{"", "\x00inner", 0}

// compiler compiles the chains of a hook.
type compiler struct {
	s       *Setting
	hook    string
	bases   []Base
	numbers map[place]uint32
	// led are the places that an entry leads to, in that order.
	led   []place
	out   Program
	at    place // that is compiled
	order uint32
	lines map[lineKey]int // their indexes
}

// lineKey identifies a line.
type lineKey struct {
	chain  string
	number int
}

// PolicyText is the text of a policy's ID, which no rule has.
const PolicyText = "\x00policy"

// Counts is whether an entry with the verb counts packets.
func (v Verb) Counts() bool { return v != Miss && v != Stack }

// Compile compiles the base chains of a hook, which packets traverse in this order. Without any, there is nothing to do.
//
// A single base chain is the program's first chain, and its policy the program's. With several, each ends with an entry for its
// policy; packets accepted by the policy or by a rule go on to the next base chain. They may come from a user-defined chain that the
// program has not returned from, so no chain behind a later base chain returns beyond the end of that base chain.
func Compile(s *Setting, hook string, bases []Base) *Program {
	c := &compiler{s: s, hook: hook, bases: bases, numbers: map[place]uint32{}, lines: map[lineKey]int{}}
	if len(bases) == 0 {
		if s.NoDrop[hook] == "" {
			c.out.Policy = c.refused(Accept)
		}
		return &c.out
	}
	c.out.First = c.number(place{chain: bases[0].Chain})
	c.lead(place{chain: bases[0].Chain})
	for i := 0; i < len(c.led); i++ {
		c.compile(c.led[i])
	}
	c.unreached()
	c.sort()
	if s.NoDrop[hook] != "" { // packets need not be looked at, nor their connections, which another chain may come before
		return &Program{Lines: c.out.Lines}
	}
	return &c.out
}

// sort has the lines in the order of the base chains, and for each that of its table.
func (c *compiler) sort() {
	at := map[string]int{}
	for i := range c.bases {
		for n, one := range c.bases[i].Table.Chains {
			if _, ok := at[one.Name]; !ok {
				at[one.Name] = i<<16 + n
			}
		}
	}
	slices.SortStableFunc(c.out.Lines, func(a, b Line) int { return cmp.Or(cmp.Compare(at[a.Chain], at[b.Chain]), order(a, b)) })
}

// order has the policy last.
func order(a, b Line) int {
	return cmp.Compare(uint(a.Number-1), uint(b.Number-1))
}

// number returns the number of a place; 0 if there are too many.
func (c *compiler) number(p place) uint32 {
	if n := c.numbers[p]; n != 0 {
		return n
	}
	if len(c.numbers)+1 >= maxChains {
		return 0
	}
	c.numbers[p] = uint32(len(c.numbers) + 1)
	return c.numbers[p]
}

// lead notes that an entry leads to a place.
func (c *compiler) lead(to place) {
	if !slices.Contains(c.led, to) {
		c.led = append(c.led, to)
	}
}

// several is whether there are several base chains.
func (c *compiler) several() bool { return len(c.bases) > 1 }

// isBase reports whether the chain that is compiled is a base chain.
func (c *compiler) isBase() bool { return c.at.chain == c.bases[c.at.base].Chain }

// compile compiles a place.
func (c *compiler) compile(p place) {
	c.at, c.order = p, 0
	base := &c.bases[p.base]
	is := base.Table.chain(p.chain)
	switch p.way {
	case end:
		c.policy(is, &barrier{}, false)
	case inner:
		c.add(Entry{Verb: Jump, To: c.number(place{p.base, p.chain, itself}), Rule: innerRule})
		c.lead(place{p.base, p.chain, itself})
		c.add(Entry{Verb: Goto, To: c.number(place{p.base, base.Chain, end}), Rule: innerRule})
		c.lead(place{p.base, base.Chain, end})
	default:
		c.chain(is)
	}
}

// add adds an entry.
func (c *compiler) add(e Entry) {
	e.Order = c.number(c.at)<<chainShift | c.order
	c.order++
	c.out.Entries = append(c.out.Entries, e)
}

// report adds a line. Of a chain behind several base chains there is one line, which is about all of them.
func (c *compiler) report(l Line) {
	k := lineKey{l.Chain, l.Number}
	i, ok := c.lines[k]
	if !ok {
		c.lines[k] = len(c.out.Lines)
		c.out.Lines = append(c.out.Lines, l)
		return
	}
	was := &c.out.Lines[i]
	if was.Offloaded != l.Offloaded {
		was.Offloaded = Partly
	}
	if was.Reason == "" {
		was.Reason = l.Reason
	}
}

// line returns the line of a rule without what was decided.
func (c *compiler) line(t *Table, is *Chain, i int, nth map[string]int) Line {
	r := &is.Rules[i]
	l := Line{
		Hook: c.hook, Chain: is.Name, Number: i + 1, Text: r.Text, Rule: ID{is.Name, r.Text, nth[r.Text]},
		Uncounted: r.Uncounted, Both: t.Both, Packets: r.Packets, Bytes: r.Bytes,
	}
	nth[r.Text]++
	return l
}

// chain compiles a chain.
func (c *compiler) chain(is *Chain) {
	var barrier barrier
	nth := map[string]int{}
	for i := range is.Rules {
		line := c.line(c.bases[c.at.base].Table, is, i, nth)
		if barrier.whole {
			line.Offloaded, line.Reason = No, barrier.reason()
		} else {
			c.rule(&is.Rules[i], i+1, &line, &barrier)
		}
		c.report(line)
	}
	if c.isBase() {
		c.policy(is, &barrier, true)
	}
}

// barrier describes the preceding rules of a chain that leave packets to the stack.
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
		return fmt.Sprintf("rule %d may match any packet, and only the stack can tell", b.first)
	}
	return fmt.Sprintf("packets that rule %d may match are left to the stack", b.first)
}

// policy decides on the policy of a base chain, where its rules have left a barrier.
func (c *compiler) policy(is *Chain, b *barrier, report bool) {
	verb, to := c.accept()
	if is.Policy == "DROP" {
		verb, to = Drop, place{}
	}
	line := Line{
		Hook: c.hook, Chain: is.Name, Text: "policy " + is.Policy, Rule: ID{is.Name, PolicyText, 0},
		Uncounted: is.Uncounted, Both: c.bases[c.at.base].Table.Both, Packets: is.Packets, Bytes: is.Bytes,
	}
	switch why := c.refusal(verb); {
	case why != "":
		line.Offloaded, line.Reason = No, why
	case b.whole:
		line.Offloaded, line.Reason = No, b.reason()
	default:
		line.Offloaded = Yes
		if b.first != 0 {
			line.Offloaded, line.Reason = Partly, b.reason()
		} else if verb == Accept && c.s.OnlyEstablished {
			line.Offloaded, line.Reason = Partly, onlyEstablished
		}
	}
	if report {
		c.report(line)
	}
	switch {
	case c.several() && line.Offloaded == No:
		c.add(Entry{Verb: c.refused(verb)})
	case c.several():
		e := Entry{Verb: verb, Rule: line.Rule}
		if verb == Goto {
			e.To = c.number(to)
			c.lead(to)
		}
		c.add(e)
	case line.Offloaded != No:
		c.out.Policy, c.out.PolicyRule = verb, line.Rule
	default:
		c.out.Policy = c.refused(verb)
	}
}

// refused is the verb used in place of a verdict that must not be given.
func (c *compiler) refused(v Verb) Verb {
	if v == Accept && c.hook == Input {
		return Stack
	}
	return Miss
}

// accept returns what happens to packets that a base chain, or a chain behind it, accepts: they go to the next base chain.
func (c *compiler) accept() (Verb, place) {
	next := c.at.base + 1
	if next == len(c.bases) {
		return Accept, place{}
	}
	to := place{next, c.bases[next].Chain, itself}
	if c.number(to) == 0 {
		return Miss, place{}
	}
	return Goto, to
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
