// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
)

// Server-sent events. A client only has a position in the ring of events, so one that reads slowly, or not at all, is
// only notified of what it missed.

const (
	// heartbeat is how often a silent stream sends something: proxies and NATs close silent connections.
	heartbeat = 15 * time.Second
	// retryAfter is how soon a client may reconnect.
	retryAfter = 2 * time.Second
	// MaxSubscribers leaves most request slots to other requests. Root at the Unix socket has as many separate ones.
	MaxSubscribers = front.MaxRequests / 4
	// MaxSubscribersPerClient leaves half of these to other clients.
	MaxSubscribersPerClient = MaxSubscribers / 2
	// eventsAtOnce are written before they are flushed.
	eventsAtOnce = 64
)

// ServeEvents handles GET /events?cube=&type=.
func (o *Observer) ServeEvents(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return o.helpEvents(w, r)
	}
	if o.observed.Events == nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagUnsupported, Message: "this daemon records no events"}
	}
	want, err := eventFilter(r)
	if err != nil {
		return err
	}
	after := r.Header.Get("Last-Event-ID")
	if after == "" {
		after = r.URL.Query().Get("after")
	}
	reader, err := o.observed.Events.Follow(after)
	if err != nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "Last-Event-ID", Message: "Last-Event-ID: " + err.Error()}
	}
	places, client := o.followers, front.CallerOf(r).Client
	if front.CallerOf(r).Trusted {
		places = o.ownerFollowers
	}
	if err := places.Enter(client); err != nil {
		return &message.Error{Status: http.StatusServiceUnavailable, Tag: message.TagResource,
			Message: fmt.Sprintf("too many event streams (%v), try again", err)}
	}
	defer places.Leave(client)
	o.subscribers.Add(1)
	defer o.subscribers.Add(-1)
	w.Header().Set("Content-Type", message.EventStream)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := o.follow(w, r, reader, want); err != nil {
		o.log.Debug("client of events went away", "err", err)
	}
	return nil
}

// eventFilter parses ?cube= and ?type=, which may be repeated or have a comma-separated list.
func eventFilter(r *http.Request) (func(*events.Event) bool, error) {
	var cubes, types []string
	for name, values := range r.URL.Query() {
		list := strings.FieldsFunc(strings.Join(values, ","), func(c rune) bool { return c == ',' })
		switch name {
		case "cube":
			cubes = list
		case "type":
			types = list
		case "after":
		default:
			return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: message.Clip(name),
				Message: message.Clip(name) + ": unknown parameter, the parameters are cube, type and after"}
		}
	}
	for _, t := range types {
		if !slices.Contains(events.Types, events.Type(t)) {
			return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "type",
				Message: fmt.Sprintf("type: %s is not one of %v", message.Clip(t), events.Types)}
		}
	}
	return func(e *events.Event) bool {
		if e.Type == events.Lost {
			return true
		}
		return (len(types) == 0 || slices.Contains(types, string(e.Type))) &&
			(len(cubes) == 0 || slices.ContainsFunc(cubes, e.Concerns))
	}, nil
}

// follow writes events until the client disconnects or the server stops.
func (o *Observer) follow(w http.ResponseWriter, r *http.Request, from *events.Reader, want func(*events.Event) bool) error {
	control := http.NewResponseController(w)
	// The server's write limits are for responses that end. A connection without them is one of a test.
	_ = control.SetReadDeadline(time.Time{})
	var out bytes.Buffer
	fmt.Fprintf(&out, "retry: %d\n\n", retryAfter.Milliseconds())
	pulse := time.NewTicker(o.Heartbeat)
	defer pulse.Stop()
	for {
		list, more := from.Next(eventsAtOnce)
		for i := range list {
			if want(&list[i]) {
				writeEvent(&out, &list[i])
			}
		}
		if out.Len() > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(stalled))
			if _, err := w.Write(out.Bytes()); err != nil {
				return fmt.Errorf("write events: %w", err)
			}
			if err := control.Flush(); err != nil {
				return fmt.Errorf("write events: %w", err)
			}
			out.Reset()
		}
		if more == nil {
			continue // there is more already
		}
		select {
		case <-more:
		case <-pulse.C:
			out.WriteString(": nothing new\n\n")
		case <-r.Context().Done():
			return nil
		case <-o.ending:
			return nil
		}
	}
}

// writeEvent writes one event in the standard's format. JSON has no line breaks.
func writeEvent(out *bytes.Buffer, e *events.Event) {
	data, err := json.Marshal(e)
	if err != nil {
		return // strings, numbers and times always marshal
	}
	fmt.Fprintf(out, "id: %s\nevent: %s\ndata: %s\n\n", e.ID, e.Type, data)
}

// helpEvents handles OPTIONS /events.
func (o *Observer) helpEvents(w http.ResponseWriter, r *http.Request) error {
	verb, completion, err := help.Verb(r)
	if err != nil {
		return err
	}
	h := help.Help{
		Params:   []help.Param{help.Member("events")},
		Elements: o.help.CubeElements(func(help.CubeName) bool { return true }),
		Optional: []help.Param{{Name: "--type", Description: "Only events of these types", Example: "--type config,port", Type: "flag", SimpleType: "string"}},
	}
	return o.help.Answer(w, r, []string{http.MethodGet, http.MethodOptions}, verb, completion, h)
}
