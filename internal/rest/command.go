// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/polycube/polycube/internal/suggest"
)

// Commands (connect, attach …) are POSTs of a flat object of strings.

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
