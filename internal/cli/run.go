// SPDX-License-Identifier: Apache-2.0

// Package cli is polycubectl: it maps words to one HTTP request and shows the response. It knows no data model, so
// every service that the daemon loads has a command line immediately.
package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/nofollow"
)

// Version is the version of the client, set when it is linked.
var Version = "dev"

// session is one run of the program.
type session struct {
	stdin    *os.File
	stdout   *bufio.Writer // keeps the first error until Flush
	stderr   io.Writer
	getenv   func(string) string
	patience patience
	config   config
	try      string  // seconds of --try, "" without it
	onTrial  bool    // a change of this run is on trial
	sent     request // for the log
	status   int
	terminal int  // the width of the terminal, 0 if it is none
	screen   bool // a user may be reading the output
}

// Run is the program: args without the program's name. It returns the exit status.
func Run(args []string, stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) Exit {
	s := newSession(stdin, stdout, stderr, getenv)
	s.terminal = terminalWidth(stdout)
	return s.run(args)
}

func newSession(stdin *os.File, stdout, stderr io.Writer, getenv func(string) string) *session {
	return &session{
		stdin: stdin, stdout: bufio.NewWriter(stdout), stderr: stderr,
		getenv: getenv, patience: defaultPatience, screen: isTerminal(stdout),
	}
}

func (s *session) run(args []string) Exit {
	began := time.Now()
	err := s.execute(args)
	lost := writeError("write the output", s.stdout.Flush())
	if lost != nil && (err == nil || errors.Is(err, errors.Unwrap(lost))) {
		err, lost = lost, nil
	}
	if err == nil {
		tried(s)
	}
	code := s.conclude(err)
	if code == ExitUsage || code == ExitServer {
		fmt.Fprint(s.stderr, globHint(args))
	}
	if lost != nil { // the error of the command itself is more important
		s.complain(lost.Error())
	}
	s.log(args, code, time.Since(began))
	return code
}

// isHelp reports whether words ask for help: a single word for all of it, a last word for what can follow.
func isHelp(word string) bool { return word == "-h" || word == "--help" }

func (s *session) execute(args []string) error {
	args, instance, err := cutInstance(args)
	if err == nil {
		args, s.try, err = cutTry(args)
	}
	if err != nil {
		return err
	}
	if len(args) == 0 || len(args) == 1 && (isHelp(args[0]) || args[0] == "help") {
		_, err := s.stdout.WriteString(usage())
		return err
	}
	switch {
	case args[0] == completeCommand:
		return (&completer{getenv: s.getenv, stdout: s.stdout, config: &s.config, demand: s.demand}).complete(args[1:], instance)
	case len(args) == 2 && args[0] == "completion" && slices.Contains(shells(), args[1]):
		return s.printCompletion(args[1])
	}
	if last := len(args) - 1; isHelp(args[last]) {
		args[last] = "?"
	}
	watches := aliases[args[0]].run != nil
	if watches && args[len(args)-1] == "?" {
		watches, args = false, []string{args[0], "?"}
	}
	var cmd command
	if !watches {
		if cmd, err = parse(args); err != nil {
			return err
		}
	}
	if s.config, err = loadConfig(s.getenv, instance); err != nil {
		return err
	}
	for _, w := range s.config.warnings {
		fmt.Fprintf(s.stderr, "polycubectl: warning: %s\n", output.Clean(w))
	}
	if watches {
		createConfig(s.getenv)
		return aliases[args[0]].run(s, args[0], args[1:])
	}
	p, err := resolve(cmd, s.config.singleParam)
	if err != nil {
		return err
	}
	if p.render == renderAlias {
		return s.aliasHelp(p)
	}
	input, err := readInput(s.stdin, p.stdin, s.patience)
	if err != nil {
		return err
	}
	if err := p.withInput(input); err != nil {
		return err
	}
	createConfig(s.getenv)
	return s.exchange(p)
}

// tried tells the user how to keep a change that was made with --try.
func tried(s *session) {
	switch {
	case s.onTrial:
		fmt.Fprintf(s.stderr, "On trial for %s seconds: \"polycubectl confirm\" keeps it, \"polycubectl confirm no\" takes it back now.\n", s.try)
	case s.try != "":
		fmt.Fprintln(s.stderr, "Nothing is on trial: the configuration is as it was before.")
	}
}

// cutTry takes the option --try SECONDS off the beginning of the words.
func cutTry(args []string) (rest []string, seconds string, err error) {
	if len(args) == 0 {
		return args, "", nil
	}
	seconds, found := strings.CutPrefix(args[0], "--try=")
	switch {
	case found:
		args = args[1:]
	case args[0] != "--try":
		return args, "", nil
	case len(args) == 1:
		return nil, "", usagef("--try needs a number of seconds")
	default:
		seconds, args = args[1], args[2:]
	}
	if n, err := strconv.ParseUint(seconds, 10, 32); err != nil || n == 0 || n > 86400 {
		return nil, "", usagef("--try: %q is not a number of seconds from 1 to 86400", seconds)
	}
	return args, seconds, nil
}

// printCompletion prints the completion script of a shell.
func (s *session) printCompletion(shell string) error {
	script, err := scripts.ReadFile("completion." + shell)
	if err == nil {
		_, err = s.stdout.Write(script)
	}
	return err
}

// cutInstance removes --instance NAME from the front.
func cutInstance(args []string) (rest []string, instance string, err error) {
	if len(args) == 0 {
		return args, "", nil
	}
	name, found := strings.CutPrefix(args[0], "--instance=")
	switch {
	case found:
		args = args[1:]
	case args[0] != "--instance":
		return args, "", nil
	case len(args) == 1:
		return nil, "", usagef("--instance needs the name of an instance")
	default:
		name, args = args[1], args[2:]
	}
	if !validInstance(name) {
		return nil, "", usagef("--instance: %q is not the name of an instance", name)
	}
	return args, name, nil
}

// connect creates the client for the daemon in the configuration.
func (s *session) connect() (*client, error) {
	end, err := s.config.endpoint()
	if err != nil {
		return nil, err
	}
	var debug io.Writer
	if s.config.debug {
		debug = s.stderr
	}
	c := newClient(end, debug)
	c.try, c.onTrial = s.try, &s.onTrial
	return c, nil
}

// exchange executes a plan.
func (s *session) exchange(p plan) error {
	if s.try != "" && p.req.method == http.MethodGet {
		return usagef("--try is for changes, and this command only reads")
	}
	c, err := s.connect()
	if err != nil {
		return err
	}
	defer c.close()
	ctx, cancel := context.WithTimeout(context.Background(), s.config.timeout)
	defer cancel()
	if p.render == renderVersion {
		return s.version(ctx, c, p)
	}
	s.sent = p.req
	a, err := c.do(ctx, p.req)
	if err != nil {
		return err
	}
	if s.status = a.status; !a.ok() {
		if ask, ok := confirmationOf(a); ok && p.req.method == http.MethodDelete {
			return s.deleteList(c, p, a, ask)
		}
		return &serverError{sentences(a)}
	}
	switch p.render {
	case renderAnswer:
		if err := output.Print(s.stdout, a.body, p.show, p.single); err != nil {
			return err
		}
		return s.printNextPage(a, p.show)
	case renderHelp:
		return printHelp(s.stdout, a.body, p.about, s.terminal)
	case renderRootHelp:
		return s.rootHelp(ctx, c, a.body)
	default:
		return nil
	}
}

// printNextPage prints how to get the next page: on standard error, because a program may read the output, and after
// it.
func (s *session) printNextPage(a answer, show output.Options) error {
	after := a.next.Get("after")
	if after == "" || !show.Page.Has("limit") {
		return nil
	}
	if err := s.stdout.Flush(); err != nil {
		return nil //nolint:nilerr // it is reported at the end
	}
	_, err := fmt.Fprintf(s.stderr, "polycubectl: more entries follow; add -after=%s\n", quoteWord(output.Clean(after)))
	return err
}

// quoteWord is a word as a shell takes it.
func quoteWord(w string) string {
	if strings.ContainsFunc(w, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:/%@,+", r)
	}) {
		return "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	return w
}

func (s *session) rootHelp(ctx context.Context, c *client, services []byte) error {
	cubes, err := c.do(ctx, request{method: "GET", path: []string{"cubes"}})
	if err != nil {
		return err
	}
	if s.status = cubes.status; !cubes.ok() {
		return &serverError{sentences(cubes)}
	}
	return printRootHelp(s.stdout, services, cubes.body, s.config.expert, s.terminal)
}

// version shows the client's version even if the daemon cannot be reached.
func (s *session) version(ctx context.Context, c *client, p plan) error {
	versions := output.ObjectValue(output.Member{Key: "polycubectl", Val: output.ObjectValue(output.Member{Key: "version", Val: output.StringValue(Version)})})
	s.sent = p.req
	a, err := c.do(ctx, p.req)
	s.status = a.status
	if err == nil && !a.ok() {
		err = &serverError{sentences(a)}
	}
	if err == nil {
		var daemon output.Value
		if daemon, err = output.DecodeJSON(a.body); err == nil {
			versions.Members = append(versions.Members, daemon.Members...)
		}
	}
	return errors.Join(output.Print(s.stdout, versions.AppendJSON(nil), p.show, false), err)
}

// log appends to the log file, if the user configured one; a log that cannot be written is only a warning.
func (s *session) log(args []string, code Exit, took time.Duration) {
	if s.config.logFile == "" {
		return
	}
	f, err := nofollow.Open(s.config.logFile, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		fmt.Fprintf(s.stderr, "polycubectl: warning: logfile: %s\n", output.Clean(err.Error()))
		return
	}
	defer f.Close()
	slog.New(slog.NewJSONHandler(f, nil)).Info("command", "args", args, "method", s.sent.method,
		"target", s.sent.target(), "status", s.status, "exit", int(code), "took", took.String())
}
