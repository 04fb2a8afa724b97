// SPDX-License-Identifier: Apache-2.0

package offload

// Reads what iptables-save -c prints. Unlike package language it keeps what cannot be read.

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// Limits of what is read.
const (
	maxLine  = 64 << 10
	maxRules = 1 << 16
)

// reader is a file while it is read.
type reader struct {
	family language.Family
	out    []Table
	open   bool
	rules  int
}

// Read reads what iptables-save -c or ip6tables-save -c has printed. Nothing at all is a host without tables.
func Read(family language.Family, from io.Reader) ([]Table, error) {
	r := reader{family: family}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		if err := r.line(strings.TrimRight(lines.Text(), " \t\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if r.open {
		return nil, fmt.Errorf("line %d: COMMIT expected", number+1)
	}
	return r.out, nil
}

func (r *reader) line(text string) error {
	switch {
	case text == "" || text[0] == '#':
		return nil
	case text[0] == '*' && !r.open:
		r.open = true
		r.out = append(r.out, Table{Name: text[1:]})
		return nil
	case !r.open:
		return fmt.Errorf("a table (*NAME) expected, found %q", text)
	case text == "COMMIT":
		r.open = false
		return nil
	case text[0] == ':':
		return r.chain(text[1:])
	}
	return r.rule(text)
}

func (r *reader) table() *Table { return &r.out[len(r.out)-1] }

// chain reads NAME POLICY [PACKETS:BYTES].
func (r *reader) chain(text string) error {
	words := strings.Fields(text)
	if len(words) != 3 || !slices.Contains([]string{"ACCEPT", "DROP", "-"}, words[1]) {
		return fmt.Errorf("a chain with its policy and counters expected, found %q", ":"+text)
	}
	if r.table().chain(words[0]) != nil {
		return fmt.Errorf("chain %s is defined twice", words[0])
	}
	c := Chain{Name: words[0], Policy: words[1]}
	var err error
	if c.Packets, c.Bytes, err = counters(words[2]); err != nil {
		return err
	}
	r.table().Chains = append(r.table().Chains, c)
	return nil
}

// counters reads [PACKETS:BYTES].
func counters(text string) (packets, bytes uint64, err error) {
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	p, b, both := strings.Cut(inner, ":")
	packets, errPackets := strconv.ParseUint(p, 10, 64)
	bytes, errBytes := strconv.ParseUint(b, 10, 64)
	if !opened || !closed || !both || errPackets != nil || errBytes != nil {
		return 0, 0, fmt.Errorf("bad counters %q: they are [PACKETS:BYTES]", text)
	}
	return packets, bytes, nil
}

// rule reads [PACKETS:BYTES] -A CHAIN and the rule.
func (r *reader) rule(text string) error {
	var one Rule
	if text[0] == '[' {
		count, rest, _ := strings.Cut(text, "]")
		var err error
		if one.Packets, one.Bytes, err = counters(count + "]"); err != nil {
			return err
		}
		text = strings.TrimLeft(rest, " ")
	}
	args, err := language.SplitLine(text)
	if err != nil {
		return err
	}
	if len(args) < 2 || args[0] != "-A" {
		return fmt.Errorf("a rule (-A CHAIN ...) expected, found %q", text)
	}
	c := r.table().chain(args[1])
	if c == nil {
		return fmt.Errorf("there is no chain %s", args[1])
	}
	if r.rules++; r.rules > maxRules {
		return fmt.Errorf("there are more than %d rules", maxRules)
	}
	_, one.Text, _ = strings.Cut(strings.TrimPrefix(text, "-A "), " ")
	one.read(r.family, args)
	c.Rules = append(c.Rules, one)
	return nil
}

// read reads the words of a rule, as far as package language knows them.
func (one *Rule) read(family language.Family, args []string) {
	is, err := only(family, args)
	if err == nil {
		one.Is = []language.Rule{*is}
		return
	}
	one.Why = err.Error()
	for cut := len(args) - 1; cut >= 2; cut-- {
		if !slices.Contains([]string{"-m", "-j", "-g"}, args[cut]) {
			continue
		}
		if hull, err := only(family, args[:cut]); err == nil {
			hull.Target = nil
			one.Is = []language.Rule{*hull}
			return
		}
	}
}

// only reads the words of one rule.
func only(family language.Family, args []string) (*language.Rule, error) {
	args = slices.Clone(args)
	args[1] = Forward // package language refuses names of chains that the kernel takes
	c, err := language.ReadCommand(family, args)
	if err != nil {
		return nil, err
	}
	if len(c.Rules) != 1 {
		return nil, fmt.Errorf("the command stands for %d rules, not one", len(c.Rules))
	}
	return &c.Rules[0], nil
}
