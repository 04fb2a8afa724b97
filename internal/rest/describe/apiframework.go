// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"

	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/rest/services"
	"github.com/polycube/polycube/internal/trace"
)

// The framework's own paths. A test compares this list with the table of commands and with the methods that each path
// supports.

// frameworkPaths describes the resources in the table of commands.
func frameworkPaths(s *openapi.Schemas) []pathDoc {
	var out []pathDoc
	for _, part := range [][]pathDoc{entryPaths(s), servicesPaths(), cubesPaths(s), viewPaths(), observedPaths(), configPaths(), packetPaths(), commandPaths()} {
		out = append(out, part...)
	}
	for _, p := range out {
		for i := range p.operations {
			p.operations[i].tabled(p.path)
		}
	}
	return out
}

// tabled adds the summary from the table of commands, and a body that is an object of strings.
func (o *operationDoc) tabled(path string) {
	known := commands.Of(o.method, path)
	if known.Summary != "" {
		o.summary = known.Summary
	}
	if known.Body == nil {
		return
	}
	o.body = stringsBody(known.Required(), known.Allowed())
	if known.Example != nil {
		o.example = openapi.Of(known.Example...)
	}
}

// Short forms of schemas.
func textSchema() openapi.Object { return openapi.Of("type", "string") }

func refSchema(name string) openapi.Object { return openapi.Of("$ref", "#/components/schemas/"+name) }

func arrayOf(items openapi.Object) openapi.Object {
	return openapi.Of("type", "array", "items", items)
}

// nameParam is a name in a path.
func nameParam(name, description, example string) paramDoc {
	return paramDoc{name: name, description: description, example: example, schema: openapi.Of("type", "string", "minLength", 1)}
}

// stringsBody is the schema of a body for message.ReadMembers.
func stringsBody(required, optional []string) openapi.Object {
	properties := openapi.Object{}
	for _, name := range required {
		properties = properties.With(name, openapi.Of("type", "string", "minLength", 1))
	}
	for _, name := range optional {
		properties = properties.With(name, textSchema())
	}
	out := openapi.Of("type", "object", "properties", properties, "additionalProperties", false)
	if len(required) > 0 { // 3.0 has no empty list there
		out = out.With("required", required)
	}
	return out
}

// reading is a GET operation.
func reading(says string, schema openapi.Object, also ...int) operationDoc {
	return operationDoc{method: http.MethodGet, says: says, success: http.StatusOK, content: answers(schema), also: also}
}

func entryPaths(*openapi.Schemas) []pathDoc {
	entry := reading("Links.", arrayOf(refSchema("link")))
	entry.summary = "The first segments of every path"
	return []pathDoc{
		{path: "/", operations: []operationDoc{entry, helpDoc()}},
		{path: "/version", operations: []operationDoc{reading("The version.", openapi.Of("type", "object",
			"properties", openapi.Of("polycubed", openapi.GoType(struct {
				Version string `json:"version"`
			}{})), "required", []string{"polycubed"})), helpDoc()}},
		{path: "/openapi.json", operations: []operationDoc{
			{method: http.MethodGet, success: http.StatusOK, says: "The API of the services that are loaded now.",
				headers: []paramDoc{ifNoneMatch()}, sent: []string{"ETag"}, unchanged: true,
				query: []paramDoc{{name: "version", description: "Version of OpenAPI.",
					schema: openapi.Of("type", "string", "enum", []string{"3.1", "3.0", string(openapi.V31), string(openapi.V30)})}},
				content: openapi.Of("application/json", openapi.Of("schema", openapi.Of("type", "object")))},
			helpDoc()}},
		{path: "/metrics", operations: []operationDoc{{method: http.MethodGet, success: http.StatusOK, says: "Metrics.",
			content: openapi.Of("text/plain", openapi.Of("schema", textSchema()),
				"application/openmetrics-text", openapi.Of("schema", textSchema()))}, helpDoc()}},
	}
}

func cubesPaths(*openapi.Schemas) []pathDoc {
	cube := openapi.Of("type", "object", "description", "A cube, as its service returns it.", "required", []string{"name", "service-name"},
		"properties", openapi.Of("name", textSchema(), "service-name", textSchema()))
	exported := openapi.Of("type", "object", "description", "The document that GET /config returns.", "required", []string{"cubes"}, "properties", openapi.Of("cubes", arrayOf(cube)))
	name := []paramDoc{nameParam("name", "Name of the cube.", "br1")}
	return []pathDoc{
		{path: "/cubes", operations: []operationDoc{
			reading("Cubes by service.", openapi.Of("type", "object", "additionalProperties", arrayOf(cube))),
			{method: http.MethodPost, success: http.StatusCreated, says: "All cubes were created.",
				description: "Each element is a cube with its service-name and name. parent is the port or netdev that a transparent cube is attached to.",
				body:        openapi.Of("anyOf", []openapi.Object{arrayOf(cube), exported}), needsBody: true, also: []int{http.StatusConflict, http.StatusNotFound},
				example: []any{openapi.Of("name", "br1", "service-name", "simplebridge", "ports", []any{openapi.Of("name", "port1")})}},
			helpDoc()}},
		{path: "/cubes/{name}", params: name, operations: []operationDoc{reading("The cube.", cube, http.StatusNotFound), helpDoc()}},
		{path: "/cubes/{name}/stats", params: name, operations: []operationDoc{
			reading("Packets and bytes of its ports, and how packets ended.", openapi.GoType(observe.CubeStats{}), http.StatusNotFound), helpDoc()}},
	}
}

func viewPaths() []pathDoc {
	integer := openapi.Of("type", "integer")
	netdevs := arrayOf(openapi.Of("type", "object", "properties", openapi.Of("name", textSchema(), "addresses", arrayOf(textSchema()),
		"index", integer, "mac", textSchema(), "mtu", integer, "status", openapi.Of("type", "string", "enum", []string{"UP", "DOWN"}),
		"kind", textSchema(), "peer", textSchema(), "tcubes", arrayOf(textSchema())), "required", []string{"name", "index", "status"}))
	at := openapi.Of("type", "object", "properties", openapi.Of("name", textSchema(),
		"cubes, ingress_index, egress_index", arrayOf(textSchema()), "ingress service chain", textSchema(), "egress service chain", textSchema()),
		"required", []string{"name"})
	drops := arrayOf(openapi.GoType(trace.Drop{}))
	return []pathDoc{
		{path: "/netdevs", operations: []operationDoc{reading("The devices.", netdevs), helpDoc()}},
		{path: "/netdevs/{name}", params: []paramDoc{nameParam("name", "Name of a network device.", "eth0")},
			operations: []operationDoc{reading("An array of one device.", netdevs, http.StatusNotFound), helpDoc()}},
		{path: "/topology", operations: []operationDoc{reading("The cubes.", arrayOf(refSchema("topology"))), helpDoc()}},
		{path: "/topology/{place}", params: []paramDoc{nameParam("place", "A network device, or CUBE:PORT.", "br1:port1")},
			operations: []operationDoc{reading("The cubes that a packet passes from the wire inwards and back.", at, http.StatusNotFound), helpDoc()}},
		{path: "/drops", operations: []operationDoc{reading("Drops by cube and reason.", drops), helpDoc()}},
		{path: "/drops/{cube}", params: []paramDoc{nameParam("cube", "Name of a cube, or framework.", "br1")},
			operations: []operationDoc{reading("Drops by reason.", drops, http.StatusNotFound), helpDoc()}},
	}
}

// packetPaths describes the packet streams.
func packetPaths() []pathDoc {
	number := func(most int) openapi.Object { return openapi.Of("type", "integer", "minimum", 1, "maximum", most) }
	filter := paramDoc{name: "filter", description: "Filter in tcpdump syntax.", example: "icmp", schema: textSchema()}
	count := paramDoc{name: "count", description: "Stop after this many.", schema: number(trace.MaxSteps)}
	seconds := paramDoc{name: "seconds", description: "Stop after this many seconds.", schema: number(int(trace.MaxTime.Seconds()))}
	line := openapi.GoType(trace.Line{})
	lines := openapi.Of("schema", openapi.Of("anyOf", []openapi.Object{line, openapi.GoType(trace.Summary{})}))
	file := openapi.Of("schema", openapi.Of("type", "string", "format", "binary"))
	looks := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}
	return []pathDoc{
		{path: "/trace", operations: []operationDoc{{method: http.MethodGet, also: looks, success: http.StatusOK,
			says:  "One JSON object per line, and a summary at the end, until the session ends or the client disconnects.",
			query: []paramDoc{filter, {name: "cube", description: "Only steps in this cube.", schema: textSchema()}, count, seconds}, content: openapi.Of(message.NDJSON, lines)}, helpDoc()}},
		{path: "/trace/inject", operations: []operationDoc{{method: http.MethodPost, success: http.StatusOK,
			needsBody: true, says: "The packet, and the steps that it would take.", content: answers(arrayOf(line))}}},
		{path: "/capture", operations: []operationDoc{{method: http.MethodGet, also: []int{http.StatusNotFound}}, helpDoc()}},
		{path: "/capture/{place}", params: []paramDoc{nameParam("place", "CUBE:PORT, a transparent cube or a network device.", "br1:port1")},
			operations: []operationDoc{{method: http.MethodGet, also: looks, success: http.StatusOK,
				says:  "A pcapng file, or one JSON object per line if the client accepts that.",
				query: []paramDoc{filter, count, seconds}, content: openapi.Of(message.PcapNG, file, message.NDJSON, lines)}, helpDoc()}},
	}
}

// commandPaths describes connect, attach and their opposites.
func commandPaths() []pathDoc {
	var out []pathDoc
	for _, name := range []string{"connect", "disconnect", "attach", "detach"} {
		path := "/" + name
		words := commands.Of(http.MethodPost, path).Required()
		out = append(out, pathDoc{path: path, operations: []operationDoc{{method: http.MethodPost, success: http.StatusOK, needsBody: true}, helpDoc()}})
		params := []paramDoc{nameParam(words[0], "", "br1"), nameParam(words[1], "", "br1:port1")}
		if words[0] == "cube" {
			params = append(params, nameParam("argument", "", "position"))
		}
		for i, p := range params { // more words are only for completion
			path += "/{" + p.name + "}"
			help := helpDoc()
			if i == 2 { // only attach has a third word
				help.also = []int{http.StatusNotFound}
			}
			out = append(out, pathDoc{path: path, params: params[:i+1], operations: []operationDoc{help}})
		}
	}
	return out
}

func servicesPaths() []pathDoc {
	one, trial := openapi.GoType(services.Detail{}), answers(openapi.GoType(services.Trial{}))
	refused := []int{http.StatusConflict, http.StatusServiceUnavailable}
	return []pathDoc{
		{path: "/services", operations: []operationDoc{
			reading("The services.", arrayOf(openapi.GoType(services.Entry{}))),
			{method: http.MethodPost, success: http.StatusOK, says: "The service was loaded; the result of the trial load of its programs.",
				needsBody: true, content: trial, also: refused},
			helpDoc()}},
		{path: "/services/{name}", params: []paramDoc{nameParam("name", "Name of the service.", "simplebridge")}, operations: []operationDoc{
			reading("An array of one service.", arrayOf(one), http.StatusNotFound),
			{method: http.MethodPatch, success: http.StatusOK,
				says: "The new version took over all cubes; the result of the trial load of its programs.", content: trial, also: refused},
			{method: http.MethodDelete, success: http.StatusNoContent, says: "It was deleted.", also: refused},
			helpDoc()}},
	}
}
