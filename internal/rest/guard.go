// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// What each request passes before it is routed: who sent it, how often that client asks,
// what it may do, and what its body is like. What changes something, or was refused, is
// recorded when it has ended.

// Requests of one client a second, and at once. Root at the Unix socket is not counted.
const (
	defaultRate = 1000
	burstFactor = 2
)

// guarded is one request on its way.
type guarded struct {
	caller  caller
	start   time.Time
	body    *counter
	refused string
}

// counter counts what was read of a body.
type counter struct {
	io.ReadCloser
	n int64
}

// Read reads from the body.
func (c *counter) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.n += int64(n)
	return n, err
}

// ServeHTTP guards one request and routes it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := &guarded{start: time.Now(), body: &counter{ReadCloser: r.Body}}
	rec := &recorder{ResponseWriter: w}
	defer s.exporter.Requests.Begin()()
	defer func() {
		if cause := recover(); cause != nil {
			s.panicked(rec, r, cause)
		}
		s.measure(rec, r, time.Since(g.start))
		s.log.Debug("request", "method", r.Method, "path", r.URL.EscapedPath(), "status", rec.status, "took", time.Since(g.start))
		s.record(g, rec, r)
	}()
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	rec.Header().Set("Cache-Control", "no-store")
	if len(r.TransferEncoding) > 0 {
		// A length may have been given as well. Whoever forwarded this may have believed that
		// one: what it took for the next request must not be read as one.
		rec.Header().Set("Connection", "close")
	}
	err := s.admit(rec, r, g)
	if err != nil {
		g.refused = err.Error()
		s.exporter.Requests.Denied(denialReason(err))
		s.writeError(rec, r, err)
		return
	}
	slots := s.slotsFor(g.caller)
	if err := slots.Enter(g.caller.client); err != nil {
		s.exporter.Requests.Denied("busy")
		s.writeError(rec, r, &message.Problem{Status: http.StatusServiceUnavailable, Tag: message.TagResource, Message: fmt.Sprintf("of requests, %v, try again", err)})
		return
	}
	defer slots.Leave(g.caller.client)
	ctx, done := s.oversee(r, g.caller)
	defer done()
	ctx = context.WithValue(ctx, callerKey{}, g.caller)
	r = r.WithContext(topology.WithOrigin(ctx, topology.Origin{Who: g.caller.who, From: g.caller.from, What: r.Method + " " + r.URL.EscapedPath()}))
	r.Body = g.body
	if err := s.route(rec, r); err != nil {
		s.writeError(rec, r, err)
	}
}

// slotsFor are the places that a caller's requests take.
func (s *Server) slotsFor(c caller) *access.Slots {
	switch {
	case c.trusted:
		return s.ownerSlots
	case c.role == access.Admin && !c.anonymous:
		return s.adminSlots
	}
	return s.slots
}

// admit finds out who sent a request and whether it may go on.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, g *guarded) error {
	var err error
	g.caller, err = s.identify(r)
	if !g.caller.trusted && s.rate != nil {
		if wait, ok := s.rate.Take(g.caller.client, g.start); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			return &message.Problem{Status: http.StatusTooManyRequests, Tag: message.TagResource,
				Message: fmt.Sprintf("%s sends more than %.0f requests a second, try again later", g.caller.who, s.perSecond)}
		}
	}
	if err != nil {
		return err
	}
	role := access.Admin
	if message.ReadOnly(r.Method) {
		role = access.Reader
	}
	if err := g.caller.permit(role); err != nil {
		return err
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") && !message.ReadOnly(r.Method) {
		w.Header().Set("Accept-Encoding", "identity")
		return &message.Problem{Status: http.StatusUnsupportedMediaType, Tag: message.TagUnsupported,
			Message: fmt.Sprintf("a body in content-encoding %s is refused: send it as it is", message.Clip(coding))}
	}
	return nil
}

// readUnderWay is a read under way, which may be a stream without an end.
type readUnderWay struct {
	r      *http.Request
	caller caller
	cancel context.CancelCauseFunc
}

// errRights is why a read is ended whose caller has lost its rights.
var errRights = errors.New("the rights that it began with are gone")

// oversee ends a read when its caller loses the rights that it began with. A change goes on
// to its end.
func (s *Server) oversee(r *http.Request, c caller) (context.Context, func()) {
	if !message.ReadOnly(r.Method) {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	under := &readUnderWay{r, c, cancel}
	s.reads.Store(under, nil)
	return ctx, func() {
		s.reads.Delete(under)
		cancel(nil)
	}
}

// sweepReads asks of each read under way whether its caller could begin it now.
func (s *Server) sweepReads() {
	s.reads.Range(func(key, _ any) bool {
		if under, ok := key.(*readUnderWay); ok {
			if now, err := s.identify(under.r); err != nil || now.role < under.caller.role {
				s.log.Warn("ending an answer", "client", under.caller.who, "from", under.caller.from, "role", now.role, "err", err)
				under.cancel(errRights)
			}
		}
		return true
	})
}

// panicked answers for a handler that panicked; the daemon lives.
func (s *Server) panicked(rec *recorder, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	s.log.Error("handler panicked", "method", r.Method, "path", r.URL.EscapedPath(), "panic", cause, "stack", string(debug.Stack()))
	if rec.status == 0 {
		s.writeError(rec, r, &message.Problem{Status: http.StatusInternalServerError, Tag: message.TagFailed,
			Message: "the daemon met an internal error, its log has the details"})
	}
}

// looksAtPackets tells whether a read shows what others send, which is recorded as a
// change is.
func looksAtPackets(r *http.Request) bool {
	name := message.CommandName(r)
	return r.Method == http.MethodGet && (name == "trace" || name == "capture")
}

// record writes the line of the audit log, if the request is one that has a line.
func (s *Server) record(g *guarded, rec *recorder, r *http.Request) {
	if s.audit == nil || g.refused == "" && (rec.status == http.StatusPermanentRedirect || message.ReadOnly(r.Method) && !looksAtPackets(r)) {
		return
	}
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	s.audit.Write(access.Record{
		Time: g.start, Who: g.caller.who, Role: g.caller.role.String(), From: g.caller.from, Certificate: g.caller.certificate,
		Method: r.Method, Path: r.URL.EscapedPath(), Bytes: g.body.n, Status: status, Refused: g.refused,
		Milliseconds: float64(time.Since(g.start).Microseconds()) / 1000,
	})
}

// handshakeFailed begins what net/http logs about a client that TLS did not let in.
const handshakeFailed = "http: TLS handshake error from "

// connectionLog is the log of net/http. Clients that TLS does not let in are in no other
// place, so they are recorded from here.
type connectionLog struct{ s *Server }

func (l connectionLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	l.s.log.Debug(text)
	rest, ok := strings.CutPrefix(text, handshakeFailed)
	from, why, found := strings.Cut(rest, ": ")
	// A client that goes away while it greets was not refused: it may be a probe.
	if ok && found && why != "EOF" && !strings.Contains(why, "reset by peer") {
		l.s.exporter.Requests.Denied("tls")
		l.s.audit.Write(access.Record{Time: time.Now(), Who: "unknown", Role: access.None.String(), From: from, Refused: why})
	}
	return len(line), nil
}

func (s *Server) connectionLog() *log.Logger { return log.New(connectionLog{s}, "", 0) }
