// SPDX-License-Identifier: Apache-2.0

package guide

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/lint/readme"
)

// step is a block of the guide that a reader must execute.
type step struct {
	line int
	kind string // "sh", "diff", "file" or "console"
	file string // of a "file"
	text string
	show readme.Example // of a "console"
}

// steps reads the blocks of a document that must be executed, in order: shell commands, patches, whole files (whose
// fence says file=PATH), and commands with their output.
func steps(t *testing.T, text []byte) []step {
	t.Helper()
	examples, err := readme.Parse(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	var out []step
	for _, e := range examples {
		out = append(out, step{line: e.Line, kind: "console", text: e.Command, show: e})
	}
	var now *step
	fenced := false
	for i, line := range strings.Split(string(text), "\n") {
		info, isFence := strings.CutPrefix(line, "```")
		switch {
		case isFence && fenced:
			if now != nil {
				out = append(out, *now)
			}
			now, fenced = nil, false
		case isFence:
			fenced = true
			language, file, whole := strings.Cut(info, " file=")
			switch {
			case whole:
				now = &step{line: i + 1, kind: "file", file: file}
			case language == "sh" || language == "diff":
				now = &step{line: i + 1, kind: language}
			}
		case now != nil:
			now.text += line + "\n"
		}
	}
	slices.SortFunc(out, func(a, b step) int { return a.line - b.line })
	return out
}

// TestGuideLeadsToAForwardedPacket executes docs/guide/write-a-cube.md, as a reader would.
func TestGuideLeadsToAForwardedPacket(t *testing.T) {
	t.Parallel()
	follow(t, "write-a-cube.md", "macguard", []string{"sh", "diff", "file", "console"},
		"1 packets transmitted, 1 received", "3 packets transmitted, 3 received", "02:00:00:00:00:01", "new station address=")
}

// TestGuideLeadsToStatisticsOfFlows executes docs/guide/hybrid-functions.md.
func TestGuideLeadsToStatisticsOfFlows(t *testing.T) {
	t.Parallel()
	follow(t, "hybrid-functions.md", "flowstats", []string{"sh", "diff", "console"}, "1 packets transmitted, 1 received")
}

// follow executes a guide in a fresh clone. It has several blocks of each kind, its commands print the parts of text, and the cube
// that it makes keeps the house rules.
func follow(t *testing.T, guide, cube string, kinds []string, parts ...string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/guide", guide))
	if err != nil {
		t.Fatal(err)
	}
	dir := clone(t)
	term := open(t, dir)
	var printed strings.Builder
	found := map[string]int{}
	for _, s := range steps(t, text) {
		found[s.kind]++
		switch s.kind {
		case "sh":
			printed.WriteString(term.Must(s.text))
		case "diff":
			term.Must("git apply <<'END OF PATCH'\n" + s.text + "END OF PATCH")
		case "file":
			if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.text), 0o644); err != nil {
				t.Fatalf("line %d: %v", s.line, err)
			}
		case "console":
			console(t, term, s.show)
		}
	}
	for _, kind := range kinds {
		if found[kind] < 2 {
			t.Errorf("%d blocks of kind %s were found, want more", found[kind], kind)
		}
	}
	for _, part := range parts {
		if !strings.Contains(printed.String(), part) {
			t.Errorf("%q is nowhere in what the commands print:\n%s", part, printed.String())
		}
	}
	if strings.Contains(printed.String(), "no test files") {
		t.Errorf("there was nothing to test:\n%s", printed.String())
	}
	keepRules(t, tree(t, dir), "cubes/"+cube+"/", "cubes/all/")
}
