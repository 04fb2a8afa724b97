// SPDX-License-Identifier: Apache-2.0

// The daemon's answers and the model, as lines that can be compared.

package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/polycube/polycube/test/e2e/model"
	"github.com/polycube/polycube/test/netns"
)

// flatten converts the answer of GET /cubes to sorted lines, without learned state.
func flatten(text string) ([]string, error) {
	var all map[string][]shown
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return nil, fmt.Errorf("GET /cubes: %w: %s", err, clip(text))
	}
	var out []string
	for service, cubes := range all {
		for _, c := range cubes {
			out = append(out, fmt.Sprintf("%s %s %s %s parent=%q action=%s %s/%s aging=%d", service, c.Name, c.Type, c.Level, c.Parent, c.Action, c.Ingress, c.Egress, c.Fdb.Aging))
			for _, p := range c.Ports {
				out = append(out, portLine(c.Name, p.Name, p.Peer, p.Status == "UP", p.Tcubes))
			}
			for _, a := range c.Actions {
				out = append(out, fmt.Sprintf("%s: %s %s %s", c.Name, a.Inport, a.Action, a.Outport))
			}
		}
	}
	slices.Sort(out)
	return out, nil
}

func portLine(cube, port, peer string, up bool, tcubes []string) string {
	return fmt.Sprintf("%s:%s peer=%q up=%t tcubes=%s", cube, port, peer, up, strings.Join(tcubes, ","))
}

// wanted is the model's world in the form of flatten.
func (s *site) wanted() []string {
	var out []string
	for _, name := range s.world.Names() {
		c := s.world.Cubes[name]
		out = append(out, fmt.Sprintf("%s %s %s %s parent=%q action=%s %s/%s aging=%d", c.Service, name, c.Type, c.Loglevel, c.Parent, c.Action, c.Ingress, c.Egress, c.Aging))
		for _, p := range c.Ports {
			out = append(out, portLine(name, p.Name, p.Peer, s.world.Linked(c, p), p.Tcubes))
		}
		for _, in := range slices.Sorted(maps.Keys(c.Actions)) {
			a := c.Actions[in]
			out = append(out, fmt.Sprintf("%s: %s %s %s", name, in, a.Verb, a.Out))
		}
	}
	slices.Sort(out)
	return out
}

// forgotten waits until bridges have removed the addresses that an operation removes: they are notified a moment later.
func (s *site) forgotten(o model.Op) {
	s.t.Helper()
	switch o.Verb {
	case model.DelCube, model.DelPort, model.Connect, model.Disconnect, model.SetPeer, model.DelNetdev, model.NetdevDown, model.Start:
		netns.Eventually(s.t, s.patience, s.learnedAsModelled)
	}
}

// learnedAsModelled compares the learned addresses of bridges. They are not part of the configuration, and need one
// request per bridge.
func (s *site) learnedAsModelled() error {
	s.t.Helper()
	for _, name := range s.world.Names() {
		c := s.world.Cubes[name]
		if c.Service != model.Bridge || s.world.Down {
			continue
		}
		var want []string
		for _, known := range []map[string]string{c.Fixed, c.Learned} {
			for mac, port := range known {
				want = append(want, mac+" "+port)
			}
		}
		slices.Sort(want)
		if got := s.learned(name); !slices.Equal(got, want) {
			return fmt.Errorf("%s knows %v, want %v", name, got, want)
		}
	}
	return nil
}
