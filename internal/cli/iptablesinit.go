// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/polycube/polycube/internal/cli/output"
)

// The types of a host firewall: where it gets what netdevs receive.
const (
	typeTC  = "TC"
	typeXDP = "XDP_DRV"
)

// placed is where a cube is.
type placed struct{ Type, Parent string }

// placeOf returns where a cube is; errNoCube if it does not exist.
func placeOf(s *session, service, cube string) (is placed, err error) {
	a, err := s.demand(request{method: http.MethodGet, path: []string{service, cube}})
	if a.status == http.StatusNotFound {
		return is, errNoCube
	}
	if err != nil {
		return is, err
	}
	if err := json.Unmarshal(a.body, &is); err != nil {
		return is, fmt.Errorf("read the answer: %w", err)
	}
	return is, nil
}

// initIptables creates the cube iptables at the host's stack. One of the type that is there already stays as it is.
func initIptables(s *session, cube, typ string) (code int, err error) {
	if s.config, err = loadConfig(s.getenv, ""); err != nil {
		return iptablesProblem, err
	}
	body, err := json.Marshal([]map[string]string{{"service-name": "iptables", "name": cube, "type": typ, "parent": "host"}})
	if err != nil {
		return iptablesProblem, fmt.Errorf("encode the request: %w", err)
	}
	_, err = s.demand(request{method: http.MethodPost, path: []string{"cubes"}, body: body})
	if err == nil {
		return 0, nil
	}
	is, missing := placeOf(s, "iptables", cube)
	switch {
	case missing != nil:
		return iptablesProblem, err
	case is.Type != typ:
		return iptablesProblem, fmt.Errorf("there is a firewall %s of type %s: to replace it, save its rules (pcn-iptables-save), remove it (pcn-iptables-clean) and create another one", cube, output.Clean(is.Type))
	case is.Parent == "":
		return iptablesSteps(s, []string{"attach", cube, "host"})
	case is.Parent != "host":
		return iptablesProblem, fmt.Errorf("the cube %s is at %s, not at the host: detach it first (polycubectl detach %s %s)", cube, output.Clean(is.Parent), cube, output.Clean(is.Parent))
	}
	return 0, nil
}
