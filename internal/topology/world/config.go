// SPDX-License-Identifier: Apache-2.0

package world

// The part of a cube's configuration that is known without its model.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"

	"github.com/polycube/polycube/cube"
)

// Common are the members of a configuration that the framework itself uses.
type Common struct {
	Type     cube.Type `json:"type"`
	Loglevel string    `json:"loglevel"`
	Shadow   bool      `json:"shadow"`
	Span     bool      `json:"span"`
	Ports    []struct {
		Name   string   `json:"name"`
		Peer   string   `json:"peer"`
		Tcubes []string `json:"tcubes"`
	} `json:"ports"`
}

// Config is a JSON object that is decoded on first use.
type Config struct {
	Raw json.RawMessage
	// Ports is its member `ports`, nil if there is none.
	Ports  json.RawMessage
	once   sync.Once
	object map[string]any
	err    error
}

// Decode returns the configuration as an object, which must not be changed.
func (d *Config) Decode() (map[string]any, error) {
	d.once.Do(func() { d.object, d.err = DecodeObject(d.Raw) })
	return d.object, d.err
}

// DecodeObject keeps numbers as text: 64-bit ones do not fit a float.
func DecodeObject(raw []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	object := map[string]any{}
	if err := dec.Decode(&object); err != nil {
		return nil, fmt.Errorf("decode a JSON object: %w", err)
	}
	return object, nil
}
