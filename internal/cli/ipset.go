// SPDX-License-Identifier: Apache-2.0

package cli

// The program pcn-ipset: package sets, with the connection to the daemon.

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/polycube/polycube/internal/sets"
)

// Ipset is the program pcn-ipset. It returns the exit status.
func Ipset(name string, args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) int {
	s := newSession(stdin, stdout, stderr, getenv)
	args, try, err := cutTry(args)
	s.try = try
	quiet := func(arg string) bool { return arg == "-q" || arg == "-quiet" || arg == "--quiet" }
	loud := !slices.ContainsFunc(args, quiet)
	if err == nil {
		s.config, err = loadConfig(s.getenv, "")
	}
	if err == nil {
		p := sets.Program{Stdin: stdin, Stdout: s.stdout, Ask: func(r sets.Request) (sets.Answer, error) {
			a, err := s.demand(request{method: r.Method, path: r.Path, body: r.Body, ifMatch: r.IfMatch})
			return sets.Answer{Status: a.status, Body: a.body, Tag: a.tag}, err
		}}
		err = p.Run(slices.DeleteFunc(args, quiet))
	}
	if lost := s.stdout.Flush(); err == nil && lost != nil {
		err = fmt.Errorf("write the output: %w", lost)
	}
	if err == nil {
		tried(s)
		return 0
	}
	is := &sets.Error{Code: iptablesProblem}
	errors.As(err, &is)
	if !is.Bare {
		err = fmt.Errorf("%s %s: %w", filepath.Base(name), sets.Version, err)
	}
	if loud {
		fmt.Fprintln(stderr, err)
	}
	return is.Code
}
