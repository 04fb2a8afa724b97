// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/rest/message"
)

// BenchmarkBody: what a body costs until the cube exists, by the path that it takes. The router is called without a
// connection.
func BenchmarkBody(b *testing.B) {
	routes := make([]string, 500)
	for i := range routes {
		routes[i] = fmt.Sprintf(`{"network":"10.%d.%d.0/24","nexthop":"1.1.1.1","pathcost":1}`, i/250, i%250)
	}
	list := `"ports":[{"name":"p1"}],"route":[` + strings.Join(routes, ",") + `]`
	for _, bb := range []struct{ name, path, body string }{
		{"the path names the cube", "/lab/l1", `{` + list + `}`},
		{"body and path name the cube", "/lab/l1", `{"name":"l1",` + list + `}`},
		{"an array of a service", "/lab/", `[{"name":"l1",` + list + `}]`},
		{"an array of cubes", "/cubes", `[{"name":"l1","service-name":"lab",` + list + `}]`},
	} {
		b.Run(bb.name, func(b *testing.B) {
			l := newLab(b, Options{}, false)
			ask := func(method, path, body string) {
				w := httptest.NewRecorder()
				r := httptest.NewRequest(method, "http://daemon"+message.BasePath+path, strings.NewReader(body))
				if err := l.server.route(w, r); err != nil || w.Code >= http.StatusBadRequest {
					b.Fatal(err, w.Code)
				}
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(bb.body)))
			for b.Loop() {
				ask("POST", bb.path, bb.body)
				b.StopTimer()
				ask("DELETE", "/lab/l1", "")
				b.StartTimer()
			}
		})
	}
}
