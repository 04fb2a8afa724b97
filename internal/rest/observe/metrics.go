// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/metrics"
	"github.com/polycube/polycube/internal/rest/message"
)

// ServeMetrics handles a scrape, in OpenMetrics if the client accepts that.
func (o *Observer) ServeMetrics(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return o.help.Show(w, r, nil)
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
	if err := o.exporter.Write(r.Context(), w, format); err != nil {
		o.log.Debug("client went away", "path", r.URL.Path, "err", err)
	}
	return nil
}

// wantsOpenMetrics reports whether a client prefers OpenMetrics 1.0 of the two formats.
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
