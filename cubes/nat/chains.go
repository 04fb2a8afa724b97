// SPDX-License-Identifier: Apache-2.0

package nat

// The table nat of iptables, whose rules take the place of the NAT's own.

import (
	"errors"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/cubes/nat/policy"
	"github.com/polycube/polycube/iptables/commands"
	"github.com/polycube/polycube/iptables/language"
)

// Table is an entry of the list `table`.
type Table struct {
	Family string `json:"family"`
	Text   string `json:"text"`
}

// familyNames are the names in the model.
var familyNames = map[language.Family]string{language.IPv4: "ipv4", language.IPv6: "ipv6"}

// text returns the table of a family.
func (c *Config) text(family language.Family) string {
	i := slices.IndexFunc(c.Table, func(t Table) bool { return t.Family == familyNames[family] })
	if i < 0 {
		return ""
	}
	return c.Table[i].Text
}

// with returns a configuration whose table of a family is another one.
func (c *Config) with(family language.Family, text string) *Config {
	out := *c
	out.Table = append(slices.DeleteFunc(slices.Clone(c.Table), func(t Table) bool { return t.Family == familyNames[family] }), Table{familyNames[family], text})
	return &out
}

// views are the chains of both families.
type views [len(policy.Families)]*commands.View

func (c *Config) views() (v views, err error) {
	for i, family := range policy.Families {
		if v[i], err = commands.Parse(family, commands.NAT, c.text(family), true); err != nil {
			return v, fmt.Errorf("table %s: %w: %w", familyNames[family], err, cube.ErrInvalid)
		}
	}
	return v, nil
}

// chains are the table in effect.
type chains struct {
	rows   table.MapOf[uint32, uint32, policy.Row]
	tables []Table
	views  views
	policy *policy.Policy // nil before the first change
}

func newChains(env cube.Env) chains {
	return chains{rows: table.NewMapOf[uint32, uint32, policy.Row](env, "policy")}
}

// prepare returns the step that puts the table of a configuration into effect.
func (c *chains) prepare(is *Config) (cube.Step, error) {
	v, err := is.views()
	if err != nil {
		return nil, err
	}
	p, err := policy.Compile(v)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, cube.ErrUnsupported)
	}
	return cube.Effect(func() (func() error, error) { return c.take(chains{c.rows, is.Table, v, p}) }), nil
}

// take has packets see other rules. Those that stay keep their counters.
func (c *chains) take(to chains) (undo func() error, err error) {
	was := *c
	undo = func() error { *c = was; return nil }
	if was.policy != nil && slices.Equal(was.tables, to.tables) {
		return undo, nil
	}
	rows, err := c.read()
	if err != nil {
		return nil, err
	}
	if was.policy != nil || !to.policy.Same(rows) { // they are the same after a restart
		if was.policy != nil {
			to.keep(&was, rows)
		}
		swapped, err := table.Swap(c.rows, 0, to.policy.All()).Do()
		if err != nil {
			return nil, err
		}
		undo = func() error { *c = was; return swapped() }
	}
	*c = to
	return undo, nil
}

// read returns the rows that packets see.
func (c *chains) read() (rows map[uint32]policy.Row, err error) {
	rows = map[uint32]policy.Row{}
	inner, ok, err := c.rows.Get(0)
	if err != nil || !ok {
		return rows, err
	}
	for at, row := range inner.All(&err) {
		rows[at] = row
	}
	return rows, errors.Join(err, inner.Close())
}

// keep gives rules that were there the counters that they had, of the rules of each chain those that begin and end alike.
func (c *chains) keep(was *chains, rows map[uint32]policy.Row) {
	for f, family := range policy.Families {
		for _, chain := range c.views[f].Chains {
			i := slices.IndexFunc(was.views[f].Chains, func(o *commands.Chain) bool { return o.Name == chain.Name })
			if i < 0 {
				continue
			}
			old := was.views[f].Chains[i]
			carry := func(from, to int) {
				n := was.policy.Counts(policy.Place{Family: family, Chain: chain.Name, At: from}, rows)
				c.policy.SetCounts(policy.Place{Family: family, Chain: chain.Name, At: to}, n)
			}
			carry(-1, -1)
			first, last := commands.Alike(texts(old), texts(chain))
			for at := range first {
				carry(at, at)
			}
			for at := range last {
				carry(len(old.Rules)-1-at, len(chain.Rules)-1-at)
			}
		}
	}
}

func texts(c *commands.Chain) []string {
	out := make([]string, len(c.Rules))
	for i, r := range c.Rules {
		out[i] = r.String()
	}
	return out
}

// view returns the chains of a family as commands see them.
func (c *chains) view(family language.Family, name string) (*commands.View, error) {
	if name != commands.NAT {
		return nil, &commands.ElsewhereError{Table: name}
	}
	rows, err := c.read()
	if err != nil {
		return nil, err
	}
	v := c.views[slices.Index(policy.Families[:], family)]
	out := make([]*commands.Chain, len(v.Chains))
	for i, chain := range v.Chains {
		count := func(at int) commands.Counts {
			return c.policy.Counts(policy.Place{Family: family, Chain: chain.Name, At: at}, rows)
		}
		rules := make([]language.Rule, len(chain.Rules))
		for at, r := range chain.Rules {
			n := count(at)
			rules[at] = r.Counted(n.Packets, n.Bytes)
		}
		out[i] = commands.NewChain(chain.Name, chain.Policy, count(-1), rules)
	}
	return commands.NewView(family, name, out), nil
}

// set sets counters of rules of a family.
func (c *chains) set(family language.Family, counts []commands.Counted) error {
	rows, err := c.read()
	if err != nil {
		return err
	}
	inner, ok, err := c.rows.Get(0)
	if err != nil || !ok {
		return err
	}
	for _, n := range counts {
		for _, at := range c.policy.SetCounts(policy.Place{Family: family, Chain: n.Chain, At: n.At}, n.To) {
			row := rows[at]
			row.Packets, row.Bytes = c.policy.Rows[at].Packets, c.policy.Rows[at].Bytes
			err = errors.Join(err, inner.Set(at, row))
		}
	}
	return errors.Join(err, inner.Close())
}
