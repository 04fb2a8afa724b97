// SPDX-License-Identifier: Apache-2.0

package topology

// Which services the manager has: those of the daemon from the start, others as they come and go.

import (
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/topology/service"
	"github.com/polycube/polycube/internal/topology/world"
)

// load reads the models and checks the programs of the daemon's own services.
func (m *Manager) load(services []cube.Service) error {
	for i, s := range services {
		svc, err := service.Load(s)
		if err != nil {
			return fmt.Errorf("service %d: %w", i, err)
		}
		if err := m.checkServiceName(svc.Info.Name); err != nil {
			svc.Schema.Close()
			return err
		}
		m.loaded.Store(m.loaded.Load().With(svc))
		if err := m.dp.CheckObject(svc.Info.Name, s.Objects); err != nil {
			return fmt.Errorf("programs of service %s: %w", svc.Info.Name, err)
		}
	}
	return nil
}

// checkServiceName says whether a new service can have a name.
func (m *Manager) checkServiceName(name string) error {
	switch {
	case !world.ValidName(name):
		return fmt.Errorf("service %.80q: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ + -, and begins with a letter or digit: %w",
			name, cube.ErrInvalid)
	case world.Reserved[name]:
		return fmt.Errorf("service %q: the name is a word of the command line, choose another one: %w", name, cube.ErrInvalid)
	case m.loaded.Load().ByName[name] != nil:
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

func (m *Manager) closeSchemas() {
	for _, s := range m.loaded.Load().ByName {
		s.Schema.Close()
	}
}

func (m *Manager) checkCubeName(name string) error {
	if !world.ValidName(name) {
		return fmt.Errorf("cube name %.80q: a name is 1 to 64 of the characters A-Z a-z 0-9 . _ + -, and begins with a letter or digit: %w",
			name, cube.ErrInvalid)
	}
	if world.Reserved[name] || m.loaded.Load().ByName[name] != nil {
		return fmt.Errorf("cube name %q is a word of the command line, choose another one: %w", name, cube.ErrInvalid)
	}
	return nil
}
