// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/suggest"
)

// What a request says, beside its path and its body: the command, the parameters, and the verb of a command line.

// readOnly methods change nothing.
func readOnly(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// commandName is the first segment of the request's path.
func commandName(r *http.Request) string {
	segments, err := splitPath(r.URL.EscapedPath())
	if err != nil || len(segments) == 0 {
		return ""
	}
	return segments[0]
}

// commandOnly accepts POST of the bare command; longer paths exist for completion only.
func commandOnly(r *http.Request, rest []string) error {
	if len(rest) > 0 {
		return allow(r, http.MethodOptions)
	}
	return allow(r, http.MethodPost, http.MethodOptions)
}

// readMembers reads an object of strings that has every required member and no unknown one.
func readMembers(w http.ResponseWriter, r *http.Request, required, optional []string) (map[string]string, error) {
	body, err := readBody(w, r)
	if err != nil {
		return nil, err
	}
	if body == nil && len(required) == 0 {
		return map[string]string{}, nil
	}
	if body == nil {
		return nil, missingMember(required[0])
	}
	var raw map[string]json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil || raw == nil {
		return nil, &problem{Status: http.StatusBadRequest, Tag: tagInvalidValue, Message: "the request body has to be a JSON object"}
	}
	out := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		if !slices.Contains(required, name) && !slices.Contains(optional, name) {
			return nil, &problem{Status: http.StatusBadRequest, Tag: tagInvalidValue, Field: name,
				Near:    suggest.Near(name, slices.Concat(required, optional)),
				Message: fmt.Sprintf("%s is not a member of this request", clip(name))}
		}
		var value *string
		if err := json.Unmarshal(raw[name], &value); err != nil || value == nil {
			return nil, &problem{Status: http.StatusBadRequest, Tag: tagInvalidValue, Field: name,
				Message: fmt.Sprintf("%s: has to be a string", name)}
		}
		out[name] = *value
	}
	for _, name := range required {
		if out[name] == "" {
			return nil, missingMember(name)
		}
	}
	return out, nil
}

// done ends a command: 200 without a body, or what was wrong.
func done(w http.ResponseWriter, r *http.Request, err error) error {
	if err == nil {
		w.WriteHeader(http.StatusOK)
	}
	return asBadRequest(r.Method, err)
}

// queryOf are the parameters of a request, of which others than these are mistakes.
func queryOf(r *http.Request, known ...string) (url.Values, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badPath("the query cannot be read: %v", err)
	}
	for name := range q {
		if !slices.Contains(known, name) {
			p := badPath("unknown parameter %s, known are: %s", clip(name), strings.Join(known, ", "))
			p.Near = suggest.Near(name, known)
			return nil, p
		}
	}
	return q, nil
}

func parseRevision(what, text string) (uint64, error) {
	revision, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, badPath("%s %s: a revision is a number", what, clip(text))
	}
	return revision, nil
}
