// SPDX-License-Identifier: Apache-2.0

package services

// The services: built-in ones, and external ones that are added, updated and removed while the daemon runs.

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/commands"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/datapath/refusal"
	"github.com/polycube/polycube/internal/rest/directory"
	"github.com/polycube/polycube/internal/rest/help"
	"github.com/polycube/polycube/internal/rest/message"
	"github.com/polycube/polycube/internal/rest/observe"
	"github.com/polycube/polycube/internal/topology"
)

// Entry is a service as GET /services lists it. The two repository ids named the code generators of the first
// Polycube; clients expect the members.
type Entry struct {
	Name        string `json:"name"`
	Controller  string `json:"servicecontroller"`
	Description string `json:"description"`
	Version     string `json:"version"`
	Pyang       string `json:"pyang_repo_id"`
	Swagger     string `json:"swagger_codegen_repo_id"`
	// Status is running or lost for an external service.
	Status string `json:"status,omitempty"`
}

// Detail is a service as GET /services/NAME returns it.
type Detail struct {
	Name       string `json:"name"`
	Controller string `json:"servicecontroller"`
	Model      string `json:"datamodel"`
	// The rest is for external services.
	Type     string     `json:"type,omitempty"`
	Status   string     `json:"status,omitempty"`
	Since    *time.Time `json:"since,omitempty"`
	Restarts int        `json:"restarts,omitempty"`
	Error    string     `json:"error,omitempty"`
}

// Manager adds and removes services: *topology.Manager.
type Manager interface {
	// Services lists the loaded services, in order of registration, ServiceStates the external ones.
	Services() []topology.ServiceInfo
	ServiceStates() []topology.ServiceState
	// AddService, UpdateService and RemoveService are for external services. The first two return the result of the
	// trial load of its programs.
	AddService(context.Context, topology.Registration) (datapath.TrialReport, error)
	UpdateService(context.Context, topology.Registration) (datapath.TrialReport, error)
	RemoveService(ctx context.Context, name string) error
}

// Services serves the services.
type Services struct {
	manager Manager
	out     message.Sender
	names   *directory.Directory
	help    *help.Guide
}

// New serves the services of a Manager.
func New(manager Manager, out message.Sender, names *directory.Directory, guide *help.Guide) *Services {
	return &Services{manager: manager, out: out, names: names, help: guide}
}

// serviceStates are the external services, by name.
func (s *Services) serviceStates() map[string]topology.ServiceState {
	states := map[string]topology.ServiceState{}
	for _, st := range s.manager.ServiceStates() {
		states[st.Name] = st
	}
	return states
}

// serviceEntries lists the services, including those that have not been loaded since the daemon started.
func (s *Services) serviceEntries() []Entry {
	states := s.serviceStates()
	out := []Entry{}
	for _, i := range s.manager.Services() {
		e := Entry{Name: i.Name, Controller: i.Controller, Description: i.Description, Version: i.Version}
		if st, ok := states[i.Name]; ok {
			e.Status = observe.ServiceStatus(st)
			delete(states, i.Name)
		}
		out = append(out, e)
	}
	for _, st := range s.manager.ServiceStates() {
		if _, ok := states[st.Name]; ok {
			out = append(out, Entry{Name: st.Name, Controller: st.URI, Status: observe.ServiceStatus(st)})
		}
	}
	return out
}

// serviceDetail finds a service.
func (s *Services) serviceDetail(name string) (Detail, bool) {
	d, found := Detail{Name: name}, false
	for _, i := range s.manager.Services() {
		if i.Name == name {
			d.Controller, d.Model, found = i.Controller, i.Model, true
		}
	}
	if st, ok := s.serviceStates()[name]; ok {
		d.Type, d.Controller, d.Status, d.Since, d.Restarts, d.Error = st.Type, st.URI, observe.ServiceStatus(st), &st.Since, st.Restarts, st.Error
		found = true
	}
	return d, found
}

// Serve handles /services and /services/NAME.
func (s *Services) Serve(w http.ResponseWriter, r *http.Request, rest []string) error {
	methods := []string{http.MethodGet, http.MethodPost, http.MethodOptions}
	if len(rest) == 1 {
		methods = []string{http.MethodGet, http.MethodPatch, http.MethodDelete, http.MethodOptions}
	}
	if err := message.Allow(r, methods...); err != nil {
		return err
	}
	switch r.Method {
	case http.MethodOptions:
		return s.help.Services(w, r, rest)
	case http.MethodPost:
		return s.addService(w, r)
	case http.MethodPatch:
		return s.updateService(w, r, rest[0])
	case http.MethodDelete:
		return s.removeService(w, r, rest[0])
	}
	if len(rest) == 0 {
		return s.out.JSON(w, r, http.StatusOK, s.serviceEntries())
	}
	d, ok := s.serviceDetail(rest[0])
	if !ok {
		return s.names.NoService(http.StatusNotFound, rest[0])
	}
	return s.out.JSON(w, r, http.StatusOK, []Detail{d})
}

// checkServiceType checks the member type of a request.
func checkServiceType(kind string) error {
	if kind == "lib" || kind == "grpc" {
		return nil
	}
	return &message.Error{Status: http.StatusBadRequest, Tag: "bad-attribute", Field: "type",
		Message: fmt.Sprintf("type: %s is neither lib nor grpc", message.Clip(kind))}
}

// Refusal is the error when a service is refused. A mistake of a starting service is not an error of the daemon.
func Refusal(err error) error {
	if r := refusal.As(err); r != nil && r.Ours() {
		return err
	}
	if errors.Is(err, datapath.ErrUntried) {
		return &message.Error{Status: http.StatusServiceUnavailable, Tag: message.TagFailed, Message: err.Error(), Cause: err}
	}
	for _, known := range []error{cube.ErrExists, cube.ErrInUse, cube.ErrInvalid, cube.ErrUnsupported, cube.ErrFull, cube.ErrRefused} {
		if errors.Is(err, known) {
			return err
		}
	}
	return &message.Error{Status: http.StatusBadRequest, Tag: message.TagFailed, Message: err.Error()}
}

// Trial is the result of the trial load of a service's programs, the response when it is added or updated.
type Trial struct {
	// Programs were loaded, and Same were skipped, because they would have been identical.
	Programs int `json:"programs"`
	Same     int `json:"same"`
	// Combinations of constants were tried; Untried are pairs of values that were not.
	Combinations int `json:"combinations"`
	Untried      int `json:"untried"`
	// Verified is how many instructions the kernel's verifier processed.
	Verified     int   `json:"verified"`
	Milliseconds int64 `json:"milliseconds"`
}

func trialOf(r datapath.TrialReport) Trial {
	return Trial{r.Programs, r.Same, r.Combinations, r.Untried, r.Verified, r.Took.Milliseconds()}
}

func (s *Services) addService(w http.ResponseWriter, r *http.Request) error {
	m, err := message.ReadMembers(w, r, commands.Of(http.MethodPost, "/services").Required(), nil)
	if err != nil {
		return err
	}
	if err := checkServiceType(m["type"]); err != nil {
		return err
	}
	trial, err := s.manager.AddService(r.Context(), topology.Registration{Name: m["name"], Type: m["type"], URI: m["uri"]})
	if err != nil {
		return Refusal(err)
	}
	return s.out.JSON(w, r, http.StatusOK, trialOf(trial))
}

// updateService replaces a service by another version; without a body, by the one at its current URI.
func (s *Services) updateService(w http.ResponseWriter, r *http.Request, name string) error {
	m, err := message.ReadMembers(w, r, nil, commands.Of(http.MethodPatch, "/services/{name}").Allowed())
	if err != nil {
		return err
	}
	if m["type"] != "" {
		if err := checkServiceType(m["type"]); err != nil {
			return err
		}
	}
	if _, ok := s.serviceDetail(name); !ok {
		return s.names.NoService(http.StatusBadRequest, name)
	}
	trial, err := s.manager.UpdateService(r.Context(), topology.Registration{Name: name, Type: m["type"], URI: m["uri"]})
	if err != nil {
		return Refusal(err)
	}
	return s.out.JSON(w, r, http.StatusOK, trialOf(trial))
}

func (s *Services) removeService(w http.ResponseWriter, r *http.Request, name string) error {
	if _, ok := s.serviceDetail(name); !ok {
		return s.names.NoService(http.StatusBadRequest, name)
	}
	if err := s.manager.RemoveService(r.Context(), name); err != nil {
		return Refusal(err)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
