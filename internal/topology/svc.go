// SPDX-License-Identifier: Apache-2.0

package topology

// A service as the daemon loads it: its model, its programs, and what it says of itself.

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/yang"
)

// ErrNoDeleter is the answer of a cube that has no code to delete state.
var ErrNoDeleter = fmt.Errorf("its service has no code to delete it: %w", cube.ErrUnsupported)

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

// schemaRest is how long the model of a service that is gone is kept for requests that still read it.
const schemaRest = 5 * time.Minute

// retire closes the model of a service that is gone, when nobody reads it any more. Trees of it have been closed.
func retire(s *service) { time.AfterFunc(schemaRest, s.schema.Close) }

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

func (s *service) describe() ServiceInfo {
	i := ServiceInfo{Name: s.info.Name, Description: s.info.Description, Version: s.info.Version, Controller: "builtin",
		MinKernel: s.info.MinKernel, Model: s.Model, Transparent: s.info.Transparent}
	if s.reg != nil {
		i.Controller = s.reg.URI
	}
	return i
}

// sameService says whether cubes cannot tell one from the other.
func sameService(a, b cube.Service) bool {
	same := func(x, y []byte) bool { return bytes.Equal(x, y) }
	return a.Model == b.Model && a.MaxPorts == b.MaxPorts && maps.EqualFunc(a.Objects, b.Objects, same)
}

// KernelIs refuses a kernel that is older than "MAJOR.MINOR[.PATCH]"; empty is any.
func KernelIs(atLeast string) error {
	if atLeast == "" {
		return nil
	}
	var name unix.Utsname
	if err := unix.Uname(&name); err != nil {
		return fmt.Errorf("asking for the kernel's version: %w", err)
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
		return fmt.Errorf("it needs a kernel from %s on, this is %s: %w", atLeast, release, cube.ErrUnsupported)
	}
	return nil
}

// versionOf reads the numbers at the start of a release.
func versionOf(text string) ([]int, error) {
	var major, minor, patch int
	if n, _ := fmt.Sscanf(text, "%d.%d.%d", &major, &minor, &patch); n < 2 {
		return nil, fmt.Errorf("%.40q is no version of a kernel: %w", text, cube.ErrInvalid)
	}
	return []int{major, minor, patch}, nil
}

// service is a registered service with its model loaded.
type service struct {
	cube.Service
	schema *yang.Schema
	info   yang.Info
	// reg is where a service runs that is not part of the daemon, nil for the others.
	reg *Registration
}

// portLimit is how many ports an instance can have.
func (s *service) portLimit() int {
	if s.MaxPorts > 0 && s.MaxPorts < datapath.MaxPorts {
		return s.MaxPorts
	}
	return datapath.MaxPorts
}
