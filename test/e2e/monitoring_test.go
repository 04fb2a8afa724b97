// SPDX-License-Identifier: Apache-2.0

// The alert rules and dashboards of examples/monitoring, checked by Prometheus' own tool against what a real daemon
// exports.

package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/test/netns"
)

const monitoring = "../../examples/monitoring"

// promtool runs Prometheus' tool in the folder of the examples. It skips the test if there is none, except in CI.
func promtool(t *testing.T, args ...string) (string, error) {
	t.Helper()
	tool, err := exec.LookPath("promtool")
	if err != nil {
		if tool, err = filepath.Abs("../../.cache/bin/promtool"); err == nil {
			_, err = os.Stat(tool)
		}
	}
	switch {
	case err != nil && os.Getenv("CI") != "":
		t.Fatalf("no promtool: run scripts/deps.sh monitoring (%v)", err)
	case err != nil:
		t.Skipf("needs promtool: run scripts/deps.sh monitoring (%v)", err)
	}
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = monitoring
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// ruleFile is a file of alert rules, and testFile one of their tests.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr string
			Labels      map[string]string
			Annotations map[string]string
		}
	}
}

type testFile struct {
	RuleFiles []string `yaml:"rule_files"`
	Tests     []struct {
		Alerts []struct {
			Name string `yaml:"alertname"`
			Want []any  `yaml:"exp_alerts"`
		} `yaml:"alert_rule_test"`
	}
}

func readYAML(t *testing.T, path string, to any) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// rules reads the alert rules, by file.
func rules(t *testing.T) map[string]ruleFile {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(monitoring, "*alerts.yml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no alert rules: %v", err)
	}
	out := map[string]ruleFile{}
	for _, path := range files {
		var f ruleFile
		readYAML(t, path, &f)
		out[filepath.Base(path)] = f
	}
	return out
}

// TestAlertsFire: Prometheus' own tool accepts the rules, each alert has a test in which it fires and one in which it is
// silent, and these tests pass.
func TestAlertsFire(t *testing.T) {
	t.Parallel()
	if out, err := promtool(t, "check", "config", "--syntax-only", "prometheus.yml"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for name, file := range rules(t) {
		tests := strings.TrimSuffix(name, ".yml") + "_test.yml"
		if out, err := promtool(t, "check", "rules", name); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		if out, err := promtool(t, "test", "rules", tests); err != nil {
			t.Errorf("%s: %v\n%s", tests, err, out)
		}
		var of testFile
		readYAML(t, filepath.Join(monitoring, tests), &of)
		fires, silent := map[string]bool{}, map[string]bool{}
		for _, one := range of.Tests {
			for _, a := range one.Alerts {
				fires[a.Name] = fires[a.Name] || len(a.Want) > 0
				silent[a.Name] = silent[a.Name] || len(a.Want) == 0
			}
		}
		for _, group := range file.Groups {
			for _, r := range group.Rules {
				if !fires[r.Alert] || !silent[r.Alert] {
					t.Errorf("%s: alert %s needs a test in which it fires, and one in which it does not", tests, r.Alert)
				}
				if !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) || r.Annotations["summary"] == "" {
					t.Errorf("%s: alert %s needs a severity and a summary", name, r.Alert)
				}
			}
		}
	}
}

// dashboard is what the tests need of Grafana's format.
type dashboard struct {
	UID, Title, Description string
	Tags                    []string
	SchemaVersion           int `json:"schemaVersion"`
	Panels                  []panel
	Templating              struct {
		List []struct{ Name, Type string }
	}
}

type panel struct {
	ID                       int
	Type, Title, Description string
	Grid                     struct{ X, Y, W, H int } `json:"gridPos"`
	Source                   struct{ UID string }     `json:"datasource"`
	Targets                  []struct {
		Ref    string `json:"refId"`
		Expr   string
		Source struct{ UID string } `json:"datasource"`
	}
}

// dashboards reads all dashboards, by file.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(monitoring, "dashboards", "*.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no dashboards: %v", err)
	}
	out := map[string]dashboard{}
	for _, path := range files {
		text, err := os.ReadFile(path)
		var d dashboard
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		out[filepath.Base(path)] = d
	}
	return out
}

// TestDashboardsAreComplete: each has what Grafana needs to import it, panels do not overlap, and each explains itself.
func TestDashboardsAreComplete(t *testing.T) {
	t.Parallel()
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if d.UID != "polycube-"+strings.TrimSuffix(file, ".json") || uids[d.UID] != "" || d.Title == "" || d.Description == "" || d.SchemaVersion < 36 ||
			!slices.Contains(d.Tags, "polycube") {
			t.Errorf("%s: %q, %q, %q, %d, %v", file, d.UID, d.Title, d.Description, d.SchemaVersion, d.Tags)
		}
		uids[d.UID] = file
		if len(d.Templating.List) < 2 || d.Templating.List[0].Name != "datasource" {
			t.Errorf("%s lets nobody choose the data source: %v", file, d.Templating.List)
		}
		ids, cells := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if ids[p.ID] || p.Title == "" || p.Grid.W < 1 || p.Grid.H < 1 || p.Grid.X+p.Grid.W > 24 {
				t.Errorf("%s: panel %d, %q: %+v", file, p.ID, p.Title, p.Grid)
			}
			ids[p.ID] = true
			for x := range p.Grid.W {
				for y := range p.Grid.H {
					at := [2]int{p.Grid.X + x, p.Grid.Y + y}
					if cells[at] != "" {
						t.Fatalf("%s: panels %q and %q overlap", file, cells[at], p.Title)
					}
					cells[at] = p.Title
				}
			}
			if p.Type == "row" {
				continue
			}
			if p.Description == "" || p.Source.UID != "${datasource}" || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q has no description, data source or query", file, p.Title)
			}
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if target.Expr == "" || refs[target.Ref] || target.Source.UID != "${datasource}" {
					t.Errorf("%s: panel %q, query %q: %q", file, p.Title, target.Ref, target.Expr)
				}
				refs[target.Ref] = true
			}
		}
	}
}

// variables of Grafana, as a user has chosen all of everything.
var variables = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$instance", ".*", "$cube", ".*", "$monitor", ".*")

// queries are the expressions of the dashboards, by place.
func queries(t *testing.T, only func(file string) bool) map[string]string {
	t.Helper()
	out := map[string]string{}
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				if only(file) {
					out[fmt.Sprintf("%s, %s, %s", file, p.Title, target.Ref)] = variables.Replace(target.Expr)
				}
			}
		}
	}
	return out
}

// showing runs promtool on queries, each of which must have a result on series that end with a value: lines of the text
// format.
func showing(t *testing.T, series []string, queries map[string]string) {
	t.Helper()
	type values struct{ Series, Values string }
	type query struct {
		Expr    string
		Eval    string           `yaml:"eval_time"`
		Samples []map[string]any `yaml:"exp_samples"`
	}
	var input []values
	for _, line := range series {
		at := strings.LastIndexByte(line, ' ')
		name, labels, _ := strings.Cut(strings.TrimSuffix(line[:at], "}"), "{")
		if labels != "" {
			labels = "," + labels
		}
		input = append(input, values{fmt.Sprintf(`%s{instance="r1:9000",job="polycube"%s}`, name, labels), line[at+1:] + "+0x20"})
	}
	var tests []query
	for place, q := range queries {
		// With the place as a comment, the tool's report names it.
		tests = append(tests, query{fmt.Sprintf("clamp_max(count(%s), 1) # %s", q, place), "10m", []map[string]any{{"labels": "{}", "value": 1}}})
	}
	text, err := yaml.Marshal(map[string]any{"evaluation_interval": "1m", "tests": []any{
		map[string]any{"interval": "1m", "input_series": input, "promql_expr_test": tests},
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "queries.yml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := promtool(t, "test", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// inhabited creates cubes that have every metric of the dashboards.
func inhabited(t *testing.T) *daemon {
	t.Helper()
	d := start(t)
	d.lab.Host("veth1", "")
	d.Do("bridge add br1")
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2")
	for _, service := range []string{"simplebridge", "router", "firewall", "iptables", "nat", "pbforwarder", "ipset", "synflood", "ddosmitigator", "packetcapture"} {
		d.Do(service + " add one-" + service)
	}
	return d
}

// samples are the lines of GET /metrics that have a value.
func (m *machine) samples() []string {
	m.t.Helper()
	resp, err := m.http.Get("http://polycubed/metrics")
	if err != nil {
		m.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		m.t.Fatalf("status %d, %v", resp.StatusCode, err)
	}
	var out []string
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// family is the name of a sample's metric without the suffixes of histograms.
var family = regexp.MustCompile(`^([a-zA-Z_:0-9]+?)(_bucket|_sum|_count)?[{ ]`)

// TestDashboardsShowWhatTheDaemonExports: each query of each dashboard has a result on the series of a real daemon: metrics,
// labels and joins are the right ones.
func TestDashboardsShowWhatTheDaemonExports(t *testing.T) {
	t.Parallel()
	_, _ = promtool(t, "--version")
	d := inhabited(t)
	var series []string
	netns.Eventually(t, patience, func() error {
		series = d.samples()
		if !slices.ContainsFunc(series, func(l string) bool { return strings.HasPrefix(l, "polycube_segment_inlined") }) {
			return fmt.Errorf("no program is linked yet")
		}
		return nil
	})
	there := map[string]bool{}
	for _, line := range series {
		there[family.FindStringSubmatch(line)[1]] = true
	}
	// What this daemon has not met yet, such as external services: by the table that the exporter writes from.
	for _, f := range metrics.Table() {
		if there[f.Name] {
			continue
		}
		labels := make([]string, len(f.Labels))
		for i, l := range f.Labels {
			labels[i] = fmt.Sprintf("%s=%q", l, map[string]string{"ring": "packets", "outcome": "lost"}[l])
		}
		series = append(series, fmt.Sprintf("%s{%s} 1", f.Name, strings.Join(labels, ",")))
	}
	showing(t, series, queries(t, func(file string) bool { return file != "monitors.json" }))
}

var (
	named = regexp.MustCompile(`\b[a-z]+(_[a-z]+)+\b|\bup\b`)
	// notMetrics are labels, times and the parameters of aggregations.
	notMetrics = regexp.MustCompile(`\{[^}]*\}|\[[^\]]*\]|\b(by|without|on) \([^)]*\)`)
	functions  = []string{"avg_over_time", "max_over_time", "histogram_quantile"}
)

// metricsIn are the names of the metrics in an expression, without the suffix of buckets.
func metricsIn(expression string) []string {
	names := slices.DeleteFunc(named.FindAllString(notMetrics.ReplaceAllString(expression, ""), -1), func(n string) bool { return slices.Contains(functions, n) })
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "_bucket")
	}
	return names
}

// TestAlertsNameWhatTheDaemonExports: every metric in the rules is one that the daemon has.
func TestAlertsNameWhatTheDaemonExports(t *testing.T) {
	t.Parallel()
	d := inhabited(t)
	there := map[string]bool{"up": true} // Prometheus' own
	for _, f := range metrics.Table() {
		there[f.Name] = true
	}
	for _, line := range d.samples() {
		there[family.FindStringSubmatch(line)[1]] = true
	}
	for _, r := range rules(t)["alerts.yml"].Groups {
		for _, alert := range r.Rules {
			names := metricsIn(alert.Expr)
			if len(names) == 0 {
				t.Errorf("%s: no metric in %s", alert.Alert, alert.Expr)
			}
			for _, n := range names {
				if !there[n] {
					t.Errorf("%s: no metric %s", alert.Alert, n)
				}
			}
		}
	}
}
