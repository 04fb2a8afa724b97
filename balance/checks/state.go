// SPDX-License-Identifier: Apache-2.0

package checks

// What users see of checks: state and events.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/cube/author"
	"github.com/polycube/polycube/health"
)

// View is the state of a server, the container `health`.
func (c *Checks) View(is *Check) *health.View {
	s := is.last
	if is.runs {
		if now, ok := c.checker.State(is.id); ok {
			if now.Checks == 0 && now.Error == "" {
				now.Error = is.last.Error // of the last daemon
			}
			s = now
		}
	}
	s.Status, s.Since = is.status, is.since
	v := s.View()
	return &v
}

// Totals is the container `checks` of models.
type Totals struct {
	Up      uint32 `json:"up"`
	Down    uint32 `json:"down"`
	Unknown uint32 `json:"unknown"`
	Made    uint64 `json:"made"`
	Failed  uint64 `json:"failed"`
	Skipped uint64 `json:"skipped"`
	Late    uint64 `json:"late"`
	Strays  uint64 `json:"strays"`
}

// Totals returns what checks of all servers have found.
func (c *Checks) Totals() *Totals {
	out := &Totals{}
	for _, is := range c.all {
		switch is.status {
		case health.Up:
			out.Up++
		case health.Down:
			out.Down++
		case health.Unknown:
			out.Unknown++
		}
	}
	if c.path != nil {
		n := c.checker.Stats()
		out.Made, out.Failed, out.Skipped, out.Late = n.Checks, n.Failed, n.Skipped, n.Late
		out.Strays = c.path.Strays()
	}
	return out
}

// Tell adds an event for each server that has changed, with the services that it has changed in.
func (c *Checks) Tell(changes []Change) {
	told := map[string][]balance.ServiceID{}
	for _, is := range changes {
		what := is.Name + " is " + is.Status.String()
		if is.Error != "" {
			what += ": " + is.Error
		}
		told[what] = append(told[what], is.Service)
	}
	for what, services := range told {
		author.Announce(c.env, "health", fmt.Sprintf("server %s (of %s)", what, listed(services)))
	}
}

// listed names services, or the first of many.
func listed(services []balance.ServiceID) string {
	const most = 4
	slices.SortFunc(services, func(a, b balance.ServiceID) int { return strings.Compare(a.String(), b.String()) })
	names := make([]string, 0, most)
	for _, s := range services[:min(len(services), most)] {
		names = append(names, s.String())
	}
	out := strings.Join(names, ", ")
	if len(services) > most {
		out += fmt.Sprintf(" and %d more", len(services)-most)
	}
	return out
}
