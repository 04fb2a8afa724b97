// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"encoding/xml"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/perf/report"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// The smallest run of a part: everything is loaded, linked, run and reported, whatever the
// figures are.
func TestAQuickRunOfTheChainReportsEveryLength(t *testing.T) {
	netns.NeedRoot(t)
	r := &Run{Config: Config{Rounds: 1, Quick: true, Progress: t.Output()}}
	if err := r.Do(t.Context(), []string{"chain"}); err != nil {
		t.Fatal(err)
	}
	if len(r.Sections) != 1 || len(r.Sections[0].Tables) != 3 {
		t.Fatalf("%d sections, want one with a table for each hook and one of crossings: %+v", len(r.Sections), r.Sections)
	}
	if rows := r.Sections[0].Tables[2].Rows; len(rows) != 2*len(crossingVariants) {
		t.Errorf("%d ways to cross, want %d for each hook", len(rows), len(crossingVariants))
	}
	for _, table := range r.Sections[0].Tables[:2] {
		if len(table.Rows) != len(chainLengthsQuick) {
			t.Errorf("%s: %d rows, want %d", table.Title, len(table.Rows), len(chainLengthsQuick))
		}
	}
	// one for each hook and length, one more against tail calls that count from four cubes on where there are tail
	// calls, and the crossings, within a segment and between two
	if want := 2 * (1 + 2 + 1 + 2); len(r.Checks) != want {
		t.Errorf("%d checks, want %d", len(r.Checks), want)
	}
}

func TestAPartThatDoesNotExistIsRefusedBeforeAnythingRuns(t *testing.T) {
	r := &Run{Config: Config{Progress: t.Output()}}
	err := r.Do(t.Context(), []string{"chain", "nosuch"})
	if !errors.Is(err, cube.ErrNotFound) || !strings.Contains(err.Error(), `"nosuch"`) {
		t.Errorf("error %v, want one that names the part", err)
	}
	if len(r.Sections) != 0 {
		t.Errorf("%d sections were measured before the error", len(r.Sections))
	}
}

func TestRounds(t *testing.T) {
	tests := map[string]struct {
		config Config
		want   int
	}{
		"the part's own number": {Config{}, 9},
		"fewer when quick":      {Config{Quick: true}, 2},
		"what was asked for":    {Config{Quick: true, Rounds: 5}, 5},
	}
	for name, tt := range tests {
		if got := (&Run{Config: tt.config}).rounds(9, 2); got != tt.want {
			t.Errorf("%s: %d rounds, want %d", name, got, tt.want)
		}
	}
}

func TestTheDocumentHasEverySectionCheckAndTheCommand(t *testing.T) {
	r := &Run{Config: Config{Progress: t.Output()}}
	table := &report.Table{Title: "Times", Columns: []string{"", "ns"}}
	table.Add("a row", "12")
	r.add(Section{Title: "A section", Text: "What it is.", Tables: []*report.Table{table}},
		report.AtMost("a promise", "%.0f ns", 12, 10))
	doc, chart := r.Document([]string{"-rounds", "3"})
	if chart != "" || strings.Contains(doc, ChartName) {
		t.Errorf("a run without ratios has the chart %q", chart)
	}
	for _, want := range []string{
		"# Performance\n", "`go run ./test/perf/cmd/bench -rounds 3`", time.Now().UTC().Format(time.DateOnly), "| BPF JIT",
		"| a promise |", "FAIL |", "## A section\n\nWhat it is.\n", "### Times\n", "| a row |", "## Limitations of these figures",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document has no %q:\n%s", want, doc)
		}
	}
	if host, err := os.Hostname(); err == nil && len(host) > 2 && strings.Contains(doc, host) {
		t.Errorf("the document names the machine, %s", host)
	}
}

func TestChainChecksTakeTheSlowerWay(t *testing.T) {
	times := chainTimes{}
	for _, n := range []int{1, 4} {
		times[chainKey{chainTail, n}] = report.Sample{10}
		times[chainKey{chainCount, n}] = report.Sample{20}
		times[chainKey{chainInline, n}] = report.Sample{9}
		times[chainKey{chainInline + string(downwards), n}] = report.Sample{9 + float64(n)}
	}
	checks := chainChecks(cube.TC, times, []int{1, 4})
	want := []struct {
		measured string
		pass     bool
	}{{"0.0 ns more", true}, {"1.30 ×", false}, {"0.65 ×", true}, {"1.0 ns", true}}
	if len(checks) != len(want) {
		t.Fatalf("%d checks, want %d: %+v", len(checks), len(want), checks)
	}
	for i, w := range want {
		if checks[i].Measured != w.measured || checks[i].Pass != w.pass {
			t.Errorf("%s: %s, %t; want %s, %t", checks[i].What, checks[i].Measured, checks[i].Pass, w.measured, w.pass)
		}
	}
}

func TestTheSlowerSideOfTheSlowPathIsItsRate(t *testing.T) {
	for _, tt := range []struct {
		cost slowCost
		want float64
	}{{slowCost{kernel: 500, reader: 100}, 2}, {slowCost{kernel: 100, reader: 1000}, 1}, {slowCost{kernel: 1250}, 0.8}} {
		if got := tt.cost.mpps(); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%+v: %g Mpps, want %g", tt.cost, got, tt.want)
		}
	}
}

func TestTheServiceOfABridgeIsFoundForBothHooks(t *testing.T) {
	objects, err := service("simplebridge")
	if err != nil || len(objects) != 2 {
		t.Errorf("%d objects, error %v; want two", len(objects), err)
	}
	if _, err := service("nosuch"); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("error %v for a service that is not there", err)
	}
}

// Without the programs the part ends at once, with the remedy.
func TestTheDaemonPartNeedsItsPrograms(t *testing.T) {
	netns.NeedRoot(t)
	r := &Run{Config: Config{Quick: true, Root: filepath.Join(t.TempDir(), "nothing"), Progress: t.Output()}}
	err := r.Do(t.Context(), []string{"daemon"})
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "make build") {
		t.Errorf("error %v, want one that says make build", err)
	}
}

func TestTheFirstPageHasTheRatiosInWordsAndInAChart(t *testing.T) {
	r := &Run{Config: Config{Progress: t.Output()}, Checks: []report.Check{
		report.AtLeast("router on XDP against Linux forwarding, 10 routes, net", "%.2f ×", 6.25, 2.8),
		report.AtMost("XDP, inlined chain of 8 against direct tail calls that count as ours does", "%.2f ×", 0.5, 1),
	}}
	doc, chart := r.Document(nil)
	for _, want := range []string{
		"# Performance\n\n![", "](performance.svg)", "1. A `router` at XDP forwards 6.2 times as many packets", "2. A packet crosses a chain of eight cubes 2.0 times as fast",
	} {
		if !strings.Contains(doc, want) {
			t.Errorf("the document has no %q:\n%s", want, doc)
		}
	}
	for _, want := range []string{"<svg ", ">6.2 ×<", ">2.0 ×<", "router, 10 routes, XDP", "compared with Linux forwarding"} {
		if !strings.Contains(chart, want) {
			t.Errorf("the chart has no %q:\n%s", want, chart)
		}
	}
	if err := xml.Unmarshal([]byte(chart), new(struct{})); err != nil {
		t.Errorf("the chart is no XML: %v", err)
	}
}

// TestHeadlinesNameChecks: a check that is renamed must not silently leave the first page.
func TestHeadlinesNameChecks(t *testing.T) {
	text, err := os.ReadFile("../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	if len(headlines) != 10 {
		t.Errorf("%d headlines", len(headlines))
	}
	for _, h := range headlines {
		if !strings.Contains(string(text), "| "+h.check+" ") {
			t.Errorf("no check is called %q", h.check)
		}
	}
}

func TestTheTopologyOfAStartHasItsSize(t *testing.T) {
	_, netdevs, cubes, ports := startTopology(false)
	if cubes != 209 || ports != 2025 || len(netdevs) != 205 {
		t.Errorf("%d cubes, %d ports, %d netdevs", cubes, ports, len(netdevs))
	}
}
