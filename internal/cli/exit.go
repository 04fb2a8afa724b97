// SPDX-License-Identifier: Apache-2.0

// Exit statuses. A script sees only the number, so each has one meaning in all commands. The numbers are defined only
// here.

package cli

import (
	"errors"
	"fmt"
	"strings"

	"github.com/polycube/polycube/internal/cli/output"
)

// Exit is an exit status.
type Exit int

// The exit statuses. The first three are those of the first Polycube.
const (
	// ExitOK is success, including an interrupted watcher.
	ExitOK Exit = 0
	// ExitContact means that there is no usable daemon, or that the client's settings are wrong.
	ExitContact Exit = 1
	// ExitServer means that the daemon refused the request.
	ExitServer Exit = 2
	// ExitChanged is success with a change, if a script asks for the difference.
	ExitChanged Exit = 3
	// ExitDeclined means that the user said no.
	ExitDeclined Exit = 4
	// ExitWarning and ExitCritical are the health, if a script asks for it.
	ExitWarning  Exit = 5
	ExitCritical Exit = 6
	// ExitUsage means that the command line, or a file it reads, is wrong: EX_USAGE of sysexits.
	ExitUsage Exit = 64
	// ExitOutput means that the result could not be written: EX_IOERR of sysexits.
	ExitOutput Exit = 74
)

// exits are the exit statuses with their meanings, for help and the guide.
var exits = []struct {
	exit    Exit
	meaning string
}{
	{ExitOK, "success; also if Ctrl-C ended trace, capture or events"},
	{ExitContact, "no usable daemon: it does not respond, or the client's settings are wrong"},
	{ExitServer, "refused by the daemon"},
	{ExitChanged, "something changed, or would change (--detailed-exitcode)"},
	{ExitDeclined, "you answered no; nothing was changed"},
	{ExitWarning, "warning (status --check)"},
	{ExitCritical, "critical (status --check)"},
	{ExitUsage, "wrong command line or input; nothing was changed"},
	{ExitOutput, "the result could not be written"},
}

// exitTable is the table in the help.
func exitTable() string {
	var b strings.Builder
	for _, e := range exits {
		fmt.Fprintf(&b, "  %-3d %s\n", e.exit, e.meaning)
	}
	return b.String()
}

// exitError ends the program with a particular status, after the output. The message may be empty.
type exitError struct {
	code    Exit
	message string
}

func (e *exitError) Error() string { return e.message }

// serverError is an error response.
type serverError struct{ text string }

func (e *serverError) Error() string { return e.text }

// outputError is a file, or standard output, that could not be written.
type outputError struct {
	what string // "write the output"
	err  error
}

func (e *outputError) Error() string { return e.what + ": " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// writeError wraps a write error, nil if there is none.
func writeError(what string, err error) error {
	if err == nil {
		return nil
	}
	return &outputError{what, err}
}

// exitOf is the exit status of an error.
func exitOf(err error) Exit {
	var wrong *usageError
	var exit *exitError
	var refused *serverError
	var astray *redirectError
	var output *outputError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &wrong):
		return ExitUsage
	case errors.As(err, &exit):
		return exit.code
	case errors.As(err, &refused), errors.As(err, &astray):
		return ExitServer
	case errors.As(err, &output):
		return ExitOutput
	}
	return ExitContact
}

// conclude prints an error and returns its exit status.
func (s *session) conclude(err error) Exit {
	var wrong *usageError
	var refused *serverError
	switch {
	case err == nil || err.Error() == "": // there is a status, and nothing to say
	case errors.As(err, &wrong):
		s.complain(wrong.message)
		if wrong.usage != "" {
			fmt.Fprintf(s.stderr, "Usage: polycubectl %s\n", wrong.usage)
		} else {
			fmt.Fprintln(s.stderr, `Try "polycubectl -h", or "?" as the last word.`)
		}
	case errors.As(err, &refused):
		fmt.Fprintln(s.stderr, refused.text) // the daemon's own sentences
	default:
		s.complain(err.Error())
	}
	return exitOf(err)
}

func (s *session) complain(text string) {
	fmt.Fprintf(s.stderr, "polycubectl: %s\n", output.Clean(text))
}
