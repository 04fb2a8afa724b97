// SPDX-License-Identifier: Apache-2.0

// Package world is the state of the topology as data: cubes, their ports, chains of transparent cubes and netdevs,
// their stored form, and how the data plane's graph is derived from them. It contains no code of cubes and never waits.
package world

// The world is the whole state of the topology, as data: readers use one without ever waiting, a transaction makes the
// next one. Nothing that a published world points to is ever changed.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
)

// World is one consistent state of cubes, chains and netdevs.
type World struct {
	Cubes map[string]*Cube
	// Chains are the transparent cubes of netdevs, first to last towards the stack on ingress.
	Chains map[string][]string
	// Links are the netdevs, changed by SetLink and SetLinks only: until then a world shares them with the previous
	// one.
	Links    map[string]Link
	ownLinks bool
	// Aligned are the netdevs that are synchronized with ports.
	Aligned map[string]*Aligned
	// Broken are the cubes that could not be restored; their names and numbers stay in use.
	Broken map[string]*Broken
	// Revision counts the changes of the configuration.
	Revision uint64
	// Leaving are the counter slots of ports that the transaction making this world removes.
	Leaving map[uint16]bool
	// Trace is the union of what trace sessions want to see of packets.
	Trace *fuse.Trace
}

// Cube is one cube as data.
type Cube struct {
	Name, Service, UUID string
	ID                  datapath.CubeID
	// Seq orders cubes by creation.
	Seq         uint64
	Type        cube.Type
	Transparent bool
	LogLevel    datapath.LogLevel
	// Config is the configuration with defaults, Saved only what was set.
	Config *Config
	Saved  json.RawMessage
	// Tables are the entries of large lists, which are not in Config and Saved.
	Tables *bulk.Tables
	// Constants are all constants that the cube's plans have set so far.
	Constants map[string]any
	// Maps counts how often maps of the cube were resized.
	Maps  uint64
	Ports map[string]*Port
	// Outputs are those of a transparent cube, sorted by number.
	Outputs []cube.Output
	// Shadow is true for a cube with a namespace, Span if the namespace gets all its traffic.
	Shadow, Span bool
	// Parent is where a transparent cube is attached, "" for nowhere.
	Parent string
	// Revision is the last revision that changed the cube.
	Revision uint64
	// Blob is the record as it was last stored.
	Blob    []byte
	stored  *storedPorts
	encoded *encoded
}

// Port is a standard cube's port as data.
type Port struct {
	Name, UUID  string
	Index, Slot uint16
	Peer        string
	// Tcubes are the port's transparent cubes, index 0 next to the cube.
	Tcubes []string
	// Outer is the index of the outer end of its interface in the cube's namespace, 0 if there is none.
	Outer int
	// OwnMAC is the MAC address that its netdev had before the port's address was set on it, "" if none was.
	OwnMAC string
	// InnerDown is set while that interface is down in the namespace.
	InnerDown bool
}

// Broken is a stored cube that could not be restored.
type Broken struct {
	Stored Stored
	Reason string
	// Made is set if its maps are open in the data plane.
	Made bool
	// Running is set while it forwards packets with the programs that an earlier daemon linked.
	Running *Cube
}

// String says why it could not be restored, and what can be done.
func (b *Broken) String() string {
	goesOn := ""
	if b.Running != nil {
		goesOn = ", continues to forward as before"
	}
	return fmt.Sprintf("could not be restored (%s)%s, delete it or repair its service", b.Reason, goesOn)
}

// New returns an empty world.
func New() World {
	return World{
		Cubes: map[string]*Cube{}, Chains: map[string][]string{},
		Links: map[string]Link{}, ownLinks: true, Aligned: map[string]*Aligned{}, Broken: map[string]*Broken{},
	}
}

// Clone is a world that can be changed; it shares the records.
func (w *World) Clone() World {
	return World{
		Cubes: maps.Clone(w.Cubes), Chains: maps.Clone(w.Chains), Links: w.Links, Aligned: maps.Clone(w.Aligned),
		Broken: maps.Clone(w.Broken), Revision: w.Revision, Trace: w.Trace, Leaving: map[uint16]bool{},
	}
}

// Clone is a record that can be changed without effect on readers of the old one.
func (r *Cube) Clone() *Cube {
	c := *r
	c.Ports = make(map[string]*Port, len(r.Ports))
	ports := make([]Port, 0, len(r.Ports))
	for name, p := range r.Ports {
		ports = append(ports, *p)
		c.Ports[name] = &ports[len(ports)-1]
	}
	return &c
}

// SamePorts reports whether the ports are configured as in an earlier record of the cube.
func (r *Cube) SamePorts(was *Cube) bool {
	return was != nil && was.Config != nil && bytes.Equal(was.Config.Ports, r.Config.Ports)
}

// InOrder returns the records by creation.
func (w *World) InOrder() []*Cube {
	recs := slices.Collect(maps.Values(w.Cubes))
	slices.SortFunc(recs, func(a, b *Cube) int { return int(int64(a.Seq) - int64(b.Seq)) })
	return recs
}

// AllRunning returns the records of all cubes in the data plane.
func (w *World) AllRunning() []*Cube {
	recs := slices.Collect(maps.Values(w.Cubes))
	for _, b := range w.Broken {
		if b.Running != nil {
			recs = append(recs, b.Running)
		}
	}
	return recs
}

// PortsByIndex returns the ports in the order of their numbers in the fast path.
func (r *Cube) PortsByIndex() []*Port {
	ports := slices.Collect(maps.Values(r.Ports))
	slices.SortFunc(ports, func(a, b *Port) int { return int(a.Index) - int(b.Index) })
	return ports
}

// PortAt finds the port that a place names.
func (w *World) PortAt(at Place) (*Cube, *Port, error) {
	rec := w.Cubes[at.Cube]
	if rec == nil {
		return nil, nil, &AbsentError{Kind: "cube", Name: at.Cube, Err: w.Missing(at.Cube)}
	}
	if rec.Transparent {
		return nil, nil, fmt.Errorf("%s is a transparent cube and has no ports: attach it to a port or netdev: %w", at.Cube, cube.ErrInvalid)
	}
	p := rec.Ports[at.Port]
	if p == nil {
		return nil, nil, &AbsentError{Kind: "port", Name: at.Port, Cube: at.Cube, Err: cube.ErrNotFound}
	}
	return rec, p, nil
}

// Running returns a cube in the data plane: a working one, or one that could not be restored and runs as before.
func (w *World) Running(name string) *Cube {
	if rec := w.Cubes[name]; rec != nil {
		return rec
	}
	if b := w.Broken[name]; b != nil {
		return b.Running
	}
	return nil
}

// runningPort is PortAt for the data plane: nil if there is no such port.
func (w *World) runningPort(at Place) (*Cube, *Port) {
	rec := w.Running(at.Cube)
	if rec == nil || rec.Ports[at.Port] == nil {
		return nil, nil
	}
	return rec, rec.Ports[at.Port]
}

// Missing is the error for a name that is not in Cubes.
func (w *World) Missing(name string) error {
	if b := w.Broken[name]; b != nil {
		return fmt.Errorf("%s: %w", b, cube.ErrNotFound)
	}
	return cube.ErrNotFound
}

// ChainAt returns the transparent cubes at a place that exists.
func (w *World) ChainAt(at Place) []string {
	if at.Netdev != "" {
		return w.Chains[at.Netdev]
	}
	if rec := w.Cubes[at.Cube]; rec != nil && rec.Ports[at.Port] != nil {
		return rec.Ports[at.Port].Tcubes
	}
	return nil
}

// Linked reports whether packets can pass between a port and its peer.
func (w *World) Linked(rec *Cube, p *Port) bool {
	if p.Peer == "" {
		return false
	}
	at, err := ParsePlace(p.Peer)
	if err != nil {
		return false
	}
	if at.Netdev != "" {
		return w.WhyDown(at.Netdev) == ""
	}
	_, other := w.runningPort(at)
	return other != nil && other.Peer == (Place{Cube: rec.Name, Port: p.Name}).String()
}

// Holders maps the wanted peers to the ports that name them.
func (w *World) Holders(wanted func(peer string) bool) map[string][]Place {
	held := map[string][]Place{}
	for _, rec := range w.AllRunning() {
		for _, p := range rec.Ports {
			if p.Peer != "" && wanted(p.Peer) {
				held[p.Peer] = append(held[p.Peer], Place{Cube: rec.Name, Port: p.Name})
			}
		}
	}
	return held
}

// AllHolders maps each peer that a port names to the ports that name it.
func (w *World) AllHolders() map[string][]Place {
	return w.Holders(func(string) bool { return true })
}

// PortsOf are the ports of a record, none of nil.
func (r *Cube) PortsOf() map[string]*Port {
	if r == nil {
		return nil
	}
	return r.Ports
}

// outputsOf are the outputs of a record, none of nil.
func (r *Cube) outputsOf() []cube.Output {
	if r == nil {
		return nil
	}
	return r.Outputs
}

// PeerOf returns the peer of a port.
func (w *World) PeerOf(at Place) (Place, error) {
	_, p, err := w.PortAt(at)
	if err != nil {
		return Place{}, err
	}
	return ParsePlace(p.Peer)
}

// NextPlace is the port or netdev that a packet at a place reaches next.
func (w *World) NextPlace(name string, egress bool) (Place, error) {
	if rec := w.Cubes[name]; rec != nil && rec.Transparent {
		name = rec.Parent
	}
	at, err := ParsePlace(name)
	if err != nil {
		return Place{}, err
	}
	switch {
	case at.Netdev != "" && egress:
		return at, nil // the wire, or the stack
	case at.Netdev != "":
		if held := w.AllHolders()[at.Netdev]; len(held) > 0 {
			return held[0], nil
		}
		return at, nil
	case egress:
		return w.PeerOf(at)
	}
	return at, nil
}
