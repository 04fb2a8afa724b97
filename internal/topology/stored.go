// SPDX-License-Identifier: Apache-2.0

package topology

// The form in which a cube, and the transparent cubes of a netdev, are stored: a record for each.

import (
	"encoding/json"
	"fmt"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
)

// Keys in the store begin with one of these.
const (
	cubeKey   = "cube/"
	netdevKey = "netdev/"
)

// stored is a cube in the store. Peers and tcubes of ports are part of the configuration.
type stored struct {
	Service string          `json:"service"`
	Name    string          `json:"name"`
	UUID    string          `json:"uuid"`
	ID      datapath.CubeID `json:"id"`
	Seq     uint64          `json:"seq"`
	Type    cube.Type       `json:"type"`
	Config  json.RawMessage `json:"config"`
	Ports   []storedPort    `json:"ports,omitempty"`
	// Transparent is noted for a daemon in which the service is not loaded.
	Transparent bool `json:"transparent,omitempty"`
	// blob is the record as it was read, entries those of large lists.
	blob    []byte
	entries *storedEntries
}

type storedPort struct {
	Name  string `json:"name"`
	Index uint16 `json:"index"`
	Slot  uint16 `json:"slot"`
	UUID  string `json:"uuid"`
	// OwnMAC is what a netdev gets back when the port leaves it.
	OwnMAC string `json:"own-mac,omitempty"`
}

// storedChain is a netdev in the store.
type storedChain struct {
	Tcubes []string `json:"tcubes"`
}

func (r *record) encode() ([]byte, error) {
	s := stored{Service: r.service, Name: r.name, UUID: r.uuid, ID: r.id, Seq: r.seq, Type: r.typ, Config: r.saved,
		Transparent: r.transparent}
	for _, p := range r.portsByIndex() {
		s.Ports = append(s.Ports, storedPort{Name: p.name, Index: p.index, Slot: p.slot, UUID: p.uuid, OwnMAC: p.ownMAC})
	}
	blob, err := json.Marshal(s)
	if err != nil {
		return nil, fmt.Errorf("%s: encoding its record: %w", r.name, err)
	}
	return blob, nil
}

// record is what the data plane must know of a stored cube that goes on as it was.
func (s *stored) record(transparent bool) (*record, error) {
	var conf baseConfig
	if err := json.Unmarshal(s.Config, &conf); err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	if conf.Shadow || conf.Span {
		return nil, fmt.Errorf("its namespace needs its service: %w", cube.ErrUnsupported)
	}
	rec := &record{name: s.Name, service: s.Service, uuid: s.UUID, id: s.ID, seq: s.Seq, typ: s.Type, transparent: transparent,
		ports: map[string]*port{}}
	for _, p := range s.Ports {
		rec.ports[p.Name] = &port{name: p.Name, uuid: p.UUID, index: p.Index, slot: p.Slot}
	}
	for _, c := range conf.Ports {
		if p := rec.ports[c.Name]; p != nil {
			p.peer, p.tcubes = c.Peer, c.Tcubes
		}
	}
	return rec, nil
}
