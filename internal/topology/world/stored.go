// SPDX-License-Identifier: Apache-2.0

package world

// The stored form of a cube, and of the transparent cubes of a netdev: one record each.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/jsonscan"
)

// CubeKey and NetdevKey are the prefixes of the keys in the store of cubes and of netdevs with transparent cubes.
const (
	CubeKey   = "cube/"
	NetdevKey = "netdev/"
)

// Stored is a cube in the store. Peers and tcubes of ports are part of the configuration.
type Stored struct {
	Service string          `json:"service"`
	Name    string          `json:"name"`
	UUID    string          `json:"uuid"`
	ID      datapath.CubeID `json:"id"`
	Seq     uint64          `json:"seq"`
	Type    cube.Type       `json:"type"`
	Config  json.RawMessage `json:"config,omitempty"`
	Ports   []StoredPort    `json:"ports,omitempty"`
	// Transparent is stored for a daemon in which the service is not loaded.
	Transparent bool `json:"transparent,omitempty"`
	// Blob is the record as it was read, Entries the entries of large lists.
	Blob    []byte         `json:"-"`
	Entries *StoredEntries `json:"-"`
}

// StoredPort is what is stored of a port in addition to the configuration.
type StoredPort struct {
	Name  string `json:"name"`
	Index uint16 `json:"index"`
	Slot  uint16 `json:"slot"`
	UUID  string `json:"uuid"`
	// OwnMAC is the address that a netdev gets back when it is disconnected from the port.
	OwnMAC string `json:"own-mac,omitempty"`
}

// StoredChain is a netdev in the store.
type StoredChain struct {
	Tcubes []string `json:"tcubes"`
}

// Encode returns the record in the form of the store. It is made again only if something of it is new: a change of entries
// of large lists, which have records of their own, costs nothing here.
func (r *Cube) Encode() ([]byte, error) {
	is := r.identity()
	err := r.encodePorts()
	if e := r.encoded; err == nil && e != nil && e.identity == is && e.ports == r.stored && bytes.Equal(e.saved, r.Saved) {
		return e.blob, nil
	}
	var head []byte
	if err == nil {
		head, err = json.Marshal(Stored{Service: is.service, Name: is.name, UUID: is.uuid, ID: is.id, Seq: is.seq, Type: is.kind,
			Transparent: is.transparent})
	}
	if err != nil {
		return nil, fmt.Errorf("%s: encode its record: %w", r.Name, err)
	}
	w := jsonscan.NewWriter(len(head) + len(r.Saved) + len(r.stored.text) + 32)
	w.Extend(head)
	w.Add("config", r.Saved)
	w.Add("ports", r.stored.text)
	r.encoded = &encoded{identity: is, saved: r.Saved, ports: r.stored, blob: w.Bytes()}
	return r.encoded.blob, nil
}

// encoded is the form of the store, with what it was made from.
type encoded struct {
	identity
	saved json.RawMessage
	ports *storedPorts
	blob  []byte
}

// identity is what is stored of a cube in addition to its configuration and ports.
type identity struct {
	service, name, uuid string
	id                  datapath.CubeID
	seq                 uint64
	kind                cube.Type
	transparent         bool
}

func (r *Cube) identity() identity {
	return identity{service: r.Service, name: r.Name, uuid: r.UUID, id: r.ID, seq: r.Seq, kind: r.Type, transparent: r.Transparent}
}

// storedPorts are ports as they are stored, and the text of that, nil if there are none.
type storedPorts struct {
	ports []StoredPort
	text  []byte
}

// encodePorts encodes the ports, unless they are as they were last.
func (r *Cube) encodePorts() error {
	if r.stored != nil && r.stored.of(r) {
		return nil
	}
	is := &storedPorts{}
	for _, p := range r.PortsByIndex() {
		is.ports = append(is.ports, p.stored())
	}
	if len(is.ports) > 0 {
		var err error
		if is.text, err = json.Marshal(is.ports); err != nil {
			return err
		}
	}
	r.stored = is
	return nil
}

func (s *storedPorts) of(r *Cube) bool {
	return len(s.ports) == len(r.Ports) && !slices.ContainsFunc(s.ports, func(was StoredPort) bool {
		p := r.Ports[was.Name]
		return p == nil || p.stored() != was
	})
}

func (p *Port) stored() StoredPort {
	return StoredPort{Name: p.Name, Index: p.Index, Slot: p.Slot, UUID: p.UUID, OwnMAC: p.OwnMAC}
}

// Cube is what the data plane must know of a stored cube that runs as before.
func (s *Stored) Cube(transparent bool) (*Cube, error) {
	var conf Common
	if err := json.Unmarshal(s.Config, &conf); err != nil {
		return nil, fmt.Errorf("its configuration: %w", err)
	}
	if conf.Shadow || conf.Span {
		return nil, fmt.Errorf("its namespace needs its service: %w", cube.ErrUnsupported)
	}
	rec := &Cube{Name: s.Name, Service: s.Service, UUID: s.UUID, ID: s.ID, Seq: s.Seq, Type: s.Type, Transparent: transparent,
		Ports: map[string]*Port{}}
	for _, p := range s.Ports {
		rec.Ports[p.Name] = &Port{Name: p.Name, UUID: p.UUID, Index: p.Index, Slot: p.Slot}
	}
	for _, c := range conf.Ports {
		if p := rec.Ports[c.Name]; p != nil {
			p.Peer, p.Tcubes = c.Peer, c.Tcubes
		}
	}
	if transparent {
		var err error
		if rec.Outputs, err = OutputsIn(s.Config); err != nil {
			return nil, err
		}
	}
	return rec, nil
}
