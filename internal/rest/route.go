// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/rest/cubes"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/message"
)

// handler serves a request for a resource of the framework. rest are the segments after its name.
type handler func(w http.ResponseWriter, r *http.Request, rest []string) error

// frameworkHandlers serve the resources in the table of commands.
func (s *Server) frameworkHandlers() map[string]handler {
	return map[string]handler{
		"version":      s.serveVersion,
		"services":     s.services.Serve,
		"cubes":        s.serveCubes,
		"netdevs":      s.serveNetdevs,
		"topology":     s.serveTopology,
		"drops":        s.observer.ServeDrops,
		"capture":      s.packets.ServeCapture,
		"trace":        s.packets.ServeTrace,
		"connect":      s.serveConnect,
		"disconnect":   s.serveConnect,
		"attach":       s.serveAttach,
		"detach":       s.serveAttach,
		"events":       s.observer.ServeEvents,
		"status":       s.observer.ServeStatus,
		"daemon":       s.observer.ServeDaemon,
		"config":       s.config.ServeConfig,
		"history":      s.config.ServeHistory,
		"rollback":     s.config.ServeRollback,
		"confirm":      s.config.ServeConfirm,
		"metrics":      s.observer.ServeMetrics,
		"openapi.json": s.documents.ServeOpenAPI,
	}
}

// route finds the handler and calls it. A returned error has not been sent yet.
func (s *Server) route(w http.ResponseWriter, r *http.Request) error {
	switch r.URL.Path {
	case "/metrics":
		return s.observer.ServeMetrics(w, r, nil)
	case "/openapi.json":
		return s.documents.ServeOpenAPI(w, r, nil)
	case "/healthz":
		return s.observer.ServeHealth(w, r)
	case "/readyz":
		return s.observer.ServeReady(w, r)
	}
	segments, err := message.SplitPath(r.URL.EscapedPath())
	if err != nil {
		return err
	}
	if len(segments) == 0 {
		return s.serveEntry(w, r)
	}
	first := segments[0]
	if known := commands.Served(first); known != nil {
		if len(segments)-1 > known.Segments {
			return message.NotFound("no resource %s", message.Clip(strings.Join(segments, "/")))
		}
		if !known.Conditional {
			if err := cubes.Unconditional(r); err != nil {
				return err
			}
		}
		return s.handlers[first](w, r, segments[1:])
	}
	if s.names.HasService(first) {
		return s.cubes.ServeService(w, r, segments)
	}
	service, ok := s.manager.ServiceOf(first)
	if !ok || !s.names.HasService(service) {
		p := s.names.NoCube(first, "cube, service or command", slices.Concat(commands.Offered(""), s.names.ServiceNames(), s.names.CubeNames()))
		p.Near = directory.OrVerbs(r, first, p.Near)
		return p
	}
	return redirect(w, r, service)
}

// redirect sends the client to the same path with the cube's service inserted. There is
// no loop: the new path begins with a service, which is never redirected.
func redirect(w http.ResponseWriter, r *http.Request, service string) error {
	location := message.JoinPath(service) + strings.TrimPrefix(r.URL.EscapedPath(), message.BasePath+"/")
	if r.URL.RawQuery != "" {
		location += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", location)
	w.WriteHeader(http.StatusPermanentRedirect)
	return nil
}

// pattern is a request's path without the names in it, "" for a path outside the API: a label with few values.
func (s *Server) pattern(r *http.Request) string {
	switch r.URL.Path {
	case "/metrics", "/healthz", "/readyz", "/openapi.json":
		return r.URL.Path
	}
	segments, err := message.SplitPath(r.URL.EscapedPath())
	if err != nil {
		return ""
	}
	if len(segments) == 0 {
		return "/"
	}
	if known := commands.Served(segments[0]); known != nil {
		return "/" + segments[0] + strings.Repeat("/{}", min(known.Segments, len(segments)-1))
	}
	if !s.names.HasService(segments[0]) {
		return ""
	}
	return []string{"/{service}", "/{service}/{cube}", "/{service}/{cube}/{path}"}[min(len(segments), 3)-1]
}
