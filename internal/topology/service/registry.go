// SPDX-License-Identifier: Apache-2.0

package service

// The loaded services, as data. A change makes a new registry, so readers never wait.

import (
	"maps"
	"slices"
)

// Registry are the loaded services. Once published it is never changed.
type Registry struct {
	ByName map[string]*Service
	Order  []string
}

// With is the registry with a service added; it replaces a service of the same name.
func (r *Registry) With(s *Service) *Registry {
	next := &Registry{ByName: maps.Clone(r.ByName), Order: r.Order}
	if next.ByName == nil {
		next.ByName = map[string]*Service{}
	}
	if next.ByName[s.Info.Name] == nil {
		next.Order = append(slices.Clone(r.Order), s.Info.Name)
	}
	next.ByName[s.Info.Name] = s
	return next
}

// Without is the registry without a service.
func (r *Registry) Without(name string) *Registry {
	next := &Registry{ByName: maps.Clone(r.ByName), Order: slices.Clone(r.Order)}
	delete(next.ByName, name)
	next.Order = slices.DeleteFunc(next.Order, func(n string) bool { return n == name })
	return next
}
