// SPDX-License-Identifier: Apache-2.0

// Package commands carries out the commands of iptables on chains of rules: it says what they print, and which changes of
// the chains they are. It knows neither the kernel nor the framework.
package commands

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// Counts are packets and the bytes of IP in them.
type Counts struct{ Packets, Bytes uint64 }

// Chain is a chain of rules, which have their counters.
type Chain struct {
	Name string
	// Policy is ACCEPT or DROP, or empty for a chain that users have defined.
	Policy string
	// Counts are those of the policy.
	Counts
	Rules []language.Rule
}

// NewChain returns a chain; policy is empty if users have defined it.
func NewChain(name, policy string, counts Counts, rules []language.Rule) *Chain {
	return &Chain{name, policy, counts, rules}
}

// View are the chains of a table of a family: those that are built in, then the others by name.
type View struct {
	Family language.Family
	Table  string
	Chains []*Chain
	// Judges says that packets are compared with the rules. If not, these may only lead from chain to chain.
	Judges bool
}

// NewView returns the view of a table with whose rules packets are compared, with chains in their order.
func NewView(family language.Family, table string, chains []*Chain) *View {
	return &View{family, table, chains, true}
}

// Op is the kind of an edit.
type Op uint8

// The kinds of edits.
const (
	AddChain Op = iota
	DeleteChain
	SetPolicy   // to Name
	InsertRule  // Rule, before the one At, with its counters
	DeleteRule  // At
	ReplaceRule // At, by Rule
	SetCounts   // of the rule At, or of the policy if At is -1
)

// Edit is one change of a table with whose rules packets are compared. Each is about what those before it have left.
type Edit struct {
	Table string
	Op    Op
	Chain string
	At    int
	Name  string
	Rule  language.Rule
	Counts
}

// Result is what a command prints, and what it changes: edits of the tables with whose rules packets are compared, and all
// tables but filter as they are then, by name, in the format of iptables-save; one that has nothing is empty.
type Result struct {
	Output string
	Edits  []Edit
	Tables map[string]string
	// Test says that the edits are to be checked, and not carried out.
	Test bool
	// elsewhere is the answer to a command about a table of another cube.
	elsewhere Answer
}

// Error is what a program says if it fails, and its exit status.
type Error struct {
	Code int
	Text string
}

func (e *Error) Error() string { return e.Text }

// The exit statuses of iptables.
const (
	otherProblem = 1
	badParameter = 2
	noResources  = 4
)

func problem(text string) error { return &Error{otherProblem, text} }

// errNoChain is what iptables says of one that does not exist.
var errNoChain = problem("No chain/target/match by that name.")

// editor carries out commands on a copy of a view.
type editor struct {
	view View
	out  strings.Builder
	list []Edit
}

func newEditor(v *View) *editor {
	e := &editor{view: View{Family: v.Family, Table: v.Table, Judges: v.Judges}}
	for _, c := range v.Chains {
		is := *c
		is.Rules = slices.Clone(c.Rules)
		e.view.Chains = append(e.view.Chains, &is)
	}
	return e
}

// result is what the commands so far have printed and changed.
func (e *editor) result() (Result, error) {
	r := Result{Output: e.out.String(), Edits: e.list}
	for i := range r.Edits {
		r.Edits[i].Table = e.view.Table
	}
	if e.view.Table == filter || len(r.Edits) == 0 {
		return r, nil
	}
	text, err := e.view.text()
	if r.Tables = map[string]string{e.view.Table: text}; !e.view.Judges {
		r.Edits = nil
	}
	return r, err
}

// Run carries out a command.
func Run(v *View, c language.Command) (Result, error) {
	e := newEditor(v)
	if err := e.run(c); err != nil {
		return Result{}, err
	}
	return e.result()
}

// chain returns the chain with a name, or nil.
func (v *View) chain(name string) *Chain {
	i := slices.IndexFunc(v.Chains, func(c *Chain) bool { return c.Name == name })
	if i < 0 {
		return nil
	}
	return v.Chains[i]
}

// references returns how many rules jump to a chain.
func (v *View) references(name string) (n int) {
	for _, c := range v.Chains {
		for _, r := range c.Rules {
			if j, ok := r.Target.(language.Jump); ok && j.Chain == name {
				n++
			}
		}
	}
	return n
}

// run carries out a command.
func (e *editor) run(c language.Command) error {
	switch c.Op {
	case 'L':
		return e.print(c, e.listed)
	case 'S':
		return e.print(c, e.commands)
	case 'N':
		return e.add(c.Chain)
	case 'F':
		return e.each(c.Chain, e.flush)
	case 'Z':
		return e.zero(c)
	case 'X':
		return e.remove(c.Chain)
	case 'E':
		return e.rename(c.Chain, c.Name)
	}
	chain := e.view.chain(c.Chain)
	if chain == nil {
		return errNoChain
	}
	switch c.Op {
	case 'P':
		if chain.Policy == "" {
			return problem("Bad built-in chain name.")
		}
		if c.Name != "ACCEPT" && !e.view.Judges {
			return otherTable(e.view.Table, "-P "+c.Chain+" "+c.Name)
		}
		chain.Policy = c.Name
		e.list = append(e.list, Edit{Op: SetPolicy, Chain: c.Chain, Name: c.Name})
		return nil
	case 'A', 'I':
		return e.insert(chain, c)
	case 'D':
		return e.delete(chain, c)
	case 'R':
		return e.replace(chain, c)
	case 'C':
		for _, r := range c.Rules {
			if chain.find(r) < 0 {
				return errNoRule
			}
		}
		return nil
	}
	return &Error{badParameter, fmt.Sprintf("option \"-%c\" is not supported", c.Op)}
}

// errNoRule is what iptables says of a rule that there is not.
var errNoRule = problem("Bad rule (does a matching rule exist in that chain?).")

// Tables by name.
const (
	filter = "filter"
	// Raw is compared with packets before their connections are known.
	Raw = "raw"
	// NAT is compared with the first packet of a connection, which it translates.
	NAT = "nat"
)

// otherTable refuses what would have an effect in another table.
func otherTable(table, what string) error {
	instead := "only rules of the tables filter and raw have an effect"
	if table == NAT {
		instead = "addresses are translated by the cube nat: see `polycubectl nat --help`"
	}
	return &Error{badParameter, fmt.Sprintf("table %s: %s: %s", table, what, instead)}
}

// checkTable refuses rules of tables with which no packets are compared, unless they only lead from chain to chain: programs
// make chains in all tables, also if they need none.
func (e *editor) checkTable(r *language.Rule) error {
	if e.view.Judges {
		return nil
	}
	switch t := r.Target.(type) {
	case nil, language.Jump:
		return nil
	case language.Verdict:
		if t != "DROP" {
			return nil
		}
	}
	return otherTable(e.view.Table, r.String())
}

// find returns the position of the first rule that says the same, or -1.
func (c *Chain) find(r language.Rule) int {
	text := r.String()
	return slices.IndexFunc(c.Rules, func(other language.Rule) bool { return other.String() == text })
}

// checkTarget refuses a jump to a chain that does not exist, or that leads back.
func (e *editor) checkTarget(from string, r *language.Rule) error {
	j, ok := r.Target.(language.Jump)
	if !ok {
		return nil
	}
	to := e.view.chain(j.Chain)
	if to == nil || to.Policy != "" {
		return &Error{badParameter, fmt.Sprintf("couldn't load target `%s': there is no such chain", j.Chain)}
	}
	if e.leads(j.Chain, from, map[string]bool{}) {
		return problem("Too many levels of symbolic links: the rules of chain " + j.Chain + " jump back to " + from)
	}
	return nil
}

// leads reports whether the rules of a chain jump to another one, if by others.
func (e *editor) leads(from, to string, seen map[string]bool) bool {
	if from == to {
		return true
	}
	if seen[from] {
		return false
	}
	seen[from] = true
	for _, r := range e.view.chain(from).Rules {
		if j, ok := r.Target.(language.Jump); ok && e.leads(j.Chain, to, seen) {
			return true
		}
	}
	return false
}

// put inserts a rule.
func (e *editor) put(chain *Chain, at int, r language.Rule) error {
	if err := errors.Join(e.checkTarget(chain.Name, &r), e.checkTable(&r)); err != nil {
		return err
	}
	chain.Rules = slices.Insert(chain.Rules, at, r)
	e.list = append(e.list, Edit{Op: InsertRule, Chain: chain.Name, At: at, Rule: r, Counts: Counts{r.Packets, r.Bytes}})
	return nil
}

func (e *editor) insert(chain *Chain, c language.Command) error {
	for _, r := range c.Rules {
		at := len(chain.Rules)
		if c.Op == 'I' {
			if at = c.Number - 1; at > len(chain.Rules) {
				return problem("Index of insertion too big.")
			}
		}
		if err := e.put(chain, at, r); err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) delete(chain *Chain, c language.Command) error {
	if len(c.Rules) == 0 {
		if c.Number > len(chain.Rules) {
			return problem("Index of deletion too big.")
		}
		e.drop(chain, c.Number-1)
		return nil
	}
	for _, r := range c.Rules {
		at := chain.find(r)
		if at < 0 {
			return errNoRule
		}
		e.drop(chain, at)
	}
	return nil
}

func (e *editor) drop(chain *Chain, at int) {
	chain.Rules = slices.Delete(chain.Rules, at, at+1)
	e.list = append(e.list, Edit{Op: DeleteRule, Chain: chain.Name, At: at})
}

func (e *editor) replace(chain *Chain, c language.Command) error {
	at, r := c.Number-1, c.Rules[0]
	if at >= len(chain.Rules) {
		return problem("Index of replacement too big.")
	}
	if err := errors.Join(e.checkTarget(chain.Name, &r), e.checkTable(&r)); err != nil {
		return err
	}
	chain.Rules[at] = r
	e.list = append(e.list, Edit{Op: ReplaceRule, Chain: chain.Name, At: at, Rule: r, Counts: Counts{r.Packets, r.Bytes}})
	return nil
}

// each calls fn for a chain, or for all.
func (e *editor) each(name string, fn func(*Chain) error) error {
	if name != "" {
		chain := e.view.chain(name)
		if chain == nil {
			return errNoChain
		}
		return fn(chain)
	}
	for _, chain := range e.view.Chains {
		if err := fn(chain); err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) flush(chain *Chain) error {
	for at := len(chain.Rules) - 1; at >= 0; at-- {
		e.drop(chain, at)
	}
	return nil
}

// zero sets counters to zero: of a rule, of a chain or of all.
func (e *editor) zero(c language.Command) error {
	if c.Number == 0 {
		return e.each(c.Chain, e.zeroChain)
	}
	chain := e.view.chain(c.Chain)
	switch {
	case chain == nil:
		return errNoChain
	case c.Number > len(chain.Rules):
		return problem("Index of replacement too big.")
	}
	e.count(chain, c.Number-1, Counts{})
	return nil
}

func (e *editor) zeroChain(chain *Chain) error {
	for at := range chain.Rules {
		e.count(chain, at, Counts{})
	}
	if chain.Policy != "" {
		e.count(chain, -1, Counts{})
	}
	return nil
}

// count sets the counters of a rule, or of the policy.
func (e *editor) count(chain *Chain, at int, to Counts) {
	if at < 0 {
		chain.Counts = to
	} else {
		chain.Rules[at] = chain.Rules[at].Counted(to.Packets, to.Bytes)
	}
	e.list = append(e.list, Edit{Op: SetCounts, Chain: chain.Name, At: at, Counts: to})
}

func (e *editor) add(name string) error {
	if e.view.chain(name) != nil {
		return problem("Chain already exists.")
	}
	at, _ := slices.BinarySearchFunc(e.view.Chains, name, func(c *Chain, name string) int {
		if c.Policy != "" {
			return -1
		}
		return strings.Compare(c.Name, name)
	})
	e.view.Chains = slices.Insert(e.view.Chains, at, &Chain{Name: name})
	e.list = append(e.list, Edit{Op: AddChain, Chain: name})
	return nil
}

// remove deletes a chain, or all that users have defined.
func (e *editor) remove(name string) error {
	if name != "" {
		return e.removeChain(name)
	}
	var names []string
	for _, c := range e.view.Chains {
		if c.Policy == "" {
			names = append(names, c.Name)
		}
	}
	for _, name := range names {
		if err := e.removeChain(name); err != nil {
			return err
		}
	}
	return nil
}

func (e *editor) removeChain(name string) error {
	chain := e.view.chain(name)
	switch {
	case chain == nil:
		return errNoChain
	case chain.Policy != "":
		return problem("Invalid argument: " + name + " is a built-in chain.")
	case e.view.references(name) > 0:
		return problem("Too many links: rules jump to chain " + name + ".")
	case len(chain.Rules) > 0:
		return problem("Directory not empty: chain " + name + " has rules; flush it first (-F).")
	}
	e.view.Chains = slices.DeleteFunc(e.view.Chains, func(c *Chain) bool { return c == chain })
	e.list = append(e.list, Edit{Op: DeleteChain, Chain: name})
	return nil
}

func (e *editor) rename(name, to string) error {
	chain := e.view.chain(name)
	switch {
	case chain == nil || chain.Policy != "":
		return errNoChain
	case e.view.chain(to) != nil:
		return problem("File exists.")
	}
	if err := e.add(to); err != nil {
		return err
	}
	for at, r := range chain.Rules {
		if err := e.put(e.view.chain(to), at, r); err != nil {
			return err
		}
	}
	for _, c := range e.view.Chains {
		for at, r := range c.Rules {
			if j, ok := r.Target.(language.Jump); ok && j.Chain == name {
				j.Chain = to
				r.Target = j
				c.Rules[at] = r
				e.list = append(e.list, Edit{Op: ReplaceRule, Chain: c.Name, At: at, Rule: r, Counts: Counts{r.Packets, r.Bytes}})
			}
		}
	}
	if err := e.flush(chain); err != nil {
		return err
	}
	return e.removeChain(name)
}
