// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/commands"
)

// operationsOf are the methods and paths of the table, and those that the daemon describes under its own tag. Help is
// every path's.
func operationsOf(t *testing.T, l *lab) (tabled, described map[string]string) {
	tabled, described = map[string]string{}, map[string]string{}
	for _, c := range commands.All() {
		if c.Resource == nil {
			continue
		}
		for _, o := range c.Resource.Operations {
			tabled[o.Method+" "+o.Path] = o.Summary
		}
	}
	var d struct {
		Paths map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(l.must(t, 200, "GET", "/openapi.json", "").body), &d); err != nil {
		t.Fatal(err)
	}
	for path, methods := range d.Paths {
		for method, raw := range methods {
			var o struct {
				Summary string
				Tags    []string
			}
			if method == "parameters" || method == "options" || path == "/" {
				continue
			}
			if err := json.Unmarshal(raw, &o); err != nil {
				t.Fatal(err)
			}
			if slices.Equal(o.Tags, []string{"polycube"}) {
				described[strings.ToUpper(method)+" "+path] = o.Summary
			}
		}
	}
	return tabled, described
}

// TestTheTableOfCommandsIsWhatIsServed: each of its words is served, described, completed and explained, and nothing else is.
// That what is described is served, method by method, is TestDescriptionAgreesWithTheRouter.
func TestTheTableOfCommandsIsWhatIsServed(t *testing.T) {
	l := newLab(t, Options{}, false)
	tabled, described := operationsOf(t, l)
	if !maps.Equal(tabled, described) {
		t.Errorf("in the table:\n%v\ndescribed:\n%v", tabled, described)
	}
	var served, offered []string
	for _, c := range commands.All() {
		if c.Resource == nil {
			if a := l.do(t, "GET", "/"+c.Name, ""); a.status != http.StatusNotFound {
				t.Errorf("%s is no resource in the table and answers %d", c.Name, a.status)
			}
			continue
		}
		served = append(served, c.Name)
		l.must(t, 200, "OPTIONS", "/"+c.Name+"?help=NONE", "")
		if c.Resource.Offered {
			offered = append(offered, c.Name)
		}
		if c.Resource.Conditional {
			continue
		}
		for _, o := range c.Resource.Operations {
			if o.Method == http.MethodPost && o.Path == "/"+c.Name && len(o.Required()) > 0 {
				l.must(t, 400, "POST", o.Path, "{}")
			}
		}
	}
	if handled := slices.Sorted(maps.Keys(l.server.handlers)); !slices.Equal(handled, slices.Sorted(slices.Values(served))) {
		t.Errorf("handlers for %v, in the table %v", handled, served)
	}
	var words []string
	if err := json.Unmarshal([]byte(l.must(t, 200, "OPTIONS", "/?completion", "").body), &words); err != nil {
		t.Fatal(err)
	}
	words = slices.DeleteFunc(words, func(w string) bool { return w == "lab" || w == "tap" })
	if !slices.Equal(words, offered) {
		t.Errorf("completion offers %v, the table %v", words, offered)
	}
}

// TestNoCubeHasTheNameOfACommand: every word of the table is refused as the name of a cube.
func TestNoCubeHasTheNameOfACommand(t *testing.T) {
	l := newLab(t, Options{}, false)
	for _, name := range commands.Reserved() {
		l.must(t, 400, "POST", "/lab/"+name, "")
	}
	for _, c := range commands.All() {
		if c.Unreserved {
			l.must(t, 201, "POST", "/lab/"+c.Name, "")
		}
	}
}
