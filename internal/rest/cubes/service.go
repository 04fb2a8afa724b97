// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// Resources of services. Resources and their methods follow from the model at the time of the request.

// Manager owns the cubes: *topology.Manager.
type Manager interface {
	directory.Manager
	Create(ctx context.Context, service, name string, body []byte) error
	// CreateMany creates every cube of an array, or none.
	CreateMany(ctx context.Context, body []byte) error
	Edit(ctx context.Context, service, name string, op yang.Op, path yang.Path, body []byte) error
	Delete(ctx context.Context, service, name string) error
	// Page reads a part of a list that is marked `paged`, CountEntries counts entries, and CubeRevision returns the
	// revision for conditional changes.
	Page(ctx context.Context, service, name string, path yang.Path, q cube.PageQuery) (cube.Page, error)
	CountEntries(ctx context.Context, service, name string, path yang.Path, most int) (topology.ListCount, error)
	CubeRevision(cube string) (uint64, error)
	Action(ctx context.Context, service, name string, path yang.Path, body []byte) (json.RawMessage, error)
}

// Routes serves the resources that models describe: the cubes of each service and every node in them.
type Routes struct {
	manager Manager
	log     *slog.Logger
	out     message.Sender
	names   *directory.Directory
	help    *help.Guide
	// epoch is part of every entity tag.
	epoch string
	// long is taken by the request with a large body that is being served.
	long chan struct{}
}

// New serves the cubes of a Manager.
func New(manager Manager, log *slog.Logger, names *directory.Directory, guide *help.Guide) *Routes {
	return &Routes{manager: manager, log: log, out: message.Sender{Log: log}, names: names, help: guide, epoch: newEpoch(),
		long: make(chan struct{}, 1)}
}

// ServeService handles /SERVICE and everything below.
func (c *Routes) ServeService(w http.ResponseWriter, r *http.Request, segments []string) error {
	if len(segments) == 1 {
		if err := Unconditional(r); err != nil {
			return err
		}
		return c.serveWholeService(w, r, segments[0])
	}
	t, err := resource.Resolve(c.manager, segments)
	var partial *yang.PartialKeysError
	if errors.As(err, &partial) && r.Method == http.MethodDelete && partial.List.Config() {
		t, err = resource.Within(segments, partial), nil // only one entry may have the given keys
	} else if errors.As(err, &partial) {
		return c.servePartial(w, r, segments, partial)
	}
	if err != nil {
		if r.Method == http.MethodOptions {
			if action, input := c.help.InputLeaf(segments); input != nil {
				return c.help.Leaf(w, r, action, input, append(slices.Clone(action.Path), yang.Step{Name: input.Name()}))
			}
		}
		return resolveError(r, segments, err)
	}
	if err := t.Allow(r); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return c.help.Node(w, r, t)
	}
	if err := c.checkCube(r, t); err != nil {
		return err
	}
	if r, err = c.onlyIf(r, t.Cube); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return c.read(w, r, t)
	case http.MethodDelete:
		return c.remove(w, r, t)
	}
	body, done, err := c.readBody(w, r, t)
	defer done()
	if err == nil {
		err = c.advise(r, t, body)
	}
	if err != nil {
		return err
	}
	if r.Header.Get(resource.VerbHeader) != "" {
		r = r.WithContext(topology.InWords(r.Context()))
	}
	return c.write(w, r, t, body)
}

// servePartial handles a path that has some of the keys of an entry of a list.
func (c *Routes) servePartial(w http.ResponseWriter, r *http.Request, segments []string, p *yang.PartialKeysError) error {
	whole, err := keysInBody(w, r, segments, p)
	if err != nil {
		return err
	}
	if whole != nil {
		return c.ServeService(w, r, whole)
	}
	if err := incomplete(r, segments, p); err != nil {
		return err
	}
	return c.help.Partial(w, r, segments, p)
}

// keysInBody returns the segments of an entry of a list that a request creates or changes, of which the path has some of the
// keys and the body the others, such as backend/10.0.2.11 with {"port":80}; nil if it does not have them. The body can be
// read again.
func keysInBody(w http.ResponseWriter, r *http.Request, segments []string, p *yang.PartialKeysError) ([]string, error) {
	if !p.List.Config() || r.Method != http.MethodPost && r.Method != http.MethodPut && r.Method != http.MethodPatch {
		return nil, nil
	}
	body, err := message.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	object, ok := jsonscan.ReadObject(body)
	if !ok {
		return nil, nil
	}
	whole := slices.Clone(segments)
	for _, k := range p.List.Keys()[len(p.Given):] {
		raw, given := object.Get(k.Name())
		if !given {
			return nil, nil
		}
		var text string
		if json.Unmarshal(raw, &text) != nil {
			text = string(raw) // a number
		}
		whole = append(whole, text)
	}
	return whole, nil
}

// readBody reads the body of a request about a node. That of an action with a long input may be larger than others; such
// requests take several times as much memory, so they are read and carried out one at a time, until done is called.
func (c *Routes) readBody(w http.ResponseWriter, r *http.Request, t *resource.Target) (body []byte, done func(), err error) {
	done = func() {}
	if t.Kind != resource.KindAction || r.ContentLength >= 0 && r.ContentLength <= message.MaxBodyBytes || !takesLong(t.Node.Input()) {
		body, err = message.ReadBody(w, r)
		return body, done, err
	}
	select {
	case c.long <- struct{}{}:
		done = func() { <-c.long }
	case <-r.Context().Done():
		return nil, done, fmt.Errorf("wait for another large request: %w", r.Context().Err())
	}
	body, err = message.ReadBodyOf(w, r, yang.MaxBody)
	return body, done, err
}

// takesLong reports whether an input may be longer than a text of the configuration.
func takesLong(n *yang.Node) bool {
	if n == nil {
		return false
	}
	if n.Kind() == yang.Leaf {
		return fault.Longest(n.Type().Length, true, false) > fault.MaxText
	}
	return slices.ContainsFunc(n.Children(), takesLong)
}

// resolveError turns an error for an unknown resource into 404.
func resolveError(r *http.Request, segments []string, err error) error {
	var y *yang.Error
	if errors.As(err, &y) && y.Tag == yang.BadElement {
		return &message.Error{Status: http.StatusNotFound, Tag: message.TagBadElement, Near: directory.OrVerbs(r, y.Given, nearInPath(r, y)),
			Message: fmt.Sprintf("no resource %s: %v", message.Clip(strings.Join(segments, "/")), err)}
	}
	return err
}

// nearInPath returns the members that a mistyped word of a path may have meant. Members of containers can be set with
// dots; in a path they are separate words.
func nearInPath(r *http.Request, y *yang.Error) []string {
	if r.Method == http.MethodPatch {
		return y.Near
	}
	var out []string
	for _, near := range y.Near {
		if strings.HasSuffix(near, "."+y.Given) {
			near = strings.ReplaceAll(near, ".", " ")
		}
		out = append(out, near)
	}
	return out
}

// checkCube returns 404 for any request on a cube that does not exist, except its creation and deletion, which the
// Manager handles.
func (c *Routes) checkCube(r *http.Request, t *resource.Target) error {
	if t.Kind == resource.KindCube && r.Method != http.MethodGet && r.Method != http.MethodHead && r.Method != http.MethodPatch {
		return nil
	}
	if service, ok := c.manager.ServiceOf(t.Cube); !ok || service != t.Service {
		if t.Kind == resource.KindCube && r.Method == http.MethodPatch {
			return &message.Error{Status: http.StatusConflict, Tag: message.TagDataMissing, Near: suggest.Near(t.Cube, c.names.CubesOf(t.Service)),
				Message: fmt.Sprintf("no %s is named %s", t.Service, message.Clip(t.Cube))}
		}
		return c.names.NoCube(t.Cube, t.Service, c.names.CubesOf(t.Service))
	}
	return nil
}

// read handles GET.
func (c *Routes) read(w http.ResponseWriter, r *http.Request, t *resource.Target) error {
	p, err := c.pageOfTarget(r, t)
	if err != nil {
		return err
	}
	same, err := c.answerTag(w, r, t)
	if err != nil {
		return err
	}
	if same {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if p != nil || t.Kind == resource.KindList && (t.Node.Bulk() || t.Node.Paged()) {
		return c.readList(w, r, t, p)
	}
	raw, err := c.manager.Read(r.Context(), t.Service, t.Cube, t.Path)
	if err != nil {
		return err
	}
	switch t.Kind {
	case resource.KindCube, resource.KindContainer, resource.KindEntry:
		raw = message.AppendLinks(raw, c.nodeLinks(r, t, raw))
	case resource.KindList:
		message.SetLinkHeader(w.Header(), c.entryLinks(r, t, raw))
	case resource.KindLeaf, resource.KindLeafList, resource.KindValue, resource.KindAction:
	}
	if text, contentType := textFor(r, t, raw); contentType != "" {
		c.sendText(w, r, text, contentType)
		return nil
	}
	c.out.Raw(w, r, http.StatusOK, raw)
	return nil
}

// remove handles DELETE.
func (c *Routes) remove(w http.ResponseWriter, r *http.Request, t *resource.Target) error {
	err := c.confirmList(w, r, t)
	if err != nil {
		return err
	}
	if t.Kind == resource.KindCube {
		err = c.manager.Delete(r.Context(), t.Service, t.Cube)
	} else {
		err = c.manager.Edit(r.Context(), t.Service, t.Cube, yang.Delete, t.Path, nil)
	}
	if err != nil {
		return err
	}
	w.WriteHeader(t.Success(r.Method))
	return nil
}

// write handles POST, PUT and PATCH.
func (c *Routes) write(w http.ResponseWriter, r *http.Request, t *resource.Target, body []byte) error {
	if t.Kind == resource.KindCube {
		rest, err := splitName(body, t.Cube)
		if err != nil {
			return err
		}
		body = rest
	}
	var out json.RawMessage
	var err error
	switch {
	case t.Kind == resource.KindAction:
		if body, err = withValues(t, body); err != nil {
			return err
		}
		out, err = c.manager.Action(r.Context(), t.Service, t.Cube, t.Path, body)
	case t.Kind == resource.KindCube && r.Method != http.MethodPatch:
		err = c.manager.Create(r.Context(), t.Service, t.Cube, body)
	default:
		err = c.manager.Edit(r.Context(), t.Service, t.Cube, resource.Operation(r.Method), t.Path, body)
	}
	if err != nil {
		return err
	}
	c.out.Raw(w, r, t.Success(r.Method), out)
	return nil
}

// splitName removes `name`, which the model does not have, from a cube's body. It refuses a body that names another
// cube than the URL.
func splitName(body []byte, cube string) ([]byte, error) {
	name, rest, err := takeName(body)
	if err == nil && name != "" && name != cube {
		err = &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "name",
			Message: fmt.Sprintf("name: the body has %s, the path has %s", message.Clip(name), message.Clip(cube))}
	}
	return rest, err
}

// takeName splits a cube's body into the member `name`, "" when missing, and the rest.
func takeName(body []byte) (string, []byte, error) {
	if len(body) == 0 {
		return "", nil, nil
	}
	members, ok := jsonscan.ReadObject(body)
	if !ok {
		return "", nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue,
			Message: "the request body must be a JSON object"}
	}
	raw, given := members.Get("name")
	if !given {
		return "", body, nil
	}
	var name string
	if err := json.Unmarshal(raw, &name); err != nil || name == "" {
		return "", nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "name",
			Message: "name: must be a non-empty string"}
	}
	return name, members.Without("name"), nil
}
