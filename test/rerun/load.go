// SPDX-License-Identifier: Apache-2.0

// Suspects under load, until they fail.

package rerun

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Load bounds how suspects are repeated.
type Load struct {
	For     time.Duration // for each suspect
	Runs    int           // at most; 0 is any number
	Copies  int           // of a suspect, side by side
	Burners int           // processes that only take time of the processors
	Race    string        // a regular expression: packages named in TESTS that run under the race detector
}

// Until repeats suspects until one fails, which makes it return 1, or the limits are reached. Without names they are
// those of the kept logs. A test with a time limit is repeated without load: it is meant to run alone.
func (l Load) Until(dir string, names []string, out io.Writer) (int, error) {
	all, err := l.chosen(dir, names)
	if err != nil {
		return 1, err
	}
	if len(all) == 0 {
		fmt.Fprintf(out, "flaky: no log in %s: name tests, as in TESTS='test/e2e.TestExitCodes'\n", filepath.Join(dir, Kept))
		return 0, nil
	}
	exit := 0
	for _, s := range all {
		failed, err := l.repeat(dir, s, out)
		if err != nil {
			return 1, fmt.Errorf("%s: %w", s.Name(), err)
		}
		if failed {
			exit = 1
		}
	}
	return exit, nil
}

// chosen are the suspects with these names, or those of the kept logs.
func (l Load) chosen(dir string, names []string) ([]suspect, error) {
	if len(names) == 0 {
		return kept(dir)
	}
	race, err := regexp.Compile(l.Race)
	if err != nil {
		return nil, fmt.Errorf("packages under the race detector: %w", err)
	}
	module, err := module()
	if err != nil {
		return nil, err
	}
	var all []suspect
	for _, name := range names {
		s := suspect{Package: short(module, strings.TrimPrefix(name, "./")), Flags: []string{"-timeout", "15m", "-parallel", "4"}}
		if m := testNamed.FindStringSubmatch(s.Package); m != nil {
			s.Package, s.Test = m[1], m[2]
		}
		if l.Race != "" && race.MatchString(module+"/"+s.Package) {
			s.Flags = append(s.Flags, "-race")
		}
		all = append(all, s)
	}
	return all, nil
}

var testNamed = regexp.MustCompile(`^(.*)\.((?:Test|Fuzz|Example)\w*)$`)

// repeat runs one suspect until it fails.
func (l Load) repeat(dir string, s suspect, out io.Writer) (failed bool, err error) {
	if strings.HasPrefix(s.Test, "TestTimed") {
		l.Copies, l.Burners = 1, 0
	}
	tmp, err := os.MkdirTemp("", "rerun")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	binary := filepath.Join(tmp, "suspect.test")
	if said, err := exec.Command("go", s.build(binary)...).CombinedOutput(); err != nil {
		return false, fmt.Errorf("build it: %w\n%s", err, said)
	}
	fmt.Fprintf(out, "flaky: %s for %v, %d at once beside %d burners\n", s.Name(), l.For, l.Copies, l.Burners)
	runs, log, err := l.race(s, binary)
	if err != nil || log == "" {
		fmt.Fprintf(out, "flaky: %s passed %d times\n", s.Name(), runs)
		return false, err
	}
	s.log, s.Seeds = log, seedsIn(log)
	path, err := s.keep(dir)
	fmt.Fprintf(out, "flaky: %s failed in run %d: %s, %s\n%s", s.Name(), runs, seedText(s.Seeds), path, indent(lastLines(log, shown)))
	return true, err
}

// race runs copies of the suspect in parallel, each repeatedly, until one fails or a limit is reached. It returns the
// number of runs and the log of the first that failed. Runs are not killed: a test that is killed leaves its namespaces
// behind.
func (l Load) race(s suspect, binary string) (runs int, log string, err error) {
	defer burn(l.Burners)()
	deadline := time.Now().Add(l.For)
	var mu sync.Mutex
	next := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if log != "" || err != nil || l.Runs > 0 && runs >= l.Runs || !time.Now().Before(deadline) {
			return false
		}
		runs++
		return true
	}
	var copies sync.WaitGroup
	for range max(l.Copies, 1) {
		copies.Go(func() {
			for next() {
				said, failed := s.once(binary)
				mu.Lock()
				if failed != nil {
					err = failed
				} else if log == "" {
					log = said
				}
				mu.Unlock()
			}
		})
	}
	copies.Wait()
	return runs, log, err
}

// once runs the suspect once and returns its output if it fails.
func (s suspect) once(binary string) (log string, err error) {
	args := append([]string{"tool", "test2json", "-p", s.Package, binary, "-test.v=test2json"}, binaryFlags(s.Flags)...)
	if s.Test != "" {
		args = append(args, "-test.run=^"+s.Test+"$")
	}
	cmd := exec.Command("go", args...)
	cmd.Dir = filepath.FromSlash(s.Package)
	events, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		return "", err
	}
	var other strings.Builder
	record := &Record{}
	if err := record.Scan(bytes.NewReader(events), &other, nil); err != nil {
		return "", err
	}
	switch {
	case len(record.Packages) == 0:
		return "", fmt.Errorf("run it: %w\n%s%s", err, other.String(), exit.Stderr)
	case err == nil && s.passedIn(record):
		return "", nil
	}
	if p := record.Packages[0]; p.Result != "pass" {
		return p.Text() + other.String(), nil
	}
	return "", errors.New("no such test, or it was skipped")
}

// build is the arguments of `go` for the test binary of a suspect.
func (s suspect) build(binary string) []string {
	args := []string{"test", "-c", "-vet=off", "-o", binary}
	if slices.Contains(s.Flags, "-race") {
		args = append(args, "-race")
	}
	return append(args, "./"+s.Package)
}

// binaryFlags are those flags of `go test` that are the test binary's.
func binaryFlags(flags []string) []string {
	var out []string
	for i, flag := range flags {
		name, value, joined := strings.Cut(strings.TrimLeft(flag, "-"), "=")
		if !slices.Contains([]string{"timeout", "parallel", "skip", "cpu"}, name) || !strings.HasPrefix(flag, "-") {
			continue
		}
		if !joined && i+1 < len(flags) {
			value = flags[i+1]
		}
		out = append(out, "-test."+name+"="+value)
	}
	return out
}

// burn keeps processors busy until stop is called.
func burn(threads int) (stop func()) {
	var over atomic.Bool
	before := runtime.GOMAXPROCS(runtime.NumCPU() + threads)
	var burners sync.WaitGroup
	for range threads {
		burners.Go(func() {
			for !over.Load() {
			}
		})
	}
	return func() {
		over.Store(true)
		burners.Wait()
		runtime.GOMAXPROCS(before)
	}
}
