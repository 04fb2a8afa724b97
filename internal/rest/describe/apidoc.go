// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"
	"slices"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
)

// The description of a path and its methods, before it is converted to OpenAPI.

// pathDoc is a path, with parameters in braces, and its operations.
type pathDoc struct {
	path, tag string
	// within is the path of the cube or entry that contains this one, "" for none.
	within     string
	params     []paramDoc
	operations []operationDoc
}

// paramDoc is a parameter of a path or query.
type paramDoc struct {
	name, description string
	schema            openapi.Object
	example           any
	// flag marks a query parameter without a value.
	flag bool
	// component marks a parameter that is listed in the components.
	component bool
}

// use is the parameter as an operation refers to it.
func (p paramDoc) use(in string) openapi.Object {
	if p.component {
		return openapi.Of("$ref", "#/components/parameters/"+p.name)
	}
	return p.object(in)
}

func (p paramDoc) object(in string) openapi.Object {
	out := openapi.Of("name", p.name, "in", in)
	if in == "path" {
		out = out.With("required", true)
	}
	if p.description != "" {
		out = out.With("description", p.description)
	}
	if p.flag {
		out = out.With("allowEmptyValue", true)
	}
	if p.example != nil {
		out = out.With("example", p.example)
	}
	return out.With("schema", p.schema)
}

// operationDoc is one method of a path.
type operationDoc struct {
	method, summary, description string
	query                        []paramDoc
	// headers are the request headers, sent the response headers.
	headers []paramDoc
	sent    []string
	// unchanged tells that a 304 response is possible.
	unchanged bool
	// body is the schema of the request body, nil for none.
	body      openapi.Object
	example   any
	needsBody bool
	success   int
	// says describes the success, content has the schemas of the response by content type.
	says    string
	content openapi.Object
	// also are error statuses beyond those of every request of this kind.
	also []int
	// creates tells that the operation creates the resource of the path.
	creates bool
	// createsBelow is the path of the created resource, if the body has its name.
	createsBelow string
}

// parameters are the query and header parameters.
func (o operationDoc) parameters() []openapi.Object {
	var out []openapi.Object
	for _, p := range o.query {
		out = append(out, p.use("query"))
	}
	for _, p := range o.headers {
		out = append(out, p.use("header"))
	}
	return out
}

// answers is a JSON response with a schema.
func answers(schema openapi.Object) openapi.Object {
	return openapi.Of(message.ContentType, openapi.Of("schema", schema))
}

// response is the success response.
func (o operationDoc) response() openapi.Object {
	says := o.says
	if says == "" {
		says = "Done."
	}
	out := openapi.Of("description", says)
	if len(o.sent) > 0 {
		headers := openapi.Object{}
		for _, name := range o.sent {
			headers = headers.With(name, openapi.Of("$ref", "#/components/headers/"+name))
		}
		out = out.With("headers", headers)
	}
	if o.content != nil {
		out = out.With("content", o.content)
	}
	return out
}

// statuses are the possible error statuses. params tells that the path has parameters.
func (o operationDoc) statuses(params bool) []int {
	out := append([]int{http.StatusUnauthorized, http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable}, o.also...)
	if params || len(o.query) > 0 || !message.ReadOnly(o.method) {
		out = append(out, http.StatusBadRequest)
	}
	if params {
		out = append(out, http.StatusRequestURITooLong)
	}
	if !message.ReadOnly(o.method) {
		out = append(out, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity)
	}
	if o.body != nil {
		out = append(out, http.StatusRequestEntityTooLarge, http.StatusRequestTimeout)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// faultDoc describes an error status.
type faultDoc struct {
	status                   int
	tag, description, header string
	message                  string
}

// faults are the error statuses, which all have the same format of body.
func faults() []faultDoc {
	return []faultDoc{
		{http.StatusBadRequest, message.TagInvalidValue, "The request is malformed or violates the model.", "", "fdb aging-time: \"soon\" is not a whole number in 0..4294967295"},
		{http.StatusUnauthorized, message.TagAccessDenied, "A token is required, or the given one is not the daemon's.", "WWW-Authenticate", "changes over TCP require the daemon's token"},
		{http.StatusForbidden, message.TagAccessDenied, "The client is not authorized to do this.", "", "user 1000 may not use this socket"},
		{http.StatusNotFound, message.TagDataMissing, "The resource does not exist.", "", "no simplebridge is named \"br1\""},
		{http.StatusMethodNotAllowed, message.TagUnsupported, "The resource does not support the method.", "Allow", "PATCH is not possible on this resource, only GET, OPTIONS"},
		{http.StatusConflict, message.TagDataExists, "The resource already exists (data-exists), does not exist (data-missing), is in use, or is full.", "", "cube br1: the name is in use by a simplebridge"},
		{http.StatusPreconditionFailed, message.TagStale, "The resource was changed since the revision in If-Match.", "", "the configuration is at revision 8, it was changed since revision 7"},
		{http.StatusRequestTimeout, message.TagMalformed, "The request body did not arrive in time.", "", "the request body did not arrive in time"},
		{http.StatusRequestEntityTooLarge, message.TagTooBig, "The request body is too large.", "", "the request body is larger than 8 MiB"},
		{http.StatusRequestURITooLong, message.TagTooBig, "The path is too long.", "", "the path has 9000 bytes, the limit is 8192"},
		{http.StatusUnsupportedMediaType, message.TagUnsupported, "The content type of the request body is not accepted.", "", "a body of type text/plain is refused over TCP: send application/json"},
		{http.StatusUnprocessableEntity, message.TagRefused, "The kernel refused the program of a cube; error-detail says where and why.", "",
			"cube f1 (filter): the kernel's verifier refuses pcn_ingress at filter.bpf.c:42: R0 invalid mem access 'map_value_or_null'"},
		{http.StatusTooManyRequests, message.TagResource, "The client sends too many requests.", "Retry-After", "uid 1000 sends more than 1000 requests per second, try again later"},
		{http.StatusServiceUnavailable, message.TagResource, "Too many requests are in progress, or the daemon is stopping.", "Retry-After", "too many requests (256 in progress), try again"},
	}
}

// faultName is the name of an error's component.
func faultName(status int) string {
	name := []byte{}
	for _, c := range []byte(http.StatusText(status)) {
		if c != ' ' {
			name = append(name, c)
		}
	}
	return string(name)
}

func (f faultDoc) example() message.ErrorBody {
	var b message.ErrorBody
	b.Errors.Error = []message.ErrorEntry{{Type: "application", Tag: f.tag, Message: f.message}}
	return b
}

// help documents OPTIONS.
func helpDoc() operationDoc {
	return operationDoc{method: http.MethodOptions, summary: "Help: what can follow", success: http.StatusOK, says: "Help, or the completions of a command.",
		query:   helpParams(),
		content: answers(openapi.Of("$ref", "#/components/schemas/help"))}
}

// Request headers that make a request conditional, as components.
func ifMatch() paramDoc {
	return paramDoc{name: "If-Match", component: true, schema: textSchema(), example: "*",
		description: "Make the change only if the configuration still has this entity tag, from an ETag header."}
}

func ifNoneMatch() paramDoc {
	return paramDoc{name: "If-None-Match", component: true, schema: textSchema(), example: `"0"`,
		description: "Answer 304 if the configuration still has this entity tag."}
}

// sentHeaders are response headers.
func sentHeaders() openapi.Object {
	header := func(text string) openapi.Object { return openapi.Of("description", text, "schema", textSchema()) }
	return openapi.Of("ETag", header("The revision of the configuration, for If-Match."),
		"Link", header("Related resources (RFC 8288): self, the entries, and the next page of a list that is read in pages."))
}

// helpParams are the parameters of OPTIONS, as components.
func helpParams() []paramDoc {
	return []paramDoc{
		{name: "help", component: true, description: "Verb to get help for.",
			schema: openapi.Of("type", "string", "enum", []string{resource.VerbNone, resource.VerbAdd, resource.VerbSet, resource.VerbShow, resource.VerbDel})},
		{name: "completion", component: true, description: "Return a list of words.", flag: true, schema: textSchema()},
		{name: "value", component: true, description: "Describe a list of bare keys as one value.", flag: true, schema: textSchema()},
	}
}

// define adds the components that do not come from a model.
func (b *describer) define() {
	text := openapi.Of("type", "string")
	b.schemas.Define("link", openapi.GoType(message.Link{}))
	b.schemas.Define("error", openapi.GoType(message.ErrorBody{}).With("description", "Every error has this format: error-message is for people, error-tag is for programs, error-path is the node in question."))
	words := openapi.Of("type", "array", "items", text)
	b.schemas.Define("help", openapi.Of("oneOf", []openapi.Object{words, openapi.Of("type", "object", "properties", openapi.Of(
		"commands", words,
		"params", openapi.Of("type", "object"), "optional-params", openapi.Of("type", "object"), "actions", openapi.Of("type", "object"),
		"flags", openapi.Of("type", "object"),
		"elements", openapi.Of("type", "array", "items", openapi.Of("type", "object"))))}))
	b.schemas.Define("topology", openapi.Of("type", "object", "description", "How a cube is linked.",
		"properties", openapi.Of("name", text, "uuid", text, "service-name", text, "type", text, "loglevel", text,
			"shadow", openapi.Of("type", "boolean"), "span", openapi.Of("type", "boolean"), "parent", text,
			"ports", openapi.Of("type", "array", "items", openapi.Of("type", "object", "properties", openapi.Of(
				"name", text, "uuid", text, "status", text, "status-reason", text, "peer", text, "tcubes", words),
				"required", []string{"name", "uuid", "status"}, "additionalProperties", false))),
		"required", []string{"name", "uuid", "service-name"}, "additionalProperties", false))
}
