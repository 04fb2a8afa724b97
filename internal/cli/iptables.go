// SPDX-License-Identifier: Apache-2.0

package cli

// The programs pcn-iptables, pcn-ip6tables, and those that save, restore, import, create and delete: each sends its arguments to
// the cube, which knows the language.

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/cli/iptinput"
)

// defaultIptablesCube is the cube of these programs.
const defaultIptablesCube = "pcn-iptables"

// iptablesPrograms are those that the cube carries out.
var iptablesPrograms = []string{"iptables", "ip6tables", "iptables-save", "ip6tables-save", "iptables-restore", "ip6tables-restore", "iptables-import"}

// iptablesVersion follows the name: programs that call iptables find out by it what options there are.
const iptablesVersion = " v1.8.9 (polycube)\n"

// The exit statuses of iptables.
const (
	iptablesProblem   = 1
	iptablesParameter = 2
)

// Iptables is the programs pcn-iptables and its relatives: name says which. It returns the exit status.
func Iptables(name string, args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) int {
	name = filepath.Base(name)
	s := newSession(stdin, stdout, stderr, getenv)
	args, try, err := cutTry(args)
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
		return iptablesParameter
	}
	s.try = try
	code, err := s.iptables(strings.TrimPrefix(name, "pcn-"), args)
	if lost := s.stdout.Flush(); err == nil && lost != nil {
		code, err = iptablesProblem, fmt.Errorf("write the output: %w", lost)
	}
	if err != nil {
		fmt.Fprintf(stderr, "%s: %v\n", name, err)
	} else {
		tried(s)
	}
	return code
}

// iptables runs one of the programs.
func (s *session) iptables(program string, args []string) (code int, err error) {
	cube := cmp.Or(s.getenv("PCN_IPTABLES_CUBE"), defaultIptablesCube)
	switch program {
	case "iptables-init":
		return initIptables(s, cube, typeTC)
	case "iptables-init-xdp":
		return initIptables(s, cube, typeXDP)
	case "iptables-clean":
		if code, err := iptablesSteps(s, []string{"iptables", "del", cube}); err != nil {
			return code, err
		}
		if err := natCubeOf(s).remove(); err != nil {
			return iptablesProblem, err
		}
		return 0, nil
	}
	if !slices.Contains(iptablesPrograms, program) {
		return iptablesParameter, fmt.Errorf("this program must be called by one of its names: %s, iptables-init, iptables-init-xdp, iptables-clean, with or without pcn- before it", strings.Join(iptablesPrograms, ", "))
	}
	if len(args) == 1 && (args[0] == "-V" || args[0] == "--version") {
		_, err := s.stdout.WriteString(program + iptablesVersion)
		return 0, err
	}
	input := ""
	if strings.HasSuffix(program, "-restore") || program == "iptables-import" {
		if input, args, err = iptinput.Restored(s.stdin, args); err != nil {
			return iptablesProblem, err
		}
	}
	return s.iptablesCommand(cube, program, args, input)
}

// iptablesSteps runs commands of polycubectl up to the first that fails.
func iptablesSteps(s *session, commands ...[]string) (code int, err error) {
	for _, c := range commands {
		if err := s.execute(c); err != nil {
			return iptablesProblem, err
		}
	}
	return 0, nil
}

// iptablesAnswer is what a cube says about a command.
type iptablesAnswer struct {
	Output string
	Code   int
	Error  string
	// Table is one of the cube nat, if the command is about that, and Changes says whether it would change it.
	Table   string
	Changes bool
}

// iptablesCommand has the cubes carry out a command: the table nat is that of the cube nat.
func (s *session) iptablesCommand(cube, program string, args []string, input string) (code int, err error) {
	if s.config, err = loadConfig(s.getenv, ""); err != nil {
		return iptablesProblem, err
	}
	nat := natCubeOf(s)
	both := strings.HasSuffix(program, "-restore") && iptinput.HasTable(input, "nat")
	first := args
	if both { // both cubes are asked before either changes
		first = append(slices.Clone(args), "--test")
		if s.try != "" && !iptinput.RestoresOne(args) {
			return iptablesParameter, errors.New("--try: the table nat changes apart from the others: restore it alone (-T nat), and then them")
		}
	}
	is, err := runIptables(s, "iptables", cube, program, first, input)
	if errors.Is(err, errNoCube) {
		return iptablesProblem, fmt.Errorf("there is no cube %s: create it with pcn-iptables-init", cube)
	} else if err != nil {
		return iptablesProblem, err
	}
	switch {
	case is.Table != "":
		is, err = nat.run(is, cube, program, args)
	case is.Error != "":
	case both:
		is, err = nat.restore(cube, program, args, input)
	case strings.HasSuffix(program, "-save") && !iptinput.NamesTable(args):
		err = nat.add(&is, program, args)
	}
	if err != nil {
		return iptablesProblem, err
	}
	if is.Error != "" {
		return is.Code, errors.New(is.Error)
	}
	if _, err := s.stdout.WriteString(is.Output); err != nil {
		return iptablesProblem, err
	}
	return is.Code, nil // of an import that has left out rules, if it is not 0
}

// errNoCube says that there is no cube of that name.
var errNoCube = errors.New("there is no such cube")

// runIptables has one cube carry out a command.
func runIptables(s *session, service, cube, program string, args []string, input string) (is iptablesAnswer, err error) {
	type argument struct {
		Text string `json:"text"`
	}
	list := make([]argument, len(args))
	for i, a := range args {
		list[i].Text = a
	}
	body := map[string]any{"program": program, "argument": list}
	if input != "" {
		body["input"] = input
	}
	r := request{method: http.MethodPost, path: []string{service, cube, "run"}}
	if r.body, err = json.Marshal(body); err != nil {
		return is, err
	}
	a, err := s.demand(r)
	if a.status == http.StatusNotFound {
		return is, errNoCube
	} else if err != nil {
		return is, errors.New(strings.TrimPrefix(err.Error(), cube+": "))
	}
	if err := json.Unmarshal(a.body, &is); err != nil {
		return is, fmt.Errorf("read the answer: %w", err)
	}
	return is, nil
}
