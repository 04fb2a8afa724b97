// SPDX-License-Identifier: Apache-2.0

package topology

// The services that are loaded: those of the daemon from the start, others as they come and go. Readers take the current
// registry and wait for nobody; it is replaced under the writer's token, as the world is.

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
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

// load reads the models and checks the programs of the daemon's own services.
func (m *Manager) load(services []cube.Service) error {
	for i, s := range services {
		svc, err := newService(s)
		if err != nil {
			return fmt.Errorf("service %d: %w", i, err)
		}
		if err := m.checkServiceName(svc.info.Name); err != nil {
			svc.schema.Close()
			return err
		}
		m.loaded.Store(m.loaded.Load().with(svc))
		if err := m.dp.CheckObject(svc.info.Name, s.Objects); err != nil {
			return fmt.Errorf("programs of service %s: %w", svc.info.Name, err)
		}
	}
	return nil
}

// newService loads the model of a service.
func newService(s cube.Service) (*service, error) {
	schema, err := yang.Load(s.Model)
	if err != nil {
		return nil, fmt.Errorf("its model: %w", err)
	}
	info := schema.Service()
	if s.New == nil {
		schema.Close()
		return nil, fmt.Errorf("service %s: no constructor: %w", info.Name, cube.ErrInvalid)
	}
	// Of a few ports too many, the error says how many there are. A body with far more is not read to its end.
	schema.Bound("ports", 2*datapath.MaxPorts)
	return &service{Service: s, schema: schema, info: info}, nil
}

// checkServiceName says whether a new service can have a name.
func (m *Manager) checkServiceName(name string) error {
	switch {
	case !world.ValidName(name):
		return fmt.Errorf("service %.80q: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ + -, and begins with a letter or digit: %w",
			name, cube.ErrInvalid)
	case world.Reserved[name]:
		return fmt.Errorf("service %q: the name is a word of the command line, choose another one: %w", name, cube.ErrInvalid)
	case m.loaded.Load().byName[name] != nil:
		return fmt.Errorf("service %q: there is a service of that name: %w", name, cube.ErrExists)
	}
	w := m.view.Load()
	if rec := w.Cubes[name]; rec != nil {
		return fmt.Errorf("service %q: a %s has that name, and one word cannot mean both: %w", name, rec.Service, cube.ErrExists)
	}
	if w.Broken[name] != nil {
		return fmt.Errorf("service %q: a stored cube has that name, and one word cannot mean both: %w", name, cube.ErrExists)
	}
	return nil
}

// schemaRest is how long the model of a service that is gone is kept for requests that still read it.
const schemaRest = 5 * time.Minute

// retire closes the model of a service that is gone, when nobody reads it any more. Trees of it have been closed.
func retire(s *service) { time.AfterFunc(schemaRest, s.schema.Close) }

func (m *Manager) closeSchemas() {
	for _, s := range m.loaded.Load().byName {
		s.schema.Close()
	}
}

// ServiceInfo describes a service.
type ServiceInfo struct {
	Name, Description, Version string
	// Controller is where the service runs, "builtin" for those within the daemon.
	Controller string
	MinKernel  string
	// Model is the text of the YANG module.
	Model       string
	Transparent bool
}

// Services lists what is loaded, in order of registration.
func (m *Manager) Services() []ServiceInfo {
	r := m.loaded.Load()
	list := make([]ServiceInfo, 0, len(r.order))
	for _, name := range r.order {
		list = append(list, r.byName[name].describe())
	}
	return list
}

func (s *service) describe() ServiceInfo {
	i := ServiceInfo{Name: s.info.Name, Description: s.info.Description, Version: s.info.Version, Controller: "builtin",
		MinKernel: s.info.MinKernel, Model: s.Model, Transparent: s.info.Transparent}
	if s.reg != nil {
		i.Controller = s.reg.URI
	}
	return i
}

// Schema returns a service's model. It is usable until Close, and for some minutes after the service has gone.
func (m *Manager) Schema(name string) (*yang.Schema, error) {
	s, err := m.service(name)
	if err != nil {
		return nil, err
	}
	return s.schema, nil
}

func (m *Manager) service(name string) (*service, error) {
	if s := m.loaded.Load().byName[name]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("service %.80q: %w", name, cube.ErrNotFound)
}

func (m *Manager) checkCubeName(name string) error {
	if !world.ValidName(name) {
		return fmt.Errorf("cube name %.80q: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ + -, and begins with a letter or digit: %w",
			name, cube.ErrInvalid)
	}
	if world.Reserved[name] || m.loaded.Load().byName[name] != nil {
		return fmt.Errorf("cube name %q is a word of the command line, choose another one: %w", name, cube.ErrInvalid)
	}
	return nil
}
