// SPDX-License-Identifier: Apache-2.0

package message

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSplitPath: what a path may be, and what is refused before anything looks at it.
func TestSplitPath(t *testing.T) {
	long := strings.Repeat("a", 1000)
	tests := []struct {
		path   string
		want   []string
		status int
	}{
		{"/polycube/v1", nil, 0},
		{"/polycube/v1/", nil, 0},
		{"/polycube/v1/lab", []string{"lab"}, 0},
		{"/polycube/v1/lab/", []string{"lab"}, 0},
		{"/polycube/v1/lab/l1/route/10.0.0.0%2F8/10.0.0.1/", []string{"lab", "l1", "route", "10.0.0.0/8", "10.0.0.1"}, 0},
		{"/polycube/v1/lab/l1/route/a%20b/%C3%A9", []string{"lab", "l1", "route", "a b", "é"}, 0},
		{"/polycube/v1/lab/l1/route/" + long, []string{"lab", "l1", "route", long}, 0},
		{"/polycube/v1/lab/l1/route/...", []string{"lab", "l1", "route", "..."}, 0},
		{"/", nil, http.StatusNotFound},
		{"/polycube/v2/lab", nil, http.StatusNotFound},
		{"/polycube/v1lab", nil, http.StatusNotFound},
		{"/polycube/v1/lab//l1", nil, http.StatusBadRequest},
		{"/polycube/v1//", nil, http.StatusBadRequest},
		{"/polycube/v1/./lab", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/..", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/%2e%2e", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/%2E/x", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/..%2f..%2fetc%2fpasswd", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/a%00b", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/%ff%fe", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/%zz", nil, http.StatusBadRequest},
		{"/polycube/v1/lab/" + long, nil, http.StatusBadRequest},
		{"/polycube/v1/" + long, nil, http.StatusBadRequest},
		{"/polycube/v1/lab/l1/route/" + long + strings.Repeat("b", 25), nil, http.StatusBadRequest},
		{"/polycube/v1" + strings.Repeat("/a", 64), slices.Repeat([]string{"a"}, 64), 0},
		{"/polycube/v1" + strings.Repeat("/a", 65), nil, http.StatusBadRequest},
		{"/polycube/v1/" + strings.Repeat("a/", 5000), nil, http.StatusRequestURITooLong},
	}
	for _, tt := range tests {
		name := tt.path[:min(len(tt.path), 60)]
		t.Run(name, func(t *testing.T) {
			got, err := SplitPath(tt.path)
			if tt.status == 0 {
				if err != nil || !slices.Equal(got, tt.want) {
					t.Errorf("splitPath(%q) = %q, %v, want %q", tt.path, got, err, tt.want)
				}
				return
			}
			if err == nil {
				t.Fatalf("splitPath(%q) = %q, want status %d", tt.path, got, tt.status)
			}
			if status, _ := Classify(http.MethodGet, err); status != tt.status {
				t.Errorf("splitPath(%q) has status %d, want %d (%v)", tt.path, status, tt.status, err)
			}
		})
	}
}

// FuzzSplitPath: whatever comes over the wire, segments that pass are names, and the
// path made of them leads back to them.
func FuzzSplitPath(f *testing.F) {
	for _, seed := range []string{"/polycube/v1/", "/polycube/v1/lab/l1/", "/polycube/v1/a%2Fb/%2e%2e/x", "/polycube/v1/%00", "/x", "",
		"/polycube/v1/lab/l1/route/10.0.0.0%2F8/1.1.1.1/pathcost/", "/polycube/v1/%", "/polycube/v1/%C3%28"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, path string) {
		segments, err := SplitPath(path)
		if err != nil {
			status, tag := Classify(http.MethodGet, err)
			if status < 400 || status > 499 || tag == "" || !utf8.ValidString(err.Error()) {
				t.Errorf("splitPath(%q) fails with status %d tag %q: %q", path, status, tag, err)
			}
			return
		}
		for _, s := range segments {
			if s == "" || s == "." || s == ".." || len(s) > maxKeyBytes || !utf8.ValidString(s) || strings.ContainsRune(s, 0) {
				t.Errorf("splitPath(%q) lets segment %q pass", path, s)
			}
		}
		if joined := JoinPath(segments...); len(joined) <= maxPathBytes {
			if again, err := SplitPath(joined); err != nil || !slices.Equal(again, segments) {
				t.Errorf("splitPath(%q) = %q, and back: %q, %v", path, segments, again, err)
			}
		}
	})
}
