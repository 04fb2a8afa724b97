// SPDX-License-Identifier: Apache-2.0

// The API compared with its own description: tools that know nothing about Polycube read the description, check it, and
// send requests that it allows and that it does not.

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/repeat"
)

// apiPort is the port of daemons in their own namespaces.
const apiPort = "19000"

// python is a program of the environment that scripts/deps.sh creates for these tests.
func python(t *testing.T, name string) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", ".cache", "openapi", "bin", name))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s: run scripts/deps.sh openapi (%v)", name, err)
	}
	return path
}

// chosen is how many services the short form of a test is about.
const chosen = 4

// leftOut is a regular expression for the paths of services that the short form leaves out: all but some, which are others each
// time, since all of them take the tools minutes. The examples, patterns and defaults of all are checked in any form.
func (d *daemon) leftOut(t *testing.T) string {
	t.Helper()
	if soak {
		return "^$"
	}
	var described struct{ Paths map[string]any }
	d.Get("/openapi.json", &described)
	services := map[string]bool{}
	for path := range described.Paths {
		if service, _, ok := strings.Cut(strings.TrimPrefix(path, "/"), "/{name}"); ok && !strings.Contains(service, "/") {
			services[service] = true
		}
	}
	names := slices.Sorted(maps.Keys(services))
	if len(names) < 3*chosen {
		t.Fatalf("the description has the services %v", names)
	}
	r := rand.New(rand.NewPCG(repeat.Seed(t), 0))
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	t.Logf("about %v", names[:chosen])
	return "^/(" + strings.Join(names[chosen:], "|") + ")(/|$)"
}

func TestDescriptionIsValid(t *testing.T) {
	t.Parallel()
	interpreter := python(t, "python")
	d := start(t)
	var files []string
	for _, version := range []string{"3.1", "3.0"} {
		status, body, err := d.Request(http.MethodGet, "/openapi.json?version="+version, "")
		if err != nil || status != http.StatusOK {
			t.Fatalf("version %s: status %d, %v", version, status, err)
		}
		file := filepath.Join(t.TempDir(), version+".json")
		if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	r := run(t, exec.Command(interpreter, append([]string{"testdata/openapi/check.py", d.leftOut(t)}, files...)...), "")
	if r.code != 0 {
		t.Error(r)
	}
	if !regexp.MustCompile(`\b[1-9]\d{2,} examples, [1-9]\d+ patterns, 0 faults`).MatchString(r.stdout) {
		t.Errorf("hardly anything was checked: %s", r.stdout)
	}
}

// inhabitants are cubes of every service, so that requests find existing objects.
const inhabitants = `[{"name":"helloworld1","service-name":"helloworld","ports":[{"name":"port1","peer":"hello"}]},
	{"name":"simplebridge1","service-name":"simplebridge","ports":[{"name":"port1","peer":"bridge"},{"name":"port2"}],
		"fdb":{"entry":[{"address":"aa:bb:cc:dd:ee:ff","port":"port1"}]}},
	{"name":"simpleforwarder1","service-name":"simpleforwarder","ports":[{"name":"port1"}],"actions":[{"inport":"port1","action":"DROP"}]},
	{"name":"transparenthelloworld1","service-name":"transparenthelloworld"},
	{"name":"bridge1","service-name":"bridge","stp-enabled":true,
		"ports":[{"name":"port1","mode":"trunk","trunk":{"allowed":[{"vlanid":10}]}},{"name":"port2","peer":"station"}],
		"fdb":{"entry":[{"vlan":1,"mac":"aa:bb:cc:dd:ee:ff","port":"port2"}]}},
	{"name":"router1","service-name":"router","ports":[{"name":"port1","peer":"routed","ip":"10.0.1.1/24","secondaryip":[{"ip":"10.0.2.1/24"}]}],
		"route":[{"network":"10.9.0.0/16","nexthop":"10.0.1.2"}],
		"arp-table":[{"address":"10.0.1.2","mac":"aa:bb:cc:dd:ee:ff","interface":"port1"}]},
	{"name":"nat1","service-name":"nat","rule":{
		"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]},
		"dnat":{"entry":[{"id":1,"external-ip":"203.0.113.2","internal-ip":"10.0.0.2"}]},
		"port-forwarding":{"entry":[{"id":1,"external-ip":"203.0.113.3/32","external-port":80,"internal-ip":"10.0.0.3","internal-port":80}]}}},
	{"name":"pbforwarder1","service-name":"pbforwarder","ports":[{"name":"port1","peer":"sorted"}],
		"rules":[{"id":1,"in_port":"port1","src_ip":"10.0.0.0/8","action":"DROP"}]}]`

// keys are the keys of the inhabitants' entries, by service; ports are called port1.
var keys = map[string]string{
	"helloworld":            "",
	"simplebridge":          `, "path.address" = "aa:bb:cc:dd:ee:ff"`,
	"simpleforwarder":       `, "path.inport" = "port1"`,
	"transparenthelloworld": "",
	"bridge":                `, "path.vlan" = 1, "path.vlanid" = 10, "path.mac" = "aa:bb:cc:dd:ee:ff"`,
	"router":                `, "path.network" = "10.9.0.0/16", "path.nexthop" = "10.0.1.2", "path.ip" = "10.0.2.1/24", "path.address" = "10.0.1.2"`,
	"nat":                   `, "path.id" = 1`,
	"pbforwarder":           `, "path.id" = 1`,
}

// checks are the checks of every run of schemathesis.
var checks = []string{"not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
	"response_headers_conformance", "allow_header_conformance", "unsupported_method"}

// requestTimeout is for the largest tables, which the requests may ask for: the kernel allocates and zeroes 2.8 GB for a NAT with
// 4,194,304 sessions, which took eight seconds on a busy machine.
const requestTimeout = 60 * time.Second

// settings of schemathesis: its hooks, its checks, and other parameters of a run. Reports show requests as they were sent: what is
// called `session` is no secret here.
func settings(t *testing.T, d *daemon, hooks string, checks []string, more string) string {
	t.Helper()
	token, err := os.ReadFile(filepath.Join(d.dir, "run", "token"))
	if err != nil {
		t.Fatal(err)
	}
	hooks, err = filepath.Abs(filepath.Join("testdata", "openapi", hooks))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "hooks = %q\nheaders = { Authorization = %q }\nrequest-timeout = %v\n[output.sanitization]\nenabled = false\n[checks]\nenabled = false\n",
		hooks, "Bearer "+strings.TrimSpace(string(token)), requestTimeout.Seconds())
	for _, check := range checks {
		fmt.Fprintf(&b, "%s.enabled = true\n", check)
	}
	b.WriteString(more)
	file := filepath.Join(t.TempDir(), "schemathesis.toml")
	if err := os.WriteFile(file, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// pinned sets names that exist.
func pinned() string {
	var b strings.Builder
	for service, key := range keys {
		fmt.Fprintf(&b, "[[operations]]\ninclude-path-regex = '^/%s/\\{name\\}/'\n"+
			"parameters = { \"path.name\" = %q, \"header.If-Match\" = \"*\", \"path.ports_name\" = \"port1\"%s }\n",
			service, service+"1", key)
	}
	return b.String()
}

// endless are the paths of streams, which have no end and are left out.
const endless = "^/(trace|capture|events)"

// schemathesis runs on a daemon that has some cubes, finds nothing, and returns its report.
func (d *daemon) schemathesis(t *testing.T, cubes, settings string, args ...string) string {
	t.Helper()
	if status, body, err := d.Request(http.MethodPost, "/cubes", cubes); err != nil || status != http.StatusCreated {
		t.Fatalf("status %d, %v: %s", status, err, body)
	}
	args = append([]string{"--config-file", settings, "run", "http://localhost:" + apiPort + "/openapi.json", "--no-color", "--warnings", "off",
		"--seed", "1"}, args...)
	cmd := d.lab.Command(python(t, "schemathesis"), args...)
	cmd.Dir = t.TempDir() // it writes reports where it runs
	r := run(t, cmd, "")
	if r.code != 0 {
		t.Error(r)
	}
	if _, summary, ok := strings.Cut(r.stdout, "= SUMMARY ="); ok {
		t.Log(summary)
	}
	d.Alive()
	return r.stdout
}

// TestSchemathesisFindsNothing: no answer is a failure of the daemon, and none is not described. Help is left out in the
// short form, and most services.
func TestSchemathesisFindsNothing(t *testing.T) {
	t.Parallel()
	python(t, "schemathesis")
	m := newMachine(t)
	for _, name := range []string{"hello", "bridge", "station", "routed", "sorted"} {
		m.lab.Host(name, "")
	}
	args := []string{"--max-examples", "1", "--phases", "examples,fuzzing", "--exclude-method", "OPTIONS"}
	if soak {
		args = []string{"--max-examples", "100", "--phases", "examples,coverage,fuzzing"}
	}
	d := m.Start("--port", apiPort)
	args = append(args, "--exclude-path-regex", endless+"|"+d.leftOut(t))
	said := d.schemathesis(t, inhabitants, settings(t, d, "hooks.py", checks, pinned()), args...)
	counts := regexp.MustCompile(`(?s)Selected: (\d+)/\d+\s+Tested: (\d+)`).FindStringSubmatch(said)
	if counts == nil || counts[1] != counts[2] || len(counts[1]) < 3 {
		t.Errorf("not all operations were tested, %q:\n%s", counts, said)
	}
}

// grounds are cubes in which most entries can be created at once.
const grounds = `[{"name":"simplebridge1","service-name":"simplebridge","ports":[{"name":"port1"}]},
	{"name":"simpleforwarder1","service-name":"simpleforwarder","ports":[{"name":"port1"}]},
	{"name":"bridge1","service-name":"bridge","stp-enabled":true,"ports":[{"name":"port1","mode":"trunk"}]},
	{"name":"router1","service-name":"router","ports":[{"name":"port1","ip":"10.0.1.1/24"}]},
	{"name":"lbrp1","service-name":"lbrp","port_mode":"MULTI"},
	{"name":"pbforwarder1","service-name":"pbforwarder","ports":[{"name":"port1"}]}]`

// TestChainsOfRequests: schemathesis follows the links of the description, from a created object to reading, changing,
// deleting it, and creating more in it, in any order. Created objects exist, deleted ones do not, and no other check
// fails that applies to single requests. Entries of the lists stp exist while a spanning tree does, whatever is
// deleted.
func TestChainsOfRequests(t *testing.T) {
	t.Parallel()
	args, steps, least := []string{"--max-examples", "12", "--mode", "positive"}, 24, 15
	if soak {
		args, steps, least = []string{"--max-time", "900"}, 50, 50
	}
	args = append(args, "--exclude-path-regex", endless+"|/stp(/|$)")
	chains := fmt.Sprintf("[phases.stateful]\nmax-steps = %d\n[phases.stateful.inference]\nalgorithms = []\n", steps)
	followLinks(t, slices.Concat(checks, []string{"use_after_free", "ensure_resource_availability"}), chains, args, least)
}

// TestChainsByInferredLinks: the same with some thousand links that the tool infers. Some of these lead to nodes that
// need not exist after a creation (a leaf), or that stay after a deletion (a default).
func TestChainsByInferredLinks(t *testing.T) {
	if !soak {
		t.Skip("the long form alone: POLYCUBE_SOAK=1")
	}
	t.Parallel()
	args := []string{"--max-time", "900", "--exclude-path-regex", endless}
	followLinks(t, checks, "[phases.stateful]\nmax-steps = 50\n", args, 300)
}

// followLinks makes schemathesis follow at least a number of links.
func followLinks(t *testing.T, checks []string, chains string, args []string, least int) {
	t.Helper()
	python(t, "schemathesis")
	d := newMachine(t).Start("--port", apiPort)
	said := d.schemathesis(t, grounds, settings(t, d, "chains.py", checks, chains), append(args, "--phases", "stateful", "--exclude-method", "OPTIONS")...)
	covered := 0
	if m := regexp.MustCompile(`API Links: +(\d+) covered`).FindStringSubmatch(said); m != nil {
		covered, _ = strconv.Atoi(m[1])
	}
	t.Logf("%d links were followed", covered)
	if covered < least {
		t.Errorf("%d links were followed, want %d:\n%s", covered, least, said)
	}
}

// TestExamplesOfTheDescriptionAreTaken: the description's example bodies create a cube or an entry.
func TestExamplesOfTheDescriptionAreTaken(t *testing.T) {
	t.Parallel()
	d := start(t)
	var described struct {
		Paths map[string]struct {
			Parameters []struct {
				Name    string
				Example any
			}
			Post struct {
				RequestBody struct {
					Content map[string]struct{ Example any }
				}
				Responses map[string]any
			}
		}
	}
	d.Get("/openapi.json", &described)
	d.Must(http.StatusCreated, "POST", "/cubes", grounds)
	tried := 0
	for _, path := range slices.Sorted(maps.Keys(described.Paths)) {
		p := described.Paths[path]
		example, ok := p.Post.RequestBody.Content["application/json"].Example.(map[string]any)
		container := strings.Count(path, "/") > 1 && !strings.HasSuffix(path, "}") // whether it can be there depends on others
		// A set has one of two lists, and the example of a set is one with elements; a NAT has one of two kinds of rules, a gtphandler of sessions.
		other := strings.Contains(path, "/prefixes/") || strings.HasPrefix(path, "/nat/{name}/table/") || strings.Contains(path, "/ethernet-session/")
		if !ok || p.Post.Responses["201"] == nil || container || other {
			continue
		}
		delete(example, "peer") // a port's: no other is there
		if strings.Contains(path, "/outputs/") {
			example["to"] = "bridge1:port1" // nor a netdev
		}
		at := path
		for _, q := range p.Parameters {
			at = strings.ReplaceAll(at, "{"+q.Name+"}", url.PathEscape(fmt.Sprint(q.Example)))
		}
		body, err := json.Marshal(example)
		if err != nil {
			t.Fatal(err)
		}
		tried++
		if status, text, err := d.Request("POST", at, string(body)); err != nil || status != http.StatusCreated && status != http.StatusConflict {
			t.Errorf("POST %s %s: %d, %v: %s", at, body, status, err, clip(text))
		}
	}
	if tried < 20 {
		t.Errorf("only %d examples were tried", tried)
	}
}
