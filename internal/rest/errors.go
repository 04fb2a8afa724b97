// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/refusal"
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

// writeError answers a request with an error.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, tag := classify(r.Method, err)
	s.logError(r, status, err)
	header := w.Header()
	var p *problem
	if errors.As(err, &p) {
		if p.Allow != nil {
			setAllow(header, p.Allow)
		}
		if status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Bearer realm="polycube"`)
		}
		if status == http.StatusServiceUnavailable {
			header.Set("Retry-After", "1")
		}
	}
	var body errorBody
	body.Errors.Error = s.entries(r, err, tag)
	raw, err := encode(body)
	if err != nil {
		s.log.Error("encoding an error", "err", err)
	}
	s.writeRaw(w, r, status, raw)
}

// logError logs what is for the daemon's operator, too: its own faults, and programs that the kernel does not run.
func (s *Server) logError(r *http.Request, status int, err error) {
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath())}
	switch no := refusal.As(err); {
	case no != nil && no.Ours():
		s.log.LogAttrs(r.Context(), slog.LevelError, "the verifier refuses a program of the framework", append(attrs, no.Attrs()...)...)
	case no != nil:
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "the verifier refuses a program of a cube", append(attrs, no.Attrs()...)...)
	case status == http.StatusInternalServerError:
		s.log.LogAttrs(r.Context(), slog.LevelError, "request ended in an internal error", append(attrs, slog.Any("err", err))...)
	}
}

// detail is what there is to say beside the sentence.
func detail(err error) []string {
	if no := refusal.As(err); no != nil {
		return no.Detail()
	}
	return nil
}

// entries lists the errors; validation may have found several.
func (s *Server) entries(r *http.Request, err error, tag string) []errorEntry {
	var y *yang.Error
	var p *problem
	var f topology.DocumentErrors
	if errors.As(err, &f) {
		return s.faultEntries(r, f)
	}
	if errors.As(err, &y) && !errors.As(err, &p) {
		if len(y.Errs) == 0 {
			// The wrapping says where (service, cube), the inner error what.
			one := errorEntry{Type: "application", Tag: tag, Path: y.Path, Message: err.Error(), Info: y.Path}
			return []errorEntry{one.meant(s.near(r, err))}
		}
		out := make([]errorEntry, len(y.Errs))
		for i, e := range y.Errs {
			out[i] = errorEntry{Type: "application", Tag: string(e.Tag), Path: e.Path, Message: e.Message, Info: e.Path}.meant(s.near(r, e))
		}
		return out
	}
	e := errorEntry{Type: "application", Tag: tag, Path: r.URL.Path, Message: err.Error(), Detail: detail(err)}
	if errors.Is(err, cube.ErrInvalid) || tag == tagInvalidValue {
		// The tag says that it is invalid; the sentence said why.
		e.Message = strings.TrimSuffix(e.Message, ": "+cube.ErrInvalid.Error())
	}
	if errors.As(err, &p) {
		e.Type, e.Info, e.Question = "protocol", p.Field, p.Question
		e.Detail = append(e.Detail, p.Detail...)
	}
	return []errorEntry{e.meant(s.near(r, err))}
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
