// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/message"
)

// serveMetrics answers a scrape, in OpenMetrics for those who ask for it.
func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return s.helpShow(w, r, nil)
	}
	format := metrics.Text
	if wantsOpenMetrics(r.Header.Values("Accept")) {
		format = metrics.OpenMetrics
	}
	w.Header().Set("Content-Type", format.ContentType())
	w.WriteHeader(http.StatusOK)
	if r.Method == http.MethodHead {
		return nil
	}
	if err := s.exporter.Write(r.Context(), w, format); err != nil {
		s.log.Debug("client went away", "path", r.URL.Path, "err", err)
	}
	return nil
}

// wantsOpenMetrics tells whether OpenMetrics 1.0 is what a client likes best of the two formats.
func wantsOpenMetrics(accept []string) bool {
	best, open := 0.0, false
	for _, line := range accept {
		for _, part := range strings.Split(line, ",") {
			kind, params, err := mime.ParseMediaType(part)
			if err != nil {
				continue
			}
			q := 1.0
			if text, ok := params["q"]; ok {
				if q, err = strconv.ParseFloat(text, 64); err != nil {
					continue
				}
			}
			version := params["version"]
			isOpen := kind == "application/openmetrics-text" && (version == "" || version == "1.0.0")
			if (isOpen || kind == "text/plain" || kind == "*/*") && q > best {
				best, open = q, isOpen
			}
		}
	}
	return open
}

// measure counts a request that was answered. Streams last as long as somebody looks, which is no figure of the API.
func (s *Server) measure(rec *recorder, r *http.Request, took time.Duration) {
	switch kind, _, _ := mime.ParseMediaType(rec.Header().Get("Content-Type")); kind {
	case message.NDJSON, message.PcapNG, message.EventStream:
	default:
		s.exporter.Requests.Done(r.Method, s.pattern(r), rec.status, took)
	}
}

// pattern is a request's path with the names of things left out, "" for what is no path of the API: a label with few
// values.
func (s *Server) pattern(r *http.Request) string {
	switch r.URL.Path {
	case "/metrics", "/healthz", "/readyz", "/openapi.json":
		return r.URL.Path
	}
	segments, err := message.SplitPath(r.URL.EscapedPath())
	if err != nil {
		return ""
	}
	if len(segments) == 0 {
		return "/"
	}
	if f, ok := framework(segments[0]); ok {
		return "/" + segments[0] + strings.Repeat("/{}", min(f.most, len(segments)-1))
	}
	if !s.hasService(segments[0]) {
		return ""
	}
	return []string{"/{service}", "/{service}/{cube}", "/{service}/{cube}/{path}"}[min(len(segments), 3)-1]
}

// denialReason is the label of a refusal: of who asks, or of how.
func denialReason(err error) string {
	switch status, _ := message.Classify(http.MethodGet, err); status {
	case http.StatusUnauthorized:
		return "no-credentials"
	case http.StatusForbidden:
		return "forbidden"
	case http.StatusTooManyRequests:
		return "rate"
	case http.StatusUnsupportedMediaType:
		return "body"
	}
	return "other"
}
