// SPDX-License-Identifier: Apache-2.0

package config

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strconv"
	"strings"

	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// The whole configuration as one document. GET exports it; PATCH brings in the cubes that a
// document names, PUT makes the document all there is. Its entity tag is the revision, so
// that what was looked at (?dry-run) is what is changed (If-Match).

// MaxDocumentBytes is the largest document. Several times as much memory is in use while it
// is applied, so documents are applied one at a time, and large ones, of more than
// message.MaxBodyBytes, are read one at a time.
const MaxDocumentBytes = 32 << 20

// Manager is the configuration and its past: *topology.Manager.
type Manager interface {
	// Configuration is all of it, and Apply makes it what a document says.
	Configuration() *topology.Configuration
	Apply(ctx context.Context, body []byte, o topology.ApplyOptions) (*topology.Applied, error)
	// The past of the configuration, and the way back.
	ConfigurationAt(revision uint64) (*topology.Configuration, error)
	History(from uint64, n int) (*topology.History, error)
	RevisionAt(revision uint64) (*topology.RevisionDetail, error)
	Rollback(ctx context.Context, revision uint64, o topology.ApplyOptions) (*topology.Applied, error)
}

// Configuration answers for the configuration as a whole, and for its past.
type Configuration struct {
	manager Manager
	log     *slog.Logger
	out     message.Sender
	help    *help.Guide
	// applying holds the document that is applied, reading a large one from its first byte on.
	applying, reading chan struct{}
}

// New answers for the configuration of a Manager.
func New(manager Manager, log *slog.Logger, guide *help.Guide) *Configuration {
	return &Configuration{manager: manager, log: log, out: message.Sender{Log: log}, help: guide,
		applying: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
}

// ServeConfig answers /config.
func (c *Configuration) ServeConfig(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodPut, http.MethodPatch, http.MethodOptions); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		return c.help.Show(w, r, nil)
	case http.MethodPut, http.MethodPatch:
		return c.applyConfig(w, r)
	}
	q, err := message.QueryOf(r, "revision")
	if err != nil {
		return err
	}
	config := c.manager.Configuration()
	if text := q.Get("revision"); text != "" {
		revision, err := message.ParseRevision("revision", text)
		if err != nil {
			return err
		}
		if config, err = c.manager.ConfigurationAt(revision); err != nil {
			return err
		}
	}
	w.Header().Set("Content-Type", message.ContentType)
	setRevision(w.Header(), config.Revision())
	if r.Method == http.MethodHead {
		return nil
	}
	if err := config.Export(r.Context(), w); err != nil {
		c.log.Debug("the export was cut off", "err", err)
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// applyConfig reads a document and applies it.
func (c *Configuration) applyConfig(w http.ResponseWriter, r *http.Request) error {
	o, err := applyOptions(r)
	if err != nil {
		return err
	}
	o.Whole = r.Method == http.MethodPut
	// A client that sends its document slowly must not keep others from applying theirs.
	if r.ContentLength < 0 || r.ContentLength > message.MaxBodyBytes {
		if err := wait(r, c.reading); err != nil {
			return err
		}
		defer func() { <-c.reading }()
	}
	body, err := message.ReadBodyOf(w, r, MaxDocumentBytes)
	if err != nil {
		return err
	}
	if body == nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagMalformed, Message: "the document is empty: expected a list of cubes"}
	}
	if err := wait(r, c.applying); err != nil {
		return err
	}
	defer func() { <-c.applying }()
	applied, err := c.manager.Apply(r.Context(), body, o)
	return c.answerApplied(w, r, applied, err)
}

// wait takes a request's turn with a document.
func wait(r *http.Request, turn chan struct{}) error {
	select {
	case turn <- struct{}{}:
		return nil
	case <-r.Context().Done():
		return fmt.Errorf("wait for another document: %w", r.Context().Err())
	}
}

func (c *Configuration) answerApplied(w http.ResponseWriter, r *http.Request, applied *topology.Applied, err error) error {
	if err != nil {
		return err
	}
	setRevision(w.Header(), applied.Revision)
	return c.out.JSON(w, r, http.StatusOK, applied)
}

// applyOptions reads ?dry-run and If-Match.
func applyOptions(r *http.Request) (o topology.ApplyOptions, err error) {
	q, err := message.QueryOf(r, "dry-run")
	if err != nil {
		return o, err
	}
	if q.Has("dry-run") {
		if o.DryRun, err = strconv.ParseBool(q.Get("dry-run")); err != nil && q.Get("dry-run") != "" {
			return o, message.BadPath("dry-run=%s: expected true or false", message.Clip(q.Get("dry-run")))
		}
		o.DryRun = o.DryRun || q.Get("dry-run") == ""
	}
	match := strings.TrimSpace(r.Header.Get("If-Match"))
	if match == "" || match == "*" {
		return o, nil
	}
	revision, err := message.ParseRevision("If-Match", strings.Trim(match, `"`))
	o.Revision = &revision
	return o, err
}

func setRevision(h http.Header, revision uint64) {
	h.Set("ETag", `"`+strconv.FormatUint(revision, 10)+`"`)
}
