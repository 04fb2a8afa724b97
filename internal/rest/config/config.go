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

// The whole configuration as one document. GET exports it, PATCH creates or replaces the cubes in a document, and PUT
// replaces the whole configuration. The entity tag is the revision, so a client can apply (If-Match) exactly the
// change that it reviewed (?dry-run).

// MaxDocumentBytes is the largest document. Applying one takes several times as much memory, so documents are applied
// one at a time, and documents larger than message.MaxBodyBytes are also read one at a time.
const MaxDocumentBytes = 32 << 20

// Manager holds the configuration and its history: *topology.Manager.
type Manager interface {
	// Configuration returns the whole configuration, and Apply applies a document.
	Configuration() *topology.Configuration
	Apply(ctx context.Context, body []byte, o topology.ApplyOptions) (*topology.Applied, error)
	// History and rollback.
	ConfigurationAt(revision uint64) (*topology.Configuration, error)
	History(from uint64, n int) (*topology.History, error)
	RevisionAt(revision uint64) (*topology.RevisionDetail, error)
	Rollback(ctx context.Context, revision uint64, o topology.ApplyOptions) (*topology.Applied, error)
	// Trial returns the change on trial, EndTrial keeps it or takes it back.
	Trial() *topology.Trial
	EndTrial(ctx context.Context, keep bool) error
}

// Configuration serves the whole configuration and its history.
type Configuration struct {
	manager Manager
	log     *slog.Logger
	out     message.Sender
	help    *help.Guide
	// applying is taken by the document that is being applied; a large one takes it before its first byte is read.
	applying, reading chan struct{}
}

// New serves the configuration of a Manager.
func New(manager Manager, log *slog.Logger, guide *help.Guide) *Configuration {
	return &Configuration{manager: manager, log: log, out: message.Sender{Log: log}, help: guide,
		applying: make(chan struct{}, 1), reading: make(chan struct{}, 1)}
}

// ServeConfig handles /config.
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
		panic(http.ErrAbortHandler) // the client must not mistake a part for the whole
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

// wait waits until a request may apply its document.
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
