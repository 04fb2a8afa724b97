// SPDX-License-Identifier: Apache-2.0

// One parameter, as the daemon's help describes it: a line of a table, or a page if the user asked for it.

package cli

import (
	"bufio"
	"cmp"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/polycube/polycube/internal/cli/output"
)

// parameter is a member of the daemon's help. Everything but the name may be missing.
type parameter struct {
	name, kind, description, example       string
	simple, typedef, bounds, length, units string
	def                                    string
	values, patterns, candidates           []string
	meanings                               output.Value
	mandatory, initOnly, state, implied    bool
	refers                                 bool // to something that exists
}

func paramOf(m output.Member) parameter {
	v := m.Val
	p := parameter{
		name: v.TextOf("name"), kind: v.TextOf("type"), description: v.TextOf("description"), example: v.TextOf("example"),
		simple: v.TextOf("simpletype"), typedef: v.TextOf("typedef"), bounds: v.TextOf("range"), length: v.TextOf("length"),
		units: v.TextOf("units"), def: v.TextOf("default"), values: texts(v, "values"), patterns: texts(v, "pattern"), candidates: texts(v, "candidates"),
		mandatory: isTrue(v, "mandatory"), initOnly: isTrue(v, "init-only"), state: isTrue(v, "state"), implied: isTrue(v, "implied"), refers: v.TextOf("leafref") != "",
	}
	p.meanings, _ = v.Get("value-descriptions")
	if p.name == "" {
		p.name = m.Key
	}
	return p
}

func texts(v output.Value, key string) []string {
	var out []string
	list, _ := v.Get(key)
	for _, item := range list.Items {
		if item.IsLeaf() {
			out = append(out, item.Text)
		}
	}
	return out
}

func isTrue(v output.Value, key string) bool {
	b, ok := v.Get(key)
	return ok && b.Kind == output.KindBool && b.Text == "true"
}

// typeText is the type in a word: the model's name for it says more than the built-in type.
func (p parameter) typeText() string {
	kind := p.kind
	if p.simple != "" {
		kind = p.simple
	}
	if name := p.typedef[strings.LastIndexByte(p.typedef, ':')+1:]; name != "" {
		kind = name
		if strings.HasSuffix(p.simple, "[]") {
			kind += "[]"
		}
	}
	if of, isList := strings.CutSuffix(kind, "[]"); isList {
		kind = "list of " + of
	}
	return kind
}

// narrows reports whether a range says more than the type.
func (p parameter) narrows() bool {
	switch p.simple + " " + p.bounds {
	case "int8 -128..127", "int16 -32768..32767", "int32 -2147483648..2147483647",
		"int64 -9223372036854775808..9223372036854775807", "uint8 0..255", "uint16 0..65535",
		"uint32 0..4294967295", "uint64 0..18446744073709551615":
		return false
	}
	return p.bounds != ""
}

// text is the description with what else one needs to give a value after v.
func (p parameter) text(v verb) string {
	parts := []string{p.description}
	add := func(when bool, text string) {
		if when {
			parts = append(parts, text)
		}
	}
	if v == verbShow || v == verbDel {
		return p.description
	}
	add(len(p.values) > 0, "One of "+strings.Join(p.values, ", ")+".")
	add(p.narrows(), "Range "+p.bounds+".")
	add(p.units != "", "In "+p.units+".")
	add(p.def != "", "Default "+p.def+".")
	add(p.initOnly && p.kind == "leaf", "It cannot change later.")
	return strings.TrimSpace(strings.Join(parts, " "))
}

// leafPage prints the page of one parameter, line by line.
type leafPage struct {
	output.Printer
	width int
}

// titled is the column of the text after a title.
const titled = 14

// field prints a text after its title; further lines start in the same column.
func (g leafPage) field(head, text string) {
	for i, part := range wrap(output.Clean(text), g.width-utf8.RuneCountInString(head)) {
		if i > 0 {
			head = strings.Repeat(" ", utf8.RuneCountInString(head))
		}
		g.Line(strings.TrimRight(head+part, " "))
	}
}

// say prints the lines under a title.
func (g leafPage) say(title, text string) {
	if text != "" {
		g.field(pad(output.Clean(title)+": ", titled), text)
	}
}

// values prints the values with their meanings, one per line.
func (g leafPage) values(p parameter) {
	if len(p.meanings.Members) == 0 {
		g.say("Values", strings.Join(p.values, ", "))
		return
	}
	longest := 0
	for _, v := range p.values {
		longest = max(longest, utf8.RuneCountInString(output.Clean(v)))
	}
	head := pad("Values:", titled)
	for _, v := range p.values {
		g.field(head+pad(output.Clean(v), longest+len(output.Gap)), p.meanings.TextOf(v))
		head = pad("", titled)
	}
}

func pad(s string, width int) string {
	return s + strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s)))
}

// printLeaf is the page of one parameter.
func printLeaf(w io.Writer, v output.Value, about helpFor, width int) error {
	p := paramOf(output.Member{Key: about.leaf, Val: v})
	b := bufio.NewWriter(w)
	g := leafPage{output.Printer{W: b}, width}
	if p.description == "" {
		g.Line(output.Clean(p.name))
	}
	g.say(p.name, p.description)
	g.say("Type", p.typeText())
	g.values(p)
	if p.narrows() {
		g.say("Range", p.bounds)
	}
	if !p.refers {
		g.say("Length", p.length)
		for _, pattern := range p.patterns {
			g.say("Pattern", pattern)
		}
	}
	g.say("Units", p.units)
	g.say("Default", p.def)
	g.say("Given", p.when())
	g.say("Possible", strings.Join(p.candidates, ", "))
	g.say("Example", p.command(about))
	if strings.HasSuffix(p.simple, "[]") {
		name := cmp.Or(about.leaf, p.name)
		g.say("Several", name+`=A,B, or as JSON, '`+name+`=["A","B"]'`)
	}
	return b.Flush()
}

// when says when a parameter can or must be given.
func (p parameter) when() string {
	switch {
	case p.state:
		return "never: it is state, which is read-only"
	case p.mandatory && p.initOnly:
		return "required, and only when it is added"
	case p.mandatory:
		return "always"
	case p.initOnly:
		return "only when it is added"
	}
	return ""
}

// command is the example as typed, or the bare value if only a value was requested.
func (p parameter) command(about helpFor) string {
	example := p.example
	if len(p.candidates) > 0 {
		example = p.candidates[0]
	}
	if example == "" || p.kind != "leaf" || p.state || p.initOnly && about.verb == verbSet || len(about.words) == 0 {
		return example
	}
	return "polycubectl " + strings.Join(about.words, " ") + " " + shellWord(about.leaf+"="+example)
}

// wrapRows breaks descriptions that are too long for the terminal into rows.
func wrapRows(rows []output.Value, width int) []output.Value {
	others := 0
	if width <= 0 || len(rows) == 0 {
		return rows
	}
	widths := map[string]int{}
	for _, r := range rows {
		for _, m := range r.Members {
			widths[m.Key] = max(widths[m.Key], len(m.Key), utf8.RuneCountInString(output.Clean(m.Val.Text)))
		}
	}
	for key, w := range widths {
		if key != "Description" {
			others += min(w, output.MaxColumnWidth) + len(output.Gap)
		}
	}
	var out []output.Value
	for _, r := range rows {
		lines := wrap(output.Clean(r.TextOf("Description")), width-others-len(output.Gap))
		for i, line := range lines {
			part := output.Value{Kind: output.KindObject}
			for _, m := range r.Members {
				switch {
				case m.Key == "Description":
					m.Val = output.StringValue(line)
				case i > 0:
					m.Val = output.StringValue("")
				}
				part.Members = append(part.Members, m)
			}
			out = append(out, part)
		}
	}
	return out
}

// narrowest is the width below which wrapped lines are worse than long ones.
const narrowest = 24

// wrap breaks text at spaces into lines of at most width, at least one line.
func wrap(text string, width int) []string {
	if width < narrowest {
		return []string{text}
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}
