// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
)

// observedPaths describes what shows how the daemon and its cubes are.
func observedPaths() []pathDoc {
	var types []string
	for _, t := range events.Types {
		types = append(types, string(t))
	}
	level := openapi.Of("type", "string", "enum", []string{"TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"})
	return []pathDoc{
		{path: "/status", operations: []operationDoc{
			reading("The status, and what is not well.", openapi.GoType(observe.StatusView{})), helpDoc()}},
		{path: "/daemon", operations: []operationDoc{reading("The daemon.", openapi.GoType(observe.DaemonView{})), helpDoc()}},
		{path: "/daemon/loglevel", operations: []operationDoc{
			reading("The level.", level),
			{method: http.MethodPatch, success: http.StatusOK,
				says: "It logs at this level.", body: level, needsBody: true, example: "DEBUG"},
			helpDoc()}},
		{path: "/events", operations: []operationDoc{{method: http.MethodGet, success: http.StatusOK,
			says: "Server-sent events, until the client ends.", also: []int{http.StatusServiceUnavailable},
			query: []paramDoc{
				{name: "cube", description: "Only what concerns these cubes, with commas between them.", example: "br1", schema: textSchema()},
				{name: "type", description: "Only these types, with commas between them.", example: types[0], schema: textSchema()},
				{name: "after", description: "What came after the event with this id, as Last-Event-ID.", schema: textSchema()},
			}, content: openapi.Of(message.EventStream, openapi.Of("schema", textSchema()))}, helpDoc()}},
	}
}
