// SPDX-License-Identifier: Apache-2.0

package rest

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
	tagInvalidValue = "invalid-value"
	tagBadElement   = "bad-element"
	tagDataExists   = "data-exists"
	tagDataMissing  = "data-missing"
	tagUnsupported  = "operation-not-supported"
	tagAccessDenied = "access-denied"
	tagMalformed    = "malformed-message"
	tagTooBig       = "too-big"
	tagInUse        = "in-use"
	tagStale        = "stale"
	tagResource     = "resource-denied"
	tagFailed       = "operation-failed"
	tagMissing      = "missing-attribute"
	tagRefused      = "program-refused"
	tagUnconfirmed  = "confirmation-required"
)

// problem is an error whose status is known already.
type problem struct {
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
	// cause is the error that the problem was made of.
	cause error
	// Allow lists the methods that a 405 answer names.
	Allow []string
}

func (p *problem) Error() string { return p.Message }

// errorEntry is one error on the wire.
type errorEntry struct {
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

type errorBody struct {
	Errors struct {
		Error []errorEntry `json:"error"`
	} `json:"ietf-restconf:errors"`
}

// classify maps an error to status and tag. method matters for what is missing. Data that
// the URL names: a read answers 404, deleting or updating it answers 409, as ever. A
// thing that the body names (a netdev, a peer) makes the request a bad one.
func classify(method string, err error) (int, string) {
	var p *problem
	var y *yang.Error
	var f topology.DocumentErrors
	switch {
	case errors.As(err, &p):
		return p.Status, p.Tag
	case errors.As(err, &f):
		return classify(http.MethodPut, f[0].Err)
	case errors.As(err, &y):
		return yangStatus(method, y.Tag), string(y.Tag)
	case errors.Is(err, cube.ErrRefused):
		return http.StatusUnprocessableEntity, tagRefused
	case errors.Is(err, cube.ErrNotFound):
		switch {
		case readOnly(method):
			return http.StatusNotFound, tagDataMissing
		case method == http.MethodDelete:
			return http.StatusConflict, tagDataMissing
		}
		return http.StatusBadRequest, tagDataMissing
	case errors.Is(err, cube.ErrExists):
		return http.StatusConflict, tagDataExists
	case errors.Is(err, cube.ErrInvalid):
		return http.StatusBadRequest, tagInvalidValue
	case errors.Is(err, cube.ErrInUse):
		return http.StatusConflict, tagInUse
	case errors.Is(err, cube.ErrStale):
		return http.StatusPreconditionFailed, tagStale
	case errors.Is(err, cube.ErrUnsupported):
		return http.StatusBadRequest, tagUnsupported
	case errors.Is(err, cube.ErrUnavailable):
		return http.StatusServiceUnavailable, tagFailed
	case errors.Is(err, cube.ErrFull):
		return http.StatusConflict, tagResource
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return http.StatusServiceUnavailable, tagFailed
	case errors.Is(err, unix.EMFILE), errors.Is(err, unix.ENFILE), errors.Is(err, unix.ENOMEM):
		return http.StatusServiceUnavailable, tagResource // the machine has no room at the moment
	}
	return http.StatusInternalServerError, tagFailed
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

// isMissing tells whether what was read is not there.
func isMissing(err error) bool {
	status, _ := classify(http.MethodGet, err)
	return status == http.StatusNotFound
}

// meant adds the words that were probably meant.
func (e errorEntry) meant(near []string) errorEntry {
	e.Near = near
	e.Message += suggest.Question(near)
	return e
}

// asBadRequest makes whatever the client did wrong a 400, as the framework's own
// resources have always answered. Faults of the daemon and of cubes' programs keep their status.
func asBadRequest(method string, err error) error {
	var p *problem
	if err == nil || errors.As(err, &p) || errors.Is(err, cube.ErrRefused) {
		return err
	}
	status, tag := classify(method, err)
	if status >= http.StatusInternalServerError {
		return err
	}
	return &problem{Status: http.StatusBadRequest, Tag: tag, Message: err.Error(), cause: err}
}

func badPath(format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Tag: tagInvalidValue, Message: fmt.Sprintf(format, args...)}
}

func notFound(format string, args ...any) *problem {
	return &problem{Status: http.StatusNotFound, Tag: tagDataMissing, Message: fmt.Sprintf(format, args...)}
}

func denied(format string, args ...any) *problem {
	return &problem{Status: http.StatusForbidden, Tag: tagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

func unauthorized(format string, args ...any) *problem {
	return &problem{Status: http.StatusUnauthorized, Tag: tagAccessDenied, Message: fmt.Sprintf(format, args...)}
}

func malformed(format string, args ...any) *problem {
	return &problem{Status: http.StatusBadRequest, Tag: tagMalformed, Message: fmt.Sprintf(format, args...)}
}

func stale(format string, args ...any) *problem {
	return &problem{Status: http.StatusPreconditionFailed, Tag: tagStale, Message: fmt.Sprintf(format, args...)}
}

func missingMember(name string) *problem {
	return &problem{Status: http.StatusBadRequest, Tag: tagMissing, Field: name,
		Message: fmt.Sprintf("the request body has no member %q", name)}
}
