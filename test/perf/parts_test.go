// SPDX-License-Identifier: Apache-2.0

package perf

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// weighedKernels are the kernels of the columns in the tables of the pages, and what the stack of a function counts for
// there.
var weighedKernels = []weighedKernel{{"6.1", by32}, {"6.12", by16}, {"6.18", by16}}

type weighedKernel struct {
	name  string
	round func(bytes int) int
}

// by32 also counts functions that need no stack.
func by32(bytes int) int { return (max(bytes, 1) + 31) / 32 * 32 }

func by16(bytes int) int { return (bytes + 15) / 16 * 16 }

// weightRow is a line of such a table: the part, the hook, the instructions on each kernel, the stack on each.
var weightRow = regexp.MustCompile("(?m)^\\| `(\\w+)` \\| (TC|XDP) \\|((?: +[\\d,]+ +\\|){6})$")

// pageWeights reads the weights of all parts on a kernel, by part and hook.
func pageWeights(text string, kernel int) map[string]PartWeight {
	out := map[string]PartWeight{}
	for _, m := range weightRow.FindAllStringSubmatch(text, -1) {
		columns := strings.Split(strings.ReplaceAll(strings.Trim(m[3], " |"), ",", ""), "|")
		number := func(i int) int {
			n, _ := strconv.Atoi(strings.TrimSpace(columns[i])) // the expression lets only digits pass
			return n
		}
		out[m[1]+" "+m[2]] = PartWeight{Verified: number(kernel), Stack: number(len(weighedKernels) + kernel)}
	}
	return out
}

// outOfDate says how a weight differs from that of the page by more than a tenth, "" if it does not.
func outOfDate(got, page PartWeight) string {
	far := func(a, b, few int) bool {
		return math.Abs(float64(a-b)) > max(float64(few), float64(b)/10)
	}
	switch {
	case far(got.Verified, page.Verified, 16):
		return fmt.Sprintf("%d verified instructions, the page has %d", got.Verified, page.Verified)
	case far(got.Stack, page.Stack, 0):
		return fmt.Sprintf("%d bytes of stack, the page has %d", got.Stack, page.Stack)
	}
	return ""
}

// TestPartsWeighWhatTheirPagesSay: a part that gets heavier than its page says has to be looked at, since every cube on
// it gets heavier, too.
func TestPartsWeighWhatTheirPagesSay(t *testing.T) {
	netns.NeedRoot(t)
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		t.Fatal(err)
	}
	release := unix.ByteSliceToString(u.Release[:])
	kernel := slices.IndexFunc(weighedKernels, func(k weighedKernel) bool { return strings.HasPrefix(release, k.name+".") })
	if kernel < 0 {
		t.Skipf("the pages have no figures for Linux %s", release)
	}
	var text strings.Builder
	pages, err := filepath.Glob("../../docs/reference/*.md")
	for _, page := range pages {
		data, rerr := os.ReadFile(page)
		if rerr != nil {
			err = rerr
		}
		text.Write(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	said := pageWeights(text.String(), kernel)
	for _, hook := range []cube.Hook{cube.TC, cube.XDP} {
		weights, err := WeighParts(hook, weighedKernels[kernel].round)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range weighedParts {
			got, row := weights[name], name+" "+strings.ToUpper(hook.String())
			page, ok := said[row]
			if !ok {
				t.Errorf("no page has a line for %s: %d instructions, %d bytes of stack", row, got.Verified, got.Stack)
				continue
			}
			t.Logf("%s: %d instructions, %d bytes of stack", row, got.Verified, got.Stack)
			if what := outOfDate(got, page); what != "" {
				t.Errorf("%s: %s. If that is intended, correct the page", row, what)
			}
		}
	}
}

func TestWeightsInPagesAreReadByKernel(t *testing.T) {
	text := "| part | hook | 6.1 |\n|---|---|---:|\n" +
		"| `flow` | TC | 4,560 | 4,510 | 4,066 | 320 | 304 | 288 |\n| `flow` | XDP | 1 | 2 | 3 | 4 | 5 | 6 |\nflow: 7\n"
	for kernel, want := range []PartWeight{{4560, 320}, {4510, 304}, {4066, 288}} {
		got := pageWeights(text, kernel)
		if len(got) != 2 || got["flow TC"] != want {
			t.Errorf("on %s: %v, want %v for flow TC", weighedKernels[kernel].name, got, want)
		}
	}
}

func TestAPartThatGetsHeavierIsReported(t *testing.T) {
	page := PartWeight{Verified: 1000, Stack: 320}
	for got, reported := range map[PartWeight]bool{
		{1000, 320}: false, {1100, 320}: false, {1101, 320}: true, {899, 320}: true, {1000, 352}: false, {1000, 368}: true,
	} {
		if what := outOfDate(got, page); (what != "") != reported {
			t.Errorf("%+v after %+v: %q", got, page, what)
		}
	}
	if what := outOfDate(PartWeight{Verified: 20}, PartWeight{Verified: 10}); what != "" {
		t.Errorf("ten instructions more: %q", what)
	}
}
