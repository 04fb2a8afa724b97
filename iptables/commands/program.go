// SPDX-License-Identifier: Apache-2.0

package commands

// The programs: their options, and what they read.

import (
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/polycube/polycube/iptables/language"
)

// Views returns the chains of a table of a family.
type Views func(family language.Family, table string) (*View, error)

// Family returns the family of a program by its name.
func Family(program string) language.Family {
	if strings.HasPrefix(program, "ip6") {
		return language.IPv6
	}
	return language.IPv4
}

// Run runs a program: iptables, ip6tables, or either with -save or -restore, which reads the input. Errors that have an exit
// status of their own are of the type Error.
func (views Views) Run(program string, args []string, input string) (Result, language.Family, error) {
	family := Family(program)
	var r Result
	var err error
	switch _, kind, _ := strings.Cut(program, "-"); kind {
	case "":
		r, family, err = views.command(family, args)
	case "save":
		r, err = views.save(family, args)
	case "restore":
		r, err = views.restore(family, args, input)
	default:
		err = &Error{badParameter, "there is no program " + program}
	}
	return r, family, err
}

// usage is what -h prints.
const usage = `Usage: %[1]s -[ACD] chain rule-specification [options]
       %[1]s -I chain [rulenum] rule-specification [options]
       %[1]s -R chain rulenum rule-specification [options]
       %[1]s -D chain rulenum [options]
       %[1]s -[LS] [chain [rulenum]] [options]
       %[1]s -[FZ] [chain] [options]
       %[1]s -[NX] chain
       %[1]s -E old-chain-name new-chain-name
       %[1]s -P chain target [options]

The options are those of iptables(8), for the tables filter and raw.
`

// asked answers -h.
func asked(args []string, name string) (Result, bool) {
	for _, a := range args {
		if a == "-h" || a == "--help" {
			return Result{Output: fmt.Sprintf(usage, name)}, true
		}
	}
	return Result{}, false
}

// name is that of the program for a family.
func name(family language.Family) string {
	if family == language.IPv6 {
		return "ip6tables"
	}
	return "iptables"
}

func (views Views) command(family language.Family, args []string) (Result, language.Family, error) {
	if n := len(args); n > 0 {
		if r, ok := asked(args[n-1:], name(family)); ok {
			return r, family, nil
		}
	}
	c, err := language.ReadCommand(family, args)
	if err != nil {
		return Result{}, family, &Error{badParameter, err.Error()}
	}
	v, err := views(c.Family, c.Table)
	if other := (*ElsewhereError)(nil); errors.As(err, &other) {
		r, err := other.result(c.Family, func(v *View) (Result, error) { return Run(v, c) })
		return r, c.Family, err
	}
	if err != nil {
		return Result{}, family, err
	}
	r, err := Run(v, c)
	return r, c.Family, err
}

// flags are the options of -save and -restore, by their short letters.
type flags struct {
	set   map[byte]bool
	table string
}

// readFlags reads options: known has the letters and the long forms; those in valued have a value.
func readFlags(args []string, known map[string]byte, valued string) (f flags, err error) {
	f.set = map[byte]bool{}
	for i := 0; i < len(args); i++ {
		option, value, has := strings.Cut(args[i], "=")
		var letters []byte
		switch {
		case known[option] != 0:
			letters = []byte{known[option]}
		case len(option) > 1 && option[0] == '-' && option[1] != '-':
			for _, l := range []byte(option[1:]) {
				letter := known["-"+string(rune(l))]
				if letter == 0 {
					return f, &Error{badParameter, fmt.Sprintf("unknown option %q", args[i])}
				}
				letters = append(letters, letter)
			}
		default:
			return f, &Error{badParameter, fmt.Sprintf("unknown arguments found on commandline: %q", args[i])}
		}
		for _, l := range letters {
			f.set[l] = true
			if strings.IndexByte(valued, l) < 0 {
				continue
			}
			if !has {
				if i++; i == len(args) {
					return f, &Error{badParameter, fmt.Sprintf("option %q requires an argument", option)}
				}
				value = args[i]
			}
			if l == 't' {
				f.table = value
			}
		}
	}
	if f.table != "" && language.BuiltIn(f.table) == nil {
		return f, &Error{badParameter, fmt.Sprintf("there is no table %q", f.table)}
	}
	return f, nil
}

func (views Views) save(family language.Family, args []string) (Result, error) {
	f, err := readFlags(args, map[string]byte{"-c": 'c', "--counters": 'c', "-t": 't', "--table": 't', "-h": 'h', "--help": 'h'}, "t")
	if err != nil {
		return Result{}, err
	}
	if r, ok := asked(args, name(family)+"-save"); ok {
		return r, nil
	}
	names := allTables
	if f.table != "" {
		names = []string{f.table}
	}
	var all []*View
	for _, name := range names {
		v, err := views(family, name)
		if other := (*ElsewhereError)(nil); errors.As(err, &other) {
			if f.table == "" {
				continue
			}
			return other.result(family, func(v *View) (Result, error) {
				text, err := Save(family, []*View{v}, f.set['c'])
				return Result{Output: text}, err
			})
		}
		if err != nil {
			return Result{}, err
		}
		text, err := v.text()
		if err != nil {
			return Result{}, err
		}
		if text != "" || f.table != "" || name == filter {
			all = append(all, v)
		}
	}
	text, err := Save(family, all, f.set['c'])
	return Result{Output: text}, err
}

// allTables are the tables, in the order in which packets would meet them.
var allTables = []string{Raw, "mangle", NAT, filter}

func (views Views) restore(family language.Family, args []string, input string) (Result, error) {
	f, err := readFlags(waits(args), map[string]byte{
		"-c": 'c', "--counters": 'c', "-n": 'n', "--noflush": 'n', "-t": 'e', "--test": 'e', "-v": 'v', "--verbose": 'v', "-w": 'w', "--wait": 'w',
		"-W": 'W', "--wait-interval": 'W', "-T": 't', "--table": 't', "-h": 'h', "--help": 'h',
	}, "Wt")
	if err != nil {
		return Result{}, err
	}
	if r, ok := asked(args, name(family)+"-restore"); ok {
		return r, nil
	}
	tables, err := language.ReadSave(family, strings.NewReader(input))
	if err != nil {
		return Result{}, &Error{badParameter, err.Error()}
	}
	all := Result{Tables: map[string]string{}}
	seen := map[string]bool{}
	for _, t := range tables {
		if seen[t.Name] {
			return Result{}, &Error{badParameter, "the table " + t.Name + " is there twice"}
		}
		seen[t.Name] = true
		if f.table != "" && t.Name != f.table {
			continue
		}
		v, err := views(family, t.Name)
		if errors.As(err, new(*ElsewhereError)) {
			continue
		}
		if err != nil {
			return Result{}, err
		}
		r, err := Restore(v, &t, f.set['n'], f.set['c'])
		if own := (*Error)(nil); err != nil && !errors.As(err, &own) {
			err = &Error{otherProblem, err.Error()}
		}
		if err != nil {
			return Result{}, err
		}
		all.Edits = append(all.Edits, r.Edits...)
		maps.Copy(all.Tables, r.Tables)
	}
	all.Test = f.set['e']
	return all, nil
}

// waits leaves out the number of seconds after -w, which is optional.
func waits(args []string) (out []string) {
	for i, a := range args {
		if i > 0 && (args[i-1] == "-w" || args[i-1] == "--wait") && a != "" && strings.Trim(a, "0123456789") == "" {
			continue
		}
		out = append(out, a)
	}
	return out
}
