// SPDX-License-Identifier: Apache-2.0

package rest

// Programs that the verifier refuses: whose fault it is decides the status, and the daemon's log has it once.

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	fused "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/services"
	"github.com/polycube/polycube/internal/topology"
)

func refused(o fused.Origin) error {
	return fmt.Errorf("data plane: %w", &refusal.Error{Sentence: "R0 invalid mem access 'map_value_or_null'", Hint: "test it.",
		Place: fused.Place{Origin: o, Line: fused.Line{File: "f.bpf.c", Number: 42, Text: "return *p;"}}})
}

func TestTheStatusOfARefusedProgramIsThatOfTheOneAtFault(t *testing.T) {
	cubes := fused.Origin{Cube: "f1", Service: "filter", Function: "pcn_ingress"}
	document := topology.DocumentErrors{{Cube: "f1", Where: "cubes[0]", Err: refused(cubes)}}
	for name, tt := range map[string]struct {
		err    error
		status int
		tag    string
		log    []string
	}{
		"a cube's": {refused(cubes), 422, message.TagRefused, []string{"level=WARN", "cube=f1", "service=filter", "function=pcn_ingress", "file=f.bpf.c", "line=42", "method=PATCH"}},
		"a cube's, of a resource of the framework's": {message.AsBadRequest(http.MethodPost, refused(cubes)), 422, message.TagRefused, []string{"cube=f1"}},
		"a service's, when it is added":              {services.Refusal(refused(cubes)), 422, message.TagRefused, []string{"service=filter"}},
		"a cube's, of a document":                    {document, 422, message.TagRefused, []string{"cube=f1"}},
		"the framework's":                            {refused(fused.Origin{Function: "pcn_core_up"}), 500, message.TagFailed, []string{"level=ERROR", "function=pcn_core_up", "line=42"}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t, Options{}, false)
			rec := httptest.NewRecorder()
			l.server.writeError(rec, httptest.NewRequest(http.MethodPatch, "/polycube/v1/filter/f1/x", nil), tt.err)
			var body message.ErrorBody
			if err := json.Unmarshal(rec.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			e := body.Errors.Error[0]
			if rec.Code != tt.status || e.Tag != tt.tag || !strings.Contains(e.Message, "at f.bpf.c:42") {
				t.Errorf("status %d: %s", rec.Code, rec.Body)
			}
			if got := strings.Join(e.Detail, "|"); got != "   42 | return *p;|Hint: test it." {
				t.Errorf("the detail is %q", e.Detail)
			}
			var lines []string
			for line := range strings.Lines(l.log.String()) {
				if strings.Contains(line, "the verifier refused") {
					lines = append(lines, line)
				}
			}
			if len(lines) != 1 {
				t.Fatalf("%d lines of the log are about it:\n%s", len(lines), l.log.String())
			}
			for _, want := range tt.log {
				if !strings.Contains(lines[0], want) {
					t.Errorf("the log has no %s: %s", want, lines[0])
				}
			}
		})
	}
}
