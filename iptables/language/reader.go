// SPDX-License-Identifier: Apache-2.0

package language

// Reading of one command.

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// reader is a command while it is read.
type reader struct {
	args []string
	// not is whether the argument before was `!`.
	not  bool
	cmd  Command
	rule Rule
	// sources and destinations are the addresses of -s and -d.
	sources, destinations []Address
	matches               []*builder
	target                *builder
	// seen are the letters of the options that were read.
	seen map[byte]bool
}

// ReadCommand reads the arguments of iptables or ip6tables, without the name of the program.
func ReadCommand(family Family, args []string) (Command, error) {
	r := newReader(family, args)
	if err := r.read(); err != nil {
		return Command{}, err
	}
	return r.finish()
}

func newReader(family Family, args []string) *reader {
	return &reader{args: args, seen: map[byte]bool{}, cmd: Command{Family: family, Table: "filter"},
		rule: Rule{Family: family}}
}

// SplitLine splits a line of a save file into arguments: at spaces that are not in double quotes. In quotes, a
// backslash takes the next character as it is. A quote is only allowed where an argument begins and ends.
func SplitLine(line string) (args []string, err error) {
	for {
		line = strings.TrimLeft(line, " \t\n\r")
		if line == "" {
			return args, nil
		}
		var arg string
		if line[0] == '"' {
			if arg, line, err = quotedArgument(line[1:]); err != nil {
				return nil, err
			}
			args = append(args, arg)
			continue
		}
		end := strings.IndexAny(line, " \t\n\r")
		if end < 0 {
			end = len(line)
		}
		if arg, line = line[:end], line[end:]; strings.Contains(arg, `"`) {
			return nil, fmt.Errorf("a quote is inside the argument %q", arg)
		}
		args = append(args, arg)
	}
}

// quotedArgument reads to the end of the quotes.
func quotedArgument(text string) (arg, rest string, err error) {
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i++
			out.WriteByte(text[i])
		case text[i] == '"':
			if rest = text[i+1:]; rest != "" && strings.IndexByte(" \t\n\r", rest[0]) < 0 {
				return "", "", fmt.Errorf("no space follows the quoted argument %q", out.String())
			}
			return out.String(), rest, nil
		default:
			out.WriteByte(text[i])
		}
	}
	return "", "", errors.New("a quote has no end")
}

func (r *reader) read() error {
	for len(r.args) > 0 {
		arg := r.args[0]
		r.args = r.args[1:]
		if arg == "!" {
			if r.not {
				return errors.New("multiple consecutive ! not allowed")
			}
			r.not = true
			continue
		}
		var err error
		switch {
		case strings.HasPrefix(arg, "--") && len(arg) > 2:
			err = r.long(arg)
		case len(arg) > 1 && arg[0] == '-' && arg != "--":
			err = r.cluster(arg)
		default:
			err = fmt.Errorf("bad argument %q", arg)
		}
		if err != nil {
			return err
		}
		if r.not {
			return fmt.Errorf("option %q cannot be inverted", arg)
		}
	}
	if r.not {
		return errors.New("the last ! precedes no option")
	}
	return nil
}

// long reads an option with a long name, alone or with `=VALUE`.
func (r *reader) long(arg string) error {
	name, attached, hasAttached := strings.Cut(arg, "=")
	f, ok, err := r.lookUp(name)
	if err == nil && !ok && r.loadImplicit() {
		f, ok, err = r.lookUp(name)
	}
	if err != nil {
		return err
	}
	if !ok {
		return r.optionError(name)
	}
	if f.global != nil {
		if hasAttached && f.global.argument == without {
			return fmt.Errorf("option %q takes no argument", name)
		}
		return r.global(f.global, name, attached, hasAttached)
	}
	v := value{option: name, not: r.not}
	r.not = false
	if f.option.arity == noValue {
		if hasAttached {
			return fmt.Errorf("option %q takes no argument", name)
		}
		return f.builder.take(f.option, v)
	}
	if v.text = attached; !hasAttached {
		if v.text, err = r.next(name); err != nil {
			return err
		}
	}
	if f.option.arity == twoValues {
		if v.text != "!" && (len(r.args) == 0 || strings.HasPrefix(r.args[0], "-") || r.args[0] == "!") {
			return fmt.Errorf("option %q requires two arguments", name)
		}
		if v.text != "!" {
			v.second, _ = r.next(name)
		}
	}
	if f.option.not && !f.option.literal && v.text == "!" {
		return fmt.Errorf("%s: write ! before the option: ! %s %s", f.builder.name, f.option.names[0],
			strings.Join(r.args[:min(1, len(r.args))], ""))
	}
	return f.builder.take(f.option, v)
}

// cluster reads short options that share a dash.
func (r *reader) cluster(arg string) error {
	for i := 1; i < len(arg); i++ {
		at := slices.IndexFunc(globals, func(g global) bool { return g.letter == arg[i] && arg[i] != lineNumbers })
		if at < 0 {
			return fmt.Errorf("unknown option %q", "-"+arg[i:i+1])
		}
		g := &globals[at]
		rest := arg[i+1:]
		attached := g.argument != without && rest != ""
		if err := r.global(g, "-"+arg[i:i+1], rest, attached); err != nil {
			return err
		}
		if attached {
			return nil
		}
	}
	return nil
}

// next takes the argument of an option.
func (r *reader) next(name string) (string, error) {
	if len(r.args) == 0 {
		return "", fmt.Errorf("option %q requires an argument", name)
	}
	text := r.args[0]
	r.args = r.args[1:]
	return text, nil
}

// peek takes the next argument if it is no option.
func (r *reader) peek() (string, bool) {
	if len(r.args) == 0 || r.args[0] == "" || r.args[0][0] == '-' || r.args[0][0] == '!' {
		return "", false
	}
	text := r.args[0]
	r.args = r.args[1:]
	return text, true
}

// global reads an option of the program. text is its argument if attached is set.
func (r *reader) global(g *global, name, text string, attached bool) (err error) {
	given := attached
	switch {
	case attached && strings.IndexByte("pio", g.letter) >= 0:
		return fmt.Errorf("write a space between %s and its value", name)
	case attached || g.argument == without:
	case g.argument == required:
		if text, err = r.next(name); err != nil {
			return err
		}
		given = true
	default:
		text, given = r.peek()
	}
	if g.not && text == "!" {
		return fmt.Errorf("write ! before the option: ! %s %s", name, strings.Join(r.args[:min(1, len(r.args))], ""))
	}
	if r.not && !g.not {
		return fmt.Errorf("option %q cannot be inverted", name)
	}
	not := r.not
	r.not = false
	once := strings.IndexByte("sdpiofjgctWw", g.letter) >= 0
	if g.letter == 'g' && r.seen['j'] || g.letter == 'j' && r.seen['g'] || once && r.seen[g.letter] {
		return fmt.Errorf("multiple %s flags not allowed", name)
	}
	r.seen[g.letter] = true
	if g.letter >= 'A' && g.letter <= 'Z' && g.letter != 'W' {
		return r.command(g.letter, name, text, given)
	}
	if strings.IndexByte("sdpiofjgmc", g.letter) >= 0 {
		return r.ruleOption(g.letter, name, text, not)
	}
	return r.modifier(g.letter, name, text, given)
}

// modifier reads an option that is about the command, not about the rule.
func (r *reader) modifier(letter byte, name, text string, given bool) error {
	switch letter {
	case 't':
		r.cmd.Table = text
		return tableName(text)
	case 'n':
		r.cmd.Numeric = true
	case 'v':
		r.cmd.Verbose = true
	case 'x':
		r.cmd.Exact = true
	case lineNumbers:
		r.cmd.LineNumbers = true
	case 'w', 'W':
		n, ok := decimal(text, math.MaxInt32)
		if given && !ok {
			return fmt.Errorf("bad value %q for option %q: it is a number", text, name)
		}
		if letter == 'w' {
			r.cmd.Wait, r.cmd.WaitSeconds = true, int(n)
		}
	case '4', '6':
		if Family(letter-'0') != r.cmd.Family {
			return errOtherFamily
		}
	}
	return nil
}

// errOtherFamily is the error of -4 in ip6tables, or of -6 in iptables.
var errOtherFamily = errors.New("the command is for the other family: -4 is for iptables, -6 for ip6tables")

// command reads the letter of the operation with its chain, number or name.
func (r *reader) command(letter byte, name, chain string, given bool) error {
	both := string([]byte{r.cmd.Op, letter})
	switch {
	case both == "LZ" || both == "SZ":
		r.cmd.Zero = true
		if given && r.cmd.Chain != "" && r.cmd.Chain != chain {
			return fmt.Errorf("%s and -%c are for different chains", name, r.cmd.Op)
		}
		if given {
			r.cmd.Chain = chain
		}
		return nil
	case both == "ZL" || both == "ZS":
		r.cmd.Zero = true
		if !given {
			chain, given = r.cmd.Chain, r.cmd.Chain != ""
		}
	case r.cmd.Op != 0:
		return fmt.Errorf("cannot use %s with -%c", name, r.cmd.Op)
	}
	r.cmd.Op, r.cmd.Chain = letter, chain
	if given {
		if err := chainName(chain); err != nil {
			return err
		}
	}
	return r.operand(letter, name, given)
}

// operand reads what follows the chain.
func (r *reader) operand(letter byte, name string, given bool) error {
	switch letter {
	case 'I', 'D', 'L', 'S', 'Z', 'R':
		text, ok := "", false
		if given {
			text, ok = r.peek()
		}
		if ok {
			n, valid := decimal(text, math.MaxInt32)
			if !valid || n == 0 {
				return fmt.Errorf("invalid rule number %q", text)
			}
			r.cmd.Number = int(n)
		} else if letter == 'R' {
			return fmt.Errorf("%s requires a rule number", name)
		} else if letter == 'I' {
			r.cmd.Number = 1
		}
	case 'E', 'P':
		text, ok := r.peek()
		if !ok {
			what := map[byte]string{'E': "an old and a new chain name", 'P': "a chain and a policy"}
			return fmt.Errorf("%s requires %s", name, what[letter])
		}
		r.cmd.Name = text
	}
	return nil
}

// hasRule reports whether the command has a rule.
func (c *Command) hasRule() bool {
	return strings.IndexByte("AIRC", c.Op) >= 0 || c.Op == 'D' && c.Number == 0
}
