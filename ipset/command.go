// SPDX-License-Identifier: Apache-2.0

package ipset

// Reading and printing of commands.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Command is one command line.
type Command struct {
	// Op is create, add, del, test, swap, rename, destroy, flush, list, save or restore.
	Op string
	// Set is empty if destroy, flush, list or save are for all sets, and in restore.
	Set string
	// To is the other set of swap, or the new name of rename.
	To string
	// Header is what create creates.
	Header Header
	// Entry is the text of the element of add, del and test: see Header.Element.
	Entry   string
	Options Options
	// Exist is -exist: it is no error if the set or element is there already, or no longer.
	Exist bool
	// Names is `list -name`, Terse `list -terse`.
	Names, Terse bool
}

// Options are the options of an element.
type Options struct {
	// Timeout is in seconds, nil if it was not given. 0 is for ever.
	Timeout        *uint32
	NoMatch        bool
	Packets, Bytes uint64
	// Counted is whether Packets or Bytes were given.
	Counted bool
	Comment string
	// Before and After are the sets of a list:set that the element goes next to.
	Before, After string
}

// maxTimeout is the longest timeout, in seconds.
const maxTimeout = 2147483

// operations are the commands by all their names.
var operations = map[string]string{
	"create": "create", "-N": "create", "n": "create", "--create": "create", "add": "add", "-A": "add", "--add": "add",
	"del": "del", "-D": "del", "--del": "del", "test": "test", "-T": "test", "--test": "test",
	"swap": "swap", "-W": "swap", "--swap": "swap", "rename": "rename", "-E": "rename", "--rename": "rename",
	"destroy": "destroy", "x": "destroy", "-X": "destroy", "--destroy": "destroy",
	"flush": "flush", "-F": "flush", "--flush": "flush", "list": "list", "-L": "list", "--list": "list",
	"save": "save", "-S": "save", "--save": "save", "restore": "restore", "-R": "restore", "--restore": "restore",
}

// ReadCommand reads the arguments of ipset, without the name of the program.
func ReadCommand(args []string) (c Command, err error) {
	var words []string
	for i, arg := range args {
		// Options may be anywhere, but a comment may look like one.
		text := len(words) >= 4 && operations[words[0]] == "add" && args[i-1] == "comment"
		switch {
		case text:
			words = append(words, arg)
		case slices.Contains([]string{"-exist", "--exist", "-!"}, arg):
			c.Exist = true
		case slices.Contains([]string{"-name", "--name", "-n"}, arg):
			c.Names = true
		case slices.Contains([]string{"-terse", "--terse", "-t"}, arg):
			c.Terse = true
		case strings.HasPrefix(arg, "-") && operations[arg] == "":
			return c, fmt.Errorf("unknown option %q", arg)
		default:
			words = append(words, arg)
		}
	}
	if len(words) == 0 {
		return c, errors.New("no command specified")
	}
	if c.Op = operations[words[0]]; c.Op == "" {
		return c, fmt.Errorf("unknown command %q", words[0])
	}
	if (c.Names || c.Terse) && c.Op != "list" {
		return c, fmt.Errorf("-name and -terse are for list, not for %s", c.Op)
	}
	return c, c.read(words[1:])
}

// read reads what follows the operation.
func (c *Command) read(words []string) (err error) {
	least, most := 0, 1
	switch c.Op {
	case "create", "add", "del", "test":
		least, most = 2, math.MaxInt
	case "swap", "rename":
		least, most = 2, 2
	case "restore":
		most = 0
	}
	if len(words) < least {
		return fmt.Errorf("%s requires %s", c.Op, map[bool]string{true: "two sets", false: "a set and more"}[most == 2])
	}
	if len(words) > most {
		return fmt.Errorf("unknown argument %q", words[most])
	}
	if len(words) == 0 {
		return nil
	}
	if c.Set, err = setName(words[0]); err != nil {
		return err
	}
	switch c.Op {
	case "create":
		c.Header, err = readHeader(words[1], words[2:])
	case "swap", "rename":
		c.To, err = setName(words[1])
	case "add", "del", "test":
		if c.Entry = words[1]; c.Entry == "" || strings.ContainsAny(c.Entry, " \t\r\n\"\x00") || c.Entry[0] == '-' {
			return fmt.Errorf("bad element %q", c.Entry)
		}
		err = c.Options.read(words[2:], c.Op)
	}
	return err
}

// setName checks the name of a set.
func setName(name string) (string, error) {
	if len(name) > 31 {
		return "", fmt.Errorf("set name %q is longer than 31 characters", name)
	}
	bad := func(r rune) bool { return r <= ' ' || r == 0x7f || r == '"' || r == '\\' || r == ',' }
	if name == "" || name[0] == '-' || strings.IndexFunc(name, bad) >= 0 {
		return "", fmt.Errorf("bad set name %q", name)
	}
	return name, nil
}

// argument takes the value of an option from the words.
func argument(words *[]string, option string) (string, error) {
	if len(*words) == 0 {
		return "", fmt.Errorf("missing argument of %q", option)
	}
	text := (*words)[0]
	*words = (*words)[1:]
	return text, nil
}

// setArgument takes the name of a set from the words.
func setArgument(words *[]string, option string) (string, error) {
	text, err := argument(words, option)
	if err != nil {
		return "", err
	}
	return setName(text)
}

// numberOf takes a number from the words.
func numberOf(words *[]string, option string, limit uint64) (uint64, error) {
	text, err := argument(words, option)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 0, 64)
	if err != nil || n > limit {
		return 0, fmt.Errorf("%s %q is not a number from 0 to %d", option, text, limit)
	}
	return n, nil
}

// read reads the options of an element.
func (o *Options) read(words []string, op string) (err error) {
	for len(words) > 0 && err == nil {
		name := words[0]
		words = words[1:]
		if op != "add" && name != "before" && name != "after" && name != "nomatch" {
			return fmt.Errorf("%s does not take the option %q", op, name)
		}
		switch name {
		case "timeout":
			var n uint64
			n, err = numberOf(&words, name, maxTimeout)
			seconds := uint32(n)
			o.Timeout = &seconds
		case "nomatch":
			o.NoMatch = true
		case "packets":
			o.Packets, err = numberOf(&words, name, math.MaxUint64)
			o.Counted = true
		case "bytes":
			o.Bytes, err = numberOf(&words, name, math.MaxUint64)
			o.Counted = true
		case "comment":
			if o.Comment, err = argument(&words, name); err == nil && strings.ContainsAny(o.Comment, "\"\n\r\x00") {
				err = errors.New(`the character " and line breaks are not permitted in comments`)
			} else if len(o.Comment) > 255 {
				err = errors.New("the comment is longer than 255 characters")
			}
		case "before":
			o.Before, err = setArgument(&words, name)
		case "after":
			o.After, err = setArgument(&words, name)
		default:
			err = fmt.Errorf("unknown argument %q", name)
		}
	}
	if err == nil && o.Before != "" && o.After != "" {
		err = errors.New("before and after cannot be used together")
	}
	return err
}

// String returns the options as `ipset save` prints them.
func (o Options) String() string {
	var out []string
	if o.Timeout != nil {
		out = append(out, "timeout", strconv.FormatUint(uint64(*o.Timeout), 10))
	}
	if o.NoMatch {
		out = append(out, "nomatch")
	}
	if o.Counted {
		out = append(out, "packets", strconv.FormatUint(o.Packets, 10), "bytes", strconv.FormatUint(o.Bytes, 10))
	}
	if o.Comment != "" {
		out = append(out, "comment", `"`+o.Comment+`"`)
	}
	if o.Before != "" {
		out = append(out, "before", o.Before)
	}
	if o.After != "" {
		out = append(out, "after", o.After)
	}
	return strings.Join(out, " ")
}

// String returns the command line, without the name of the program.
func (c Command) String() string {
	words := []string{c.Op, c.Set, c.To, c.Entry, c.Options.String()}
	if c.Op == "create" {
		words = append(words, c.Header.String())
	}
	for _, flag := range []struct {
		name string
		set  bool
	}{{"-exist", c.Exist}, {"-name", c.Names}, {"-terse", c.Terse}} {
		if flag.set {
			words = append(words, flag.name)
		}
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "" })
	return strings.Join(words, " ")
}
