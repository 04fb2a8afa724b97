// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func reports() []Report {
	frames := func(result, verified string) *Outcome {
		return &Outcome{Job: "test/fates", Test: fates + "router/tc", Result: result, Facts: map[string]string{"verified": verified}}
	}
	return []Report{
		{Kernel: Kernel{"6.1.0-56-cloud-amd64", "6.1.192-2"}, Faults: []string{"test/fates: TestEveryFrameHasAFate/router/tc: failed\nx", "demo: exit status 1"},
			Outcomes: []*Outcome{frames(failed, "1234567"), {Job: "test/fates", Test: "TestEveryFrameHasAFate", Result: failed}},
			Wrote: map[string]string{"check": `{"findings":[{"what":"tcx","grade":"slower"},{"what":"BTF","grade":"ok"}]}`, "test/fates": "", "demo": "",
				"trials": `{"service":"nat","hook":"TC","role":"in","mode":"call","verified":900}` + "\n" + `{"service":"nat","hook":"TC","role":"in","mode":"call","refused":"no"}`}},
		{Kernel: Kernel{"6.12.117+deb12-cloud-amd64", "6.12.117-1"},
			Outcomes: []*Outcome{frames(passed, "80123"), {Job: "test/fates", Test: "TestEveryFrameHasAFate", Result: passed}, {Job: "test/fates", Test: "TestLake", Result: skipped}},
			Wrote: map[string]string{"check": `{"findings":[{"what":"tcx","grade":"ok"},{"what":"BTF","grade":"ok"}]}`, "test/fates": "", "demo": "",
				"trials": `{"service":"nat","hook":"TC","role":"in","mode":"call","verified":900}` + "\n" + `{"service":"nat","hook":"TC","role":"in","mode":"call","verified":1200}`}},
	}
}

func TestTablesSayWhatRanAndWhatWentWrong(t *testing.T) {
	got := Tables(reports())
	for _, line := range []string{
		"| `polycubed check` | 6.1.0-56-cloud-amd64 | 6.12.117+deb12-cloud-amd64 |",
		"| tcx | slower | ok |",
		"| router/tc | **fail** | 80,123 |",
		"| nat TC in call | **refused** | 1,200 |",
		"| test/fates | **0 of 1** | 1, 1 skipped |",
		"| demo | **failed** | passed |",
	} {
		if !strings.Contains(got, line+"\n") {
			t.Errorf("missing: %s\n%s", line, got)
		}
	}
	if strings.Contains(got, "BTF") {
		t.Error("what is the same everywhere is in the table")
	}
}

func TestTablesTakeThePlaceOfOldOnes(t *testing.T) {
	dir := t.TempDir()
	doc, results := filepath.Join(dir, "doc.md"), filepath.Join(dir, "results.json")
	if err := os.WriteFile(doc, []byte("before\n"+tablesBegin+"old\n"+tablesEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := SaveReports(results, reports()); err != nil {
		t.Fatal(err)
	}
	read, err := LoadReports([]string{results, results})
	if err != nil || len(read) != 2 {
		t.Fatalf("%d reports, %v", len(read), err)
	}
	if err := WriteTables(doc, read); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(doc)
	if err != nil {
		t.Fatal(err)
	}
	if s := string(text); !strings.HasPrefix(s, "before\n") || !strings.HasSuffix(s, "after\n") || strings.Contains(s, "old") || !strings.Contains(s, "80,123") {
		t.Errorf("the document is\n%s", s)
	}
	if err := WriteTables(results, read); err == nil {
		t.Error("tables went into a file without marks")
	}
}
