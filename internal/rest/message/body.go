// SPDX-License-Identifier: Apache-2.0

package message

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"unicode/utf8"
)

// A body is limited in size and depth, and checked to be JSON, before it is interpreted.

// Limits of a request's body.
const (
	MaxBodyBytes = 8 << 20
	maxBodyDepth = 64
)

// ReadBody returns the request's body, nil if it is empty or blank.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	return ReadBodyOf(w, r, MaxBodyBytes)
}

// ReadBodyOf is ReadBody with another limit.
func ReadBodyOf(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooBig(limit)
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, limit))
	var most *http.MaxBytesError
	switch {
	case errors.As(err, &most):
		return nil, tooBig(limit)
	case errors.Is(err, os.ErrDeadlineExceeded):
		return nil, &Error{Status: http.StatusRequestTimeout, Tag: TagMalformed, Message: "the request body did not arrive in time"}
	case err != nil:
		return nil, &Error{Status: http.StatusBadRequest, Tag: TagMalformed,
			Message: fmt.Sprintf("read the request body: %v", err)}
	}
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return nil, nil
	}
	return body, checkJSON(body)
}

func tooBig(limit int64) *Error {
	return &Error{Status: http.StatusRequestEntityTooLarge, Tag: TagTooBig,
		Message: fmt.Sprintf("the request body is larger than %d MiB", limit>>20)}
}

// checkJSON accepts one JSON value in UTF-8 of bounded depth.
func checkJSON(body []byte) error {
	if depth := jsonDepth(body); depth > maxBodyDepth {
		return malformed("the request body is nested deeper than %d levels", maxBodyDepth)
	}
	if !utf8.Valid(body) {
		return malformed("the request body is not UTF-8")
	}
	if json.Valid(body) {
		return nil
	}
	var raw json.RawMessage
	err := json.Unmarshal(body, &raw) // it has the error
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		line, column := position(body, syntax.Offset)
		return malformed("the request body is not JSON: line %d column %d: %v", line, column, syntax)
	}
	if err != nil {
		return malformed("the request body is not JSON: %v", err)
	}
	return nil
}

// position converts the offset of a syntax error, which counts the last byte read, to line and column, starting at 1.
func position(body []byte, offset int64) (line, column int) {
	before := body[:max(0, min(int(offset)-1, len(body)))]
	return 1 + bytes.Count(before, []byte{'\n'}), len(before) - bytes.LastIndexByte(before, '\n')
}

// jsonDepth is the deepest nesting of brackets outside strings. It does not need valid JSON.
func jsonDepth(body []byte) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(body); i++ {
		switch c := body[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}' || c == ']':
			depth--
		}
	}
	return deepest
}
