// SPDX-License-Identifier: Apache-2.0

package cubes

import (
	"fmt"
	"net/http"
	"slices"

	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/resource"
	"github.com/polycube/polycube/internal/topology"
)

// DELETE of a whole list. A program means what its path says, but a person who forgets a key types the same path. So a
// request from the command line, which is marked as typed, is refused with a question unless it has the parameter
// `all`; nothing is deleted before. The command line asks the user, or says what to type. This needs no model in the
// command line, and no extra request to delete anything else.

// Limits on the text of a question.
const (
	MaxCounted    = 10000
	MaxPortsNamed = 10
)

// confirmList refuses to delete a list that is not confirmed, and refuses a confirmation for anything but a list.
func (c *Routes) confirmList(w http.ResponseWriter, r *http.Request, t *resource.Target) error {
	all, typed := r.URL.Query().Has(resource.ParamAll), r.Header.Get(resource.VerbHeader) != ""
	switch {
	case all && t.Kind != resource.KindList:
		name := resource.ParamAll
		if typed {
			name = resource.FlagAll
		}
		return &message.Error{Status: http.StatusBadRequest, Tag: message.TagInvalidValue, Field: resource.ParamAll,
			Message: fmt.Sprintf("%s is not a list: delete it without %s", t.Words(), name)}
	case all || !typed || t.Kind != resource.KindList:
		return nil
	}
	if revision, err := c.manager.CubeRevision(t.Cube); err == nil && t.Node.Config() {
		w.Header().Set("ETag", c.tag(revision)) // the reply may come much later; before the entries are counted
	}
	count, err := c.manager.CountEntries(r.Context(), t.Service, t.Cube, t.Path, MaxCounted)
	if err != nil {
		return err
	}
	p := &message.Error{Status: http.StatusBadRequest, Tag: message.TagUnconfirmed, Field: resource.ParamAll, Question: question(t, count),
		Message: fmt.Sprintf("%s is a list: append %s to delete one entry, or %s to delete every entry", t.Words(), resource.Placeholders(t.Node, 0), resource.FlagAll)}
	if t.Node.Path() == "ports" && !c.names.Transparent(t.Service) {
		p.Detail = c.lostPorts(t.Cube)
	}
	return p
}

// question asks whether to delete the list; "" for an empty one.
func question(t *resource.Target, c topology.ListCount) string {
	list, stays := t.Words(), ""
	if t.Node.Config() && c.Configured < c.Entries {
		stays = fmt.Sprintf(" (%d configured), except those derived from other configuration", c.Configured)
	}
	switch {
	case c.Entries == 0:
		return ""
	case c.More:
		return fmt.Sprintf("Delete all entries of %s, more than %d%s?", list, c.Entries, stays)
	case c.Entries == 1 && stays == "":
		return fmt.Sprintf("Delete the only entry of %s?", list)
	}
	return fmt.Sprintf("Delete all %d entries of %s%s?", c.Entries, list, stays)
}

// lostPorts are the ports of a cube with what is lost with them, one line each.
func (c *Routes) lostPorts(cube string) []string {
	var out []string
	ports, parents := c.manager.Places()
	ports = slices.DeleteFunc(ports, func(p topology.PortRef) bool { return p.Cube != cube })
	for _, p := range ports[:min(len(ports), MaxPortsNamed)] {
		line := p.Port
		if p.Peer != "" {
			line += ", wired to " + p.Peer
		}
		for _, attached := range parents {
			if attached.Parent == p.Cube+":"+p.Port {
				line += ", " + attached.Cube + " attached"
			}
		}
		out = append(out, line)
	}
	if more := len(ports) - MaxPortsNamed; more > 0 {
		out = append(out, fmt.Sprintf("and %d more", more))
	}
	return out
}
