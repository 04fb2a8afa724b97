// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// The OpenAPI description of the API: the framework's resources, and every node of every loaded service. Methods and
// statuses come from the tables that handle requests. The document is generated at the first request after the set of
// services changed.

// Manager holds the services with their models.
type Manager interface {
	// Services lists the loaded services, in order of registration.
	Services() []topology.ServiceInfo
	// Schema returns a service's model.
	Schema(service string) (*yang.Schema, error)
}

// Documents caches the documents for the loaded services.
type Documents struct {
	manager Manager
	version string
	log     *slog.Logger
	help    *help.Guide

	mu       sync.Mutex
	services []topology.ServiceInfo
	made     map[openapi.Version]*document
}

// New creates the documents of a daemon with this version.
func New(manager Manager, version string, log *slog.Logger, guide *help.Guide) *Documents {
	return &Documents{manager: manager, version: version, log: log, help: guide}
}

// document is an OpenAPI document and its entity tag.
type document struct {
	body []byte
	tag  string
}

// ServeOpenAPI handles /openapi.json.
func (d *Documents) ServeOpenAPI(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return d.help.Show(w, r, nil)
	}
	version := openapi.V31
	switch v := r.URL.Query().Get("version"); v {
	case "", "3.1", string(openapi.V31):
	case "3.0", string(openapi.V30):
		version = openapi.V30
	default:
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: "version",
			Message: fmt.Sprintf("version: %s is not a supported version of OpenAPI, use 3.1 or 3.0", message.Clip(v))}
	}
	doc, err := d.openAPI(version)
	if err != nil {
		return err
	}
	h := w.Header()
	h.Set("ETag", doc.tag)
	h.Set("Cache-Control", "no-cache")
	if slices.ContainsFunc(strings.Split(r.Header.Get("If-None-Match"), ","), func(tag string) bool { return strings.TrimSpace(tag) == doc.tag }) {
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(doc.body)))
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		if _, err := w.Write(doc.body); err != nil {
			d.log.Debug("client went away", "path", r.URL.Path, "err", err)
		}
	}
	return nil
}

// openAPI returns the document for the services loaded now.
func (d *Documents) openAPI(v openapi.Version) (*document, error) {
	services := d.manager.Services()
	d.mu.Lock()
	defer d.mu.Unlock()
	if !slices.Equal(services, d.services) {
		d.services, d.made = services, nil
	}
	if doc := d.made[v]; doc != nil {
		return doc, nil
	}
	b := &describer{manager: d.manager, daemon: d.version, version: v, schemas: openapi.NewSchemas(v, resource.Example), ids: map[string]bool{}}
	body, err := b.describe(services)
	if err != nil {
		return nil, fmt.Errorf("describe the API: %w", err)
	}
	sum := sha256.Sum256(body)
	doc := &document{body: body, tag: `"` + hex.EncodeToString(sum[:8]) + `"`}
	if d.made == nil {
		d.made = map[openapi.Version]*document{}
	}
	d.made[v] = doc
	return doc, nil
}

// describer builds one document.
type describer struct {
	manager Manager
	// daemon is the version of the daemon, version the version of OpenAPI.
	daemon  string
	version openapi.Version
	schemas *openapi.Schemas
	paths   openapi.Object
	ids     map[string]bool
	// operations are the names of a path's operations, by method; within maps the path of a resource to that of the
	// resource it is created in.
	operations map[string]map[string]string
	within     map[string][]pathDoc
	// used are the error statuses in use.
	used map[int]bool
}

const introduction = `Network functions in the Linux kernel, each configured through a YANG model.

A service accepts more than its schema says: enumerations in upper and lower case, and numbers in quotes (which keeps
all digits of 64 bits). Constraints that a schema cannot express (must, when, leafrefs, unique) are in the model, which
GET /services/{name} returns; a request that violates them is refused with 400 and a message. A path may end in a slash.
HEAD is supported where GET is. A response about a cube has the entity tag (ETag) of its configuration: a change with
If-Match is made only if the configuration still has that tag, and a read of a node without state answers If-None-Match
with 304. A path that begins with the name of a cube is redirected (308) to the same path after the name of its service.
The Unix socket requires no authentication; changes over TCP require a token.`

// describe builds the document.
func (b *describer) describe(services []topology.ServiceInfo) ([]byte, error) {
	b.used, b.operations, b.within = map[int]bool{}, map[string]map[string]string{}, map[string][]pathDoc{}
	b.define()
	tags := []openapi.Object{openapi.Of("name", "polycube", "description", "The framework's own resources.")}
	paths := frameworkPaths(b.schemas)
	for i := range paths {
		paths[i].tag = "polycube"
	}
	for _, info := range services {
		schema, err := b.manager.Schema(info.Name)
		if errors.Is(err, cube.ErrNotFound) {
			continue // it was removed meanwhile; the next request sees the new set of services
		}
		if err != nil {
			return nil, err
		}
		tags = append(tags, openapi.Of("name", info.Name, "description", info.Description))
		for _, p := range servicePaths(b.schemas, info, schema) {
			p.tag = info.Name
			paths = append(paths, p)
		}
	}
	for _, p := range paths {
		b.name(p) // links lead to paths that come later
	}
	for _, p := range paths {
		b.add(p)
	}
	return message.Encode(openapi.Of(
		"openapi", string(b.version),
		"info", openapi.Of(
			"title", "Polycube", "version", b.daemon, "description", introduction,
			"license", b.license(),
		),
		"servers", []openapi.Object{openapi.Of("url", message.BasePath)},
		"security", b.security(),
		"tags", tags,
		"paths", b.paths,
		"components", openapi.Of(
			"schemas", b.schemas.Components(),
			"parameters", parameterComponents(),
			"headers", sentHeaders(),
			"responses", b.faults(),
			"securitySchemes", b.securitySchemes(),
		),
	))
}

func (b *describer) license() openapi.Object {
	o := openapi.Of("name", "Apache 2.0")
	if b.version == openapi.V31 {
		return o.With("identifier", "Apache-2.0")
	}
	return o.With("url", "https://www.apache.org/licenses/LICENSE-2.0")
}

// security is what a request can authenticate with: nothing (over the Unix socket, or to read on loopback), a token,
// or a certificate.
func (b *describer) security() []openapi.Object {
	out := []openapi.Object{{}, openapi.Of("token", []string{})}
	if b.version == openapi.V31 {
		out = append(out, openapi.Of("certificate", []string{}))
	}
	return out
}

func (b *describer) securitySchemes() openapi.Object {
	out := openapi.Of("token", openapi.Of("type", "http", "scheme", "bearer",
		"description", "The content of the file `token` in the daemon's run directory. Changes over TCP on loopback require it."))
	if b.version == openapi.V31 {
		out = out.With("certificate", openapi.Of("type", "mutualTLS",
			"description", "A client certificate that the daemon accepts, if it was started with TLS."))
	}
	return out
}

// name names the operations of a path.
func (b *describer) name(p pathDoc) {
	ids := map[string]string{}
	for _, o := range p.operations {
		ids[o.method] = b.id(o.method, p.path)
		if o.creates && o.method == http.MethodPost {
			b.within[p.within] = append(b.within[p.within], p)
		}
	}
	b.operations[p.path] = ids
}

// add writes a path with its operations.
func (b *describer) add(p pathDoc) {
	item := openapi.Object{}
	if len(p.params) > 0 {
		params := make([]openapi.Object, len(p.params))
		for i, q := range p.params {
			params[i] = q.use("path")
		}
		item = item.With("parameters", params)
	}
	for _, o := range p.operations {
		item = item.With(strings.ToLower(o.method), b.operation(p, o))
	}
	b.paths = b.paths.With(p.path, item)
}

// operation describes one method.
func (b *describer) operation(p pathDoc, o operationDoc) openapi.Object {
	out := openapi.Of("tags", []string{p.tag}, "operationId", b.operations[p.path][o.method], "summary", o.summary)
	if o.description != "" {
		out = out.With("description", o.description)
	}
	if params := o.parameters(); len(params) > 0 {
		out = out.With("parameters", params)
	}
	if o.body != nil {
		media := openapi.Of("schema", o.body)
		if o.example != nil {
			media = media.With("example", o.example)
		}
		body := openapi.Of("content", openapi.Of("application/json", media))
		if o.needsBody {
			body = body.With("required", true)
		}
		out = out.With("requestBody", body)
	}
	responses := openapi.Object{}
	if o.success != 0 {
		response := o.response()
		if links := b.links(p, o); links != nil {
			response = response.With("links", links)
		}
		responses = openapi.Of(strconv.Itoa(o.success), response)
	}
	if o.unchanged {
		responses = responses.With(strconv.Itoa(http.StatusNotModified), openapi.Of("description", "The client already has the current version."))
	}
	for _, status := range o.statuses(len(p.params) > 0) {
		b.used[status] = true
		responses = responses.With(strconv.Itoa(status), openapi.Of("$ref", "#/components/responses/"+faultName(status)))
	}
	return out.With("responses", responses)
}

// links describe what a client can do with a resource that an operation has created.
func (b *describer) links(p pathDoc, o operationDoc) openapi.Object {
	parameters, path := openapi.Object{}, p.path
	switch {
	case o.creates:
		for _, q := range p.params {
			parameters = parameters.With(q.name, "$request.path."+q.name)
		}
	case o.createsBelow != "": // an array has no name, and the links lead nowhere
		path, parameters = o.createsBelow, openapi.Of("name", "$request.body#/name")
	default:
		return nil
	}
	out := openapi.Object{}
	for _, method := range []string{http.MethodGet, http.MethodPatch, http.MethodDelete} {
		if id := b.operations[path][method]; id != "" {
			out = out.With(strings.ToLower(method), openapi.Of("operationId", id, "parameters", parameters))
		}
	}
	for _, inner := range b.within[path] {
		words := strings.FieldsFunc(strings.TrimPrefix(inner.path, path), func(r rune) bool { return r == '/' })
		words = slices.DeleteFunc(words, func(w string) bool { return strings.HasPrefix(w, "{") })
		out = out.With("post_"+strings.Join(words, "_"), openapi.Of("operationId", b.operations[inner.path][http.MethodPost], "parameters", parameters))
	}
	return out
}

func parameterComponents() openapi.Object {
	var out openapi.Object
	for _, p := range helpParams() {
		out = out.With(p.name, p.object("query"))
	}
	for _, p := range []paramDoc{ifMatch(), ifNoneMatch()} {
		out = out.With(p.name, p.object("header"))
	}
	return out
}

// id returns a unique name for an operation.
func (b *describer) id(method, path string) string {
	words := strings.FieldsFunc(path, func(r rune) bool { return r == '/' || r == '}' })
	for i, w := range words {
		words[i] = strings.ReplaceAll(w, "{", "by_")
	}
	if len(words) == 0 {
		words = []string{"entry"}
	}
	id := strings.Join(append([]string{strings.ToLower(method)}, words...), "_")
	for i := 2; b.ids[id]; i++ {
		id = strings.TrimRight(id, "0123456789") + strconv.Itoa(i)
	}
	b.ids[id] = true
	return id
}

// faults are the responses to failed requests.
func (b *describer) faults() openapi.Object {
	var out openapi.Object
	for _, f := range faults() {
		if !b.used[f.status] {
			continue
		}
		response := openapi.Of("description", f.description)
		if f.header != "" {
			response = response.With("headers", openapi.Of(f.header, openapi.Of(
				"schema", openapi.Of("type", "string"))))
		}
		out = out.With(faultName(f.status), response.With("content", openapi.Of(message.ContentType, openapi.Of(
			"schema", openapi.Of("$ref", "#/components/schemas/error"),
			"example", f.example()))))
	}
	return out
}
