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

	"github.com/polycube/polycube/internal/rest/message"
)

var linkHeader = regexp.MustCompile(`<([^>]*)>; rel=`)

// linksOf are the links of a response: the entry point's own, the member _links, the header.
func linksOf(t *testing.T, path string, a answer) []message.Link {
	var found []message.Link
	for _, m := range linkHeader.FindAllStringSubmatch(a.header.Get("Link"), -1) {
		found = append(found, message.Link{Rel: "item", Href: m[1]})
	}
	if path == message.BasePath+"/" {
		if err := json.Unmarshal([]byte(a.body), &found); err != nil {
			t.Errorf("the entry point is no list of links: %v", err)
		}
		return found
	}
	var object struct {
		Links []message.Link `json:"_links"`
	}
	if strings.HasPrefix(a.body, "{") && json.Unmarshal([]byte(a.body), &object) == nil {
		found = append(found, object.Links...)
	}
	return found
}

// TestEveryLinkLeadsSomewhere: from the entry point on, each link is a resource that can
// be read, begins with itself, and everything that has members is reached.
func TestEveryLinkLeadsSomewhere(t *testing.T) {
	l := refsLab(t)
	l.must(t, 201, "POST", "/refs/new", `{"set":{"must":"x"},"pool":[{"name":"a/b"},{"name":"50%"},{"name":"ü \"x\""},{"name":"?"}]}`)
	seen := map[string]string{message.BasePath + "/": "the start"}
	for todo := []string{message.BasePath + "/"}; len(todo) > 0; todo = todo[1:] {
		at := todo[0]
		a := l.do(t, "GET", strings.TrimPrefix(at, message.BasePath), "")
		if a.status != http.StatusOK {
			t.Errorf("GET %s, a link of %s: %d %s", at, seen[at], a.status, a.body)
			continue
		}
		links := linksOf(t, at, a)
		if len(links) > 0 && links[0].Href != at {
			t.Errorf("GET %s: its first link is %s, not itself", at, links[0].Href)
		}
		for _, next := range links {
			if !strings.HasPrefix(next.Href, message.BasePath+"/") || !strings.HasSuffix(next.Href, "/") {
				t.Errorf("GET %s: the link %q is none of the API", at, next.Href)
			}
			if seen[next.Href] == "" {
				seen[next.Href] = at
				todo = append(todo, next.Href)
			}
		}
	}
	for _, path := range []string{"/version/", "/services/", "/cubes/", "/netdevs/", "/topology/", "/drops/", "/refs/", "/refs/a/", "/refs/a/ports/p1/peer/",
		"/refs/a/from/p1/IN/rules/7/number/", "/tap/t1/loglevel/", "/refs/new/pool/a%2Fb/", "/refs/new/pool/50%25/name/", "/refs/new/pool/%3F/"} {
		if seen[message.BasePath+path] == "" {
			t.Errorf("no link leads to %s, only to %q", path, slices.Sorted(maps.Keys(seen)))
		}
	}
}
