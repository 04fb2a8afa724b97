// SPDX-License-Identifier: Apache-2.0

// Commands about packets: what happened to them, and where. Their arguments are those of tcpdump, a filter and flags
// with one dash, which do not fit the grammar of all other commands.

package cli

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
	"github.com/polycube/polycube/internal/cli/pcapng"
	"github.com/polycube/polycube/internal/nofollow"
)

// planDrops also takes the name of the cube without a verb.
func planDrops(c command) (plan, error) {
	if c.verb == verbNone && len(c.path) == 2 {
		c.verb = verbShow
	}
	return planShow(c)
}

// notAlone is the plan of commands that are handled before the grammar.
func notAlone(c command) (plan, error) {
	return plan{}, usagef("%s must come first, except for --instance", c.path[0])
}

// watchCommand is a command that shows packets as they pass.
type watchCommand struct {
	command       string
	words         []string // of the filter
	place         string   // of a capture
	cube, file    string
	count, second string
	json          bool
	packet        string // to inject
	egress        bool
}

// parseWatching parses the words after the name of such a command.
func parseWatching(command string, words []string) (watchCommand, error) {
	w := watchCommand{command: command}
	valued := map[string]*string{"-c": &w.count, "-t": &w.second}
	if command == "trace" {
		valued["--cube"], valued["--inject"] = &w.cube, &w.packet
	} else {
		valued["-w"] = &w.file
		if len(words) == 0 || strings.HasPrefix(words[0], "-") {
			return w, w.wrong("name the port, cube or netdev first")
		}
		w.place, words = words[0], words[1:]
	}
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		to := valued[name]
		switch {
		case to == nil && words[i] == "-json":
			w.json = true
		case to == nil && words[i] == "--egress" && command == "trace":
			w.egress = true
		case to == nil && words[i] == "--":
			w.words = append(w.words, words[i+1:]...)
			return w, w.check()
		case to == nil && strings.HasPrefix(words[i], "-"):
			return w, w.wrong("%s", unknownFlag(command, words[i]))
		case to == nil:
			w.words = append(w.words, words[i])
		case *to != "":
			return w, w.wrong("%s is given twice", name)
		case given:
			*to = value
		case i+1 == len(words):
			return w, w.wrong("%s needs a value", name)
		default:
			i++
			*to = words[i]
		}
	}
	return w, w.check()
}

func (w watchCommand) wrong(format string, args ...any) error {
	return &usageError{message: w.command + ": " + fmt.Sprintf(format, args...), usage: aliases[w.command].Usage}
}

func (w watchCommand) check() error {
	switch {
	case w.packet == "" && w.egress:
		return w.wrong("--egress is accepted only with --inject")
	case w.packet != "" && (len(w.words) != 1 || w.cube+w.count+w.second != ""):
		return w.wrong("--inject takes the packet, then CUBE:PORT, a transparent cube or a netdev")
	}
	for flag, value := range map[string]string{"-c": w.count, "-t": w.second} {
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1) {
			return w.wrong("%s %q: expected a number, 1 or greater", flag, value)
		}
	}
	return nil
}

// request is the stream to request from the daemon.
func (w watchCommand) request() request {
	q := url.Values{}
	for name, value := range map[string]string{"filter": strings.Join(w.words, " "), "cube": w.cube, "count": w.count, "seconds": w.second} {
		if value != "" {
			q.Set(name, value)
		}
	}
	r := request{method: "GET", path: []string{w.command}, query: q.Encode(), accept: ndjson}
	if w.place != "" {
		r.path = append(r.path, w.place)
	}
	if w.file != "" {
		r.accept = typePcapng
	}
	return r
}

// Content types of streams.
const (
	ndjson     = "application/x-ndjson"
	typePcapng = "application/x-pcapng"
)

// step is one line of the daemon's stream of steps; the last one has End.
type step struct {
	Time                                                         time.Time
	Packet, Cube, Port, Direction, Verdict, Reason, Out, Summary string
	Program                                                      int
	End                                                          string
	Steps                                                        int
	Lost                                                         uint64
	LostInRing                                                   uint64 `json:"lost-in-ring"`
}

// text is the step on one line.
func (s step) text() string {
	return s.Time.Local().Format("15:04:05.000000") + " " + output.Clean(s.Packet) + " " + s.untimed()
}

// untimed is the step without its time and packet number.
func (s step) untimed() string {
	place, program := s.Cube, ""
	if s.Port != "" {
		place += ":" + s.Port
	}
	if s.Direction != "" {
		program = strings.TrimSuffix(s.Direction, "gress")
		if program == "e" {
			program = "out"
		}
		if s.Program > 0 {
			program += "/" + strconv.Itoa(s.Program)
		}
	}
	what := strings.TrimSpace(s.Verdict + " " + s.Reason + s.Out)
	return fmt.Sprintf("%-15s %-4s %-20s %s", output.Clean(place), program, output.Clean(what), output.Clean(s.Summary))
}

// watch executes a command that shows packets or events.
func (s *session) watch(command string, words []string) error {
	switch command {
	case "status":
		return s.health(words)
	case "events":
		return s.follow(words)
	}
	w, err := parseWatching(command, words)
	if err != nil {
		return err
	}
	if w.packet != "" {
		return s.inject(w)
	}
	seen := &tally{unit: "step"}
	if command == "capture" {
		seen.unit = "packet"
	}
	if w.file != "" {
		return s.save(w, seen)
	}
	return s.stream(w.request(), w.what(), seen, func(line []byte) error { return s.seen(w, line, seen) })
}

// what is the place at which such a command listens.
func (w watchCommand) what() string { return "on " + cmp.Or(w.place, w.cube, "all cubes") }

// seen prints and counts one step or packet, or the daemon's summary.
func (s *session) seen(w watchCommand, line []byte, t *tally) error {
	var one step
	if err := json.Unmarshal(line, &one); err != nil {
		return fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	last := one.End != ""
	if last {
		t.lost, t.known, t.end = one.Lost+one.LostInRing, true, one.End
	} else {
		t.count++
	}
	if one.Verdict == "drop" {
		t.dropped(one.Cube, one.Reason)
	}
	switch {
	case w.json:
		return s.put(string(line))
	case last:
		return nil
	}
	return s.put(one.text())
}

// save writes a capture to a file as it arrives.
func (s *session) save(w watchCommand, t *tally) error {
	return s.open(w.request(), func(body *interruptible) (err error) {
		if w.file == "-" {
			return s.watchStream(body, w.what(), t, func() error { return t.capture(unbuffered{s.stdout}, body) })
		}
		file, err := nofollow.Open(w.file, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
		if err != nil {
			return writeError("create the capture file", err)
		}
		t.file = w.file
		return s.watchStream(body, w.what(), t, func() error {
			return errors.Join(t.capture(file, body), writeError("write the capture", file.Close()))
		})
	})
}

// capture copies a capture, and counts what is in it.
func (t *tally) capture(to io.Writer, from io.Reader) error {
	is, err := pcapng.Copy(written{to}, from)
	t.count, t.drops, t.lost, t.known = is.Packets, is.Drops, is.Lost, is.Known
	return err
}

// written says that an error is about the output.
type written struct{ io.Writer }

func (w written) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	return n, writeError("write the capture", err)
}

// unbuffered writes without a buffer, because a user is watching.
type unbuffered struct{ to *bufio.Writer }

func (a unbuffered) Write(p []byte) (int, error) {
	n, err := a.to.Write(p)
	return n, errors.Join(err, a.to.Flush())
}

// put writes a line immediately, because a user is watching.
func (s *session) put(line string) error {
	if _, err := s.stdout.WriteString(line + "\n"); err != nil {
		return writeError("write the output", err)
	}
	return writeError("write the output", s.stdout.Flush())
}
