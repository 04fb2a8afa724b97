// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/rest/front"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/yang"
)

// A service as a whole: the list of its cubes.

// serveWholeService handles /SERVICE.
func (c *Routes) serveWholeService(w http.ResponseWriter, r *http.Request, service string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodOptions); err != nil {
		var p *message.Error
		if r.Method == http.MethodDelete && errors.As(err, &p) {
			p.Message = fmt.Sprintf("the cubes of %s are deleted one at a time: append <name> to the path", service)
		}
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		return c.help.Service(w, r, service)
	case http.MethodPost, http.MethodPatch:
		if r.Method == http.MethodPost && r.Header.Get(resource.VerbHeader) == resource.VerbNone {
			return &message.Error{Status: http.StatusBadRequest, Tag: message.TagUnsupported, Field: service,
				Message: fmt.Sprintf("specify what to do with the service %s: add <name>, del <name> or show", service)}
		}
		body, err := message.ReadBody(w, r)
		if err != nil {
			return err
		}
		if r.Method == http.MethodPost {
			err = c.createIn(r.Context(), service, body)
		} else {
			err = c.updateIn(r.Context(), service, body)
		}
		if err != nil {
			return err
		}
		w.WriteHeader(http.StatusCreated)
		return nil
	}
	if r.ContentLength != 0 {
		return &message.Error{Status: http.StatusMethodNotAllowed, Tag: message.TagUnsupported, Allow: []string{http.MethodPost, http.MethodPatch},
			Message: "a GET of a service takes no body: POST creates a cube"}
	}
	schema, err := c.manager.Schema(service)
	if err != nil {
		return err
	}
	p, err := pageOf(r, 1, cubeFields(schema.Root()))
	if err != nil {
		return err
	}
	if p != nil {
		return c.readPageOfCubes(w, r, service, p)
	}
	list, err := c.ReadCubes(r.Context(), service)
	if err != nil {
		return err
	}
	message.SetLinkHeader(w.Header(), c.serviceLinks(r, service))
	c.out.Raw(w, r, http.StatusOK, list)
	return nil
}

// readPageOfCubes sends cubes in order of creation, so that the next page can start after a cube.
func (c *Routes) readPageOfCubes(w http.ResponseWriter, r *http.Request, service string, p *page) error {
	all := c.names.CubesOf(service)
	if p.after != nil {
		i := slices.Index(all, p.after[0])
		if i < 0 {
			return message.BadPath("after=%s: the cube no longer exists, read the list from the start", message.Clip(p.after[0]))
		}
		all = all[i+1:]
	}
	a := &arrayWriter{w: w, r: r, self: front.Base(r) + message.JoinPath(service), page: p}
	return c.sendArray(a, func() error {
		for _, name := range all {
			raw, err := c.manager.Read(r.Context(), service, name, nil)
			if err != nil && message.IsMissing(err) {
				continue
			}
			if err != nil || !a.add([]string{name}, raw) {
				return err
			}
		}
		return nil
	})
}

// ReadCubes returns the array of a service's cubes. A cube that is deleted meanwhile is omitted.
func (c *Routes) ReadCubes(ctx context.Context, service string) (json.RawMessage, error) {
	out := bytes.NewBufferString("[")
	for _, ref := range c.manager.Cubes() {
		if ref.Service != service {
			continue
		}
		raw, err := c.manager.Read(ctx, service, ref.Name, nil)
		if err != nil && message.IsMissing(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		out.Write(raw)
	}
	out.WriteByte(']')
	return out.Bytes(), nil
}

// createIn creates the cube that the body names, or every cube of an array or none.
func (c *Routes) createIn(ctx context.Context, service string, body []byte) error {
	if len(body) > 0 && body[0] == '[' {
		all, err := withService(service, body)
		if err != nil {
			return err
		}
		return c.manager.CreateMany(ctx, all)
	}
	name, body, err := requireName(body)
	if err != nil {
		return err
	}
	return c.manager.Create(ctx, service, name, body)
}

// updateIn updates the cube that the body names. A request updates only one cube, because there is no transaction over
// several.
func (c *Routes) updateIn(ctx context.Context, service string, body []byte) error {
	if len(body) > 0 && body[0] == '[' {
		all, ok := jsonscan.ReadArray(body)
		if !ok || len(all) != 1 {
			return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue,
				Message: fmt.Sprintf("an update of %s takes one cube per request, but the body has %d", service, len(all))}
		}
		body = all[0]
	}
	name, body, err := requireName(body)
	if err != nil {
		return err
	}
	return c.manager.Edit(ctx, service, name, yang.Merge, nil, body)
}

func requireName(body []byte) (string, []byte, error) {
	name, rest, err := takeName(body)
	if err == nil && name == "" {
		err = message.MissingMember("name")
	}
	return name, rest, err
}

// withService adds the path's service to each cube of an array that does not name one,
// and refuses another.
func withService(service string, body []byte) ([]byte, error) {
	all, ok := jsonscan.ReadArray(body)
	own, err := json.Marshal(service)
	if err != nil {
		return nil, fmt.Errorf("encode the service name: %w", err)
	}
	var faults []error
	for i, text := range all {
		object, isObject := jsonscan.ReadObject(text)
		named, given := object.Get("service-name")
		switch {
		case !isObject && string(text) == "null":
			faults = append(faults, message.MissingMember("name"))
		case !isObject:
			ok = false
		case given && !bytes.Equal(named, own):
			faults = append(faults, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "service-name",
				Message: fmt.Sprintf("service-name: the body has %s, the path has %q", message.Clip(string(named)), service)})
		case !given:
			all[i] = object.With("service-name", own)
		}
	}
	switch {
	case !ok: // an element that is not an object is reported first
		return nil, &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue,
			Message: "the request body must be a cube or an array of cubes"}
	case faults != nil:
		return nil, faults[0]
	}
	return slices.Concat([]byte("["), bytes.Join(all, []byte(",")), []byte("]")), nil
}
