// SPDX-License-Identifier: Apache-2.0

// Help comes from the models, through the daemon; only what the client adds is explained here, and works without a
// daemon.

package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// usageText is printed for no words at all, -h and --help.
const usageText = `Usage: polycubectl [--instance NAME] [--try SECONDS] [word ...] [add|del|show|set] [word ...] [key=value ...] [flags] [?]

The words are a path: a cube (or a service, to add one), then
lists with their keys, containers, parameters. The verb may be anywhere
among them; without a verb the path must lead to an action.

  polycubectl router add r1 loglevel=DEBUG
  polycubectl r1 ports add p1 peer=veth1
  polycubectl r1 ports p1 set peer=veth2
  polycubectl br1 ports add p2 mode=trunk trunk.allowed=10,20
  polycubectl r1 show ports p1 -json
  polycubectl br1 fdb flush
  polycubectl cubes add < topology.yaml

With add, set and actions, YAML or JSON on standard input is the body, instead
of key=value. A pipe is used if it has data immediately; the word "-" waits
for it. Dots lead into containers, commas separate the values of a list. A value
that must be text but looks like a number is written key='"007"'.

With --try SECONDS, a change is taken back after that time unless you confirm it:
"polycubectl confirm".

Flags of show: -normal -brief -verbose -json -yaml -hide=key1,key2.inner
Flag of del: --all deletes every entry of a list without asking, for scripts

Commands:
  %s

"polycubectl ?" lists services and cubes. "?", -h or --help at the end of any
command shows what can follow; after "key=", what the value can be. If a file
here has a one-letter name, the shell replaces ? with it: write \? then.

Without a url in the configuration file or POLYCUBECTL_URL, the client connects
to the daemon's Unix socket, /run/polycube/polycubed.sock.

Exit status:
%s`

func usage() string {
	var lines []string
	for _, name := range allAliases() {
		lines = append(lines, aliases[name].Usage)
	}
	return fmt.Sprintf(usageText, strings.Join(lines, "\n  "), exitTable())
}

// help prints what the client knows about its own commands.
func (a alias) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage: polycubectl %s\n\n%s.\n", a.Usage, a.Description)
	if a.Details != "" {
		fmt.Fprintf(&b, "\n%s\n", a.Details)
	}
	for i, e := range a.Examples {
		if i == 0 {
			b.WriteString("\nExamples:\n")
		}
		fmt.Fprintf(&b, "  polycubectl %s\n", e)
	}
	return b.String()
}

// aliasHelp explains a command of the client, and adds the daemon's help for it. It is not an error if there is no
// daemon, or no such help.
func (s *session) aliasHelp(p plan) error {
	about := p.about
	if _, err := s.stdout.WriteString(about.text); err != nil || len(p.req.path) == 0 {
		return err
	}
	c, err := s.connect()
	if err != nil {
		return nil // the rest was printed
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), min(completeTimeout, s.config.timeout))
	defer cancel()
	a, err := c.do(ctx, p.req)
	if err != nil || !a.ok() {
		return nil
	}
	v, err := output.DecodeJSON(a.body)
	if err != nil {
		return nil
	}
	params, _ := v.Get("params")
	if p, ok := params.Get(about.leaf); ok && len(about.words) > 0 {
		_ = output.WriteLine(s.stdout, "")
		return printLeaf(s.stdout, p, about, s.terminal)
	}
	elements, _ := v.Get("elements")
	names := elementNames(elements)
	if len(names) == 0 {
		return nil
	}
	if err := output.WriteLine(s.stdout, ""); err != nil {
		return err
	}
	return printSections(s.stdout, s.terminal, []section{{title: "What can follow", names: names}})
}

// helpFor is the subject of the help for a command line.
type helpFor struct {
	text  string // of an alias
	verb  verb
	words []string // the prefix of leaf=, where that can be typed
	leaf  string   // the parameter in question, if any
	given []string // parameters already given
}

var verbDescriptions = map[string]string{
	"add":  "Create a new element",
	"del":  "Remove an element",
	"show": "Show configuration and state",
	"set":  "Change parameters",
}

func row(keyword, kind, description, example string) output.Value {
	return output.ObjectValue(
		output.Member{Key: "Keyword", Val: output.StringValue(keyword)},
		output.Member{Key: "Type", Val: output.StringValue(kind)},
		output.Member{Key: "Description", Val: output.StringValue(description)},
		output.Member{Key: "Example", Val: output.StringValue(example)},
	)
}

// section is one titled table of help, or a list of names.
type section struct {
	title string
	rows  []output.Value
	names []string
}

// printHelp prints the daemon's help, wrapped to width unless that is 0.
func printHelp(w io.Writer, body []byte, about helpFor, width int) error {
	help, err := output.DecodeJSON(body)
	if err != nil || help.Kind != output.KindObject {
		return output.Print(w, body, output.Options{}, false)
	}
	params, _ := help.Get("params")
	optional, _ := help.Get("optional-params")
	commands, _ := help.Get("commands")
	elements, _ := help.Get("elements")
	actions, _ := help.Get("actions")
	flags, _ := help.Get("flags")
	if p, ok := params.Get(about.leaf[strings.LastIndexByte(about.leaf, '.')+1:]); ok && len(params.Members) == 1 && p.TextOf("type") != "key" {
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
	p := output.Printer{W: b}
	printed := false
	for _, s := range sections {
		if len(s.rows)+len(s.names) == 0 {
			continue
		}
		if printed {
			p.Line("")
		}
		if s.title != "" {
			p.Line(s.title + ":")
		}
		p.Table(output.Value{Kind: output.KindArray, Items: wrapRows(dropEmptyColumns(s.rows), width)}, 1, "")
		for _, name := range s.names {
			p.Line("  " + output.Clean(name))
		}
		printed = true
	}
	if !printed {
		p.Line("Nothing can follow here.")
	}
	return b.Flush()
}

// dropEmptyColumns removes the members that are empty in every row.
func dropEmptyColumns(rows []output.Value) []output.Value {
	used := map[string]bool{"Keyword": true}
	for _, r := range rows {
		for _, m := range r.Members {
			used[m.Key] = used[m.Key] || m.Val.Text != ""
		}
	}
	out := make([]output.Value, len(rows))
	for i, r := range rows {
		out[i].Kind = output.KindObject
		for _, m := range r.Members {
			if used[m.Key] {
				out[i].Members = append(out[i].Members, m)
			}
		}
	}
	return out
}

func commandRows(commands output.Value) []output.Value {
	var rows []output.Value
	for _, c := range commands.Items {
		rows = append(rows, row(c.Text, "command", verbDescriptions[strings.ToLower(c.Text)], ""))
	}
	return rows
}

// paramRows shows a parameter as it is typed after the verb.
func paramRows(params output.Value, about helpFor) []output.Value {
	var rows []output.Value
	for _, m := range params.Members {
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
func actionRows(actions output.Value) []output.Value {
	var rows []output.Value
	for _, item := range actions.Items {
		rows = append(rows, row(keyWords(item), "action", "", ""))
	}
	for _, m := range actions.Members {
		rows = append(rows, row(m.Key, "action", m.Val.TextOf("description"), m.Val.TextOf("example")))
	}
	return rows
}

// maxElements is how many entries of a list help shows: show lists them all.
const maxElements = 50

// elementNames accepts the forms of a list of names: strings, arrays of keys, or objects of keys.
func elementNames(elements output.Value) []string {
	var names []string
	for _, item := range elements.Items[:min(len(elements.Items), maxElements)] {
		names = append(names, keyWords(item))
	}
	for _, m := range elements.Members {
		names = append(names, m.Key)
	}
	if more := len(elements.Items) - maxElements; more > 0 {
		names = append(names, fmt.Sprintf("... and %d more", more))
	}
	return names
}

// keyWords is an element's keys, separated as on the command line.
func keyWords(v output.Value) string {
	var words []string
	for _, item := range v.Items {
		words = append(words, item.Text)
	}
	for _, m := range v.Members {
		words = append(words, m.Val.Text)
	}
	if v.IsLeaf() {
		words = append(words, v.Text)
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
	help, err := output.DecodeJSON(services)
	if err != nil {
		return fmt.Errorf("read the daemon's help: %w", err)
	}
	params, _ := help.Get("params")
	rows := paramRows(params, helpFor{})
	for _, name := range allAliases() {
		if a := aliases[name]; !a.Unlisted && (name != "services" || expert) {
			rows = append(rows, row(name, "command", a.Description, ""))
		}
	}
	running, err := output.DecodeJSON(cubes)
	if err != nil {
		return fmt.Errorf("read the list of cubes: %w", err)
	}
	for _, service := range running.Members {
		for _, cube := range service.Val.Items {
			rows = append(rows, row(cube.TextOf("name"), "cube", "Cube of type "+service.Key, ""))
		}
	}
	return printSections(w, width, []section{{rows: rows}})
}
