// SPDX-License-Identifier: Apache-2.0

package topology

// The configuration of an earlier moment, out of the records that the store had then, and the difference of two of them.

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/store"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// models finds the root of a service's model, nil when the service is not loaded.
type models func(service string) *yang.Node

// compareStates compares what the store held at two moments.
func compareStates(of models, before, after *store.State) (Difference, error) {
	was, is := readPast(before), readPast(after)
	var d Difference
	names := slices.Concat(was.names, is.names)
	slices.SortFunc(names, compareNatural)
	for _, name := range slices.Compact(names) {
		if was.unchanged(is, name) {
			continue
		}
		x, err := was.image(of, name)
		if err != nil {
			return d, err
		}
		y, err := is.image(of, name)
		if err != nil {
			return d, err
		}
		reason := ""
		if x != nil && y != nil && was.uuid(name) != is.uuid(name) {
			reason = "it was made anew"
		}
		if one := compareCube(name, x, y, reason); one != nil {
			d.Cubes = append(d.Cubes, *one)
		}
	}
	d.Netdevs = compareChains(was.chains, is.chains)
	return d, nil
}

// pastState is the configuration in the records of a store.
type pastState struct {
	// names are those of the cubes, in their order.
	names  []string
	blobs  map[string][]byte
	chains map[string][]string
	// entries are those of large lists, by the UUID of their cube.
	entries map[string]*world.StoredEntries
}

// readPast takes the configuration out of the records of a store.
func readPast(state *store.State) *pastState {
	p := &pastState{blobs: map[string][]byte{}, chains: map[string][]string{}, entries: world.ReadEntries(state)}
	for _, r := range state.Records {
		if name, ok := strings.CutPrefix(r.Key, world.CubeKey); ok {
			p.names = append(p.names, name)
			p.blobs[name] = r.Value
		} else if dev, ok := strings.CutPrefix(r.Key, world.NetdevKey); ok {
			var chain world.StoredChain
			if json.Unmarshal(r.Value, &chain) == nil && len(chain.Tcubes) > 0 {
				p.chains[dev] = chain.Tcubes
			}
		}
	}
	slices.SortFunc(p.names, compareNatural)
	return p
}

// unchanged tells that a cube's records are the same in both.
func (p *pastState) unchanged(other *pastState, name string) bool {
	if p.blobs[name] == nil || string(p.blobs[name]) != string(other.blobs[name]) {
		return false
	}
	uuid := p.uuid(name)
	return reflect.DeepEqual(p.entries[uuid], other.entries[uuid])
}

func (p *pastState) uuid(name string) string {
	var s world.Stored
	_ = json.Unmarshal(p.blobs[name], &s) // a damaged one has none
	return s.UUID
}

// image reads a cube, nil if it is not there or nothing can be read of it.
func (p *pastState) image(of models, name string) (*image, error) {
	var s world.Stored
	_ = json.Unmarshal(p.blobs[name], &s) // of a damaged one nothing is shown
	if len(s.Config) == 0 {
		return nil, nil
	}
	s.Entries = p.entries[s.UUID]
	config, err := s.Whole(func(string) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	i, err := newImage(s.Service, of(s.Service), config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return i, nil
}
