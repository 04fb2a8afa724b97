// SPDX-License-Identifier: Apache-2.0

package lbrp

// What follows from the health of servers.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/balance/checks"
	"github.com/polycube/polycube/cube"
)

// watchServers makes health checks what a change asks for, and returns those that end once it is carried out.
func (b *balancer) watchServers(next *change) (gone []checks.Key) {
	for key, w := range next.services {
		if was := b.wanted[key]; was != nil {
			for at := range was.backends {
				if w == nil || w.backends[at] == nil {
					gone = append(gone, checkKey(key, at))
				}
			}
		}
		if w != nil {
			b.checks.watch(w, func(at netip.AddrPort) bool { return inUse(b.placed, &w.conf, at) })
		}
	}
	return gone
}

// inUse reports whether a server of a service is up.
func inUse(all map[balance.ServiceID]*placed, s *Service, at netip.AddrPort) bool {
	for _, id := range s.ids() {
		if p := all[id]; p != nil && p.key == s.key() && p.members[at] != nil {
			return p.members[at].state == balance.Up
		}
	}
	return false
}

// healthChanged gives services other servers, after the status of some has changed.
func (b *balancer) healthChanged() {
	changes := b.checks.Changes()
	for _, c := range changes {
		if is := b.checks.all[c.Key]; is != nil {
			b.checks.affected[is.service] = true
		}
	}
	b.checks.doubt(changes)
	if err := b.refresh(); err != nil {
		b.env.Logger().Error("update the servers of services", "error", err)
	}
	b.checks.Tell(changes)
}

// refresh gives services other servers that may have some in another state, or with another weight.
func (b *balancer) refresh() (err error) {
	for key := range b.checks.affected {
		failed := b.refreshService(key)
		if failed == nil { // else it is tried again
			delete(b.checks.affected, key)
			delete(b.loads.due, key)
		}
		err = errors.Join(err, failed)
	}
	return err
}

func (b *balancer) refreshService(key ServiceKey) error {
	w := b.wanted[key]
	if w == nil {
		return nil
	}
	entries, err := b.maps.servers.Values()
	if err != nil {
		return err
	}
	for _, id := range w.conf.ids() {
		p := b.placed[id]
		if p == nil || p.key != key {
			continue
		}
		changed := b.loads.due[key]
		for at, conf := range w.backends {
			m := p.members[at]
			if m == nil {
				continue
			}
			was := m.state
			if err := b.enter(p, at, conf); err != nil {
				return err
			}
			ended := entries[m.number].Service == 0
			changed = changed || m.state != was || m.keeps() == ended // a draining server may fail
		}
		if changed {
			if err := b.choose(p, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// report is the input of the action `report-health`.
type report struct {
	checks.Report
	Server netip.Addr `json:"server"`
	Port   *uint16    `json:"port"`
}

// action runs the actions of the model.
func (b *balancer) action(_ context.Context, path []string, input json.RawMessage) (cube.ActionResult, error) {
	if !slices.Equal(path, []string{"report-health"}) {
		return cube.ActionResult{}, fmt.Errorf("action %s: %w", strings.Join(path, " "), cube.ErrNotFound)
	}
	var r report
	if err := json.Unmarshal(input, &r); err != nil {
		return cube.ActionResult{}, fmt.Errorf("decode the health report: %w", err)
	}
	var keys []checks.Key
	for k, is := range b.checks.all {
		if is.target.Addr() == r.Server && (r.Port == nil || is.target.Port() == *r.Port) {
			keys = append(keys, k)
		}
	}
	name := r.Server.String()
	if r.Port != nil {
		name = fmt.Sprintf("%s %d", r.Server, *r.Port)
	}
	count, err := b.checks.Report(&r.Report, name, keys)
	if err != nil {
		return cube.ActionResult{}, err
	}
	b.healthChanged()
	return cube.ActionResult{Output: map[string]int{"services": count}}, nil
}
