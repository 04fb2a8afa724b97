// SPDX-License-Identifier: Apache-2.0

// Package readme reads the examples of a README, so that a test can run them and compare the output. An example is a
// command in a fenced block marked console, followed by its output:
//
//	$ polycubectl br1 show ports p1 status
//	UP
//
// A command continues after a line that ends in a backslash, or on lines that begin with "> ". In the output, "..."
// stands for any text within the line, and a line with nothing else for any number of lines. A last line "[exit 2]" is
// the exit status; without one it is 0.
package readme

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
)

// Example is one command of a document and its output.
type Example struct {
	Line    int      // of the command, 1 is the first
	Block   int      // number of the console block in the document, from 0
	Command string   // for a shell; more than one line if it continues
	Output  []string // without trailing blank lines; "..." matches any text
	Exit    int      // the exit code
}

const (
	prompt   = "$ "
	goesOn   = "> "
	wildcard = "..."
	language = "console"
)

var exitLine = regexp.MustCompile(`^\[exit (\d{1,3})\]$`)

// Parse returns the examples of a Markdown document in order. It is an error if a console block begins without a
// command, contains none or is never closed, because its text would not be tested.
func Parse(r io.Reader) ([]Example, error) {
	p := parser{block: -1}
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		p.line++
		if err := p.next(strings.TrimRight(scanner.Text(), " \t\r")); err != nil {
			return nil, fmt.Errorf("line %d: %w", p.line, err)
		}
	}
	if err := scanner.Err(); err != nil {
		return nil, fmt.Errorf("read line %d: %w", p.line+1, err)
	}
	if p.fence != "" {
		return nil, fmt.Errorf("line %d: the fenced block is never closed", p.opened)
	}
	return p.examples, nil
}

type parser struct {
	examples []Example
	line     int
	block    int
	fence    string // of the open block, with its indentation; empty outside
	opened   int    // line of the fence
	console  bool
	more     bool // the command continues in the next line
	started  bool // the block has a command
}

func (p *parser) next(text string) error {
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	trimmed := text[len(indent):]
	switch {
	case p.fence == "":
		p.open(indent, trimmed)
		return nil
	case strings.TrimRight(trimmed, p.fence[:1]) == "" && len(trimmed) >= len(p.fence):
		return p.close()
	case p.console:
		return p.consoleLine(text)
	}
	return nil
}

func (p *parser) open(indent, text string) {
	if !strings.HasPrefix(text, "```") && !strings.HasPrefix(text, "~~~") {
		return
	}
	info := strings.TrimLeft(text, text[:1])
	if strings.Contains(info, "`") || len(indent) > 3 {
		return // code within a line, or an indented block
	}
	p.fence, p.opened = text[:len(text)-len(info)], p.line
	first, _, _ := strings.Cut(strings.TrimSpace(info), " ")
	p.console = first == language
	if p.console {
		p.block++
		p.started, p.more = false, false
	}
}

func (p *parser) close() error {
	p.fence = ""
	if !p.console {
		return nil
	}
	p.console = false
	if !p.started {
		return fmt.Errorf("the console block holds no command; a command begins with %q", prompt)
	}
	if p.more {
		return fmt.Errorf("the command ends in a backslash")
	}
	last := &p.examples[len(p.examples)-1]
	last.trim()
	return nil
}

func (p *parser) consoleLine(text string) error {
	command, isCommand := strings.CutPrefix(text, prompt)
	if isCommand && !p.more {
		if p.started {
			p.examples[len(p.examples)-1].trim()
		}
		p.started, p.more = true, strings.HasSuffix(command, `\`)
		p.examples = append(p.examples, Example{Line: p.line, Block: p.block, Command: command})
		return nil
	}
	if !p.started {
		if text == "" {
			return nil
		}
		return fmt.Errorf("output %q stands before the first command; a command begins with %q", text, prompt)
	}
	last := &p.examples[len(p.examples)-1]
	more, isMore := strings.CutPrefix(text+" ", goesOn)
	switch {
	case p.more, isMore && len(last.Output) == 0:
		if isMore {
			text = strings.TrimSuffix(more, " ")
		}
		last.Command += "\n" + text
		p.more = strings.HasSuffix(text, `\`)
	default:
		last.Output = append(last.Output, text)
	}
	return nil
}

// trim finishes an example: the exit line is removed, then blank lines at the end.
func (e *Example) trim() {
	blank := func() {
		for len(e.Output) > 0 && e.Output[len(e.Output)-1] == "" {
			e.Output = e.Output[:len(e.Output)-1]
		}
		if len(e.Output) == 0 {
			e.Output = nil
		}
	}
	blank()
	if n := len(e.Output); n > 0 {
		if m := exitLine.FindStringSubmatch(e.Output[n-1]); m != nil {
			e.Exit, _ = strconv.Atoi(m[1]) // at most three digits
			e.Output = e.Output[:n-1]
			blank()
		}
	}
}

// Match compares a command's output with the document. Blanks at the ends of lines and blank lines at the end are
// ignored.
func (e Example) Match(printed string) error {
	got := strings.Split(strings.TrimRight(printed, " \t\r\n"), "\n")
	for i := range got {
		got[i] = strings.TrimRight(got[i], " \t\r")
	}
	if len(got) == 1 && got[0] == "" {
		got = nil
	}
	at := mismatch(e.Output, got)
	if at < 0 {
		return nil
	}
	want := "the end"
	if at < len(e.Output) {
		want = strconv.Quote(e.Output[at])
	}
	return fmt.Errorf("line %d: %s prints\n%s\nwhere the document says\n%s\nand no text fits %s",
		e.Line, e.Command, quote(got), quote(e.Output), want)
}

// mismatch returns the index of the first expected line that nothing matches, len(want) if lines are left over, and -1
// if all match. It processes the lines with the set of reachable positions, so that its time is bounded by the product.
func mismatch(want, got []string) int {
	reach := make([]bool, len(got)+1)
	reach[0] = true
	for i, line := range want {
		next := make([]bool, len(got)+1)
		ok := false
		for j := range reach {
			switch {
			case strings.TrimSpace(line) == wildcard:
				next[j] = reach[j] || j > 0 && next[j-1]
			case j > 0:
				next[j] = reach[j-1] && fits(line, got[j-1])
			}
			ok = ok || next[j]
		}
		if !ok {
			return i
		}
		reach = next
	}
	if reach[len(got)] {
		return -1
	}
	return len(want)
}

// fits compares one line, in which a wildcard stands for any text, including none.
func fits(want, got string) bool {
	parts := strings.Split(want, wildcard)
	rest, ok := strings.CutPrefix(got, parts[0])
	if len(parts) == 1 {
		return ok && rest == ""
	}
	for _, part := range parts[1 : len(parts)-1] {
		_, after, found := strings.Cut(rest, part)
		rest, ok = after, ok && found
	}
	return ok && strings.HasSuffix(rest, parts[len(parts)-1])
}

func quote(lines []string) string {
	if len(lines) == 0 {
		return "  (nothing)"
	}
	return "  " + strings.Join(lines, "\n  ")
}
