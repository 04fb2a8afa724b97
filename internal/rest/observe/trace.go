// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/trace"
)

// Trace and capture: a stream of steps, one JSON object per line, until the session ends or the client disconnects.
// The client sees packets of others, and programs are relinked for it, so it requires the same role as a change.

// stalled is how long a client may take for one write before its session ends.
const stalled = 10 * time.Second

// Packets serves trace and capture: it owns the hub of the sessions.
type Packets struct {
	log   *slog.Logger
	out   message.Sender
	names *directory.Directory
	help  *help.Guide
	hub   *trace.Hub
}

// NewPackets creates it; hub may be nil.
func NewPackets(log *slog.Logger, names *directory.Directory, guide *help.Guide, hub *trace.Hub) *Packets {
	return &Packets{log: log, out: message.Sender{Log: log}, names: names, help: guide, hub: hub}
}

// End ends the sessions, which would not end by themselves.
func (k *Packets) End() {
	if k.hub == nil {
		return
	}
	if err := k.hub.Close(); err != nil {
		k.log.Warn("end packet sessions", "err", err)
	}
}

// tracer is the hub, or the error that there is none.
func (k *Packets) tracer() (*trace.Hub, error) {
	if k.hub == nil {
		return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagUnsupported, Message: "this daemon has no data plane to trace or capture"}
	}
	return k.hub, nil
}

// ServeTrace handles GET /trace and POST /trace/inject.
func (k *Packets) ServeTrace(w http.ResponseWriter, r *http.Request, rest []string) error {
	if len(rest) > 0 {
		if rest[0] != "inject" {
			return message.NotFound("no resource trace/%s: the only one is inject", message.Clip(rest[0]))
		}
		return k.serveInject(w, r)
	}
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return k.helpPackets(w, r, rest)
	}
	req, err := traceRequest(r.URL.Query(), "filter", "cube", "count", "seconds")
	if err != nil {
		return err
	}
	return k.stream(w, r, req, message.NDJSON, func(w io.Writer) (writer, error) {
		return &lineWriter{json.NewEncoder(w)}, nil
	})
}

// ServeCapture handles GET /capture/PLACE: packets as a pcapng file, or one JSON object per line if the client asks
// for that.
func (k *Packets) ServeCapture(w http.ResponseWriter, r *http.Request, rest []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return k.helpPackets(w, r, rest)
	}
	if len(rest) == 0 {
		return message.NotFound("specify where to capture: capture/PLACE, where PLACE is a port CUBE:PORT, a transparent cube or a netdev")
	}
	req, err := traceRequest(r.URL.Query(), "filter", "count", "seconds")
	if err != nil {
		return err
	}
	req.Capture = rest[0]
	if strings.Contains(r.Header.Get("Accept"), message.NDJSON) {
		return k.stream(w, r, req, message.NDJSON, func(w io.Writer) (writer, error) {
			return &packetLines{lineWriter{json.NewEncoder(w)}}, nil
		})
	}
	return k.stream(w, r, req, message.PcapNG, func(w io.Writer) (writer, error) {
		file, err := trace.NewFile(w, req.Capture, req.Filter)
		return packetFile{file}, err
	})
}

// serveInject returns the steps that the programs would take with a packet.
func (k *Packets) serveInject(w http.ResponseWriter, r *http.Request) error {
	if err := message.Allow(r, http.MethodPost); err != nil {
		return err
	}
	inject := commands.Of(http.MethodPost, "/trace/inject")
	m, err := message.ReadMembers(w, r, inject.Required(), inject.Allowed())
	if err != nil {
		return err
	}
	dir := cube.Ingress
	switch m["direction"] {
	case "", "ingress":
	case "egress":
		dir = cube.Egress
	default:
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "direction",
			Message: fmt.Sprintf("direction: %s is neither ingress nor egress", message.Clip(m["direction"]))}
	}
	hub, err := k.tracer()
	if err != nil {
		return err
	}
	lines, err := hub.Inject(r.Context(), m["place"], m["packet"], dir)
	if err != nil {
		return message.AsBadRequest(r.Method, err)
	}
	return k.out.JSON(w, r, http.StatusOK, lines)
}

// traceRequest reads a session's request from a query that has no other members.
func traceRequest(q url.Values, known ...string) (trace.Request, error) {
	var req trace.Request
	bad := func(name, format string, args ...any) error {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: name, Message: name + ": " + fmt.Sprintf(format, args...)}
	}
	for name, values := range q {
		if !slices.Contains(known, name) {
			return req, bad(message.Clip(name), "unknown parameter, the parameters are %s", strings.Join(known, ", "))
		}
		if len(values) > 1 {
			return req, bad(name, "given %d times", len(values))
		}
		value := values[0]
		switch name {
		case "filter":
			req.Filter = value
		case "cube":
			req.Cube = value
		case "count", "seconds":
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 || n > trace.MaxSteps {
				return req, bad(name, "%s is not a number from 1 to %d", message.Clip(value), trace.MaxSteps)
			}
			if name == "count" {
				req.Count = n
			} else {
				req.Time = time.Duration(n) * time.Second
			}
		}
	}
	return req, nil
}

// writer writes the output of a session.
type writer interface {
	// next writes one item; io.EOF when the session has ended.
	next(ctx context.Context, s *trace.Session) error
	// flush sends what is buffered.
	flush() error
	// end writes the summary.
	end(s *trace.Session) error
}

// lineWriter writes steps, one JSON object per line.
type lineWriter struct{ enc *json.Encoder }

func (l *lineWriter) next(ctx context.Context, s *trace.Session) error {
	line, err := s.Next(ctx)
	if err != nil {
		return err
	}
	return l.enc.Encode(line)
}

func (l *lineWriter) flush() error { return nil }

func (l *lineWriter) end(s *trace.Session) error { return l.enc.Encode(s.Summary()) }

// packetLines writes captured packets, one JSON object per line, without the bytes.
type packetLines struct{ lineWriter }

func (l *packetLines) next(ctx context.Context, s *trace.Session) error {
	p, err := s.NextPacket(ctx)
	if err != nil {
		return err
	}
	return l.enc.Encode(p.Line)
}

// packetFile writes captured packets as pcapng.
type packetFile struct{ *trace.File }

func (f packetFile) next(ctx context.Context, s *trace.Session) error {
	p, err := s.NextPacket(ctx)
	if err != nil {
		return err
	}
	return f.Write(p)
}

func (f packetFile) flush() error { return f.Flush() }

func (f packetFile) end(s *trace.Session) error { return f.End(s.Summary()) }

// stream runs a session for a client, and ends it when the client disconnects.
func (k *Packets) stream(w http.ResponseWriter, r *http.Request, req trace.Request, kind string, open func(io.Writer) (writer, error)) error {
	if err := front.CallerOf(r).Permit(access.Admin); err != nil {
		return err
	}
	hub, err := k.tracer()
	if err != nil {
		return err
	}
	session, err := hub.Open(r.Context(), req)
	if err != nil {
		return err
	}
	defer func() {
		if err := session.Close(); err != nil {
			k.log.Warn("end a packet session", "err", err)
		}
	}()
	control := http.NewResponseController(w)
	// The server's write limits are for responses that end. A connection without them is one of a test.
	_ = control.SetReadDeadline(time.Time{})
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	to, err := open(w)
	if err == nil {
		err = k.pump(control, r, session, to)
	}
	if err != nil {
		k.log.Debug("client of a packet session went away", "err", err)
	}
	return nil
}

// pump writes until the session ends or the client disconnects, and flushes whenever the queue is empty. It flushes
// the headers first: they tell the client that the programs have been relinked for it.
//
// A client that closes its sending side still gets the queued packets and the summary. If it has disconnected, the
// first write fails.
func (k *Packets) pump(control *http.ResponseController, r *http.Request, session *trace.Session, to writer) error {
	send := func() error {
		_ = control.SetWriteDeadline(time.Now().Add(stalled))
		return errors.Join(to.flush(), control.Flush())
	}
	if err := send(); err != nil {
		return err
	}
	ctx := r.Context()
	for {
		if ctx.Err() != nil {
			if err := context.Cause(ctx); errors.Is(err, front.ErrRights) {
				return err
			}
			session.Finish()
			ctx = context.WithoutCancel(ctx)
		}
		err := to.next(ctx, session)
		if errors.Is(err, io.EOF) {
			return errors.Join(to.end(session), send())
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
		if session.Idle() {
			if err := send(); err != nil {
				return err
			}
		}
		_ = control.SetWriteDeadline(time.Now().Add(stalled))
	}
}

// helpPackets handles OPTIONS of trace and capture.
func (k *Packets) helpPackets(w http.ResponseWriter, r *http.Request, rest []string) error {
	verb, completion, err := help.Verb(r)
	if err != nil {
		return err
	}
	h := help.Help{Optional: []help.Param{
		{Name: "-c", Description: "Stop after this many", Example: "-c 10", Type: "flag", SimpleType: "number"},
		{Name: "-t", Description: "Stop after this many seconds", Example: "-t 60", Type: "flag", SimpleType: "number"},
	}}
	switch {
	case message.CommandName(r) == "trace":
		h.Optional = append(h.Optional, help.Param{Name: "--cube", Description: "Only steps in this cube", Example: "--cube br1", Type: "flag", SimpleType: "string"})
	case len(rest) > 0:
		h.Optional = append(h.Optional, help.Param{Name: "-w", Description: "Write a pcapng file", Example: "-w file.pcapng", Type: "flag", SimpleType: "string"})
	default:
		h = help.Help{Params: []help.Param{help.Member("capture")}}
		h.Elements = help.Named(append(k.names.Attachable(r), k.names.TransparentCubes(func(string) bool { return true })...))
	}
	return k.help.Answer(w, r, []string{http.MethodGet, http.MethodOptions}, verb, completion, h)
}
