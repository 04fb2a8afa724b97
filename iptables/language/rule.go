// SPDX-License-Identifier: Apache-2.0

package language

// Reading of the rule in a command, and its checks.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// ruleOption reads an option of the rule.
func (r *reader) ruleOption(letter byte, name, text string, not bool) (err error) {
	switch letter {
	case 's':
		r.sources, err = r.addresses(name, text, not)
	case 'd':
		r.destinations, err = r.addresses(name, text, not)
	case 'p':
		r.rule.Protocol.Number, err = protocol(text, r.cmd.Family)
		if r.rule.Protocol.Not = not; err == nil && not && r.rule.Protocol.Number == 0 {
			err = fmt.Errorf("! %s %s never matches", name, text)
		}
	case 'i':
		r.rule.In, err = interfaceName(name, text, not)
	case 'o':
		r.rule.Out, err = interfaceName(name, text, not)
	case 'f':
		if r.cmd.Family == IPv6 {
			return errors.New("-f is not supported in IPv6")
		}
		if r.rule.Fragment = LaterFragments; not {
			r.rule.Fragment = FirstFragment
		}
	case 'j':
		r.target, err = newTarget(text, r.cmd.Family)
	case 'g':
		r.target, err = newJump(text, true)
	case 'm':
		var b *builder
		b, err = newMatch(text, r.cmd.Family)
		r.matches = append(r.matches, b)
	case 'c':
		err = r.counters(text)
	}
	return err
}

// addresses reads addresses that commas separate.
func (r *reader) addresses(name, text string, not bool) (out []Address, err error) {
	for _, part := range strings.Split(text, ",") {
		a, err := r.cmd.Family.address(part)
		if err != nil {
			return nil, err
		}
		if a.Not = not; not && a.Any() {
			return nil, fmt.Errorf("! %s %s never matches", name, part)
		}
		out = append(out, a)
	}
	if not && len(out) > 1 {
		return nil, errors.New("! not allowed with multiple source or destination IP addresses")
	}
	return out, nil
}

// interfaceName reads NAME or NAME+.
func interfaceName(option, text string, not bool) (i Interface, err error) {
	switch {
	case text == "":
		return i, fmt.Errorf("the interface of %s is empty", option)
	case len(text) > 15:
		return i, fmt.Errorf("interface name %q must have at most 15 characters", text)
	case strings.ContainsAny(text, "/\"\\\x7f") || strings.IndexFunc(text, func(r rune) bool { return r <= ' ' }) >= 0:
		return i, fmt.Errorf("invalid character in interface name %q", text)
	case text == "+" && not:
		return i, fmt.Errorf("! %s + never matches", option)
	case text == "+":
		return i, nil
	}
	i.Name, i.Prefix = strings.CutSuffix(text, "+")
	i.Not = not
	return i, nil
}

// counters reads PACKETS,BYTES or PACKETS and the next argument.
func (r *reader) counters(text string) error {
	packets, bytes, both := strings.Cut(text, ",")
	if !both {
		var ok bool
		if bytes, ok = r.peek(); !ok {
			return errors.New("-c requires packet and byte counter")
		}
	}
	p, okPackets := decimal(packets, math.MaxUint64)
	b, okBytes := decimal(bytes, math.MaxUint64)
	if !okPackets || !okBytes {
		return errors.New("-c packet and byte counter must be numbers")
	}
	r.rule.Packets, r.rule.Bytes = p, b
	return nil
}

// finish checks the command as a whole.
func (r *reader) finish() (Command, error) {
	if err := r.checkOptions(); err != nil {
		return Command{}, err
	}
	c := r.cmd
	switch c.Op {
	case 'N':
		return c, newChainName(c.Chain, c.Table)
	case 'E':
		return c, newChainName(c.Name, c.Table)
	case 'P':
		if !slices.Contains(chains[c.Table], c.Chain) {
			return c, fmt.Errorf("bad built-in chain name %q: only built-in chains have a policy", c.Chain)
		}
		if c.Name != "ACCEPT" && c.Name != "DROP" {
			return c, fmt.Errorf("bad policy name %q: it is ACCEPT or DROP", c.Name)
		}
	}
	if !c.hasRule() {
		return c, nil
	}
	if err := r.checkRule(); err != nil {
		return Command{}, err
	}
	r.cmd.Rules = r.rules()
	if r.cmd.Op == 'R' && len(r.cmd.Rules) > 1 {
		return Command{}, errors.New("replacing with multiple source or destination addresses is not allowed")
	}
	return r.cmd, nil
}

// checkOptions refuses options that the command does not take.
func (r *reader) checkOptions() error {
	if r.cmd.Op == 0 {
		return errors.New("no command specified")
	}
	illegal := func(letters string) error {
		for i := range len(letters) {
			if r.seen[letters[i]] {
				return fmt.Errorf("illegal option \"-%c\" with -%c", letters[i], r.cmd.Op)
			}
		}
		return nil
	}
	var err error
	if !r.cmd.hasRule() {
		err = illegal("sdpiofjgmc")
	}
	if r.cmd.Op != 'L' {
		err = firstOf(err, illegal("nx"))
		if r.seen[lineNumbers] {
			err = fmt.Errorf("illegal option \"--line-numbers\" with -%c", r.cmd.Op)
		}
	}
	if strings.IndexByte("AIR", r.cmd.Op) < 0 && err == nil {
		err = illegal("c")
	}
	return err
}

// checkRule completes the rule and checks it against the chain.
func (r *reader) checkRule() error {
	c := &context{family: r.cmd.Family, table: r.cmd.Table, chain: r.cmd.Chain, rule: &r.rule}
	if r.rule.In != (Interface{}) && (c.chain == "OUTPUT" || c.chain == "POSTROUTING") {
		return fmt.Errorf("can't use -i with %s", c.chain)
	}
	if r.rule.Out != (Interface{}) && (c.chain == "INPUT" || c.chain == "PREROUTING") {
		return fmt.Errorf("can't use -o with %s", c.chain)
	}
	for _, m := range r.matches {
		if err := m.done(c); err != nil {
			return err
		}
		r.rule.Matches = append(r.rule.Matches, m.match())
	}
	if r.target != nil {
		if err := r.target.done(c); err != nil {
			return err
		}
		r.rule.Target = r.target.target()
	}
	return nil
}

// rules returns a rule for each pair of addresses.
func (r *reader) rules() (out []Rule) {
	sources, destinations := r.sources, r.destinations
	if sources == nil {
		sources = []Address{{}}
	}
	if destinations == nil {
		destinations = []Address{{}}
	}
	for _, s := range sources {
		for _, d := range destinations {
			rule := r.rule
			rule.Source, rule.Destination = s, d
			out = append(out, rule)
		}
	}
	return out
}
