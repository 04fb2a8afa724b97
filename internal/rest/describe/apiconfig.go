// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"

	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/config"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
)

// configPaths describes the whole configuration and its history.
func configPaths() []pathDoc {
	revision := openapi.Of("type", "integer", "minimum", 0)
	cube := openapi.Of("type", "object", "description", "Configuration of a cube, as its service accepts it.", "required", []string{"name", "service-name"},
		"properties", openapi.Of("name", textSchema(), "service-name", textSchema(), "parent", textSchema()))
	netdev := openapi.Of("type", "object", "required", []string{"name"},
		"properties", openapi.Of("name", textSchema(), "tcubes", arrayOf(textSchema())), "additionalProperties", false)
	document := openapi.Of("type", "object", "properties", openapi.Of("cubes", arrayOf(cube), "netdevs", arrayOf(netdev)), "additionalProperties", false)
	either := openapi.Of("anyOf", []openapi.Object{document, arrayOf(cube)})
	example := openapi.Of("cubes", []any{openapi.Of("name", "br1", "service-name", "simplebridge", "ports", []any{openapi.Of("name", "port1")})})
	dry := []paramDoc{{name: "dry-run", description: "Check the request and return the difference, but change nothing.", flag: true,
		schema: openapi.Of("type", "string", "enum", []string{"", "true", "false"})}}
	conflicts := []int{http.StatusConflict, http.StatusPreconditionFailed}
	applied := answers(openapi.GoType(topology.Applied{}))
	apply := func(method, says string) operationDoc {
		return operationDoc{method: method, says: says, success: http.StatusOK, query: dry, headers: []paramDoc{ifMatch()},
			description: "Each cube in the document gets exactly the configuration written there. With If-Match, only if the configuration still has that revision.",
			body:        either, needsBody: true, example: example, content: applied, also: conflicts}
	}
	return []pathDoc{
		{path: "/config", operations: []operationDoc{
			{method: http.MethodGet, success: http.StatusOK, says: "All explicit settings; the entity tag is the revision.", sent: []string{"ETag"},
				query:   []paramDoc{{name: "revision", description: "The configuration at this revision.", schema: revision}},
				content: answers(document), also: []int{http.StatusNotFound}},
			apply(http.MethodPut, "The changes; cubes not in the document were deleted."),
			apply(http.MethodPatch, "The changes; other cubes were left unchanged."),
			helpDoc()}},
		{path: "/history", operations: []operationDoc{
			{method: http.MethodGet, success: http.StatusOK, says: "Revisions, with who made them and which cubes changed.",
				query: []paramDoc{{name: "limit", description: "How many.", schema: openapi.Of("type", "integer", "minimum", 1, "maximum", resource.MaxRevisions)},
					{name: "from", description: "Start at this revision and go back; 0 is the newest.", schema: revision}},
				content: answers(openapi.GoType(topology.History{}))},
			helpDoc()}},
		{path: "/history/{revision}", params: []paramDoc{{name: "revision", description: "Number of a revision.", example: 1, schema: revision}},
			operations: []operationDoc{reading("The difference from the previous revision.", openapi.GoType(topology.RevisionDetail{}), http.StatusNotFound), helpDoc()}},
		{path: "/rollback", operations: []operationDoc{
			{method: http.MethodPost, success: http.StatusOK, says: "The changes.", query: dry,
				body: openapi.Of("type", "object", "properties", openapi.Of("revision", revision), "required", []string{"revision"}), needsBody: true,
				example: openapi.Of("revision", 1), content: applied, also: append([]int{http.StatusNotFound}, conflicts...)},
			helpDoc()}},
		{path: "/confirm", operations: []operationDoc{
			reading("The change on trial, if there is one: a request with the header Polycube-Try and a number of seconds has made it.", openapi.GoType(config.Confirmation{})),
			{method: http.MethodPost, success: http.StatusOK, says: "The trial has ended.",
				description: "Keeps the change on trial or, with keep=false, takes it back.",
				body:        openapi.Of("type", "object", "properties", openapi.Of("keep", openapi.Of("type", "boolean"))),
				example:     openapi.Of("keep", true), content: answers(openapi.GoType(config.Confirmation{})), also: append([]int{http.StatusNotFound}, conflicts...)},
			helpDoc()}},
	}
}
