// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/polycube/polycube/internal/access"
	"github.com/polycube/polycube/internal/rest/config"
	"github.com/polycube/polycube/internal/rest/cubes"
	"github.com/polycube/polycube/internal/rest/describe"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/rest/services"
	"github.com/polycube/polycube/internal/trace"
)

// Limits of the server.
const (
	maxHeaderBytes    = 32 << 10
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 2 * time.Minute
	idleTimeout       = 2 * time.Minute
)

// Options configure a Server.
type Options struct {
	Manager Manager
	// Version of the daemon, for GET /version.
	Version string
	// Logger defaults to slog.Default().
	Logger *slog.Logger
	// Tokens are the tokens of clients over TCP; nil refuses every token.
	Tokens front.TokenRoles
	// InsecureLoopback lets any local user write over TCP.
	InsecureLoopback bool
	// RequireToken requires a token even for reading over plain TCP.
	RequireToken bool
	// TLS decides about client certificates; listeners of ListenTLS need it.
	TLS *access.TLS
	// Audit records changes and refusals; nil keeps no record.
	Audit *access.Audit
	// Rate is the maximum requests per second of one client: 0 is the default, negative is no limit.
	Rate int
	// Drops samples the drop counters; nil has no rates and times.
	Drops *trace.Drops
	// Trace runs the trace and capture sessions; nil has none.
	Trace *trace.Hub
	// Group is the system group with access to the Unix socket, ReadGroup the one with read access; "" stands for the
	// constants Group and ReadGroup.
	Group, ReadGroup string
	// Observed is what metrics, status and events show in addition to the cubes.
	Observed observe.Observed
}

// Server serves the API on any number of listeners.
type Server struct {
	manager  Manager
	version  string
	log      *slog.Logger
	out      message.Sender
	names    *directory.Directory
	help     *help.Guide
	observer *observe.Observer
	packets  *observe.Packets
	front    *front.Front
	http     *http.Server
	// handlers serve the framework's resources.
	handlers map[string]handler

	documents *describe.Documents
	services  *services.Services
	config    *config.Configuration
	cubes     *cubes.Routes
}

// New creates a server, which serves nothing until Serve.
func New(o Options) *Server {
	s := &Server{manager: o.Manager, version: o.Version, log: o.Logger}
	if s.log == nil {
		s.log = slog.Default()
	}
	s.out = message.Sender{Log: s.log}
	s.names = directory.New(s.manager)
	s.help = help.New(s.names, s.manager, s.out)
	s.observer = observe.New(observe.Options{Manager: o.Manager, Version: o.Version, Log: s.log, Names: s.names, Help: s.help, Drops: o.Drops,
		TLS: o.TLS, Observed: o.Observed})
	s.packets = observe.NewPackets(s.log, s.names, s.help, o.Trace)
	s.front = front.New(front.Options{Log: s.log, Tokens: o.Tokens, InsecureLoopback: o.InsecureLoopback, RequireToken: o.RequireToken, TLS: o.TLS,
		Audit: o.Audit, Rate: o.Rate, Group: o.Group, ReadGroup: o.ReadGroup, Requests: &s.observer.Exports().Requests, Pattern: s.pattern,
		Handle: s.route, Fail: s.writeError, Trial: s.manager.Trial})
	s.documents = describe.New(s.manager, s.version, s.log, s.help)
	s.services = services.New(s.manager, s.out, s.names, s.help)
	s.config = config.New(s.manager, s.log, s.help)
	s.cubes = cubes.New(s.manager, s.log, s.names, s.help)
	s.handlers = s.frameworkHandlers()
	s.http = &http.Server{
		Handler:           s.front,
		ConnContext:       s.front.Meet,
		ConnState:         s.front.Changed,
		Protocols:         &http.Protocols{},
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          s.front.ConnectionLog(),
	}
	s.http.Protocols.SetHTTP1(true)
	s.http.RegisterOnShutdown(sync.OnceFunc(s.observer.End))
	s.http.RegisterOnShutdown(s.packets.End)
	return s
}

// Serve handles requests from a listener of this package until Shutdown.
func (s *Server) Serve(l net.Listener) error {
	s.front.Watch(l)
	if err := s.http.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", l.Addr(), err)
	}
	return nil
}

// Sweep ends connections and responses whose rights are gone. It is called every second.
func (s *Server) Sweep() { s.front.Sweep() }

// Shutdown stops listening, waits for the requests in progress until ctx ends, and then cuts them off, which is not an
// error.
func (s *Server) Shutdown(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil && ctx.Err() != nil {
		s.log.Warn("requests in progress were cut off")
		err = s.http.Close()
	}
	if err != nil {
		return fmt.Errorf("close the API: %w", err)
	}
	return nil
}
