// SPDX-License-Identifier: Apache-2.0

package front

import (
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/polycube/polycube/internal/rest/message"
)

// A page of another site can make a browser on this machine send requests with the browser's access: loopback, and a
// client certificate. Browsers mark such requests.

// checkOrigin refuses requests that a browser sends for a page of another site.
func checkOrigin(r *http.Request, scheme string) error {
	switch site := r.Header.Get("Sec-Fetch-Site"); site {
	case "", "none", "same-origin":
	default:
		return message.Denied("a request from another site is refused (Sec-Fetch-Site: %s)", message.Clip(site))
	}
	for _, name := range []string{"Origin", "Referer"} {
		for _, from := range r.Header.Values(name) {
			u, err := url.Parse(from)
			if err != nil || u.Scheme != scheme || !strings.EqualFold(u.Host, r.Host) {
				return message.Denied("a request from another site is refused (%s: %s)", name, message.Clip(from))
			}
		}
	}
	return checkForm(r)
}

// checkForm refuses bodies of the types that a page may send to any site without a preflight request, and that no
// client of this API sends. (curl -d sends application/x-www-form-urlencoded, which must be accepted.)
func checkForm(r *http.Request) error {
	if message.ReadOnly(r.Method) {
		return nil
	}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if kind == "text/plain" || kind == "multipart/form-data" {
		return &message.Error{Status: http.StatusUnsupportedMediaType, Tag: message.TagUnsupported,
			Message: "a body of type " + kind + " is refused over TCP: send application/json"}
	}
	return nil
}
