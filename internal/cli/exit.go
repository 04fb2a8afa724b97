// SPDX-License-Identifier: Apache-2.0

// Exit statuses. A script looks at the number alone, so each has one meaning in
// all commands. The numbers are here and nowhere else.

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
	// ExitOK is success; of a watcher, also that it was interrupted.
	ExitOK Exit = 0
	// ExitContact means that there is no usable daemon, or that the settings of
	// the client are wrong.
	ExitContact Exit = 1
	// ExitServer means that the daemon refused.
	ExitServer Exit = 2
	// ExitChanged is success that changed something, where a script asks.
	ExitChanged Exit = 3
	// ExitDeclined means that the user said no.
	ExitDeclined Exit = 4
	// ExitWarning and ExitCritical are the health that a script asks for.
	ExitWarning  Exit = 5
	ExitCritical Exit = 6
	// ExitUsage means that the command line, or a file it reads, is wrong:
	// EX_USAGE of sysexits.
	ExitUsage Exit = 64
	// ExitOutput means that the result could not be written: EX_IOERR of
	// sysexits.
	ExitOutput Exit = 74
)

// exits are the exit statuses with what they mean, for help and the guide.
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

// exitTable is what help says of them.
func exitTable() string {
	var b strings.Builder
	for _, e := range exits {
		fmt.Fprintf(&b, "  %-3d %s\n", e.exit, e.meaning)
	}
	return b.String()
}

// exitError ends the program with a status of its own, after the answer. The
// message may be empty.
type exitError struct {
	code    Exit
	message string
}

func (e *exitError) Error() string { return e.message }

// serverError is an answer that is no success.
type serverError struct{ text string }

func (e *serverError) Error() string { return e.text }

// outputError is a file, or standard output, that could not be written.
type outputError struct {
	what string // "write the output"
	err  error
}

func (e *outputError) Error() string { return e.what + ": " + e.err.Error() }
func (e *outputError) Unwrap() error { return e.err }

// unwritten is the error of writing something, nil when there is none.
func unwritten(what string, err error) error {
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

// conclude tells the user about an error and gives it its exit status.
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
