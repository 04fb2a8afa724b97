// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/trace"
)

// Limits of the server.
const (
	maxHeaderBytes    = 32 << 10
	maxRequests       = 256
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
)

// contentType of every answer but metrics.
const contentType = "application/yang.data+json"

// Options configure a Server.
type Options struct {
	Manager Manager
	// Version of the daemon, as GET /version answers it.
	Version string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Token is what a write over TCP has to present; "" refuses every such write.
	Token string
	// InsecureLoopback lets anybody on the machine write over TCP.
	InsecureLoopback bool
	// Drops is what samples the counters of drops; nil knows no rates and times.
	Drops *trace.Drops
	// Trace runs the sessions that look at packets; nil has none.
	Trace *trace.Hub
	// Group is the system group that may use the Unix socket; "" is the constant Group.
	Group string
}

// Server serves the API on any number of listeners.
type Server struct {
	manager   Manager
	version   string
	log       *slog.Logger
	token     string
	insecure  bool
	groupName string
	group     int
	slots     chan struct{}
	metrics   *metrics
	drops     *trace.Drops
	hub       *trace.Hub
	http      *http.Server
}

// New makes a server; it serves nothing until Serve.
func New(o Options) *Server {
	s := &Server{manager: o.Manager, version: o.Version, log: o.Logger, token: o.Token, insecure: o.InsecureLoopback,
		groupName: o.Group, slots: make(chan struct{}, maxRequests)}
	if s.log == nil {
		s.log = slog.Default()
	}
	if s.groupName == "" {
		s.groupName = Group
	}
	s.group = groupID(s.groupName)
	s.metrics = newMetrics(s)
	if s.drops = o.Drops; s.drops == nil {
		s.drops = trace.NewDrops(o.Manager, nil)
	}
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       identify,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	if s.hub = o.Trace; s.hub != nil {
		s.http.RegisterOnShutdown(func() { // streams have no end of their own
			if err := s.hub.Close(); err != nil {
				s.log.Warn("ending looks at packets", "err", err)
			}
		})
	}
	return s
}

// Serve answers requests from a listener of ListenUnix or ListenTCP until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving %s: %w", l.Addr(), err)
	}
	return nil
}

// Shutdown stops listening, waits for the requests under way until ctx ends, then cuts
// them off, which is no error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		s.log.Warn("requests under way were cut off")
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("closing the API: %w", err)
	}
	return nil
}

// ServeHTTP guards one request: identity, number of requests, panics, access log.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := time.Now()
	rec := &recorder{ResponseWriter: w}
	defer func() {
		if cause := recover(); cause != nil {
			if err, ok := cause.(error); ok && errors.Is(err, http.ErrAbortHandler) {
				panic(cause)
			}
			s.log.Error("handler panicked", "method", r.Method, "path", r.URL.EscapedPath(), "panic", cause, "stack", string(debug.Stack()))
			if rec.status == 0 {
				s.writeError(rec, r, &problem{Status: http.StatusInternalServerError, Tag: tagFailed,
					Message: "the daemon met an internal error, its log has the details"})
			}
		}
		s.log.Debug("request", "method", r.Method, "path", r.URL.EscapedPath(), "status", rec.status, "took", time.Since(start))
	}()
	rec.Header().Set("X-Content-Type-Options", "nosniff")
	rec.Header().Set("Cache-Control", "no-store")
	if err := s.authorize(r); err != nil {
		s.writeError(rec, r, err)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		s.writeError(rec, r, &problem{Status: http.StatusServiceUnavailable, Tag: tagResource,
			Message: fmt.Sprintf("%d requests are under way, try again", maxRequests)})
		return
	}
	if err := s.route(rec, r); err != nil {
		s.writeError(rec, r, err)
	}
}

// recorder remembers the status for the log and for panics.
type recorder struct {
	http.ResponseWriter
	status int
}

// WriteHeader records the status.
func (w *recorder) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
	w.ResponseWriter.WriteHeader(status)
}

// Unwrap lets http.ResponseController and MaxBytesReader reach the real writer.
func (w *recorder) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// writeRaw sends JSON as it is.
func (s *Server) writeRaw(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	if len(body) > 0 {
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) == 0 || r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		s.log.Debug("client went away", "path", r.URL.EscapedPath(), "err", err)
	}
}

// setAllow names the methods of a resource.
func setAllow(h http.Header, methods []string) { h.Set("Allow", strings.Join(methods, ", ")) }
