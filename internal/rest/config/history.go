// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
)

// History and rollback of the configuration.

// ServeHistory handles /history and /history/REVISION.
func (c *Configuration) ServeHistory(w http.ResponseWriter, r *http.Request, rest []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return c.help.Show(w, r, rest)
	}
	if len(rest) == 1 {
		revision, err := message.ParseRevision("revision", rest[0])
		if err != nil {
			return err
		}
		detail, err := c.manager.RevisionAt(revision)
		if err != nil {
			return err
		}
		return c.out.JSON(w, r, http.StatusOK, detail)
	}
	q, err := message.QueryOf(r, "limit", "from")
	if err != nil {
		return err
	}
	n, from := resource.DefaultRevisions, uint64(0)
	if text := q.Get("limit"); text != "" {
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > resource.MaxRevisions {
			return message.BadPath("limit=%s: expected a number from 1 to %d", message.Clip(text), resource.MaxRevisions)
		}
	}
	if text := q.Get("from"); text != "" {
		if from, err = message.ParseRevision("from", text); err != nil {
			return err
		}
	}
	history, err := c.manager.History(from, n)
	if err != nil {
		return err
	}
	return c.out.JSON(w, r, http.StatusOK, history)
}

// ServeRollback handles /rollback.
func (c *Configuration) ServeRollback(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodPost, http.MethodOptions); err != nil {
		return err
	}
	if r.Method == http.MethodOptions {
		return c.help.Show(w, r, nil)
	}
	o, err := applyOptions(r)
	if err != nil {
		return err
	}
	body, err := message.ReadBody(w, r)
	if err != nil {
		return err
	}
	var want struct {
		Revision *uint64 `json:"revision"`
	}
	if body == nil || json.Unmarshal(body, &want) != nil || want.Revision == nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagMissing, Field: "revision",
			Message: `expected the number of a revision, as in {"revision":12}`}
	}
	applied, err := c.manager.Rollback(r.Context(), *want.Revision, o)
	return c.answerApplied(w, r, applied, err)
}
