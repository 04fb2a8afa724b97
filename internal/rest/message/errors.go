// SPDX-License-Identifier: Apache-2.0

package message

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/suggest"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// One switch decides the status of every error, and one JSON format, RESTCONF's, carries it. Clients of the first API
// check the status and error-tag; people read error-message.

// Tags of errors that do not come from a model; the others are yang.Tag's.
const (
	TagInvalidValue = "invalid-value"
	TagBadElement   = "bad-element"
	TagDataExists   = "data-exists"
	TagDataMissing  = "data-missing"
	TagUnsupported  = "operation-not-supported"
	TagAccessDenied = "access-denied"
	TagMalformed    = "malformed-message"
	TagTooBig       = "too-big"
	tagInUse        = "in-use"
	TagStale        = "stale"
	TagResource     = "resource-denied"
	TagFailed       = "operation-failed"
	TagMissing      = "missing-attribute"
	TagRefused      = "program-refused"
	TagUnconfirmed  = "confirmation-required"
)

// Error is an error with a known status.
type Error struct {
	Status  int
	Tag     string
	Message string
	// Field is the wrong member or segment, for error-info.
	Field string
	// Near are suggestions for a mistyped word.
	Near []string
	// Detail are additional lines, Question is what to ask the user before the request is repeated.
	Detail   []string
	Question string
	// Cause is the wrapped error.
	Cause error
	// Allow lists the methods for a 405 response.
	Allow []string
}

func (p *Error) Error() string { return p.Message }

// ErrorEntry is one error on the wire.
type ErrorEntry struct {
	Type    string `json:"error-type"`
	Tag     string `json:"error-tag"`
	Path    string `json:"error-path,omitempty"`
	Message string `json:"error-message"`
	Info    string `json:"error-info,omitempty"`
	// Near are suggestions; the message has them too.
	Near []string `json:"did-you-mean,omitempty"`
	// Detail are additional lines for people, such as the verifier's output.
	Detail []string `json:"error-detail,omitempty"`
	// Question is for the user who typed the request, to answer with yes or no.
	Question string `json:"question,omitempty"`
}

// ErrorBody is the body of every error response.
type ErrorBody struct {
	Errors struct {
		Error []ErrorEntry `json:"error"`
	} `json:"ietf-restconf:errors"`
}

// Classify maps an error to status and tag. method matters for missing data. For data that the URL names, a read
// returns 404, and deleting or updating returns 409, as always. If the body names something missing (a netdev, a
// peer), the request is a bad request.
func Classify(method string, err error) (int, string) {
	var p *Error
	var y *yang.Error
	var f topology.DocumentErrors
	switch {
	case errors.As(err, &p):
		return p.Status, p.Tag
	case errors.As(err, &f):
		return Classify(http.MethodPut, f[0].Err)
	case errors.As(err, &y):
		return yangStatus(method, y.Tag), string(y.Tag)
	case errors.Is(err, cube.ErrRefused):
		return http.StatusUnprocessableEntity, TagRefused
	case errors.Is(err, cube.ErrNotFound):
		switch {
		case ReadOnly(method):
			return http.StatusNotFound, TagDataMissing
		case method == http.MethodDelete:
			return http.StatusConflict, TagDataMissing
		}
		return http.StatusBadRequest, TagDataMissing
	case errors.Is(err, cube.ErrExists):
		return http.StatusConflict, TagDataExists
	case errors.Is(err, cube.ErrInvalid):
		return http.StatusBadRequest, TagInvalidValue
	case errors.Is(err, cube.ErrInUse):
		return http.StatusConflict, tagInUse
	case errors.Is(err, cube.ErrStale):
		return http.StatusPreconditionFailed, TagStale
	case errors.Is(err, cube.ErrUnsupported):
		return http.StatusBadRequest, TagUnsupported
	case errors.Is(err, cube.ErrUnavailable):
		return http.StatusServiceUnavailable, TagFailed
	case errors.Is(err, cube.ErrFull):
		return http.StatusConflict, TagResource
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, TagFailed
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return http.StatusServiceUnavailable, TagResource // the machine is out of memory at the moment
	}
	return http.StatusInternalServerError, TagFailed
}

// yangStatus is the status of an error from a model.
func yangStatus(method string, tag yang.Tag) int {
	switch {
	case tag == yang.DataExists:
		return http.StatusConflict
	case tag == yang.DataMissing && (method == http.MethodDelete || method == http.MethodPatch):
		return http.StatusConflict
	case tag == yang.DataMissing:
		return http.StatusNotFound
	}
	return http.StatusBadRequest
}

// IsMissing reports whether the data that was read does not exist.
func IsMissing(err error) bool {
	status, _ := Classify(http.MethodGet, err)
	return status == http.StatusNotFound
}

// Meant adds suggestions.
func (e ErrorEntry) Meant(near []string) ErrorEntry {
	e.Near = near
	e.Message += suggest.Question(near)
	return e
}

// AsBadRequest makes every mistake of the client a 400, as the framework's own resources always have. Errors of the
// daemon and of cubes' programs keep their status.
func AsBadRequest(method string, err error) error {
	var p *Error
	if err == nil || errors.As(err, &p) || errors.Is(err, cube.ErrRefused) {
		return err
	}
	status, tag := Classify(method, err)
	if status >= http.StatusInternalServerError {
		return err
	}
	return &Error{Status: http.StatusBadRequest, Tag: tag, Message: err.Error(), Cause: err}
}

// BadPath returns 400 for a wrong path or parameter.
func BadPath(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagInvalidValue, Message: fmt.Sprintf(format, args...)}
}

// NotFound returns 404.
func NotFound(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Tag: TagDataMissing, Message: fmt.Sprintf(format, args...)}
}

// Denied returns 403.
func Denied(format string, args ...any) *Error {
	return &Error{Status: http.StatusForbidden, Tag: TagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

// Unauthorized returns 401.
func Unauthorized(format string, args ...any) *Error {
	return &Error{Status: http.StatusUnauthorized, Tag: TagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagMalformed, Message: fmt.Sprintf(format, args...)}
}

// Stale returns 412 for a change whose entity tag is not the current one.
func Stale(format string, args ...any) *Error {
	return &Error{Status: http.StatusPreconditionFailed, Tag: TagStale, Message: fmt.Sprintf(format, args...)}
}

// MissingMember returns 400 to a body without a required member.
func MissingMember(name string) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagMissing, Field: name,
		Message: fmt.Sprintf("the request body has no member %q", name)}
}
