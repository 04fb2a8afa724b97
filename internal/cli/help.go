// SPDX-License-Identifier: Apache-2.0

// Help comes from the models, through the daemon; only what the client adds
// itself is explained from here.

package cli

import (
	"bufio"
	"fmt"
	"io"
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
  polycubectl r1 show ports p1 -json
  polycubectl br1 fdb flush
  polycubectl cubes add < topology.yaml

With add, set and actions, YAML or JSON on standard input is the body, in place
of key=value. A pipe counts when it has something at once; "-" as a word waits
for it. A value that must be text though it looks like a number is written
key='"007"'.

Flags of show: -normal -brief -verbose -json -yaml -hide=key1,key2.inner

Commands:
  %s

"polycubectl ?" lists what the daemon has; "?" at the end of any command tells
what may follow. Without a url in the configuration file or POLYCUBECTL_URL, the
daemon is found at its Unix socket, /run/polycube/polycubed.sock.

Exit status: 0 success, 1 no contact with the daemon, 2 the daemon refused,
64 the command line is wrong.
`

func usage() string {
	var lines []string
	for _, name := range append(append([]string{}, aliasOrder...), "version", "completion") {
		lines = append(lines, aliases[name].usage)
	}
	return fmt.Sprintf(usageText, strings.Join(lines, "\n  "))
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

// section is one titled table of help.
type section struct {
	title string
	rows  []value
}

// printHelp prints the daemon's help for the verb v was asked with.
func printHelp(w io.Writer, body []byte, v verb) error {
	help, err := decodeJSON(body)
	if err != nil || help.kind != kindObject {
		return printAnswer(w, body, showOptions{}, false)
	}
	params, _ := help.get("params")
	optional, _ := help.get("optional-params")
	commands, _ := help.get("commands")
	elements, _ := help.get("elements")
	actions, _ := help.get("actions")
	return printSections(w, []section{
		{"Commands", commandRows(commands)},
		{"Parameters", paramRows(params, v)},
		{"Optional parameters", paramRows(optional, v)},
		{"Actions", namedRows(actions, "action")},
		{"Existing elements", namedRows(elements, "key")},
	})
}

func printSections(w io.Writer, sections []section) error {
	b := bufio.NewWriter(w)
	p := printer{b}
	printed := false
	for _, s := range sections {
		if len(s.rows) == 0 {
			continue
		}
		if printed {
			p.line("")
		}
		if s.title != "" {
			p.line(s.title + ":")
		}
		p.table(value{kind: kindArray, items: dropEmptyColumns(s.rows)}, 1, "")
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
func paramRows(params value, v verb) []value {
	var rows []value
	for _, m := range params.members {
		name := m.val.string("name")
		if name == "" {
			name = m.key
		}
		kind := m.val.string("type")
		switch {
		case kind == "key":
			name = "<" + name + ">"
		case kind == "leaf" && (v == verbAdd || v == verbSet):
			name += "="
		}
		if simple := m.val.string("simpletype"); simple != "" {
			kind = simple
		}
		rows = append(rows, row(name, kind, m.val.string("description"), m.val.string("example")))
	}
	return rows
}

// namedRows accepts what a list of names can be: strings, arrays of keys,
// objects of keys, or an object of described members.
func namedRows(names value, kind string) []value {
	var rows []value
	for _, item := range names.items {
		rows = append(rows, row(keyWords(item), kind, "", ""))
	}
	for _, m := range names.members {
		rows = append(rows, row(m.key, kind, m.val.string("description"), m.val.string("example")))
	}
	return rows
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
	return strings.Join(words, " ")
}

// printRootHelp lists services, the client's commands and the running cubes.
func printRootHelp(w io.Writer, services, cubes []byte, expert bool) error {
	help, err := decodeJSON(services)
	if err != nil {
		return fmt.Errorf("read the daemon's help: %w", err)
	}
	params, _ := help.get("params")
	rows := paramRows(params, verbNone)
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
	return printSections(w, []section{{rows: rows}})
}
