// SPDX-License-Identifier: Apache-2.0

package front

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"mime"
	"net/http"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// The checks that each request passes before it is routed: identity, rate, role, and the body. Changes and refusals
// are recorded when the request has ended.

// Requests of one client per second, and the burst. Root at the Unix socket is not counted.
const (
	defaultRate = 1000
	burstFactor = 2
)

// Concurrent requests, of all clients and of one.
const (
	MaxRequests          = 256
	MaxRequestsPerClient = 128
)

// guarded is one request in progress.
type guarded struct {
	Caller  Caller
	start   time.Time
	body    *counter
	refused string
}

// counter counts the bytes read of a body.
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

// ServeHTTP checks one request and routes it.
func (f *Front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	g := &guarded{start: time.Now(), body: &counter{ReadCloser: r.Body}}
	rec := &recorder{ResponseWriter: w}
	defer f.requests.Begin()()
	defer func() {
		if cause := recover(); cause != nil {
			f.panicked(rec, r, cause)
		}
		f.measure(rec, r, time.Since(g.start))
		f.log.Debug("request", "method", r.Method, "path", r.URL.EscapedPath(), "status", rec.status, "took", time.Since(g.start))
		f.record(g, rec, r)
	}()
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	rec.Header().Set("Cache-Control", "no-store")
	if len(r.TransferEncoding) > 0 {
		// The request may also have a Content-Length. A proxy may have used that one, so the rest of the body could be
		// a request of another client and must not be read as one.
		rec.Header().Set("Connection", "close")
	}
	err := f.admit(rec, r, g)
	if err != nil {
		g.refused = err.Error()
		f.requests.Denied(denialReason(err))
		f.fail(rec, r, err)
		return
	}
	slots := f.slotsFor(g.Caller)
	if err := slots.Enter(g.Caller.Client); err != nil {
		f.requests.Denied("busy")
		f.fail(rec, r, &message.Error{Status: http.StatusServiceUnavailable, Tag: message.TagResource, Message: fmt.Sprintf("too many requests (%v), try again", err)})
		return
	}
	defer slots.Leave(g.Caller.Client)
	ctx, done := f.endWithoutRights(r, g.Caller)
	defer done()
	ctx = context.WithValue(ctx, callerKey{}, g.Caller)
	ctx, err = onTrial(ctx, r)
	if err != nil {
		f.fail(rec, r, err)
		return
	}
	if r.Header.Get(tryHeader) != "" {
		rec.trial = f.trial
	}
	r = r.WithContext(topology.WithOrigin(ctx, topology.Origin{Who: g.Caller.who, From: g.Caller.from, What: r.Method + " " + r.URL.EscapedPath()}))
	r.Body = g.body
	if err := f.handle(rec, r); err != nil {
		f.fail(rec, r, err)
	}
}

// tryHeader is the header of a change that is made on trial, with the number of seconds.
const tryHeader = "Polycube-Try"

// trialHeader is that of the answer to such a change, with the revision that is on trial.
const trialHeader = "Polycube-Trial"

// onTrial puts the change of a request on trial, if it asks for that.
func onTrial(ctx context.Context, r *http.Request) (context.Context, error) {
	text := r.Header.Get(tryHeader)
	if text == "" {
		return ctx, nil
	}
	refused := func(why string) (context.Context, error) {
		return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagMalformed, Message: "header " + tryHeader + ": " + why}
	}
	seconds, err := strconv.ParseUint(text, 10, 32)
	if length := time.Duration(seconds) * time.Second; err == nil && length >= topology.ShortestTrial && length <= topology.LongestTrial {
		if slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions}, r.Method) {
			return refused("a " + r.Method + " request changes nothing that could be on trial")
		}
		return topology.OnTrial(ctx, length), nil
	}
	return refused(fmt.Sprintf("expected a number of seconds, from %.0f to %.0f", topology.ShortestTrial.Seconds(), topology.LongestTrial.Seconds()))
}

// slotsFor are the slots for a caller's requests.
func (f *Front) slotsFor(c Caller) *access.Slots {
	switch {
	case c.Trusted:
		return f.ownerSlots
	case c.role == access.Admin && !c.anonymous:
		return f.adminSlots
	}
	return f.slots
}

// admit identifies the caller of a request and decides whether it continues.
func (f *Front) admit(w http.ResponseWriter, r *http.Request, g *guarded) error {
	var err error
	g.Caller, err = f.identify(r)
	if !g.Caller.Trusted && f.rate != nil {
		if wait, ok := f.rate.Take(g.Caller.Client, g.start); !ok {
			w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			return &message.Error{Status: http.StatusTooManyRequests, Tag: message.TagResource,
				Message: fmt.Sprintf("%s sends more than %.0f requests per second, try again later", g.Caller.who, f.perSecond)}
		}
	}
	if err != nil {
		return err
	}
	role := access.Admin
	if message.ReadOnly(r.Method) {
		role = access.Reader
	}
	if err := g.Caller.Permit(role); err != nil {
		return err
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") && !message.ReadOnly(r.Method) {
		w.Header().Set("Accept-Encoding", "identity")
		return &message.Error{Status: http.StatusUnsupportedMediaType, Tag: message.TagUnsupported,
			Message: fmt.Sprintf("a body with content-encoding %s is refused: send it unencoded", message.Clip(coding))}
	}
	return nil
}

// activeRead is a read in progress, possibly an endless stream.
type activeRead struct {
	r      *http.Request
	Caller Caller
	cancel context.CancelCauseFunc
}

// ErrRights is why a read is ended when its caller has lost its rights.
var ErrRights = errors.New("the client no longer has the rights that it had at the start")

// endWithoutRights ends a read when its caller loses the rights that it had at the start. A change always runs to its
// end.
func (f *Front) endWithoutRights(r *http.Request, c Caller) (context.Context, func()) {
	if !message.ReadOnly(r.Method) {
		return r.Context(), func() {}
	}
	ctx, cancel := context.WithCancelCause(r.Context())
	under := &activeRead{r, c, cancel}
	f.reads.Store(under, nil)
	return ctx, func() {
		f.reads.Delete(under)
		cancel(nil)
	}
}

// sweepReads checks for each read in progress whether its caller could start it now.
func (f *Front) sweepReads() {
	f.reads.Range(func(key, _ any) bool {
		if under, ok := key.(*activeRead); ok {
			if now, err := f.identify(under.r); err != nil || now.role < under.Caller.role {
				f.log.Warn("end a response", "client", under.Caller.who, "from", under.Caller.from, "role", now.role, "err", err)
				under.cancel(ErrRights)
			}
		}
		return true
	})
}

// panicked answers for a handler that panicked; the daemon keeps running.
func (f *Front) panicked(rec *recorder, r *http.Request, cause any) {
	if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(cause)
	}
	f.log.Error("handler panicked", "method", r.Method, "path", r.URL.EscapedPath(), "panic", cause, "stack", string(debug.Stack()))
	if rec.status == 0 {
		f.fail(rec, r, &message.Error{Status: http.StatusInternalServerError, Tag: message.TagFailed,
			Message: "internal error of the daemon, its log has the details"})
	}
}

// readsPackets reports whether a read shows packets of others, which is recorded like a change.
func readsPackets(r *http.Request) bool {
	return r.Method == http.MethodGet && commands.Secret(message.CommandName(r))
}

// record writes the line of the audit log, if the request has one.
func (f *Front) record(g *guarded, rec *recorder, r *http.Request) {
	if f.audit == nil || g.refused == "" && (rec.status == http.StatusPermanentRedirect || message.ReadOnly(r.Method) && !readsPackets(r)) {
		return
	}
	status := rec.status
	if status == 0 {
		status = http.StatusOK
	}
	f.audit.Write(access.Record{
		Time: g.start, Who: g.Caller.who, Role: g.Caller.role.String(), From: g.Caller.from, Certificate: g.Caller.certificate,
		Method: r.Method, Path: r.URL.EscapedPath(), Bytes: g.body.n, Status: status, Refused: g.refused,
		Milliseconds: float64(time.Since(g.start).Microseconds()) / 1000,
	})
}

// handshakeFailed is the prefix of net/http's log line for a failed TLS handshake.
const handshakeFailed = "http: TLS handshake error from "

// connectionLog is the log of net/http. Clients refused by TLS appear nowhere else, so they are recorded from here.
type connectionLog struct{ f *Front }

func (l connectionLog) Write(line []byte) (int, error) {
	text := strings.TrimSpace(string(line))
	l.f.log.Debug(text)
	rest, ok := strings.CutPrefix(text, handshakeFailed)
	from, why, found := strings.Cut(rest, ": ")
	// A client that disconnects during the handshake was not refused: it may be a probe.
	if ok && found && why != "EOF" && !strings.Contains(why, "reset by peer") {
		l.f.requests.Denied("tls")
		l.f.audit.Write(access.Record{Time: time.Now(), Who: "unknown", Role: access.None.String(), From: from, Refused: why})
	}
	return len(line), nil
}

// ConnectionLog is the log of net/http, which alone knows about clients refused by TLS.
func (f *Front) ConnectionLog() *log.Logger { return log.New(connectionLog{f}, "", 0) }

// measure counts a finished request. The duration of a stream depends on its client and is not measured.
func (f *Front) measure(rec *recorder, r *http.Request, took time.Duration) {
	switch kind, _, _ := mime.ParseMediaType(rec.Header().Get("Content-Type")); kind {
	case message.NDJSON, message.PcapNG, message.EventStream:
	default:
		f.requests.Done(r.Method, f.pattern(r), rec.status, took)
	}
}

// denialReason is the metric label of a refusal.
func denialReason(err error) string {
	switch status, _ := message.Classify(http.MethodGet, err); status {
	case http.StatusUnauthorized:
		return "no-credentials"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusTooManyRequests:
		return "rate"
	case http.StatusUnsupportedMediaType:
		return "body"
	}
	return "other"
}

// recorder remembers the status for the log and for panics.
type recorder struct {
	http.ResponseWriter
	status int
	trial  func() *topology.Trial // nil if the request put no change on trial
}

// WriteHeader records the status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
		w.sayTrial()
	}
	w.ResponseWriter.WriteHeader(status)
}

// sayTrial adds the revision of the request's change if that is on trial: a request that changed nothing began no trial.
func (w *recorder) sayTrial() {
	if w.trial == nil || w.status >= http.StatusBadRequest {
		return
	}
	if t := w.trial(); t != nil {
		w.Header().Set(trialHeader, strconv.FormatUint(t.Revision, 10))
	}
}

// Unwrap lets http.ResponseController and MaxBytesReader reach the real writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }
