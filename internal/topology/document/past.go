// SPDX-License-Identifier: Apache-2.0

package document

// The configuration at an earlier time, from the records that the store had then, and the difference between two of
// them.

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

// Models finds the root of a service's model, nil if the service is not loaded.
type Models func(service string) *yang.Node

// CompareStates compares the contents of the store at two points in time.
func CompareStates(of Models, before, after *store.State) (Difference, error) {
	was, is := ReadPast(before), ReadPast(after)
	var d Difference
	names := slices.Concat(was.Names, is.Names)
	slices.SortFunc(names, CompareNatural)
	for _, name := range slices.Compact(names) {
		if was.unchanged(is, name) {
			continue
		}
		x, err := was.Image(of, name)
		if err != nil {
			return d, err
		}
		y, err := is.Image(of, name)
		if err != nil {
			return d, err
		}
		reason := ""
		if x != nil && y != nil && was.uuid(name) != is.uuid(name) {
			reason = "it was re-created"
		}
		if one := CompareCubes(name, x, y, reason); one != nil {
			d.Cubes = append(d.Cubes, *one)
		}
	}
	d.Netdevs = CompareChains(was.Chains, is.Chains)
	return d, nil
}

// Past is the configuration in the records of a store.
type Past struct {
	// Names are those of the cubes, in their order.
	Names  []string
	blobs  map[string][]byte
	Chains map[string][]string
	// entries are the entries of large lists, by the UUID of their cube.
	entries map[string]*world.StoredEntries
}

// ReadPast extracts the configuration from the records of a store.
func ReadPast(state *store.State) *Past {
	p := &Past{blobs: map[string][]byte{}, Chains: map[string][]string{}, entries: world.ReadEntries(state)}
	for _, r := range state.Records {
		if name, ok := strings.CutPrefix(r.Key, world.CubeKey); ok {
			p.Names = append(p.Names, name)
			p.blobs[name] = r.Value
		} else if dev, ok := strings.CutPrefix(r.Key, world.NetdevKey); ok {
			var chain world.StoredChain
			if json.Unmarshal(r.Value, &chain) == nil && len(chain.Tcubes) > 0 {
				p.Chains[dev] = chain.Tcubes
			}
		}
	}
	slices.SortFunc(p.Names, CompareNatural)
	return p
}

// unchanged reports whether a cube's records are the same in both.
func (p *Past) unchanged(other *Past, name string) bool {
	if p.blobs[name] == nil || string(p.blobs[name]) != string(other.blobs[name]) {
		return false
	}
	uuid := p.uuid(name)
	return reflect.DeepEqual(p.entries[uuid], other.entries[uuid])
}

func (p *Past) uuid(name string) string {
	var s world.Stored
	_ = json.Unmarshal(p.blobs[name], &s) // a damaged record has none
	return s.UUID
}

// Image reads a cube, nil if it does not exist or cannot be read.
func (p *Past) Image(of Models, name string) (*Image, error) {
	var s world.Stored
	_ = json.Unmarshal(p.blobs[name], &s) // nothing is shown of a damaged record
	if len(s.Config) == 0 {
		return nil, nil
	}
	s.Entries = p.entries[s.UUID]
	config, err := s.Whole(of(s.Service), func(string) bool { return true })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	i, err := NewImage(s.Service, of(s.Service), config)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return i, nil
}
