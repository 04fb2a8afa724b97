// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/yang"
)

// described is what the tests read of a document.
type described struct {
	OpenAPI string                                `json:"openapi"`
	Paths   map[string]map[string]json.RawMessage `json:"paths"`
	Tags    []struct{ Name string }               `json:"tags"`
}

func (l *lab) described(t *testing.T, version string) (described, string) {
	t.Helper()
	a := l.must(t, http.StatusOK, "GET", "/openapi.json"+version, "")
	var d described
	if err := json.Unmarshal([]byte(a.body), &d); err != nil {
		t.Fatal(err)
	}
	return d, a.body
}

// values are what the parameters of paths stand for in these tests.
var values = map[string]string{"place": "veth1", "address": "aa:aa:aa:aa:aa:aa", "network": "10.0.0.0%2F8", "nexthop": "1.1.1.1", "ports_name": "p1"}

// fill puts values in place of parameters.
func fill(path, service string) string {
	return regexp.MustCompile(`\{([^}]*)\}`).ReplaceAllStringFunc(path, func(p string) string {
		p = p[1 : len(p)-1]
		switch value, ok := values[p]; {
		case ok:
			return value
		case p == "name" && service == "services":
			return "lab"
		case p == "name" && service == "netdevs":
			return "veth1"
		case service == "tap":
			return "t1"
		}
		return "l1"
	})
}

// TestDescriptionAgreesWithTheRouter: the methods that are documented are those that a 405 lists, for every path there is.
func TestDescriptionAgreesWithTheRouter(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, 201, "POST", "/cubes", labSetUp)
	d, _ := l.described(t, "")
	for path, item := range d.Paths {
		first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		a := l.do(t, "TRACE", fill(path, first), "")
		var documented []string
		for name := range item {
			if name != "parameters" {
				documented = append(documented, strings.ToUpper(name))
			}
		}
		allowed := strings.Split(a.header.Get("Allow"), ", ")
		slices.Sort(allowed)
		slices.Sort(documented)
		if a.status != http.StatusMethodNotAllowed || !slices.Equal(allowed, documented) {
			t.Errorf("%s: status %d, allowed %v, documented %v", path, a.status, allowed, documented)
		}
	}
}

// TestEveryResourceIsDescribed: each resource of the framework and each node of each model has a path.
func TestEveryResourceIsDescribed(t *testing.T) {
	l := newLab(t, Options{}, false)
	d, _ := l.described(t, "")
	for _, c := range commands.All() {
		if c.Resource != nil && d.Paths["/"+c.Name] == nil {
			t.Errorf("%s is served and not described: add it to frameworkPaths", c.Name)
		}
	}
	for _, service := range []string{"lab", "tap"} {
		schema, err := l.server.manager.Schema(service)
		if err != nil {
			t.Fatal(err)
		}
		names := map[string]bool{}
		for path := range d.Paths {
			names[regexp.MustCompile(`/\{[^}]*\}`).ReplaceAllString(path, "")] = true
		}
		var look func(n *yang.Node)
		look = func(n *yang.Node) {
			for _, c := range n.Children() {
				if !names["/"+service+"/"+c.Path()] {
					t.Errorf("%s %s has no path", service, c.Path())
				}
				look(c)
			}
		}
		look(schema.Root())
	}
}

// TestDescriptionHolds: references lead somewhere, operations have names of their own, parameters are declared.
func TestDescriptionHolds(t *testing.T) {
	l := newLab(t, Options{}, false)
	for version, want := range map[string]string{"": "3.1.0", "?version=3.1": "3.1.0", "?version=3.0": "3.0.3"} {
		d, text := l.described(t, version)
		if d.OpenAPI != want {
			t.Errorf("%s: openapi %s, want %s", version, d.OpenAPI, want)
		}
		var document any
		if err := json.Unmarshal([]byte(text), &document); err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`"\$ref":"#/([^"]*)"`).FindAllStringSubmatch(text, -1) {
			at := document
			for part := range strings.SplitSeq(m[1], "/") {
				object, _ := at.(map[string]any)
				at = object[part]
			}
			if at == nil {
				t.Errorf("%s: %s leads nowhere", version, m[0])
			}
		}
		seen := map[string]bool{}
		for _, m := range regexp.MustCompile(`"operationId":"([^"]*)","summary"`).FindAllStringSubmatch(text, -1) {
			if seen[m[1]] {
				t.Errorf("%s: two operations are %s", version, m[1])
			}
			seen[m[1]] = true
		}
		for path, item := range d.Paths {
			checkParameters(t, path, item["parameters"])
		}
		if want == "3.0.3" && regexp.MustCompile(`mutualTLS|"examples":\[|contentEncoding|"identifier"`).MatchString(text) {
			t.Error("the document of 3.0 has what only 3.1 has")
		}
	}
}

// checkParameters compares the parameters of a path with those that are declared.
func checkParameters(t *testing.T, path string, raw json.RawMessage) {
	t.Helper()
	var declared []struct{ Name string }
	if raw != nil {
		if err := json.Unmarshal(raw, &declared); err != nil {
			t.Fatal(err)
		}
	}
	var in []string
	for _, m := range regexp.MustCompile(`\{([^}]*)\}`).FindAllStringSubmatch(path, -1) {
		in = append(in, m[1])
	}
	names := map[string]bool{}
	for _, p := range declared {
		names[p.Name] = true
	}
	if slices.Sort(in); !slices.Equal(in, slices.Sorted(maps.Keys(names))) || len(names) != len(declared) {
		t.Errorf("%s: declared are %v", path, declared)
	}
}

// TestLinksOfTheDescription: what was created is linked to what can be done with it and created in it; a link leads to an
// operation, with parameters that its path has.
func TestLinksOfTheDescription(t *testing.T) {
	l := newLab(t, Options{}, false)
	d, _ := l.described(t, "")
	type operation struct {
		ID        string `json:"operationId"`
		Responses map[string]struct {
			Links map[string]struct {
				OperationID string            `json:"operationId"`
				Parameters  map[string]string `json:"parameters"`
			} `json:"links"`
		} `json:"responses"`
	}
	operations, pathOf := map[string]operation{}, map[string]string{}
	for path, item := range d.Paths {
		for method, raw := range item {
			if method == "parameters" {
				continue
			}
			var o operation
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			operations[method+" "+path], pathOf[o.ID] = o, path
		}
	}
	for from, want := range map[string]string{
		"post /lab":                                  "delete get patch post_fdb_entry post_ports post_route",
		"post /lab/{name}":                           "delete get patch post_fdb_entry post_ports post_route",
		"put /lab/{name}":                            "delete get patch post_fdb_entry post_ports post_route",
		"post /lab/{name}/ports/{ports_name}":        "delete get patch",
		"post /lab/{name}/ports":                     "",
		"get /lab/{name}":                            "",
		"post /lab/{name}/route/{network}/{nexthop}": "delete get patch",
	} {
		var names []string
		for name, link := range operations[from].Responses["201"].Links {
			names = append(names, name)
			for p := range link.Parameters {
				if to := pathOf[link.OperationID]; !strings.Contains(to, "{"+p+"}") {
					t.Errorf("%s: link %s to %q has parameter %s", from, name, to, p)
				}
			}
		}
		if slices.Sort(names); strings.Join(names, " ") != want || operations[from].ID == "" {
			t.Errorf("%s (%s) has links %v, want %s", from, operations[from].ID, names, want)
		}
	}
}

func TestDescriptionIsAskedFor(t *testing.T) {
	l := newLab(t, Options{}, false)
	a := l.must(t, http.StatusOK, "GET", "/openapi.json", "")
	tag := a.header.Get("ETag")
	if tag == "" || a.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers %v", a.header)
	}
	req, err := http.NewRequest("GET", "http://daemon/openapi.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	if again := l.send(t, l.client, req); again.status != http.StatusOK || again.body != a.body {
		t.Errorf("/openapi.json at the root: status %d, %d bytes, want %d", again.status, len(again.body), len(a.body))
	}
	req.Header.Set("If-None-Match", `"other", `+tag)
	if same := l.send(t, l.client, req); same.status != http.StatusNotModified || same.body != "" {
		t.Errorf("with the tag that it has: status %d, %d bytes", same.status, len(same.body))
	}
	if e := l.must(t, http.StatusBadRequest, "GET", "/openapi.json?version=2.0", "").fault(t); !strings.Contains(e.Message, "3.1 or 3.0") {
		t.Errorf("an unknown version: %s", e.Message)
	}
}

// TestServicesThatComeAndGoAreDescribed: the description is of what is loaded now.
func TestServicesThatComeAndGoAreDescribed(t *testing.T) {
	l := newLab(t, Options{}, false)
	has := func(want bool) {
		t.Helper()
		if d, _ := l.described(t, ""); (d.Paths["/lodger/{name}/capture"] != nil) != want || d.Paths["/lab/{name}"] == nil {
			t.Errorf("lodger is described: %t, want %t", !want, want)
		}
	}
	before := l.must(t, http.StatusOK, "GET", "/openapi.json", "")
	has(false)
	l.must(t, http.StatusOK, "POST", "/services", `{"type":"grpc","uri":"home","name":"lodger"}`)
	has(true)
	l.must(t, http.StatusNoContent, "DELETE", "/services/lodger", "")
	has(false)
	if after := l.must(t, http.StatusOK, "GET", "/openapi.json", ""); after.header.Get("ETag") != before.header.Get("ETag") {
		t.Error("the same services are described in another way")
	}
}
