// SPDX-License-Identifier: Apache-2.0

package topology

// The services that are loaded, as data. A change makes another registry: readers wait for nobody.

import (
	"maps"
	"slices"
)

// registry are the services that are loaded. A published one is never changed.
type registry struct {
	byName map[string]*service
	order  []string
}

// with is the registry with a service added, or in the place of the one of that name.
func (r *registry) with(s *service) *registry {
	next := &registry{byName: maps.Clone(r.byName), order: r.order}
	if next.byName == nil {
		next.byName = map[string]*service{}
	}
	if next.byName[s.info.Name] == nil {
		next.order = append(slices.Clone(r.order), s.info.Name)
	}
	next.byName[s.info.Name] = s
	return next
}

// without is the registry without a service.
func (r *registry) without(name string) *registry {
	next := &registry{byName: maps.Clone(r.byName), order: slices.Clone(r.order)}
	delete(next.byName, name)
	next.order = slices.DeleteFunc(next.order, func(n string) bool { return n == name })
	return next
}
