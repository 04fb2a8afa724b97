// SPDX-License-Identifier: Apache-2.0

package rerun

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/output"
)

// fake creates a module of packages, each one test file with imports and code, and changes to its directory. Its tests
// know once(NAME), which is true for the first call with the name.
func fake(t *testing.T, packages map[string]string) (dir string) {
	t.Helper()
	top := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(top, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.org/fake\n\ngo 1.24\n")
	for name, code := range packages {
		write(name+"/fake_test.go", fmt.Sprintf(`package %s
import ("os"; "testing"; "time")
var _ = time.Second
func once(name string) bool { return os.Mkdir(%q + name, 0o755) == nil }
func ran(name string) { f, _ := os.OpenFile(%q + name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644); f.WriteString(os.Getenv("POLYCUBE_SEED") + ";"); f.Close() }
%s`, filepath.Base(name), top+"/once-", top+"/ran-", code))
	}
	t.Chdir(top)
	t.Setenv("GOFLAGS", "-mod=mod")
	return filepath.Join(top, ".cache", "test")
}

// runs are the seeds of the runs of a fake test.
func runs(t *testing.T, name string) []string {
	t.Helper()
	text, err := os.ReadFile("ran-" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(string(text), ";"), ";")
}

// do runs the tests of the fake module.
func do(t *testing.T, dir string, flags ...string) (exit int, said string) {
	t.Helper()
	var out output.Buffer
	exit, err := Do(dir, "fake", Run{Flags: append([]string{"-vet=off", "-ldflags=-s -w", "-count=1"}, flags...), Packages: []string{"./..."}}, &out)
	if err != nil {
		t.Fatal(err)
	}
	return exit, out.String()
}

func again(dir string) (exit int, said string, err error) {
	var out output.Buffer
	exit, err = Again(dir, []string{"fake"}, &out)
	return exit, out.String(), err
}

const healthy = "func TestHealthy(t *testing.T) { ran(\"healthy\"); t.Log(\"nobody wants to know\") }\n"

// TestWhatFailsAgainFailsTheRun, and a test that passes alone does not.
func TestWhatFailsAgainFailsTheRun(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		suspect    string
		flaky      bool
		log        string // the kept log contains this
	}{
		{"a test fails once", healthy + `func TestX(t *testing.T) { if once("x") { t.Fatal("too late") } }`, "a/b.TestX", true, "too late"},
		{"a test fails always", healthy + `func TestX(t *testing.T) { t.Fatal("wrong") }`, "a/b.TestX", false, "wrong"},
		{"a test fails twice", healthy + `func TestX(t *testing.T) { if once("x") || once("y") { t.Fatal("wrong") } }`, "a/b.TestX", false, "wrong"},
		{"a subtest fails once", `func TestX(t *testing.T) { t.Run("of it", func(t *testing.T) { if once("x") { t.Fatal("too late") } }) }`, "a/b.TestX", true, "--- FAIL: TestX/of_it"},
		{"a subtest fails always", `func TestX(t *testing.T) { t.Run("of it", func(t *testing.T) { t.Fatal("wrong") }) }`, "a/b.TestX", false, "wrong"},
		{"a test skips when it is alone", `func TestX(t *testing.T) { if once("x") { t.Fatal("too late") }; t.Skip() }`, "a/b.TestX", false, "too late"},
		{"a test panics once", `func TestX(t *testing.T) { if once("x") { panic("astray") } }; ` + healthy, "a/b", true, "panic: astray"},
		{"a test panics always", healthy + `func TestX(t *testing.T) { panic("astray") }`, "a/b", false, "panic: astray"},
		{"a test ends the process", `func TestX(t *testing.T) { if once("x") { os.Exit(3) } }`, "a/b", true, "FAIL\t"},
		{"a test hangs once", healthy + `func TestX(t *testing.T) { if once("x") { <-time.After(time.Hour) } }`, "a/b", true, "test timed out after"},
		{"a test hangs always", healthy + `func TestX(t *testing.T) { <-time.After(time.Hour) }`, "a/b", false, "test timed out after"},
		{"the package leaks once", healthy + `func TestMain(m *testing.M) { m.Run(); if once("x") { println("leaked: all"); os.Exit(1) } }`, "a/b", true, "leaked: all"},
		{"the package leaks always", healthy + `func TestMain(m *testing.M) { m.Run(); println("leaked: all"); os.Exit(1) }`, "a/b", false, "leaked: all"},
		{"a test fails and leaks once", `func TestX(t *testing.T) { if once("x") { t.Fatal("too late") } }
			func TestMain(m *testing.M) { c := m.Run(); if once("y") { println("leaked: all") }; os.Exit(c) }`, "a/b", true, "leaked: all"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := fake(t, map[string]string{"a/b": tt.code, "other": healthy})
			exit, said := do(t, dir, "-timeout=5s")
			if exit != 1 || !strings.Contains(said, tt.log) || !strings.Contains(said, "FAIL\texample.org/fake/a/b\t") || !strings.Contains(said, "ok  \texample.org/fake/other\t") {
				t.Fatalf("exit %d:\n%s", exit, said)
			}
			exit, said, err := again(dir)
			if err != nil || exit != map[bool]int{true: 0, false: 1}[tt.flaky] {
				t.Fatalf("again: exit %d, %v:\n%s", exit, err, said)
			}
			path := filepath.Join(dir, Kept, logName(tt.suspect))
			want := ""
			if tt.flaky {
				want = fmt.Sprintf("FLAKY %s, no seed, %s\n", tt.suspect, path)
			}
			report, err := os.ReadFile(filepath.Join(dir, Report))
			if err != nil || string(report) != want || !strings.HasSuffix(said, want) {
				t.Errorf("the report is %q, %v, want %q\n%s", report, err, want, said)
			}
			if log, err := os.ReadFile(path); err != nil || !strings.Contains(string(log), tt.log) || strings.Contains(string(log), "nobody wants to know") {
				t.Errorf("the log is %q, %v", log, err)
			}
		})
	}
}

// TestOnlyWhatFailedRunsAgain: alone, twice, with its flags and its seeds.
func TestOnlyWhatFailedRunsAgain(t *testing.T) {
	dir := fake(t, map[string]string{"a": healthy + `
func TestSeeded(t *testing.T) {
	ran("seeded")
	for _, seed := range []string{"7/100", "8", "9"} {
		t.Run(seed, func(t *testing.T) { t.Log("POLYCUBE_SEED=" + seed + " repeats it"); if seed != "9" && once(seed[:1]) { t.Error("unlucky") } })
	}
}
func TestSkipped(t *testing.T) { ran("skipped"); t.Fatal("not to be run at all") }
`, "b": healthy + `func TestPlain(t *testing.T) { ran("plain"); if once("x") { t.Error("unlucky") } }`})
	if exit, said := do(t, dir, "-skip", "^TestSkipped$"); exit != 1 {
		t.Fatalf("exit %d: %s", exit, said)
	}
	exit, said, err := again(dir)
	if exit != 0 || err != nil {
		t.Fatalf("exit %d, %v: %s", exit, err, said)
	}
	for _, line := range []string{"FLAKY a.TestSeeded, POLYCUBE_SEED=7/100,8, ", "FLAKY b.TestPlain, no seed, "} {
		if !strings.Contains(said, line) {
			t.Errorf("%q is missing:\n%s", line, said)
		}
	}
	for name, want := range map[string][]string{"healthy": {"", ""}, "seeded": {"", "7/100", "8"}, "plain": {"", "", ""}} {
		if got := runs(t, name); !slices.Equal(got, want) {
			t.Errorf("%s ran with seeds %q, want %q", name, got, want)
		}
	}
	if _, err := os.Stat("ran-skipped"); err == nil {
		t.Error("a test that is skipped ran")
	}
}

// TestAnUnfinishedTestRunsWithItsSeed, in addition to its package: only the seed reproduces its run.
func TestAnUnfinishedTestRunsWithItsSeed(t *testing.T) {
	dir := fake(t, map[string]string{"a": `func TestX(t *testing.T) { ran("x"); t.Log("POLYCUBE_SEED=5"); if once("x") || os.Getenv("POLYCUBE_SEED") == "5" { panic("5 is bad") } }`})
	do(t, dir)
	if exit, said, err := again(dir); exit != 1 || err != nil || strings.Contains(said, "FLAKY a.TestX") || !strings.Contains(said, "a.TestX fails alone as well") {
		t.Errorf("exit %d, %v: %s", exit, err, said)
	}
	if got := runs(t, "x"); !slices.Equal(got, []string{"", "5", "", ""}) {
		t.Errorf("it ran with %q", got)
	}
}

// TestWhatIsNotRunAgain: failures that no second run can excuse.
func TestWhatIsNotRunAgain(t *testing.T) {
	many := ""
	for i := range MostSuspects + 1 {
		many += fmt.Sprintf("func TestX%d(t *testing.T) { if once(\"%d\") { t.Fatal() } }\n", i, i)
	}
	for _, tt := range []struct {
		name  string
		code  string
		flags []string
		after func(dir string) error
		says  string
	}{
		{"a package that does not build", "func TestX(t *testing.T) { undefined() }", nil, nil, "does not build: a"},
		{"many failures", many, nil, nil, "11 failures are no coincidence"},
		{"a flag that go test does not know", healthy, []string{"-nonsense"}, nil, "does not build"},
		{"nothing that failed", healthy, nil, nil, "what failed is something else"},
		{"a run that was killed", healthy, nil, func(dir string) error { return Run{Exit: running}.write(dir, "fake") }, "did not come to its end"},
		{"no run", healthy, nil, func(dir string) error { return os.Remove(filepath.Join(dir, "fake.run")) }, "fake: tests of this name were not run"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := fake(t, map[string]string{"a": tt.code})
			_, said := do(t, dir, tt.flags...)
			if tt.after != nil {
				if err := tt.after(dir); err != nil {
					t.Fatal(err)
				}
			}
			exit, again, err := again(dir)
			if exit != 1 || err == nil || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("exit %d, %v, want %q\n%s%s", exit, err, tt.says, said, again)
			}
		})
	}
}

// TestTheOutputIsThatOfGoTest, but for times.
func TestTheOutputIsThatOfGoTest(t *testing.T) {
	for _, flags := range [][]string{nil, {"-v"}} {
		dir := fake(t, map[string]string{"a": healthy + `
func TestSteps(t *testing.T) {
	t.Log("before")
	t.Run("one", func(t *testing.T) { t.Log("fine") })
	t.Run("two", func(t *testing.T) { t.Error("first\nsecond"); t.Run("deep", func(t *testing.T) { t.Fatal("third") }) })
}
func TestSkips(t *testing.T) { t.Skip("no reason") }`, "b": healthy, "c": "var broken int = \"\"", "d": "func TestMain(m *testing.M) { println(\"no\"); os.Exit(4) }", "e": `func TestX(t *testing.T) { panic("astray") }`})
		if err := errors.Join(os.Mkdir("none", 0o755), os.WriteFile("none/none.go", []byte("package none\n"), 0o644)); err != nil {
			t.Fatal(err)
		}
		_, said := do(t, dir, append(flags, "-p=1")...)
		plain, _ := exec.Command("go", append(append([]string{"test", "-vet=off", "-count=1"}, flags...), "-p=1", "./...")...).CombinedOutput()
		if got, want := normal(said), normal(string(plain)); got != want {
			t.Errorf("%v:\n%s\n\nwant:\n%s", flags, got, want)
		}
	}
}

var changing = regexp.MustCompile(`\d+\.\d+s\b|0x[0-9a-f]+|goroutine \d+|\+0x[0-9a-f]+|testing\.go:\d+|\(0x.*\)|\{0x.*\}|, 0x.*|\[recovered.*`)

// normal removes what differs from run to run: times, addresses and the goroutines of a panic; and the order of
// packages.
func normal(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "goroutine ") || strings.HasPrefix(line, "testing.") || strings.HasPrefix(line, "created by ") {
			continue
		}
		if line = changing.ReplaceAllString(line, "N"); strings.TrimSpace(line) != "" && line != "FAIL\n" {
			lines = append(lines, line)
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// TestSuspectsUnderLoad: until one fails, which is kept; those of the kept logs if none is named.
func TestSuspectsUnderLoad(t *testing.T) {
	dir := fake(t, map[string]string{"a": healthy + `
func TestRare(t *testing.T) { ran("rare"); if once("1") || once("2") || once("3") { return }; t.Fatal("POLYCUBE_SEED=42 was unlucky") }
func TestSkips(t *testing.T) { t.Skip() }
func TestRacy(t *testing.T) { n := 0; go func() { n++ }(); n++; <-time.After(10 * time.Millisecond) }
	func TestTimedX(t *testing.T) { ran("timed"); if !once("alone") { t.Fatal("not alone") }; <-time.After(50 * time.Millisecond); os.Remove("../once-alone") }`})
	until := func(l Load, names ...string) (int, string) {
		t.Helper()
		var out bytes.Buffer
		exit, err := l.Until(dir, names, &out)
		if err != nil {
			t.Fatal(err)
		}
		return exit, out.String()
	}
	l := Load{For: time.Hour, Copies: 2, Burners: 2}
	if exit, said := until(l); exit != 0 || !strings.Contains(said, "name tests") {
		t.Errorf("without any: exit %d: %s", exit, said)
	}
	for _, name := range []string{"a.TestSkips", "a.TestNowhere", "nowhere.TestX"} {
		if exit, err := l.Until(dir, []string{name}, &bytes.Buffer{}); exit != 1 || err == nil {
			t.Errorf("%s: exit %d, %v", name, exit, err)
		}
	}
	log := filepath.Join(dir, Kept, "a.TestRare.log")
	if exit, said := until(l, "a.TestRare"); exit != 1 || !strings.Contains(said, "failed in run") || !strings.Contains(said, "POLYCUBE_SEED=42, "+log) {
		t.Errorf("one that fails: exit %d: %s", exit, said)
	}
	if n := len(runs(t, "rare")); n < 4 || n > 6 {
		t.Errorf("it ran %d times, want 4 and those beside", n)
	}
	l.Runs = 6
	if exit, said := until(l, "./a.TestTimedX"); exit != 0 || !strings.Contains(said, "1 at once beside 0 burners") || !strings.Contains(said, "passed 6 times") {
		t.Errorf("one that holds the clock to a limit: exit %d: %s", exit, said)
	}
	if exit, said := until(l); exit != 1 || !strings.Contains(said, "a.TestRare failed") {
		t.Errorf("those that are known: exit %d: %s", exit, said)
	}
	if exit, said := until(l, "example.org/fake/a"); exit != 1 || !strings.Contains(said, "flaky: a failed") {
		t.Errorf("a package: exit %d: %s", exit, said)
	}
	l.Race, l.Runs = "/a$", 1
	if exit, said := until(l, "a.TestRacy"); exit != 1 || !strings.Contains(said, "DATA RACE") {
		t.Errorf("under the race detector: exit %d: %s", exit, said)
	}
	l.Race = "/b$"
	if exit, said := until(l, "a.TestRacy"); exit != 0 {
		t.Errorf("not under the race detector: exit %d: %s", exit, said)
	}
}

// TestFlagsOfATestBinary: flags that `go test` uses itself are not passed on.
func TestFlagsOfATestBinary(t *testing.T) {
	got := binaryFlags([]string{"-vet=off", "-timeout", "15m", "-count=1", "-p", "2", "-parallel", "4", "-skip", "^TestTimed", "-race"})
	if want := []string{"-test.timeout=15m", "-test.parallel=4", "-test.skip=^TestTimed"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
