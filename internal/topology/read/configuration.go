// SPDX-License-Identifier: Apache-2.0

package read

// The configuration as it stands, cube by cube.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/topology/document"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/yang"
)

// Configuration returns the present one. Changes that are made later are not in it.
func (rd *Reader) Configuration() *document.Configuration {
	w := rd.view.Load()
	names := slices.Collect(maps.Keys(w.Cubes))
	for name := range w.Broken {
		names = append(names, name)
	}
	slices.SortFunc(names, document.CompareNatural)
	return &document.Configuration{At: w.Revision, Names: names, Chains: w.Chains,
		ImageOf: func(name string) (*document.Image, error) { return rd.ImageOf(w, name) }}
}

// ImageOf is a cube's configuration in a world, nil if the cube does not exist there. For a cube that could not be
// restored it is the configuration in the store.
func (rd *Reader) ImageOf(w *unit.Snapshot, name string) (*document.Image, error) {
	var service string
	var raw json.RawMessage
	var err error
	if rec := w.Cubes[name]; rec != nil {
		service = rec.Service
		raw, err = rec.SavedWhole(w.Units[name].Service.Schema)
	} else if b := w.Broken[name]; b != nil && len(b.Stored.Config) > 0 {
		service = b.Stored.Service
		raw, err = b.Stored.Whole(rd.ModelOf(service), func(string) bool { return true })
	} else {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	i, err := rd.ImageFrom(service, raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return i, nil
}

// ImageFrom makes an image of a configuration as printed by a tree of the service without defaults.
func (rd *Reader) ImageFrom(service string, raw []byte) (*document.Image, error) {
	return document.NewImage(service, rd.ModelOf(service), raw)
}

// ModelOf is the root of a service's model, nil if the service is not loaded.
func (rd *Reader) ModelOf(service string) *yang.Node {
	if svc := rd.loaded.Load().ByName[service]; svc != nil {
		return svc.Schema.Root()
	}
	return nil
}
