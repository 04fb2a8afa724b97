// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// Resources of the framework itself. As in the first API, a mistake of the client is always a 400 on those that change
// something; a missing resource is a 404 when read.

// serveEntry handles /, the entry point.
func (s *Server) serveEntry(w http.ResponseWriter, r *http.Request) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return s.help.Root(w, r)
	}
	return s.out.JSON(w, r, http.StatusOK, s.entryPoint(r))
}

func (s *Server) serveVersion(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return s.help.Show(w, r, nil)
	}
	return s.out.JSON(w, r, http.StatusOK, map[string]any{"polycubed": map[string]string{"version": s.version}})
}

// serveCubes handles /cubes, /cubes/NAME and /cubes/NAME/stats.
func (s *Server) serveCubes(w http.ResponseWriter, r *http.Request, rest []string) error {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodOptions}
	if len(rest) > 0 {
		methods = []string{http.MethodGet, http.MethodOptions}
	}
	if len(rest) == 2 && rest[1] != "stats" {
		return s.names.NoResource(r, rest[1], "stats")
	}
	if err := message.Allow(r, methods...); err != nil {
		return err
	}
	switch {
	case r.Method == http.MethodOptions:
		return s.help.Cubes(w, r, rest)
	case r.Method == http.MethodPost:
		body, err := message.ReadBody(w, r)
		if err != nil {
			return err
		}
		if err := s.manager.CreateMany(r.Context(), body); err != nil {
			return err
		}
		w.WriteHeader(http.StatusCreated)
		return nil
	case len(rest) == 0:
		return s.listCubes(w, r)
	}
	service, ok := s.manager.ServiceOf(rest[0])
	if !ok {
		return s.names.NoCube(rest[0], "cube", s.names.CubeNames())
	}
	if len(rest) == 2 {
		stats, err := s.observer.CubeStats(r.Context(), service, rest[0])
		if err != nil {
			return err
		}
		return s.out.JSON(w, r, http.StatusOK, stats)
	}
	raw, err := s.manager.Read(r.Context(), service, rest[0], nil)
	if err != nil {
		return err
	}
	s.out.Raw(w, r, http.StatusOK, raw)
	return nil
}

// listCubes sends every cube, by service.
func (s *Server) listCubes(w http.ResponseWriter, r *http.Request) error {
	byService := message.Ordered{}
	for _, info := range s.manager.Services() {
		raw, err := s.cubes.ReadCubes(r.Context(), info.Name)
		if err != nil {
			return err
		}
		if !bytes.Equal(raw, []byte("[]")) {
			byService = byService.With(info.Name, raw)
		}
	}
	return s.out.JSON(w, r, http.StatusOK, byService)
}

// serveNetdevs handles /netdevs and /netdevs/NAME.
func (s *Server) serveNetdevs(w http.ResponseWriter, r *http.Request, rest []string) error {
	return s.serveView(w, r, rest, s.manager.Netdevs, s.manager.Netdev)
}

// serveTopology handles /topology and /topology/IFACE.
func (s *Server) serveTopology(w http.ResponseWriter, r *http.Request, rest []string) error {
	return s.serveView(w, r, rest, s.manager.Topology, s.manager.NetdevTopology)
}

// serveView handles a read-only collection, or one of its members.
func (s *Server) serveView(w http.ResponseWriter, r *http.Request, rest []string,
	all func(context.Context) (json.RawMessage, error), one func(context.Context, string) (json.RawMessage, error)) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return s.help.Show(w, r, rest)
	}
	var raw json.RawMessage
	var err error
	if len(rest) == 0 {
		raw, err = all(r.Context())
	} else {
		raw, err = one(r.Context(), rest[0])
	}
	if errors.Is(err, cube.ErrInvalid) {
		// An invalid name of a netdev cannot exist.
		return message.NotFound("%v", err)
	}
	if err != nil {
		return err
	}
	s.out.Raw(w, r, http.StatusOK, raw)
	return nil
}

// readBody reads the body of a command as the table of commands describes it.
func readBody(w http.ResponseWriter, r *http.Request, path string) (map[string]string, error) {
	o := commands.Of(http.MethodPost, path)
	return message.ReadMembers(w, r, o.Required(), o.Allowed())
}

// serveConnect handles /connect and /disconnect.
func (s *Server) serveConnect(w http.ResponseWriter, r *http.Request, rest []string) error {
	if r.Method == http.MethodOptions {
		return s.help.Connect(w, r, rest)
	}
	if err := message.CommandOnly(r, rest); err != nil {
		return err
	}
	m, err := readBody(w, r, "/connect")
	if err != nil {
		return err
	}
	act := s.manager.Connect
	if message.CommandName(r) == "disconnect" {
		act = s.manager.Disconnect
	}
	return message.Done(w, r, act(r.Context(), m["peer1"], m["peer2"]))
}

// serveAttach handles /attach and /detach.
func (s *Server) serveAttach(w http.ResponseWriter, r *http.Request, rest []string) error {
	if r.Method == http.MethodOptions {
		return s.help.Attach(w, r, rest)
	}
	if err := message.CommandOnly(r, rest); err != nil {
		return err
	}
	if message.CommandName(r) == "detach" {
		m, err := readBody(w, r, "/detach")
		if err != nil {
			return err
		}
		return message.Done(w, r, s.manager.Detach(r.Context(), m["cube"], m["port"]))
	}
	m, err := readBody(w, r, "/attach")
	if err != nil {
		return err
	}
	given := 0
	for _, p := range commands.Of(http.MethodPost, "/attach").Allowed() {
		if _, ok := m[p]; ok {
			given++
		}
	}
	if given > 1 {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Message: "position, before and after are mutually exclusive"}
	}
	return message.Done(w, r, s.manager.Attach(r.Context(), topology.AttachRequest{
		Cube: m["cube"], Port: m["port"], Position: m["position"], Before: m["before"], After: m["after"]}))
}

// entryPoint lists the first segments of every path.
func (s *Server) entryPoint(r *http.Request) []message.Link {
	base := front.Base(r)
	out := []message.Link{{Rel: "self", Href: base + message.JoinPath()}}
	for _, name := range commands.Entries() {
		out = append(out, message.Link{Rel: name, Href: base + message.JoinPath(name)})
	}
	for _, info := range s.manager.Services() {
		out = append(out, message.Link{Rel: info.Name, Href: base + message.JoinPath(info.Name)})
	}
	return out
}
