// SPDX-License-Identifier: Apache-2.0

package describe

import (
	"net/http"

	"github.com/polycube/polycube/internal/events"
	"github.com/polycube/polycube/internal/openapi"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
)

// observedPaths describes the resources that show the state of the daemon and its cubes.
func observedPaths() []pathDoc {
	var types []string
	for _, t := range events.Types {
		types = append(types, string(t))
	}
	level := openapi.Of("type", "string", "enum", []string{"TRACE", "DEBUG", "INFO", "WARN", "ERR", "CRITICAL", "OFF"})
	return []pathDoc{
		{path: "/status", operations: []operationDoc{
			reading("The status, and any problems.", openapi.GoType(observe.StatusView{})), helpDoc()}},
		{path: "/daemon", operations: []operationDoc{reading("The daemon.", openapi.GoType(observe.DaemonView{})), helpDoc()}},
		{path: "/daemon/loglevel", operations: []operationDoc{
			reading("The level.", level),
			{method: http.MethodPatch, success: http.StatusOK,
				says: "The log level was changed.", body: level, needsBody: true, example: "DEBUG"},
			helpDoc()}},
		{path: "/events", operations: []operationDoc{{method: http.MethodGet, success: http.StatusOK,
			says: "Server-sent events, until the client disconnects.", also: []int{http.StatusServiceUnavailable},
			query: []paramDoc{
				{name: "cube", description: "Only events about these cubes, separated by commas.", example: "br1", schema: textSchema()},
				{name: "type", description: "Only events of these types, separated by commas.", example: types[0], schema: textSchema()},
				{name: "after", description: "Events after the one with this id, like Last-Event-ID.", schema: textSchema()},
			}, content: openapi.Of(message.EventStream, openapi.Of("schema", textSchema()))}, helpDoc()}},
	}
}
