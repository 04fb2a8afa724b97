// SPDX-License-Identifier: Apache-2.0

package cube

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// The registry of services is the only package-level state of the project: services register from init, the daemon
// reads it once at start.

var registry []Service

// Register adds a service. It is called from init functions only, and panics if Files cannot be read.
func Register(s Service) {
	s, err := s.Read()
	if err != nil {
		panic(err)
	}
	registry = append(registry, s)
}

// Services returns the registered services, in order of registration.
func Services() []Service { return append([]Service(nil), registry...) }

// Read returns the service with Model and Objects from Files, and without Files. A service without Files is returned
// unchanged. Files must have exactly one model, and at least one object with the same name.
func (s Service) Read() (Service, error) {
	if s.Files == nil {
		return s, nil
	}
	models, err := fs.Glob(s.Files, "*.yang")
	if err != nil {
		return s, fmt.Errorf("files of a service: %w", err)
	}
	if len(models) != 1 {
		return s, fmt.Errorf("files of a service: %d models (*.yang), want 1: %w", len(models), ErrInvalid)
	}
	model, err := fs.ReadFile(s.Files, models[0])
	if err != nil {
		return s, fmt.Errorf("files of a service: %w", err)
	}
	name := strings.TrimSuffix(models[0], ".yang")
	objects := map[Hook][]byte{}
	for _, hook := range []Hook{TC, XDP} {
		object, err := fs.ReadFile(s.Files, name+"."+hook.String()+".o")
		switch {
		case err == nil:
			objects[hook] = object
		case !errors.Is(err, fs.ErrNotExist):
			return s, fmt.Errorf("files of service %s: %w", name, err)
		}
	}
	if len(objects) == 0 {
		return s, fmt.Errorf("files of service %s: neither %[1]s.tc.o nor %[1]s.xdp.o: %w", name, ErrNotFound)
	}
	s.Model, s.Objects, s.Files = string(model), objects, nil
	return s, nil
}
