// SPDX-License-Identifier: Apache-2.0

// Help comes from the models, through the daemon; only what the client adds
// itself is explained from here, and that without a daemon, too.

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
)

// usageText is the answer to no words at all, -h and --help.
const usageText = `Usage: polycubectl [--instance NAME] [word ...] [add|del|show|set] [word ...] [key=value ...] [flags] [?]

The words are the path to what is meant: a cube (or a service, to add one), then
lists with their keys, containers, parameters. The verb may stand anywhere
among them; without a verb the path is that of an action.

  polycubectl router add r1 loglevel=DEBUG
  polycubectl r1 ports add p1 peer=veth1
  polycubectl r1 ports p1 set peer=veth2
  polycubectl br1 ports add p2 mode=trunk trunk.allowed=10,20
  polycubectl r1 show ports p1 -json
  polycubectl br1 fdb flush
  polycubectl cubes add < topology.yaml

With add, set and actions, YAML or JSON on standard input is the body, in place
of key=value. A pipe counts when it has something at once; "-" as a word waits
for it. Dots lead into containers, commas separate the values of a list. A value
that must be text though it looks like a number is written key='"007"'.

Flags of show: -normal -brief -verbose -json -yaml -hide=key1,key2.inner
Flag of del: --all deletes every entry of a list without asking; scripts need it

Commands:
  %s

"polycubectl ?" lists what the daemon has. "?", -h or --help at the end of any
command tells what may follow; after "key=", what the value can be. Where a file
has a name of one letter, the shell takes ? for it: write \? there.

Without a url in the configuration file or POLYCUBECTL_URL, the daemon is found
at its Unix socket, /run/polycube/polycubed.sock.

Exit status:
%s`

func usage() string {
	var lines []string
	for _, name := range allAliases() {
		lines = append(lines, aliases[name].usage)
	}
	return fmt.Sprintf(usageText, strings.Join(lines, "\n  "), exitTable())
}

// help prints what the client knows of its own commands.
func (a alias) help(p page) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: polycubectl %s\n\n%s.\n", a.usage, a.description)
	if p.details != "" {
		fmt.Fprintf(&b, "\n%s\n", p.details)
	}
	for i, e := range p.examples {
		if i == 0 {
			b.WriteString("\nExamples:\n")
		}
		fmt.Fprintf(&b, "  polycubectl %s\n", e)
	}
	return b.String()
}

// aliasHelp explains a command of the client, and adds what the daemon has for
// it. No daemon, or one that has nothing to add, is no error.
func (s *session) aliasHelp(p plan) error {
	about := p.about
	if _, err := s.stdout.WriteString(about.text); err != nil || len(p.req.path) == 0 {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return nil // what there is to say is said
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), min(completeTimeout, s.config.timeout))
	defer cancel()
	a, err := c.do(ctx, p.req)
	if err != nil || !a.ok() {
		return nil
	}
	v, err := decodeJSON(a.body)
	if err != nil {
		return nil
	}
	params, _ := v.get("params")
	if p, ok := params.get(about.leaf); ok && len(about.words) > 0 {
		_ = writeLine(s.stdout, "")
		return printLeaf(s.stdout, p, about, s.terminal)
	}
	elements, _ := v.get("elements")
	names := elementNames(elements)
	if len(names) == 0 {
		return nil
	}
	if err := writeLine(s.stdout, ""); err != nil {
		return err
	}
	return printSections(s.stdout, s.terminal, []section{{title: "What can follow now", names: names}})
}

// helpFor is what the help of a command line is about.
type helpFor struct {
	text  string // of an alias
	verb  verb
	words []string // what comes before leaf=, where that can be typed
	leaf  string   // the parameter that was asked about, if one was
	given []string // parameters that are given already
}

var verbDescriptions = map[string]string{
	"add":  "Create a new element",
	"del":  "Remove an element",
	"show": "Show configuration and state",
	"set":  "Change parameters",
}

func row(keyword, kind, description, example string) value {
	return objectValue(
		member{"Keyword", stringValue(keyword)},
		member{"Type", stringValue(kind)},
		member{"Description", stringValue(description)},
		member{"Example", stringValue(example)},
	)
}

// section is one titled table of help, or a list of names.
type section struct {
	title string
	rows  []value
	names []string
}

// printHelp prints the daemon's help, wrapped to width, or not when that is 0.
func printHelp(w io.Writer, body []byte, about helpFor, width int) error {
	help, err := decodeJSON(body)
	if err != nil || help.kind != kindObject {
		return printAnswer(w, body, showOptions{}, false)
	}
	params, _ := help.get("params")
	optional, _ := help.get("optional-params")
	commands, _ := help.get("commands")
	elements, _ := help.get("elements")
	actions, _ := help.get("actions")
	flags, _ := help.get("flags")
	if p, ok := params.get(about.leaf[strings.LastIndexByte(about.leaf, '.')+1:]); ok && len(params.members) == 1 && p.string("type") != "key" {
		return printLeaf(w, p, about, width)
	}
	return printSections(w, width, []section{
		{title: "Commands", rows: commandRows(commands)},
		{title: "Parameters", rows: paramRows(params, about)},
		{title: "Optional parameters", rows: paramRows(optional, about)},
		{title: "Actions", rows: actionRows(actions)},
		{title: "Flags", rows: paramRows(flags, about)},
		{title: "Existing elements", names: elementNames(elements)},
	})
}

func printSections(w io.Writer, width int, sections []section) error {
	b := bufio.NewWriter(w)
	p := printer{b}
	printed := false
	for _, s := range sections {
		if len(s.rows)+len(s.names) == 0 {
			continue
		}
		if printed {
			p.line("")
		}
		if s.title != "" {
			p.line(s.title + ":")
		}
		p.table(value{kind: kindArray, items: wrapRows(dropEmptyColumns(s.rows), width)}, 1, "")
		for _, name := range s.names {
			p.line("  " + clean(name))
		}
		printed = true
	}
	if !printed {
		p.line("Nothing more can follow here.")
	}
	return b.Flush()
}

// dropEmptyColumns removes the members that are empty in every row.
func dropEmptyColumns(rows []value) []value {
	used := map[string]bool{"Keyword": true}
	for _, r := range rows {
		for _, m := range r.members {
			used[m.key] = used[m.key] || m.val.text != ""
		}
	}
	out := make([]value, len(rows))
	for i, r := range rows {
		out[i].kind = kindObject
		for _, m := range r.members {
			if used[m.key] {
				out[i].members = append(out[i].members, m)
			}
		}
	}
	return out
}

func commandRows(commands value) []value {
	var rows []value
	for _, c := range commands.items {
		rows = append(rows, row(c.text, "command", verbDescriptions[strings.ToLower(c.text)], ""))
	}
	return rows
}

// paramRows shows a parameter as it is to be typed after the verb.
func paramRows(params value, about helpFor) []value {
	var rows []value
	for _, m := range params.members {
		p := paramOf(m)
		if p.implied || slices.Contains(about.given, p.name) {
			continue
		}
		keyword := p.name
		switch {
		case p.kind == "key":
			keyword = "<" + keyword + ">"
		case p.kind == "leaf" && (about.verb == verbAdd || about.verb == verbSet):
			keyword += "="
		}
		if about.verb == verbShow || about.verb == verbDel {
			p.example = ""
		}
		rows = append(rows, row(keyword, p.typeText(), p.text(about.verb), p.example))
	}
	return rows
}

// actionRows accepts names, or an object of described members.
func actionRows(actions value) []value {
	var rows []value
	for _, item := range actions.items {
		rows = append(rows, row(keyWords(item), "action", "", ""))
	}
	for _, m := range actions.members {
		rows = append(rows, row(m.key, "action", m.val.string("description"), m.val.string("example")))
	}
	return rows
}

// maxElements is how many entries of a list help shows: show has them all.
const maxElements = 50

// elementNames accepts what a list of names can be: strings, arrays of keys, or
// objects of keys.
func elementNames(elements value) []string {
	var names []string
	for _, item := range elements.items[:min(len(elements.items), maxElements)] {
		names = append(names, keyWords(item))
	}
	for _, m := range elements.members {
		names = append(names, m.key)
	}
	if more := len(elements.items) - maxElements; more > 0 {
		names = append(names, fmt.Sprintf("... and %d more", more))
	}
	return names
}

// keyWords is an element's keys, separated as on the command line.
func keyWords(v value) string {
	var words []string
	for _, item := range v.items {
		words = append(words, item.text)
	}
	for _, m := range v.members {
		words = append(words, m.val.text)
	}
	if v.isLeaf() {
		words = append(words, v.text)
	}
	for i, w := range words {
		if strings.ContainsAny(w, " \t") {
			words[i] = "'" + w + "'"
		}
	}
	return strings.Join(words, " ")
}

// printRootHelp lists services, the client's commands and the running cubes.
func printRootHelp(w io.Writer, services, cubes []byte, expert bool, width int) error {
	help, err := decodeJSON(services)
	if err != nil {
		return fmt.Errorf("read the daemon's help: %w", err)
	}
	params, _ := help.get("params")
	rows := paramRows(params, helpFor{})
	for _, name := range aliasOrder {
		if name != "services" || expert {
			rows = append(rows, row(name, "command", aliases[name].description, ""))
		}
	}
	running, err := decodeJSON(cubes)
	if err != nil {
		return fmt.Errorf("read the list of cubes: %w", err)
	}
	for _, service := range running.members {
		for _, cube := range service.val.items {
			rows = append(rows, row(cube.string("name"), "cube", "Cube of type "+service.key, ""))
		}
	}
	return printSections(w, width, []section{{rows: rows}})
}
