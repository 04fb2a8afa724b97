// SPDX-License-Identifier: Apache-2.0

package cli

// The program pcn-ipset. A set is a cube of service ipset of that name. Commands about one set are carried out by the cube;
// those about several sets are one change of the configuration, if nobody else has changed it meanwhile.

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polycube/polycube/ipset"
)

// ipsetVersion follows the name: programs that call ipset find out by it what options there are.
const ipsetVersion = "v7.17"

// ipsetError is an error with an exit status of its own, which is printed as it is.
type ipsetError struct {
	code int
	text string
	bare bool // without the name of the program before it
}

func (e *ipsetError) Error() string { return e.text }

func ipsetFailed(format string, args ...any) error {
	return &ipsetError{code: iptablesProblem, text: fmt.Sprintf(format, args...)}
}

// ipsetOptions are options of the program that ipset.ReadCommand does not know.
type ipsetOptions struct {
	quiet bool
	file  string
	saves bool // list prints what save does
}

// Ipset is the program pcn-ipset. It returns the exit status.
func Ipset(name string, args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) int {
	s := newSession(stdin, stdout, stderr, getenv)
	args, try, err := cutTry(args)
	s.try = try
	var o ipsetOptions
	if err == nil {
		o, args, err = readIpsetOptions(args)
	}
	if err != nil {
		err = &ipsetError{code: iptablesParameter, text: err.Error()}
	} else {
		err = s.ipset(args, o)
	}
	if lost := s.stdout.Flush(); err == nil && lost != nil {
		err = fmt.Errorf("write the output: %w", lost)
	}
	if err == nil {
		tried(s)
		return 0
	}
	code := iptablesProblem
	before := filepath.Base(name) + " " + ipsetVersion + ": "
	if is := (*ipsetError)(nil); errors.As(err, &is) {
		if code = is.code; is.bare {
			before = ""
		}
	}
	if !o.quiet {
		fmt.Fprintf(stderr, "%s%v\n", before, err)
	}
	return code
}

// readIpsetOptions takes the options out of the arguments.
func readIpsetOptions(args []string) (o ipsetOptions, rest []string, err error) {
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case i > 0 && args[i-1] == "comment":
			rest = append(rest, arg)
		case slices.Contains([]string{"-q", "-quiet", "--quiet"}, arg):
			o.quiet = true
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

// ipset carries out a command.
func (s *session) ipset(args []string, o ipsetOptions) (err error) {
	if len(args) == 1 && slices.Contains([]string{"version", "-V", "-v", "--version"}, args[0]) {
		_, err := fmt.Fprintf(s.stdout, "ipset %s (polycube), protocol version: 7\n", ipsetVersion)
		return err
	}
	c, err := ipset.ReadCommand(args)
	if err != nil {
		return &ipsetError{code: iptablesParameter, text: err.Error()}
	}
	if s.config, err = loadConfig(s.getenv, ""); err != nil {
		return err
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
	names := nonEmpty(c.Set)
	if c.Set == "" {
		if names, err = s.setNames(); err != nil {
			return err
		}
	}
	to := io.Writer(s.stdout)
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
func (s *session) runSet(name string, args []string) (output string, err error) {
	type argument struct {
		Text string `json:"text"`
	}
	list := make([]argument, len(args))
	for i, a := range args {
		list[i].Text = a
	}
	r := request{method: http.MethodPost, path: []string{"ipset", name, "run"}}
	if r.body, err = json.Marshal(map[string]any{"argument": list}); err != nil {
		return "", err
	}
	a, err := s.demand(r)
	if a.status == http.StatusNotFound {
		return "", ipsetFailed(noSet)
	} else if err != nil {
		return "", errors.New(strings.TrimPrefix(err.Error(), name+": "))
	}
	var is struct {
		Output, Error string
		Code          int
	}
	if err := json.Unmarshal(a.body, &is); err != nil {
		return "", fmt.Errorf("read the answer: %w", err)
	}
	if is.Code != 0 {
		return "", &ipsetError{code: is.Code, text: is.Error, bare: strings.HasSuffix(is.Error, " is NOT in set "+name+".")}
	}
	return is.Output, nil
}

// setNames returns the names of all sets, sorted.
func (s *session) setNames() (names []string, err error) {
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
func (s *session) createSet(c ipset.Command) error {
	set := newSetFile(c.Set, c.Header.Config())
	body, err := json.Marshal(set.members)
	if err != nil {
		return err
	}
	a, err := s.demand(request{method: http.MethodPost, path: []string{"ipset"}, body: body})
	if a.status != http.StatusConflict {
		return err
	}
	if !c.Exist {
		return ipsetFailed("Set cannot be created: set with the same name already exists")
	}
	d, err := s.readSets()
	if err != nil {
		return err
	}
	return d.create(c)
}

// destroySets deletes a set, or all of them if rules use none.
func (s *session) destroySets(c ipset.Command) error {
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
func (s *session) restoreSets(c ipset.Command, file string) (err error) {
	from := io.Reader(s.stdin)
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
		return ipsetFailed("Error in %v", err)
	}
	for i := range commands {
		commands[i].Exist = commands[i].Exist || c.Exist
	}
	return s.changeSets(commands, true)
}
