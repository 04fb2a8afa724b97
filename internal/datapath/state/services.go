// SPDX-License-Identifier: Apache-2.0

package state

// The services, with the maps that their objects declare.

import (
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
)

// Service are a service's parsed objects, with the maps that they declare.
type Service struct {
	objects  map[cube.Hook]*link.Object
	elfs     map[cube.Hook][]byte
	declared map[cube.Hook]map[string]declaration
}

// ParseService parses and checks the objects of a service, those of all hooks at once.
func ParseService(service string, elfs map[cube.Hook][]byte) (*Service, error) {
	s := &Service{elfs: elfs, objects: map[cube.Hook]*link.Object{}, declared: map[cube.Hook]map[string]declaration{}}
	var parsing sync.WaitGroup
	hooks := slices.Sorted(maps.Keys(elfs))
	objects, errs := make([]*link.Object, len(hooks)), make([]error, len(hooks))
	for i, h := range hooks {
		parsing.Go(func() { objects[i], errs[i] = link.ParseObject(h, elfs[h]) })
	}
	parsing.Wait()
	for i, h := range hooks {
		o, err := objects[i], errs[i]
		if err == nil && o.Functions[link.Ingress] == nil {
			err = fmt.Errorf("no PCN_INGRESS program: %w", cube.ErrInvalid)
		}
		if err == nil {
			s.declared[h], err = declarations(service, o)
		}
		if err != nil {
			return nil, fmt.Errorf("service %s, %s object: %w", service, h, err)
		}
		s.objects[h] = o
	}
	return s, nil
}

// Object returns the service's object for a hook, nil if there is none.
func (s *Service) Object(h cube.Hook) *link.Object { return s.objects[h] }

// services are those that are registered, by name.
type services struct {
	parsed   map[string]*Service
	unparsed map[string]map[cube.Hook][]byte // the objects of the others
}

// get returns a service, nil if there is none of that name.
func (s services) get(name string) (*Service, error) {
	if objects, ok := s.unparsed[name]; ok {
		service, err := ParseService(name, objects)
		if err != nil {
			return nil, err
		}
		s.forget(name)
		s.parsed[name] = service
	}
	return s.parsed[name], nil
}

func (s services) forget(name string) {
	delete(s.parsed, name)
	delete(s.unparsed, name)
}

func (s services) clone() services { return services{maps.Clone(s.parsed), maps.Clone(s.unparsed)} }
