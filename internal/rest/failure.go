// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
	"github.com/polycube/polycube/internal/yang"
)

// A failed request returns every error that was found, with suggestions for mistyped words.

// writeError sends an error response.
func (s *Server) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status, tag := message.Classify(r.Method, err)
	s.logError(r, status, err)
	header := w.Header()
	var p *message.Error
	if errors.As(err, &p) {
		if p.Allow != nil {
			message.SetAllow(header, p.Allow)
		}
		if status == http.StatusUnauthorized {
			header.Set("WWW-Authenticate", `Bearer realm="polycube"`)
		}
		if status == http.StatusServiceUnavailable {
			header.Set("Retry-After", "1")
		}
	}
	var body message.ErrorBody
	body.Errors.Error = s.entries(r, err, tag)
	raw, err := message.Encode(body)
	if err != nil {
		s.log.Error("encode an error", "err", err)
	}
	s.out.Raw(w, r, status, raw)
}

// logError also logs errors that concern the daemon's operator: internal errors, and programs that the kernel refused.
func (s *Server) logError(r *http.Request, status int, err error) {
	attrs := []slog.Attr{slog.String("method", r.Method), slog.String("path", r.URL.EscapedPath())}
	switch no := refusal.As(err); {
	case no != nil && no.Ours():
		s.log.LogAttrs(r.Context(), slog.LevelError, "the verifier refused a program of the framework", append(attrs, no.Attrs()...)...)
	case no != nil:
		s.log.LogAttrs(r.Context(), slog.LevelWarn, "the verifier refused a program of a cube", append(attrs, no.Attrs()...)...)
	case status == http.StatusInternalServerError:
		s.log.LogAttrs(r.Context(), slog.LevelError, "request failed with an internal error", append(attrs, slog.Any("err", err))...)
	}
}

// entries lists the errors; validation may have found several.
func (s *Server) entries(r *http.Request, err error, tag string) []message.ErrorEntry {
	var y *yang.Error
	var p *message.Error
	var f topology.DocumentErrors
	if errors.As(err, &f) {
		return s.faultEntries(r, f)
	}
	if errors.As(err, &y) && !errors.As(err, &p) {
		if len(y.Errs) == 0 {
			// The wrapping error says where (service, cube), the inner one what.
			one := message.ErrorEntry{Type: "application", Tag: tag, Path: y.Path, Message: err.Error(), Info: y.Path}
			return []message.ErrorEntry{one.Meant(s.names.Near(r, err))}
		}
		out := make([]message.ErrorEntry, len(y.Errs))
		for i, e := range y.Errs {
			out[i] = message.ErrorEntry{Type: "application", Tag: string(e.Tag), Path: e.Path, Message: e.Message, Info: e.Path}.Meant(s.names.Near(r, e))
		}
		return out
	}
	e := message.ErrorEntry{Type: "application", Tag: tag, Path: r.URL.Path, Message: err.Error(), Detail: detail(err)}
	if errors.Is(err, cube.ErrInvalid) || tag == message.TagInvalidValue {
		// The tag already says that it is invalid; the message says why.
		e.Message = strings.TrimSuffix(e.Message, ": "+cube.ErrInvalid.Error())
	}
	if errors.As(err, &p) {
		e.Type, e.Info, e.Question = "protocol", p.Field, p.Question
		e.Detail = append(e.Detail, p.Detail...)
	}
	return []message.ErrorEntry{e.Meant(s.names.Near(r, err))}
}

// faultEntries lists what is wrong with a document, with the node if known.
func (s *Server) faultEntries(r *http.Request, faults topology.DocumentErrors) []message.ErrorEntry {
	var out []message.ErrorEntry
	for _, f := range faults {
		_, tag := message.Classify(http.MethodPut, f.Err)
		e := message.ErrorEntry{Type: "application", Tag: tag, Path: r.URL.Path, Message: f.Error(), Info: f.Where, Detail: detail(f.Err)}
		if f.Cube != "" {
			e.Path = "/cubes/" + url.PathEscape(f.Cube)
		}
		var y *yang.Error
		if errors.As(f.Err, &y) && y.Path != "" && f.Cube != "" {
			e.Path += "/" + y.Path
		}
		out = append(out, e.Meant(s.names.Near(r, f)))
	}
	return out
}

// detail returns what there is to say in addition to the message.
func detail(err error) []string {
	if no := refusal.As(err); no != nil {
		return no.Detail()
	}
	var more interface {
		error
		Detail() []string
	}
	if errors.As(err, &more) {
		return more.Detail()
	}
	return nil
}
