// SPDX-License-Identifier: Apache-2.0

// Package service describes services as data to the daemon: their models and programs, which of them are loaded, and
// the runs of external services. It knows nothing of cubes.
package service

// A service as the daemon loads it: its model, its programs, and its description.

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/yang"
)

// ErrClosed is the answer to a change while the daemon stops, and the reason why services end then.
var ErrClosed = errors.New("the daemon is stopping")

// ErrNoDeleter is the answer of a cube that has no code to delete state.
var ErrNoDeleter = fmt.Errorf("its service does not support deleting it: %w", cube.ErrUnsupported)

// Load loads the model of a service.
func Load(s cube.Service) (*Service, error) {
	schema, err := yang.Load(s.Model)
	if err != nil {
		return nil, fmt.Errorf("its model: %w", err)
	}
	info := schema.Service()
	if s.New == nil {
		schema.Close()
		return nil, fmt.Errorf("service %s: no constructor: %w", info.Name, cube.ErrInvalid)
	}
	if err := checkOutputs(schema); err != nil {
		schema.Close()
		return nil, err
	}
	// If there are a few ports too many, the error says how many there are. A body with far more is not read to its
	// end.
	schema.Bound("ports", 2*datapath.MaxPorts)
	return &Service{Service: s, Schema: schema, Info: info}, nil
}

// checkOutputs refuses a transparent service with another list, or node, of the name of the one that the framework reads.
func checkOutputs(schema *yang.Schema) error {
	const list, grouping = "outputs", "polycube-transparent-base:redirect-outputs"
	n := schema.Root().Child(list)
	if n == nil || !schema.Service().Transparent {
		return nil
	}
	if n.Kind() == yang.List && len(n.Keys()) == 1 && n.Keys()[0].Name() == "number" && n.Child("to") != nil && n.Child("received") != nil {
		return nil
	}
	return fmt.Errorf("service %s: its model has a node %s, which is the name of the list in grouping %s: use that, or choose another name: %w",
		schema.Service().Name, list, grouping, cube.ErrInvalid)
}

// schemaRest is how long the model of a removed service is kept for requests that still read it.
const schemaRest = 5 * time.Minute

// Retire closes the model of a removed service once nothing reads it any more. Trees of it have been closed.
func Retire(s *Service) { time.AfterFunc(schemaRest, s.Schema.Close) }

// Info describes a service.
type Info struct {
	Name, Description, Version string
	// Controller is where the service runs, "builtin" for services that are part of the daemon.
	Controller string
	MinKernel  string
	// Model is the text of the YANG module.
	Model       string
	Transparent bool
}

// Describe returns the description of a service that users see.
func (s *Service) Describe() Info {
	i := Info{Name: s.Info.Name, Description: s.Info.Description, Version: s.Info.Version, Controller: "builtin",
		MinKernel: s.Info.MinKernel, Model: s.Model, Transparent: s.Info.Transparent}
	if s.Reg != nil {
		i.Controller = s.Reg.URI
	}
	return i
}

// Same reports whether two services are the same to their cubes.
func Same(a, b cube.Service) bool {
	same := func(x, y []byte) bool { return bytes.Equal(x, y) }
	return a.Model == b.Model && a.MaxPorts == b.MaxPorts && maps.EqualFunc(a.Objects, b.Objects, same)
}

// KernelIs refuses a kernel older than "MAJOR.MINOR[.PATCH]"; "" accepts any.
func KernelIs(atLeast string) error {
	if atLeast == "" {
		return nil
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("read the kernel version: %w", err)
	}
	release := unix.ByteSliceToString(name.Release[:])
	want, err := versionOf(atLeast)
	if err != nil {
		return err
	}
	have, err := versionOf(release)
	if err != nil {
		return err
	}
	if slices.Compare(have, want) < 0 {
		return fmt.Errorf("it requires kernel %s or newer, this is %s: %w", atLeast, release, cube.ErrUnsupported)
	}
	return nil
}

// versionOf reads the numbers at the start of a kernel release.
func versionOf(text string) ([]int, error) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return nil, fmt.Errorf("%.40q is not a kernel version: %w", text, cube.ErrInvalid)
	}
	return []int{major, minor, patch}, nil
}

// Service is a registered service with its model loaded.
type Service struct {
	cube.Service
	Schema *yang.Schema
	Info   yang.Info
	// Reg is the registration of an external service, nil for others.
	Reg *Registration
}

// PortLimit is how many ports an instance can have.
func (s *Service) PortLimit() int {
	if s.MaxPorts > 0 && s.MaxPorts < datapath.MaxPorts {
		return s.MaxPorts
	}
	return datapath.MaxPorts
}
