// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"net/http"
	"strings"
	"testing"
)

// TestPagesOfLists: the flags are parameters of the request, and how to continue stands beside the response, as a
// shell takes it.
func TestPagesOfLists(t *testing.T) {
	tests := []struct{ words, query, link, says string }{
		{"r1 list show -limit=2", "limit=2", `</x/>; rel="self", </x/?limit=2&after=b>; rel="next"`, "polycubectl: more entries follow; add -after=b\n"},
		{"r1 list show -after=a -limit=1 -json", "after=a&limit=1", `</x/?limit=1&after=10.0.0.0%252F8%2Fit%27s>; rel="next"`,
			"polycubectl: more entries follow; add -after='10.0.0.0%2F8/it'\\''s'\n"},
		{"r1 list show -filter=a>1 -filter=b=c*", "filter=a%3E1&filter=b%3Dc%2A", "", ""},
		{"r1 list show", "", `</x/?after=b>; rel="next"`, ""},
		{"r1 list show -limit=9", "limit=9", `</x/>; rel="self"`, ""},
	}
	for _, tt := range tests {
		var query string
		d := newDaemon(t, "unix", func(w http.ResponseWriter, r *http.Request) {
			query = r.URL.RawQuery
			w.Header().Set("Link", tt.link)
			_, _ = w.Write([]byte(`[{"a":1}]`))
		})
		got := d.run(strings.Fields(tt.words)...)
		if got.code != ExitOK || query != tt.query || got.err != tt.says || got.out == "" {
			t.Errorf("%s: exit %d, asked %q, said %q and %q", tt.words, got.code, query, got.out, got.err)
		}
	}
	d := newDaemon(t, "unix", func(http.ResponseWriter, *http.Request) { t.Error("something was asked") })
	if got := d.run("cubes", "show", "-limit=5"); got.code != ExitUsage || !strings.Contains(got.err, "not on cubes") {
		t.Errorf("of a command that has no pages: exit %d, %q", got.code, got.err)
	}
}
