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

// One switch decides the status of every error, and one shape of JSON, RESTCONF's,
// carries it. Clients of the first API looked at the status and error-tag; people read
// error-message.

// Tags of errors that no model gave rise to; the rest are yang.Tag's.
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

// Error is an error whose status is known already.
type Error struct {
	Status  int
	Tag     string
	Message string
	// Field is what error-info names: the member or segment that is wrong.
	Field string
	// Near are the words that were probably meant.
	Near []string
	// Detail are lines beside the sentence, Question is what a person is to be asked before the request is repeated.
	Detail   []string
	Question string
	// Cause is the error that the problem was made of.
	Cause error
	// Allow lists the methods that a 405 answer names.
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
	// Near is what was probably meant; the message asks the same.
	Near []string `json:"did-you-mean,omitempty"`
	// Detail are lines for people who want to know more: what the verifier says of a program.
	Detail []string `json:"error-detail,omitempty"`
	// Question is for the person who typed the request: it takes a yes.
	Question string `json:"question,omitempty"`
}

// ErrorBody is the body of every answer that is an error.
type ErrorBody struct {
	Errors struct {
		Error []ErrorEntry `json:"error"`
	} `json:"ietf-restconf:errors"`
}

// Classify maps an error to status and tag. method matters for what is missing. Data that
// the URL names: a read answers 404, deleting or updating it answers 409, as ever. A
// thing that the body names (a netdev, a peer) makes the request a bad one.
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
		return http.StatusServiceUnavailable, TagResource // the machine has no room at the moment
	}
	return http.StatusInternalServerError, TagFailed
}

// yangStatus is the status of an error that a model gave rise to.
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

// IsMissing tells whether what was read is not there.
func IsMissing(err error) bool {
	status, _ := Classify(http.MethodGet, err)
	return status == http.StatusNotFound
}

// Meant adds the words that were probably meant.
func (e ErrorEntry) Meant(near []string) ErrorEntry {
	e.Near = near
	e.Message += suggest.Question(near)
	return e
}

// AsBadRequest makes whatever the client did wrong a 400, as the framework's own
// resources have always answered. Faults of the daemon and of cubes' programs keep their status.
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

// BadPath answers 400 to a path or a parameter that is wrong.
func BadPath(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagInvalidValue, Message: fmt.Sprintf(format, args...)}
}

// NotFound answers 404.
func NotFound(format string, args ...any) *Error {
	return &Error{Status: http.StatusNotFound, Tag: TagDataMissing, Message: fmt.Sprintf(format, args...)}
}

// Denied answers 403.
func Denied(format string, args ...any) *Error {
	return &Error{Status: http.StatusForbidden, Tag: TagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

// Unauthorized answers 401.
func Unauthorized(format string, args ...any) *Error {
	return &Error{Status: http.StatusUnauthorized, Tag: TagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagMalformed, Message: fmt.Sprintf(format, args...)}
}

// Stale answers 412 to a change whose entity tag is not the current one.
func Stale(format string, args ...any) *Error {
	return &Error{Status: http.StatusPreconditionFailed, Tag: TagStale, Message: fmt.Sprintf(format, args...)}
}

// MissingMember answers 400 to a body without a required member.
func MissingMember(name string) *Error {
	return &Error{Status: http.StatusBadRequest, Tag: TagMissing, Field: name,
		Message: fmt.Sprintf("the request body has no member %q", name)}
}
