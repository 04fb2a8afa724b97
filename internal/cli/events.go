// SPDX-License-Identifier: Apache-2.0

// Live events: the daemon's server-sent events as lines.

package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/cli/output"
)

const eventStream = "text/event-stream"

// eventsCommand is the command events.
type eventsCommand struct {
	cube, types, after string
	count              int
	json               bool
}

func parseFollowing(words []string) (eventsCommand, error) {
	var f eventsCommand
	wrong := func(format string, args ...any) (eventsCommand, error) {
		return f, &usageError{message: "events: " + fmt.Sprintf(format, args...), usage: aliases["events"].Usage}
	}
	var count string
	valued := map[string]*string{"--type": &f.types, "--after": &f.after, "-c": &count}
	for i := 0; i < len(words); i++ {
		name, value, given := strings.Cut(words[i], "=")
		to := valued[name]
		switch {
		case words[i] == "-json":
			f.json = true
		case to == nil && strings.HasPrefix(words[i], "-"):
			return wrong("%s", unknownFlag("events", words[i]))
		case to == nil && (f.cube != "" || words[i] == ""):
			return wrong("expected the name of one cube")
		case to == nil:
			f.cube = words[i]
		case given:
			*to = value
		case i+1 == len(words):
			return wrong("%s needs a value", name)
		default:
			i++
			*to = words[i]
		}
	}
	if count != "" {
		var err error
		if f.count, err = strconv.Atoi(count); err != nil || f.count < 1 {
			return wrong("-c %q: expected a number, 1 or greater", count)
		}
	}
	return f, nil
}

// request is the stream to request.
func (f eventsCommand) request() request {
	q := url.Values{}
	for name, value := range map[string]string{"cube": f.cube, "type": f.types, "after": f.after} {
		if value != "" {
			q.Set(name, value)
		}
	}
	return request{method: "GET", path: []string{"events"}, query: q.Encode(), accept: eventStream}
}

// what describes the events that the command listens for.
func (f eventsCommand) what() string {
	what := "for events"
	if f.types != "" {
		what += " of type " + f.types
	}
	if f.cube != "" {
		what += " about " + f.cube
	}
	return what
}

// errCountReached ends a stream after the requested number of events.
var errCountReached = errors.New("enough events")

// follow executes the command.
func (s *session) follow(words []string) error {
	f, err := parseFollowing(words)
	if err != nil {
		return err
	}
	shown, seen := 0, &tally{unit: "event", known: true}
	err = s.stream(f.request(), f.what(), seen, func(line []byte) error {
		data, ok := strings.CutPrefix(string(line), "data:")
		if !ok {
			return nil // the id and the type are in the data; a comment is a sign of life
		}
		if err := s.event(strings.TrimSpace(data), f.json, seen); err != nil {
			return err
		}
		if shown++; shown == f.count {
			return errCountReached
		}
		return nil
	})
	if errors.Is(err, errCountReached) {
		return nil
	}
	return err
}

// event prints one event, and counts it.
func (s *session) event(data string, raw bool, t *tally) error {
	var e struct {
		Time          time.Time
		Type, Message string
		Count         uint64
	}
	if err := json.Unmarshal([]byte(data), &e); err != nil {
		return fmt.Errorf("cannot parse the daemon's response: %w", err)
	}
	t.event(e.Type, e.Count)
	if raw {
		return s.put(output.Clean(data))
	}
	return s.put(fmt.Sprintf("%s %-7s %s", e.Time.Local().Format("15:04:05.000"), output.Clean(e.Type), output.Clean(e.Message)))
}
