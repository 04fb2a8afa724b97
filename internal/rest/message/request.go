// SPDX-License-Identifier: Apache-2.0

package message

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/suggest"
)

// Parts of a request in addition to path and body: the command, the parameters, and the verb of a command line.

// ReadOnly methods change nothing.
func ReadOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// CommandName is the first segment of the request's path.
func CommandName(r *http.Request) string {
	segments, err := SplitPath(r.URL.EscapedPath())
	if err != nil || len(segments) == 0 {
		return ""
	}
	return segments[0]
}

// CommandOnly accepts POST of the bare command; longer paths are only for completion.
func CommandOnly(r *http.Request, rest []string) error {
	if len(rest) > 0 {
		return Allow(r, http.MethodOptions)
	}
	return Allow(r, http.MethodPost, http.MethodOptions)
}

// ReadMembers reads an object of strings that has every required member and no unknown one.
func ReadMembers(w http.ResponseWriter, r *http.Request, required, optional []string) (map[string]string, error) {
	body, err := ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	if body == nil && len(required) == 0 {
		return map[string]string{}, nil
	}
	if body == nil {
		return nil, MissingMember(required[0])
	}
	object, ok := jsonscan.ReadObject(body)
	if !ok {
		return nil, &Error{Status: http.StatusBadRequest, Tag: TagInvalidValue, Message: "the request body must be a JSON object"}
	}
	out := map[string]string{}
	for _, name := range object.Names() {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			return nil, &Error{Status: http.StatusBadRequest, Tag: TagInvalidValue, Field: name,
				Near:    suggest.Near(name, slices.Concat(required, optional)),
				Message: fmt.Sprintf("unknown member %s in this request", Clip(name))}
		}
		var value *string
		raw, _ := object.Get(name)
		if err := json.Unmarshal(raw, &value); err != nil || value == nil {
			return nil, &Error{Status: http.StatusBadRequest, Tag: TagInvalidValue, Field: name,
				Message: fmt.Sprintf("%s: must be a string", name)}
		}
		out[name] = *value
	}
	for _, name := range required {
		if out[name] == "" {
			return nil, MissingMember(name)
		}
	}
	return out, nil
}

// Done ends a command: 200 without a body, or the error.
func Done(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusOK)
	}
	return AsBadRequest(r.Method, err)
}

// QueryOf returns the parameters of a request; any other than these is an error.
func QueryOf(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, BadPath("cannot parse the query: %v", err)
	}
	for name := range q {
		if !slices.Contains(known, name) {
			p := BadPath("unknown parameter %s, the parameters are: %s", Clip(name), strings.Join(known, ", "))
			p.Near = suggest.Near(name, known)
			return nil, p
		}
	}
	return q, nil
}

// ParseRevision parses the number of a revision; what is the name of the parameter for the error.
func ParseRevision(what, text string) (uint64, error) {
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, BadPath("%s %s: a revision must be a number", what, Clip(text))
	}
	return revision, nil
}
