// SPDX-License-Identifier: Apache-2.0

package language

import (
	"fmt"
	"slices"
	"strings"
)

// arity is how many arguments an option takes.
type arity uint8

const (
	noValue arity = iota
	oneValue
	twoValues
)

// value is what an option was given.
type value struct {
	option       string
	text, second string
	not          bool
}

// bad is the error of a value that the option does not take.
func (v value) bad(want string) error {
	return fmt.Errorf("bad value %q for option %q: %s", v.text, v.option, want)
}

// option is an option of a match or of a target.
type option struct {
	// names are the long names with their dashes, the canonical one first.
	names []string
	arity arity
	// not is whether `!` may precede it.
	not bool
	// literal is whether a value `!` is text, not the negation in its old place.
	literal bool
	// excludes are the options that it cannot be used together with.
	excludes []string
	set      func(v value) error
}

// builder is a match or a target while its options are read.
type builder struct {
	name    string
	options []option
	// seen are the canonical names of the options that were read.
	seen []string
	// required is an option that must be there.
	required string
	// finish checks what can be checked when the rule has been read. It may be nil.
	finish func(c *context) error
	match  func() Match
	target func() Target
}

// context is what a match or a target may be checked against.
type context struct {
	family Family
	table  string
	chain  string
	rule   *Rule
}

// builtin reports whether the chain is built in.
func (c *context) builtin() bool { return slices.Contains(chains[c.table], c.chain) }

// only refuses a built-in chain other than those given. User chains are accepted: what jumps to them is not known.
func (c *context) only(name string, allowed ...string) error {
	if !c.builtin() || slices.Contains(allowed, c.chain) {
		return nil
	}
	return fmt.Errorf("%s works only in the chains %s and in user-defined chains that they jump to", name,
		strings.Join(allowed, ", "))
}

// inTable refuses a table other than the one given.
func (c *context) inTable(name, table string) error {
	if c.table == table {
		return nil
	}
	return fmt.Errorf("%s works only in the table %s", name, table)
}

// protocolIn reports whether the rule is for one of the protocols.
func (c *context) protocolIn(protocols ...uint8) bool {
	return !c.rule.Protocol.Not && slices.Contains(protocols, c.rule.Protocol.Number)
}

// hasPorts reports whether the rule is for a protocol with ports.
func (c *context) hasPorts() bool { return c.protocolIn(protoTCP, protoUDP, protoSCTP, protoDCCP) }

// find returns the option with a name, or the options that the name abbreviates.
func (b *builder) find(name string) (exact *option, prefixed []*option) {
	for i := range b.options {
		o := &b.options[i]
		for _, n := range o.names {
			if n == name {
				return o, nil
			}
			if strings.HasPrefix(n, name) && !slices.Contains(prefixed, o) {
				prefixed = append(prefixed, o)
			}
		}
	}
	return nil, prefixed
}

// take sets an option.
func (b *builder) take(o *option, v value) error {
	v.option = o.names[0]
	if v.not && !o.not {
		return fmt.Errorf("%s: option %q cannot be inverted", b.name, v.option)
	}
	if slices.Contains(b.seen, v.option) {
		return fmt.Errorf("%s: option %q can only be used once", b.name, v.option)
	}
	for _, other := range o.excludes {
		if slices.Contains(b.seen, other) {
			return fmt.Errorf("%s: option %q cannot be used together with %q", b.name, v.option, other)
		}
	}
	b.seen = append(b.seen, v.option)
	if err := o.set(v); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return nil
}

// has reports whether an option was read.
func (b *builder) has(names ...string) bool {
	return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(b.seen, n) })
}

// done checks the match or target after the last option.
func (b *builder) done(c *context) error {
	if b.required != "" && !b.has(b.required) {
		return fmt.Errorf("%s: option %q must be specified", b.name, b.required)
	}
	if b.finish == nil {
		return nil
	}
	if err := b.finish(c); err != nil {
		return fmt.Errorf("%s: %w", b.name, err)
	}
	return nil
}

// flag is an option without value that sets a bool.
func flag(to *bool, names ...string) option {
	return option{names: names, set: func(value) error { *to = true; return nil }}
}

// joined joins the parts that are not empty.
func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

// bang returns the text after `! ` if not is true.
func bang(not bool, text string) string {
	if not {
		return "! " + text
	}
	return text
}

// when returns the text if the condition holds, and nothing otherwise.
func when(condition bool, text string) string {
	if condition {
		return text
	}
	return ""
}

// firstOf returns the first error.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
