// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/polycube/polycube/internal/rest/resource"
)

// Content types of a leaf as text.
const (
	plainText   = "text/plain"
	openMetrics = "application/openmetrics-text"
	// leafOpenMetrics is the name of leaves whose text is in that format.
	leafOpenMetrics = "open-metrics"
)

// textFor returns the text of a leaf for a client that accepts text and no JSON, such as Prometheus, and its content type; ""
// for any other client, and for a leaf that is not a string.
func textFor(r *http.Request, t *resource.Target, raw []byte) (text, contentType string) {
	if t.Kind != resource.KindLeaf || len(raw) == 0 || raw[0] != '"' {
		return "", ""
	}
	for _, line := range r.Header.Values("Accept") {
		for _, part := range strings.Split(line, ",") {
			kind, _, err := mime.ParseMediaType(part)
			switch {
			case err != nil:
			case strings.HasSuffix(kind, "json"):
				return "", ""
			case kind == openMetrics && t.Node.Name() == leafOpenMetrics:
				contentType = openMetrics + "; version=1.0.0; charset=utf-8"
			case kind == plainText && contentType == "":
				contentType = plainText + "; charset=utf-8"
			}
		}
	}
	if contentType == "" || json.Unmarshal(raw, &text) != nil {
		return "", ""
	}
	return text, contentType
}

// sendText answers with text.
func (c *Routes) sendText(w http.ResponseWriter, r *http.Request, text, contentType string) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Add("Vary", "Accept")
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write([]byte(text)) // the client may have gone away
	}
}
