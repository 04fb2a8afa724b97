// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"net/http"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/topology"
)

// Confirmation is the answer of /confirm: the change on trial, if there is one.
type Confirmation struct {
	Trial *topology.Trial `json:"trial,omitempty"`
	// Left is how many seconds the trial lasts.
	Left int `json:"left,omitempty"`
}

// ServeConfirm handles /confirm: the change on trial, and its end.
func (c *Configuration) ServeConfirm(w http.ResponseWriter, r *http.Request, _ []string) error {
	if err := message.Allow(r, http.MethodGet, http.MethodPost, http.MethodOptions); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		return c.help.Show(w, r, nil)
	case http.MethodPost:
		return c.endTrial(w, r)
	}
	var out Confirmation
	if out.Trial = c.manager.Trial(); out.Trial != nil {
		out.Left = int(out.Trial.Left().Seconds())
	}
	return c.out.JSON(w, r, http.StatusOK, out)
}

// endTrial keeps the change on trial, or takes it back.
func (c *Configuration) endTrial(w http.ResponseWriter, r *http.Request) error {
	body, err := message.ReadBody(w, r)
	if err != nil {
		return err
	}
	want := struct {
		Keep *bool `json:"keep"`
	}{}
	if body != nil && json.Unmarshal(body, &want) != nil {
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagMalformed, Field: "keep", Message: `expected whether the change stays, as in {"keep":true}`}
	}
	if err := c.manager.EndTrial(r.Context(), want.Keep == nil || *want.Keep); err != nil {
		return err
	}
	return c.out.JSON(w, r, http.StatusOK, Confirmation{})
}
