// SPDX-License-Identifier: Apache-2.0

package lint

// The functions for cube programs are documented in one place, with their effect and cost.

import (
	"bytes"

	"github.com/polycube/polycube/test/lint/reference"
)

// Helpers requires a comment above every helper in the headers for programs, and a reference that equals the output of
// `make reference`.
func Helpers(t Tree) []Finding {
	var out []Finding
	headers := reference.Parse(t)
	for _, h := range headers {
		for _, helper := range h.Helpers {
			if helper.Doc == "" {
				out = append(out, Finding{reference.Headers + h.Name, helper.Line, helper.Name + " has no comment",
					"say above it what it does, with units and errors; one that begins with \"Internal:\" keeps it out of the reference"})
			}
		}
	}
	if len(headers) == 0 {
		return out
	}
	old := t[reference.Document]
	if want := reference.Render(headers, reference.FiguresOf(old)); !bytes.Equal(old, want) {
		out = append(out, Finding{Path: reference.Document, What: "is not what the headers say", Remedy: "make reference"})
	}
	return out
}
