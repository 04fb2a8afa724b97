// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/rest/services"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/trace"
)

// The framework's own paths. A test holds this list to frameworkResources and to the
// methods that each path answers.

// frameworkPaths describes what frameworkResources serve.
func frameworkPaths(s *openapi.Schemas) []pathDoc {
	var out []pathDoc
	for _, part := range [][]pathDoc{entryPaths(s), servicesPaths(), cubesPaths(s), viewPaths(), observedPaths(), configPaths(), packetPaths(), commandPaths()} {
		out = append(out, part...)
	}
	return out
}

// Shorthands of schemas.
func textSchema() openapi.Object { return openapi.Of("type", "string") }

func refSchema(name string) openapi.Object { return openapi.Of("$ref", "#/components/schemas/"+name) }

func arrayOf(items openapi.Object) openapi.Object {
	return openapi.Of("type", "array", "items", items)
}

// nameParam is a name in a path.
func nameParam(name, description, example string) paramDoc {
	return paramDoc{name: name, description: description, example: example, schema: openapi.Of("type", "string", "minLength", 1)}
}

// stringsBody is the schema of a body that readMembers reads.
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

// reading is GET of something.
func reading(summary, says string, schema openapi.Object, also ...int) operationDoc {
	return operationDoc{method: http.MethodGet, summary: summary, says: says, success: http.StatusOK, content: answers(schema), also: also}
}

func entryPaths(*openapi.Schemas) []pathDoc {
	return []pathDoc{
		{path: "/", operations: []operationDoc{reading("The first words of every path", "Links.", arrayOf(refSchema("link"))), helpDoc()}},
		{path: "/version", operations: []operationDoc{reading("The daemon's version", "The version.", openapi.Of("type", "object",
			"properties", openapi.Of("polycubed", openapi.GoType(struct {
				Version string `json:"version"`
			}{})), "required", []string{"polycubed"})), helpDoc()}},
		{path: "/openapi.json", operations: []operationDoc{
			{method: http.MethodGet, summary: "This document", success: http.StatusOK, says: "The description of what is loaded now.",
				headers: []paramDoc{ifNoneMatch()}, sent: []string{"ETag"}, unchanged: true,
				query: []paramDoc{{name: "version", description: "Version of OpenAPI.",
					schema: openapi.Of("type", "string", "enum", []string{"3.1", "3.0", string(openapi.V31), string(openapi.V30)})}},
				content: openapi.Of("application/json", openapi.Of("schema", openapi.Of("type", "object")))},
			helpDoc()}},
		{path: "/metrics", operations: []operationDoc{{method: http.MethodGet, summary: "Metrics for Prometheus", success: http.StatusOK, says: "Metrics.",
			content: openapi.Of("text/plain", openapi.Of("schema", textSchema()),
				"application/openmetrics-text", openapi.Of("schema", textSchema()))}, helpDoc()}},
	}
}

func cubesPaths(*openapi.Schemas) []pathDoc {
	cube := openapi.Of("type", "object", "description", "A cube, as its service reads it.", "required", []string{"name", "service-name"},
		"properties", openapi.Of("name", textSchema(), "service-name", textSchema()))
	exported := openapi.Of("type", "object", "description", "What GET /config answers.", "required", []string{"cubes"}, "properties", openapi.Of("cubes", arrayOf(cube)))
	name := []paramDoc{nameParam("name", "Name of the cube.", "br1")}
	return []pathDoc{
		{path: "/cubes", operations: []operationDoc{
			reading("All cubes", "Cubes by service.", openapi.Of("type", "object", "additionalProperties", arrayOf(cube))),
			{method: http.MethodPost, summary: "Create cubes, all or none", success: http.StatusCreated, says: "All of them were created.",
				description: "Each element is a body that creates a cube of its service, with a name. parent names where a transparent cube is attached.",
				body:        openapi.Of("anyOf", []openapi.Object{arrayOf(cube), exported}), needsBody: true, also: []int{http.StatusConflict, http.StatusNotFound},
				example: []any{openapi.Of("name", "br1", "service-name", "simplebridge", "ports", []any{openapi.Of("name", "port1")})}},
			helpDoc()}},
		{path: "/cubes/{name}", params: name, operations: []operationDoc{reading("A cube", "The cube.", cube, http.StatusNotFound), helpDoc()}},
		{path: "/cubes/{name}/stats", params: name, operations: []operationDoc{
			reading("A cube's counters", "Packets and bytes of its ports, and how packets ended.", openapi.GoType(observe.CubeStats{}), http.StatusNotFound), helpDoc()}},
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
		{path: "/netdevs", operations: []operationDoc{reading("Network devices", "The devices.", netdevs), helpDoc()}},
		{path: "/netdevs/{name}", params: []paramDoc{nameParam("name", "Name of a network device.", "eth0")},
			operations: []operationDoc{reading("A network device", "An array of one device.", netdevs, http.StatusNotFound), helpDoc()}},
		{path: "/topology", operations: []operationDoc{reading("How all cubes are linked", "The cubes.", arrayOf(refSchema("topology"))), helpDoc()}},
		{path: "/topology/{place}", params: []paramDoc{nameParam("place", "A network device, or CUBE:PORT.", "br1:port1")},
			operations: []operationDoc{reading("The order of cubes at a place", "The cubes from the wire inwards, and back.", at, http.StatusNotFound), helpDoc()}},
		{path: "/drops", operations: []operationDoc{reading("Who drops packets and why", "Drops by cube and reason.", drops), helpDoc()}},
		{path: "/drops/{cube}", params: []paramDoc{nameParam("cube", "Name of a cube, or framework.", "br1")},
			operations: []operationDoc{reading("Why a cube drops packets", "Drops by reason.", drops, http.StatusNotFound), helpDoc()}},
	}
}

// packetPaths describes streams of packets.
func packetPaths() []pathDoc {
	number := func(most int) openapi.Object { return openapi.Of("type", "integer", "minimum", 1, "maximum", most) }
	filter := paramDoc{name: "filter", description: "Which packets, as tcpdump takes it.", example: "icmp", schema: textSchema()}
	count := paramDoc{name: "count", description: "End after so many.", schema: number(trace.MaxSteps)}
	seconds := paramDoc{name: "seconds", description: "End after so many seconds.", schema: number(int(trace.MaxTime.Seconds()))}
	line := openapi.GoType(trace.Line{})
	lines := openapi.Of("schema", openapi.Of("anyOf", []openapi.Object{line, openapi.GoType(trace.Summary{})}))
	file := openapi.Of("schema", openapi.Of("type", "string", "format", "binary"))
	inject := stringsBody([]string{"place", "packet"}, []string{"direction"})
	looks := []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity}
	return []pathDoc{
		{path: "/trace", operations: []operationDoc{{method: http.MethodGet, summary: "Steps of packets, live", also: looks, success: http.StatusOK,
			says:  "One JSON object a line, at last a summary, until the session or the client ends.",
			query: []paramDoc{filter, {name: "cube", description: "Only what this cube does.", schema: textSchema()}, count, seconds}, content: openapi.Of(message.NDJSON, lines)}, helpDoc()}},
		{path: "/trace/inject", operations: []operationDoc{{method: http.MethodPost, summary: "What would happen to a packet", success: http.StatusOK,
			body: inject, needsBody: true, says: "The packet, and the steps that it would take.", content: answers(arrayOf(line)),
			example: openapi.Of("place", "br1:port1", "packet", "ip 10.0.0.1 > 10.0.0.2 / icmp echo", "direction", "ingress")}}},
		{path: "/capture", operations: []operationDoc{{method: http.MethodGet, summary: "Nothing: a place has to follow", also: []int{http.StatusNotFound}}, helpDoc()}},
		{path: "/capture/{place}", params: []paramDoc{nameParam("place", "CUBE:PORT, a transparent cube or a network device.", "br1:port1")},
			operations: []operationDoc{{method: http.MethodGet, summary: "Packets of a place, live", also: looks, success: http.StatusOK,
				says:  "A file of pcapng, or one JSON object a line for who accepts that.",
				query: []paramDoc{filter, count, seconds}, content: openapi.Of(message.PcapNG, file, message.NDJSON, lines)}, helpDoc()}},
	}
}

// commandPaths describes connect, attach and their opposites.
func commandPaths() []pathDoc {
	var out []pathDoc
	for _, c := range []struct {
		name, summary      string
		required, optional []string
		example            any
	}{
		{"connect", "Connect two ports, or a port and a network device", []string{"peer1", "peer2"}, nil, openapi.Of("peer1", "br1:port1", "peer2", "veth1")},
		{"disconnect", "Disconnect two ports, or a port and a network device", []string{"peer1", "peer2"}, nil, openapi.Of("peer1", "br1:port1", "peer2", "veth1")},
		{"attach", "Attach a transparent cube to a port or a network device", []string{"cube", "port"}, []string{"position", "before", "after"},
			topology.AttachRequest{Cube: "th1", Port: "br1:port1", Position: "last"}},
		{"detach", "Detach a transparent cube", []string{"cube", "port"}, nil, openapi.Of("cube", "th1", "port", "br1:port1")},
	} {
		out = append(out, pathDoc{path: "/" + c.name, operations: []operationDoc{
			{method: http.MethodPost, summary: c.summary, success: http.StatusOK, body: stringsBody(c.required, c.optional), needsBody: true, example: c.example},
			helpDoc()}})
		params := []paramDoc{nameParam(c.required[0], "", "br1"), nameParam(c.required[1], "", "br1:port1")}
		if c.required[0] == "cube" {
			params = append(params, nameParam("argument", "", "position"))
		}
		for i := range params { // further words are for completion alone
			path := "/" + c.name
			for _, p := range params[:i+1] {
				path += "/{" + p.name + "}"
			}
			help := helpDoc()
			if i == 2 { // a third word follows attach alone
				help.also = []int{http.StatusNotFound}
			}
			out = append(out, pathDoc{path: path, params: params[:i+1], operations: []operationDoc{help}})
		}
	}
	return out
}

func servicesPaths() []pathDoc {
	add := stringsBody([]string{"type", "uri", "name"}, nil)
	one, trial := openapi.GoType(services.Detail{}), answers(openapi.GoType(services.Trial{}))
	refused := []int{http.StatusConflict, http.StatusServiceUnavailable}
	return []pathDoc{
		{path: "/services", operations: []operationDoc{
			reading("The services that are loaded", "The services.", arrayOf(openapi.GoType(services.Entry{}))),
			{method: http.MethodPost, summary: "Add a service", success: http.StatusOK, says: "It is loaded; what the trial of its programs came to.",
				body: add, needsBody: true, content: trial, also: refused},
			helpDoc()}},
		{path: "/services/{name}", params: []paramDoc{nameParam("name", "Name of the service.", "simplebridge")}, operations: []operationDoc{
			reading("A service and its model", "An array of one service.", arrayOf(one), http.StatusNotFound),
			{method: http.MethodPatch, summary: "Have another version of a service take over its cubes", success: http.StatusOK,
				says: "It has taken over all cubes; what the trial of its programs came to.", content: trial, body: stringsBody([]string{}, []string{"type", "uri"}), also: refused},
			{method: http.MethodDelete, summary: "Remove a service that has no cubes", success: http.StatusNoContent, says: "It is gone.", also: refused},
			helpDoc()}},
	}
}
