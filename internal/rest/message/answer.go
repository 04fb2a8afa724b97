// SPDX-License-Identifier: Apache-2.0

package message

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

// Responses: JSON, the methods of a resource, and links.

// Content types of responses.
const (
	// ContentType is that of every response but metrics and streams.
	ContentType = "application/yang.data+json"
	// NDJSON, PcapNG and EventStream are streams, which last until the client stops reading.
	NDJSON      = "application/x-ndjson"
	PcapNG      = "application/x-pcapng"
	EventStream = "text/event-stream"
)

// Sender writes JSON responses.
type Sender struct{ Log *slog.Logger }

// Raw sends JSON as it is.
func (s Sender) Raw(w http.ResponseWriter, r *http.Request, status int, body []byte) {
	h := w.Header()
	if len(body) > 0 {
		h.Set("Content-Type", ContentType)
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(status)
	if len(body) == 0 || r.Method == http.MethodHead {
		return
	}
	if _, err := w.Write(body); err != nil {
		s.Log.Debug("client went away", "path", r.URL.EscapedPath(), "err", err)
	}
}

// JSON sends a value as JSON.
func (s Sender) JSON(w http.ResponseWriter, r *http.Request, status int, v any) error {
	raw, err := Encode(v)
	if err != nil {
		return err
	}
	s.Raw(w, r, status, raw)
	return nil
}

// Encode is JSON without the escapes that only HTML needs.
func Encode(v any) (json.RawMessage, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, fmt.Errorf("encode the response: %w", err)
	}
	return bytes.TrimRight(b.Bytes(), "\n"), nil
}

// SetAllow sets the methods of a resource.
func SetAllow(h http.Header, methods []string) { h.Set("Allow", strings.Join(methods, ", ")) }

// Allow refuses a method that the resource does not support. HEAD is allowed where GET is.
func Allow(r *http.Request, methods ...string) error {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet
	}
	if slices.Contains(methods, method) {
		return nil
	}
	return &Error{Status: http.StatusMethodNotAllowed, Tag: TagUnsupported, Allow: methods,
		Message: fmt.Sprintf("%s is not supported on %s, only %s", Clip(r.Method), Clip(r.URL.Path), strings.Join(methods, ", "))}
}

// Link is one entry of _links.
type Link struct {
	Rel  string `json:"rel"`
	Href string `json:"href"`
}

// SetLinkHeader writes links as one header; entries beyond the limit are omitted.
func SetLinkHeader(h http.Header, links []Link) {
	var b strings.Builder
	for _, l := range links {
		part := fmt.Sprintf("<%s>; rel=%q", l.Href, "item")
		if l.Rel == "self" || l.Rel == "next" {
			part = fmt.Sprintf("<%s>; rel=%q", l.Href, l.Rel)
		}
		if b.Len()+len(part) > MaxLinkHeader {
			break
		}
		if b.Len() > 0 {
			b.WriteString(", ")
		}
		b.WriteString(part)
	}
	h.Set("Link", b.String())
}

// MaxLinkHeader keeps the header of a long list below the limit of common clients.
const MaxLinkHeader = 8 << 10

// AppendLinks adds _links as the last member of an object; anything else is unchanged.
func AppendLinks(raw json.RawMessage, links []Link) json.RawMessage {
	body := bytes.TrimSpace(raw)
	if len(body) < 2 || body[0] != '{' || body[len(body)-1] != '}' {
		return raw
	}
	encoded, err := Encode(links)
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
