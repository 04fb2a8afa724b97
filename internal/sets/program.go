// SPDX-License-Identifier: Apache-2.0

// Package sets is the program pcn-ipset. A set is a cube of service ipset of that name. Commands about one set are carried out
// by the cube; those about several sets are one change of the configuration, if nobody else has changed it meanwhile.
package sets

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"

	"github.com/polycube/polycube/ipset"
)

// Version follows the name: programs that call ipset find out by it what options there are.
const Version = "v7.17"

// Request is a request to the daemon.
type Request struct {
	Method  string
	Path    []string
	Body    []byte
	IfMatch string
}

// Answer is its answer.
type Answer struct {
	Status int
	Body   []byte
	Tag    string
}

// Program is a call of pcn-ipset.
type Program struct {
	// Ask makes a request. An answer that is an error comes with an error.
	Ask    func(Request) (Answer, error)
	Stdin  io.Reader
	Stdout io.Writer
}

// The exit statuses.
const (
	problem   = 1
	parameter = 2
)

// Error is an error with an exit status of its own.
type Error struct {
	Code int
	Text string
	// Bare is printed without the name of the program before it.
	Bare bool
}

func (e *Error) Error() string { return e.Text }

func failed(format string, args ...any) error {
	return &Error{Code: problem, Text: fmt.Sprintf(format, args...)}
}

// options are those of the program that ipset.ReadCommand does not know.
type options struct {
	file  string
	saves bool // list prints what save does
}

// readOptions takes the options out of the arguments.
func readOptions(args []string) (o options, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case i > 0 && args[i-1] == "comment":
			rest = append(rest, arg)
		case slices.Contains([]string{"-s", "-sorted", "--sorted", "-r", "-resolve", "--resolve"}, arg):
			// Elements are always sorted, and addresses are printed as numbers.
		case slices.Contains([]string{"-f", "-file", "--file", "-o", "-output", "--output"}, arg):
			if i++; i == len(args) {
				return o, nil, fmt.Errorf("missing argument of %s", arg)
			}
			switch {
			case strings.Contains(arg, "f"):
				o.file = args[i]
			case args[i] == "save":
				o.saves = true
			case args[i] != "plain":
				return o, nil, fmt.Errorf("output format %q is not supported: it is plain or save", args[i])
			}
		default:
			rest = append(rest, arg)
		}
	}
	return o, rest, nil
}

// Run carries out a command.
func (s *Program) Run(args []string) error {
	o, args, err := readOptions(args)
	if err != nil {
		return &Error{Code: parameter, Text: err.Error()}
	}

	if len(args) == 1 && slices.Contains([]string{"version", "-V", "-v", "--version"}, args[0]) {
		_, err := fmt.Fprintf(s.Stdout, "ipset %s (polycube), protocol version: 7\n", Version)
		return err
	}
	c, err := ipset.ReadCommand(args)
	if err != nil {
		return &Error{Code: parameter, Text: err.Error()}
	}
	if o.saves && c.Op == "list" {
		c.Op, args = "save", append([]string{"save"}, nonEmpty(c.Set)...)
	}
	switch c.Op {
	case "create":
		return s.createSet(c)
	case "swap", "rename":
		return s.changeSets([]ipset.Command{c}, false)
	case "restore":
		return s.restoreSets(c, o.file)
	case "destroy":
		return s.destroySets(c)
	}
	return s.each(c, args, o)
}

// each has one set carry out a command, or all of them.
func (s *Program) each(c ipset.Command, args []string, o options) (err error) {
	names := nonEmpty(c.Set)
	if c.Set == "" {
		if names, err = s.setNames(); err != nil {
			return err
		}
	}
	to := s.Stdout
	if o.file != "" && c.Op != "flush" {
		f, err := os.Create(o.file)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		to = f
	}
	for i, name := range names {
		words := args
		if c.Set == "" {
			words = append([]string{args[0], name}, args[1:]...)
		}
		out, err := s.runSet(name, words)
		if err != nil {
			return err
		}
		if i > 0 && c.Op == "list" && !c.Names {
			out = "\n" + out
		}
		if _, err := io.WriteString(to, out); err != nil {
			return err
		}
	}
	return nil
}

func nonEmpty(word string) []string {
	if word == "" {
		return nil
	}
	return []string{word}
}

// noSet is what ipset says of a set that does not exist.
const noSet = "The set with the given name does not exist"

// runSet has a set carry out a command.
func (s *Program) runSet(name string, args []string) (output string, err error) {
	type argument struct {
		Text string `json:"text"`
	}
	list := make([]argument, len(args))
	for i, a := range args {
		list[i].Text = a
	}
	r := Request{Method: http.MethodPost, Path: []string{"ipset", name, "run"}}
	if r.Body, err = json.Marshal(map[string]any{"argument": list}); err != nil {
		return "", err
	}
	a, err := s.Ask(r)
	if a.Status == http.StatusNotFound {
		return "", failed(noSet)
	} else if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), name+": "))
	}
	var is struct {
		Output, Error string
		Code          int
	}
	if err := json.Unmarshal(a.Body, &is); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if is.Code != 0 {
		return "", &Error{Code: is.Code, Text: is.Error, Bare: strings.HasSuffix(is.Error, " is NOT in set "+name+".")}
	}
	return is.Output, nil
}

// setNames returns the names of all sets, sorted.
func (s *Program) setNames() (names []string, err error) {
	d, err := s.readSets()
	if err != nil {
		return nil, err
	}
	for name := range d.sets {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, nil
}

// createSet creates a set.
func (s *Program) createSet(c ipset.Command) error {
	set := newSetFile(c.Set, c.Header.Config())
	body, err := json.Marshal(set.members)
	if err != nil {
		return err
	}
	a, err := s.Ask(Request{Method: http.MethodPost, Path: []string{"ipset"}, Body: body})
	if a.Status != http.StatusConflict {
		return err
	}
	if !c.Exist {
		return failed("Set cannot be created: set with the same name already exists")
	}
	d, err := s.readSets()
	if err != nil {
		return err
	}
	return d.create(c)
}

// destroySets deletes a set, or all of them if rules use none.
func (s *Program) destroySets(c ipset.Command) error {
	names := nonEmpty(c.Set)
	if c.Set == "" {
		var err error
		if names, err = s.setNames(); err != nil || len(names) == 0 {
			return err
		}
	}
	commands := make([]ipset.Command, 0, len(names))
	for _, name := range names {
		commands = append(commands, ipset.Command{Op: "destroy", Set: name})
	}
	return s.changeSets(commands, false)
}

// restoreSets carries out the commands of a file: all of them, or none.
func (s *Program) restoreSets(c ipset.Command, file string) (err error) {
	from := s.Stdin
	if file != "" {
		f, err := os.Open(file)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }() // it is only read
		from = f
	}
	commands, err := ipset.ReadSave(from)
	if err != nil {
		return failed("Error in %v", err)
	}
	for i := range commands {
		commands[i].Exist = commands[i].Exist || c.Exist
	}
	return s.changeSets(commands, true)
}
