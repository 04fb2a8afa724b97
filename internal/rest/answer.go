// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// How a request is answered: JSON, the methods of a resource, and the links that lead on.

// Content types of answers.
const (
	// contentType is that of every answer but metrics and streams.
	contentType = "application/yang.data+json"
	// ndjson, pcapng and eventStream are streams, which last as long as somebody reads.
	ndjson      = "application/x-ndjson"
	pcapng      = "application/x-pcapng"
	eventStream = "text/event-stream"
)

// sender writes answers of JSON.
type sender struct{ log *slog.Logger }

// raw sends JSON as it is.
func (s sender) raw(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	if len(body) > 0 {
		h.Set("Content-Type", contentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) == 0 || r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		s.log.Debug("client went away", "path", r.URL.EscapedPath(), "err", err)
	}
}

// json sends a value as JSON.
func (s sender) json(w http.ResponseWriter, r *http.Request, status int, v any) error {
	raw, err := encode(v)
	if err != nil {
		return err
	}
	s.raw(w, r, status, raw)
	return nil
}

// encode is JSON without the escapes that only HTML needs.
func encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encoding the answer: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// setAllow names the methods of a resource.
func setAllow(h http.Header, methods []string) { h.Set("Allow", strings.Join(methods, ", ")) }

// allow refuses a method that the resource does not have. HEAD goes where GET does.
func allow(r *http.Request, methods ...string) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if slices.Contains(methods, method) {
		return nil
	}
	return &problem{Status: http.StatusMethodNotAllowed, Tag: tagUnsupported, Allow: methods,
		Message: fmt.Sprintf("%s is not possible on %s, only %s", clip(r.Method), clip(r.URL.Path), strings.Join(methods, ", "))}
}

// link is one entry of _links.
type link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// setLinkHeader writes links as one header; entries beyond the limit are left out.
func setLinkHeader(h http.Header, links []link) {
	var b strings.Builder
	for _, l := range links {
		part := fmt.Sprintf("<%s>; rel=%q", l.Href, "item")
		if l.Rel == "self" || l.Rel == "next" {
			part = fmt.Sprintf("<%s>; rel=%q", l.Href, l.Rel)
		}
		if b.Len()+len(part) > maxLinkHeader {
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(part)
	}
	h.Set("Link", b.String())
}

// maxLinkHeader keeps the header of a long list below what clients accept.
const maxLinkHeader = 8 << 10

// appendLinks adds _links as the last member of an object; anything else stays as it is.
func appendLinks(raw json.RawMessage, links []link) json.RawMessage {
	body := bytes.TrimSpace(raw)
	if len(body) < 2 || body[0] != '{' || body[len(body)-1] != '}' {
		return raw
	}
	encoded, err := encode(links)
	if err != nil {
		return raw
	}
	body = bytes.TrimRight(body[:len(body)-1], " \t\r\n")
	out := slices.Clone(body)
	if len(body) > 1 {
		out = append(out, ',')
	}
	out = append(out, `"_links":`...)
	out = append(out, encoded...)
	return append(out, '}')
}
