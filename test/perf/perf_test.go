// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// The smallest run of the part that needs no daemon: everything is loaded, linked, run and
// reported, whatever the figures are.
func TestAQuickRunOfTheChainReportsEveryLength(t *testing.T) {
	netns.NeedRoot(t)
	r := &Run{Config: Config{Rounds: 1, Quick: true, Progress: t.Output()}}
	if err := r.Do(t.Context(), []string{"chain"}); err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 1 || len(r.Sections[0].Tables) != 2 {
		t.Fatalf("%d sections, want one with a table for each hook: %+v", len(r.Sections), r.Sections)
	}
	for _, table := range r.Sections[0].Tables {
		if len(table.Rows) != len(chainLengthsQuick) {
			t.Errorf("%s: %d rows, want %d", table.Title, len(table.Rows), len(chainLengthsQuick))
		}
	}
	if want := 2 * (len(chainLengthsQuick) + 1); len(r.Checks) != want {
		t.Errorf("%d checks, want %d", len(r.Checks), want)
	}
	doc := r.Document([]string{"-quick"})
	for _, want := range []string{"# Performance", "-quick", "## A chain of trivial cubes", "| direct tail calls"} {
		if !strings.Contains(doc, want) && !strings.Contains(doc, strings.TrimPrefix(want, "| ")) {
			t.Errorf("the document has no %q:\n%s", want, doc)
		}
	}
}

func TestAPartThatDoesNotExistIsRefused(t *testing.T) {
	r := &Run{Config: Config{Progress: t.Output()}}
	err := r.Do(t.Context(), []string{"chain", "nosuch"})
	if err == nil || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("error %v, want one that names the part", err)
	}
	if len(r.Sections) != 0 {
		t.Errorf("%d sections were measured before the error", len(r.Sections))
	}
}
