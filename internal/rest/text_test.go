// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestALeafIsTextForClientsThatAcceptNoJSON(t *testing.T) {
	l := newLab(t, Options{}, false)
	l.must(t, http.StatusCreated, http.MethodPost, "/lab/c", "{}")
	for _, tt := range []struct{ path, accept, kind, body string }{
		{"/lab/c/service-name", "", "application/yang.data+json", `"lab"`},
		{"/lab/c/service-name", "*/*", "application/yang.data+json", `"lab"`},
		{"/lab/c/service-name", "text/plain", "text/plain; charset=utf-8", "lab"},
		{"/lab/c/service-name", "text/plain;q=0.5, application/json", "application/yang.data+json", `"lab"`},
		{"/lab/c/service-name", "application/openmetrics-text;version=1.0.0,text/plain;q=0.5,*/*;q=0.1", "text/plain; charset=utf-8", "lab"},
		{"/lab/c", "text/plain", "application/yang.data+json", "{"},
	} {
		req, err := http.NewRequest(http.MethodGet, "http://polycube/polycube/v1"+tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if tt.accept != "" {
			req.Header.Set("Accept", tt.accept)
		}
		resp, err := l.client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != tt.kind || !strings.HasPrefix(string(body), tt.body) {
			t.Errorf("%s for %q: %d %q %s (%v), want %q %s", tt.path, tt.accept, resp.StatusCode, resp.Header.Get("Content-Type"), body, err, tt.kind, tt.body)
		}
	}
}
