// SPDX-License-Identifier: Apache-2.0

package language

// The format of iptables-save and iptables-restore.

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Table is a table of the save format.
type Table struct {
	Name   string
	Chains []Chain
	// Commands are the lines after the chains. iptables-save writes only -A.
	Commands []Command
}

// Chain is a chain of the save format.
type Chain struct {
	Name string
	// Policy is ACCEPT or DROP, or - if the chain is user-defined or its policy stays.
	Policy         string
	Packets, Bytes uint64
}

// maxLine is the longest line of a save file, in bytes.
const maxLine = 64 << 10

// saveReader is a save file while it is read.
type saveReader struct {
	family Family
	tables []Table
	// open is whether the last table awaits its COMMIT.
	open bool
}

// ReadSave reads a file of iptables-save, as iptables-restore would. An error names the line. Rules with the option of
// the other family (-4, -6) are skipped.
func ReadSave(family Family, from io.Reader) ([]Table, error) {
	r := &saveReader{family: family}
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, maxLine)
	number := 0
	for lines.Scan() {
		number++
		if err := r.line(lines.Text()); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	if r.open {
		return nil, fmt.Errorf("line %d: COMMIT of the table %s expected", number+1, r.table().Name)
	}
	return r.tables, nil
}

func (r *saveReader) table() *Table { return &r.tables[len(r.tables)-1] }

func (r *saveReader) line(text string) error {
	switch {
	case text == "" || text[0] == '#':
		return nil
	case text[0] == '*':
		if r.open {
			return fmt.Errorf("COMMIT of the table %s expected", r.table().Name)
		}
		r.open = true
		name := strings.TrimRight(text[1:], " \t")
		r.tables = append(r.tables, Table{Name: name})
		return tableName(name)
	case !r.open:
		return fmt.Errorf("a table (*NAME) expected, found %q", text)
	case text == "COMMIT":
		r.open = false
		return nil
	case text[0] == ':':
		return r.chain(text[1:])
	}
	return r.command(text)
}

// chain reads NAME POLICY [PACKETS:BYTES].
func (r *saveReader) chain(text string) error {
	t, words := r.table(), strings.Fields(text)
	if len(words) < 2 || len(words) > 3 {
		return fmt.Errorf("a chain needs a name, a policy and counters: %q", ":"+text)
	}
	c := Chain{Name: words[0], Policy: words[1]}
	builtin := slices.Contains(chains[t.Name], c.Name)
	switch {
	case builtin && !slices.Contains([]string{"ACCEPT", "DROP", "-"}, c.Policy):
		return fmt.Errorf("bad policy name %q: it is ACCEPT or DROP", c.Policy)
	case !builtin && c.Policy != "-":
		return fmt.Errorf("bad policy %q of the user-defined chain %s: it is -", c.Policy, c.Name)
	case !builtin:
		if err := newChainName(c.Name, t.Name); err != nil {
			return err
		}
	}
	if len(words) == 3 {
		var err error
		if c.Packets, c.Bytes, err = saveCounters(words[2]); err != nil {
			return err
		}
	}
	t.Chains = append(t.Chains, c)
	return nil
}

// saveCounters reads [PACKETS:BYTES].
func saveCounters(text string) (packets, bytes uint64, err error) {
	inner, opened := strings.CutPrefix(text, "[")
	inner, closed := strings.CutSuffix(inner, "]")
	p, b, both := strings.Cut(inner, ":")
	packets, okPackets := decimal(p, math.MaxUint64)
	bytes, okBytes := decimal(b, math.MaxUint64)
	if !opened || !closed || !both || !okPackets || !okBytes {
		return 0, 0, fmt.Errorf("bad counters %q: they are [PACKETS:BYTES]", text)
	}
	return packets, bytes, nil
}

// command reads a line with options, which counters may precede.
func (r *saveReader) command(text string) (err error) {
	var packets, bytes uint64
	counted := text[0] == '['
	if counted {
		counters, rest, _ := strings.Cut(text, "]")
		if packets, bytes, err = saveCounters(counters + "]"); err != nil {
			return err
		}
		text = rest
	}
	args, err := SplitLine(text)
	if err != nil {
		return err
	}
	t := r.table()
	in := newReader(r.family, args)
	in.cmd.Table = t.Name
	if err := in.read(); errors.Is(err, errOtherFamily) {
		return nil
	} else if err != nil {
		return err
	}
	if in.seen['t'] {
		return errors.New(`option "-t" is not allowed in a save file`)
	}
	c, err := in.finish()
	if err != nil {
		return err
	}
	if strings.IndexByte("LSC", c.Op) >= 0 {
		return fmt.Errorf("option \"-%c\" is not allowed in a save file", c.Op)
	}
	for i := range c.Rules {
		if counted && strings.IndexByte("AIR", c.Op) >= 0 {
			c.Rules[i].Packets, c.Rules[i].Bytes = packets, bytes
		}
	}
	t.Commands = append(t.Commands, c)
	return nil
}

// WriteSave writes tables as iptables-save does; with counters as `iptables-save -c`.
func WriteSave(to io.Writer, tables []Table, counters bool) error {
	w := bufio.NewWriter(to)
	for _, t := range tables {
		fmt.Fprintf(w, "*%s\n", t.Name)
		for _, c := range t.Chains {
			fmt.Fprintf(w, ":%s %s [%d:%d]\n", c.Name, c.Policy, c.Packets, c.Bytes)
		}
		for _, c := range t.Commands {
			writeCommand(w, c, counters)
		}
		fmt.Fprint(w, "COMMIT\n")
	}
	return w.Flush()
}

// writeCommand writes a line for each rule of the command.
func writeCommand(w io.Writer, c Command, counters bool) {
	c.Table, c.Wait = "filter", false // which the format does not repeat
	rules := slices.Clone(c.Rules)
	var before []string
	for i := range rules {
		text := ""
		if counters && strings.IndexByte("AIR", c.Op) >= 0 {
			text = fmt.Sprintf("[%d:%d] ", rules[i].Packets, rules[i].Bytes)
		}
		before = append(before, text)
		rules[i].Packets, rules[i].Bytes = 0, 0
	}
	c.Rules = rules
	for i, line := range c.Lines() {
		if i < len(before) {
			line = before[i] + line
		}
		fmt.Fprintln(w, line)
	}
}
