// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/trace"
)

// Limits of the server.
const (
	maxHeaderBytes       = 32 << 10
	maxRequests          = 256
	maxRequestsPerClient = 128
	readHeaderTimeout    = 5 * time.Second
	readTimeout          = 30 * time.Second
	writeTimeout         = 2 * time.Minute
	idleTimeout          = 2 * time.Minute
)

// Options configure a Server.
type Options struct {
	Manager Manager
	// Version of the daemon, as GET /version answers it.
	Version string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Tokens know what a client over TCP has to present; nil refuses every token.
	Tokens TokenRoles
	// InsecureLoopback lets anybody on the machine write over TCP.
	InsecureLoopback bool
	// RequireToken lets nobody read over plain TCP without a token.
	RequireToken bool
	// TLS decides about clients' certificates; listeners of ListenTLS need it.
	TLS *access.TLS
	// Audit records changes and refusals; nil keeps no record.
	Audit *access.Audit
	// Rate is the number of requests a second of one client: 0 is the default, less is no bound.
	Rate int
	// Drops is what samples the counters of drops; nil knows no rates and times.
	Drops *trace.Drops
	// Trace runs the sessions that look at packets; nil has none.
	Trace *trace.Hub
	// Group is the system group that may use the Unix socket, ReadGroup the one that may
	// read there; "" are the constants Group and ReadGroup.
	Group, ReadGroup string
	// Observed is what metrics, status and events tell of, beside the cubes.
	Observed Observed
}

// Server serves the API on any number of listeners.
type Server struct {
	manager Manager
	// epoch is in every entity tag.
	epoch     string
	version   string
	log       *slog.Logger
	out       message.Sender
	observed  Observed
	exporter  *metrics.Exporter
	heartbeat time.Duration
	// subscribers follow events. ending is closed when they are to end.
	subscribers atomic.Int64
	ending      chan struct{}
	drops       *trace.Drops
	hub         *trace.Hub
	http        *http.Server

	documents documents
	// applying holds the document that is applied, reading a large one from its first byte on.
	applying, reading chan struct{}

	tokens                   TokenRoles
	insecure, requireToken   bool
	groupName, readGroupName string
	group, readGroup         int
	tls                      *access.TLS
	audit                    *access.Audit
	rate                     *access.Rate
	perSecond                float64
	// slots are for requests under way; admins have their own, so that nobody who
	// reads slowly keeps them out, and so has root at the Unix socket, for admins who do.
	slots, adminSlots, ownerSlots *access.Slots
	// followers are the places of clients that follow events, ownerFollowers those of root.
	followers, ownerFollowers *access.Slots
	// open are the connections of TLS, net.Conn to *connInfo.
	open sync.Map
	// reads are the requests under way that change nothing, *readUnderWay.
	reads sync.Map
}

// New makes a server; it serves nothing until Serve.
func New(o Options) *Server {
	s := &Server{manager: o.Manager, epoch: newEpoch(), version: o.Version, log: o.Logger, applying: make(chan struct{}, 1), reading: make(chan struct{}, 1),
		heartbeat: heartbeat, ending: make(chan struct{})}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.out = message.Sender{Log: s.log}
	s.secure(o)
	s.observe(o.Observed)
	if s.drops = o.Drops; s.drops == nil {
		s.drops = trace.NewDrops(o.Manager, nil)
	}
	s.http = &http.Server{
		Handler:           s,
		ConnContext:       s.meet,
		ConnState:         s.changed,
		Protocols:         &http.Protocols{},
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          s.connectionLog(),
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.RegisterOnShutdown(sync.OnceFunc(func() { close(s.ending) }))
	if s.hub = o.Trace; s.hub != nil {
		s.http.RegisterOnShutdown(func() { // streams have no end of their own
			if err := s.hub.Close(); err != nil {
				s.log.Warn("ending looks at packets", "err", err)
			}
		})
	}
	return s
}

// secure takes over what decides about access.
func (s *Server) secure(o Options) {
	s.tokens, s.insecure, s.requireToken = o.Tokens, o.InsecureLoopback, o.RequireToken
	s.tls, s.audit = o.TLS, o.Audit
	s.slots, s.adminSlots = access.NewSlots(maxRequests, maxRequestsPerClient), access.NewSlots(maxRequests, maxRequestsPerClient)
	s.ownerSlots = access.NewSlots(maxRequests, maxRequests)
	s.followers, s.ownerFollowers = access.NewSlots(maxSubscribers, maxSubscribersPerClient), access.NewSlots(maxSubscribers, maxSubscribers)
	s.groupName, s.readGroupName = cmp.Or(o.Group, Group), cmp.Or(o.ReadGroup, ReadGroup)
	s.group, s.readGroup = access.GroupID(s.groupName), access.GroupID(s.readGroupName)
	if s.perSecond = float64(cmp.Or(o.Rate, defaultRate)); s.perSecond > 0 {
		s.rate = access.NewRate(s.perSecond, burstFactor*s.perSecond)
	}
}

// Serve answers requests from a listener of this package until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	if r, ok := l.(interface{ reportTo(reports) }); ok {
		r.reportTo(reports{s.dropped, func(most int) {
			s.log.Warn("all connections of a listener are taken, new clients wait", "listener", l.Addr().String(), "connections", most)
		}})
	}
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
