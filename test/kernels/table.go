// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
)

// SaveReports writes reports as JSON.
func SaveReports(file string, reports []Report) error {
	data, err := json.MarshalIndent(reports, "", "\t")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(data, '\n'), 0o644)
}

// LoadReports reads reports from files; for each kernel, later ones replace earlier ones.
func LoadReports(files []string) ([]Report, error) {
	var all []Report
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var some []Report
		if err := json.Unmarshal(data, &some); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, r := range some {
			all = append(slices.DeleteFunc(all, func(old Report) bool { return old.Kernel == r.Kernel }), r)
		}
	}
	slices.SortFunc(all, func(a, b Report) int { return compareVersions(a.Kernel.Version, b.Kernel.Version) })
	return all, nil
}

// Tables writes the reports in Markdown: for each kernel, the results of polycubed check and the jobs that passed; for
// each service at each hook, the results of its frames.
func Tables(reports []Report) string {
	var b strings.Builder
	head := []string{""}
	for _, r := range reports {
		head = append(head, r.Kernel.Release)
	}
	row := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	begin := func(title string) {
		row(append([]string{title}, head[1:]...))
		b.WriteString(strings.Repeat("|---", len(head)) + "|\n")
	}
	rows := func(names []string, cell func(r Report, name string) string) {
		for _, name := range names {
			cells := []string{name}
			for _, r := range reports {
				cells = append(cells, cell(r, name))
			}
			row(cells)
		}
	}
	begin("`polycubed check`")
	rows(checked(reports), func(r Report, name string) string { return r.checks()[name] })
	b.WriteString("\n")
	begin("frames of a service: verified instructions")
	rows(served(reports), Report.service)
	b.WriteString("\n")
	begin("programs of a service: verified instructions")
	rows(tried(reports), func(r Report, name string) string { return r.trials()[name] })
	b.WriteString("\n")
	begin("tests")
	rows(jobNames(reports), Report.job)
	return b.String()
}

// checks is the output of the check on a kernel, by subject.
func (r Report) checks() map[string]string {
	var doc struct {
		Findings []struct{ What, Grade string }
	}
	// A machine that did not get that far has reported nothing, and its cells are empty.
	_ = json.Unmarshal([]byte(r.Wrote[check.Name]), &doc)
	out := map[string]string{}
	for _, f := range doc.Findings {
		out[f.What] = f.Grade
	}
	return out
}

// checked lists the subjects of the check that differ between kernels.
func checked(reports []Report) []string {
	grades := map[string]map[string]bool{}
	for _, r := range reports {
		for what, grade := range r.checks() {
			if grades[what] == nil {
				grades[what] = map[string]bool{}
			}
			grades[what][grade] = true
		}
	}
	maps.DeleteFunc(grades, func(_ string, found map[string]bool) bool { return len(found) < 2 })
	return slices.Sorted(maps.Keys(grades))
}

// fates is the name prefix of tests that send each service frames at each hook.
const fates = "TestEveryFrameHasAFate/"

// served are the services with their hooks.
func served(reports []Report) []string {
	names := map[string]bool{}
	for _, r := range reports {
		for _, o := range r.Outcomes {
			if name, ok := strings.CutPrefix(o.Test, fates); ok {
				names[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// service is the cell of a service at a hook: the number of verified instructions, or the error.
func (r Report) service(name string) string {
	for _, o := range r.Outcomes {
		if o.Test != fates+name {
			continue
		}
		n, err := strconv.Atoi(o.Facts["verified"])
		if o.Result != passed || err != nil {
			return "**" + o.Result + "**"
		}
		return thousands(n)
	}
	return "not tried"
}

// trial is a line of a trial's table: a program with the constants that take the most verified instructions.
type trial struct {
	Service, Hook, Role, Mode, Refused string
	Verified                           int
}

// trials are the most instructions that the verifier looked at in a program, by service, hook, role and mode.
func (r Report) trials() map[string]string {
	most := map[string]int{}
	out := map[string]string{}
	lines := json.NewDecoder(strings.NewReader(r.Wrote[trialsSay.Name]))
	for {
		var l trial
		if err := lines.Decode(&l); err != nil {
			return out // its end, or that of a machine that did not get that far
		}
		name := strings.Join([]string{l.Service, l.Hook, l.Role, l.Mode}, " ")
		most[name] = max(most[name], l.Verified)
		if out[name] = thousands(most[name]); l.Refused != "" {
			out[name] = "**refused**"
		}
	}
}

func tried(reports []Report) []string {
	names := map[string]bool{}
	for _, r := range reports {
		for name := range r.trials() {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func jobNames(reports []Report) []string {
	names := map[string]bool{}
	for _, r := range reports {
		for name := range r.Wrote {
			names[name] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// job is the cell of a job: how many tests passed, of how many, and how many the kernel or the machine is not for.
func (r Report) job(name string) string {
	if _, ran := r.Wrote[name]; !ran {
		return "not tried"
	}
	n := map[string]int{}
	for _, o := range r.Outcomes {
		if o.Job == name && !strings.Contains(o.Test, "/") {
			n[o.Result]++
		}
	}
	bad := slices.ContainsFunc(r.Faults, func(fault string) bool { return strings.HasPrefix(fault, name+":") })
	switch total := n[passed] + n[failed] + n[running]; {
	case bad && total == 0:
		return "**failed**"
	case total == 0:
		return "passed"
	case bad:
		return fmt.Sprintf("**%d of %d**", n[passed], total)
	case n[skipped] > 0:
		return fmt.Sprintf("%d, %d skipped", total, n[skipped])
	default:
		return strconv.Itoa(total)
	}
}

// Marks in the document, between which the tables are.
const (
	tablesBegin = "<!-- written by: go run ./test/kernels/cmd/kernels table -->\n"
	tablesEnd   = "<!-- end -->\n"
)

// WriteTables writes the tables into a document, replacing the existing ones.
func WriteTables(file string, reports []Report) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), tablesBegin)
	_, after, ended := strings.Cut(rest, tablesEnd)
	if !ok || !ended {
		return fmt.Errorf("%s: the marks %q and %q are missing", file, tablesBegin, tablesEnd)
	}
	return os.WriteFile(file, []byte(before+tablesBegin+"\n"+Tables(reports)+"\n"+tablesEnd+after), 0o644)
}
