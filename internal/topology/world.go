// SPDX-License-Identifier: Apache-2.0

package topology

// The world is all that the topology knows, as data: readers hold one and never wait, a transaction makes the next one.
// Whatever a published world points to is never changed again.

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	fuse "github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/internal/yang"
)

// world is one consistent state of cubes, chains and netdevs.
type world struct {
	cubes map[string]*record
	// chains holds the transparent cubes of netdevs, listed first to last towards the stack on ingress.
	chains map[string][]string
	links  map[string]link
	// aligned are the netdevs that are kept equal with ports.
	aligned map[string]*aligned
	// broken are the cubes that could not be restored; their names and numbers stay taken.
	broken map[string]*brokenCube
	// revision counts the changes of the configuration.
	revision uint64
	// leaving are the counter slots of ports that the transaction which makes this world removes.
	leaving map[uint16]bool
	// trace is what sessions want to see of packets.
	trace *fuse.Trace
}

// record is one cube as data.
type record struct {
	name, service, uuid string
	id                  datapath.CubeID
	// seq orders cubes by creation.
	seq         uint64
	typ         cube.Type
	transparent bool
	level       datapath.LogLevel
	// conf is the configuration with defaults, saved only what was set.
	conf  *document
	saved json.RawMessage
	// tables are the entries of large lists, which conf and saved do not have.
	tables map[*yang.Node]*yang.Table
	// constants are all that the cube's plans have set so far.
	constants map[string]any
	// maps counts how often maps of the cube got another size.
	maps  uint64
	ports map[string]*port
	// shadow is true for a cube with a namespace, span if that sees all its traffic.
	shadow, span bool
	// parent is where a transparent cube is attached, "" for nowhere.
	parent string
	// revision is the last that changed the cube.
	revision uint64
	// blob is the record as it was last stored.
	blob []byte
}

// port is a standard cube's port as data.
type port struct {
	name, uuid  string
	index, slot uint16
	peer        string
	// tcubes are the port's transparent cubes, index 0 next to the cube.
	tcubes []string
	// outer is the index of the outer end of its interface in the cube's namespace, 0 for none.
	outer int
	// ownMAC is the MAC address that its netdev had before the port gave it its own, "" for none.
	ownMAC string
	// innerDown is set while that interface is down in the namespace.
	innerDown bool
}

// brokenCube is a cube of the store that could not be restored.
type brokenCube struct {
	stored stored
	reason string
	// made says that its maps are open in the data plane.
	made bool
	// rec is set while it goes on forwarding with the programs that an earlier daemon linked.
	rec *record
}

// String says what is the matter with it, and what can be done.
func (b *brokenCube) String() string {
	goesOn := ""
	if b.rec != nil {
		goesOn = ", goes on forwarding as it was"
	}
	return fmt.Sprintf("could not be restored (%s)%s, delete it or repair its service", b.reason, goesOn)
}

func newWorld() world {
	return world{
		cubes: map[string]*record{}, chains: map[string][]string{},
		links: map[string]link{}, aligned: map[string]*aligned{}, broken: map[string]*brokenCube{},
	}
}

// clone is a world that can be changed; its records are still shared.
func (w *world) clone() world {
	return world{
		cubes: maps.Clone(w.cubes), chains: maps.Clone(w.chains), links: maps.Clone(w.links), aligned: maps.Clone(w.aligned),
		broken: maps.Clone(w.broken), revision: w.revision, trace: w.trace, leaving: map[uint16]bool{},
	}
}

// clone is a record that can be changed without being seen by readers of the old one.
func (r *record) clone() *record {
	c := *r
	c.ports = make(map[string]*port, len(r.ports))
	for name, p := range r.ports {
		q := *p
		c.ports[name] = &q
	}
	return &c
}

// inOrder returns the records by creation.
func (w *world) inOrder() []*record {
	recs := slices.Collect(maps.Values(w.cubes))
	slices.SortFunc(recs, func(a, b *record) int { return int(int64(a.seq) - int64(b.seq)) })
	return recs
}

// allRunning returns the records of all cubes that the data plane has.
func (w *world) allRunning() []*record {
	recs := slices.Collect(maps.Values(w.cubes))
	for _, b := range w.broken {
		if b.rec != nil {
			recs = append(recs, b.rec)
		}
	}
	return recs
}

// portsByIndex returns the ports in the order that the fast path numbers them.
func (r *record) portsByIndex() []*port {
	ports := slices.Collect(maps.Values(r.ports))
	slices.SortFunc(ports, func(a, b *port) int { return int(a.index) - int(b.index) })
	return ports
}

// portAt finds the port that a place names.
func (w *world) portAt(at place) (*record, *port, error) {
	rec := w.cubes[at.cube]
	if rec == nil {
		return nil, nil, &AbsentError{Kind: "cube", Name: at.cube, err: w.missing(at.cube)}
	}
	if rec.transparent {
		return nil, nil, fmt.Errorf("%s is a transparent cube and has no ports: attach it to a port or netdev: %w", at.cube, cube.ErrInvalid)
	}
	p := rec.ports[at.port]
	if p == nil {
		return nil, nil, &AbsentError{Kind: "port", Name: at.port, Cube: at.cube, err: cube.ErrNotFound}
	}
	return rec, p, nil
}

// running returns a cube that the data plane has: one of ours, or one that could not be restored and goes on as it was.
func (w *world) running(name string) *record {
	if rec := w.cubes[name]; rec != nil {
		return rec
	}
	if b := w.broken[name]; b != nil {
		return b.rec
	}
	return nil
}

// runningPort is portAt for the data plane: nil when there is no such port.
func (w *world) runningPort(at place) (*record, *port) {
	rec := w.running(at.cube)
	if rec == nil || rec.ports[at.port] == nil {
		return nil, nil
	}
	return rec, rec.ports[at.port]
}

// missing is why a cube is not among the cubes.
func (w *world) missing(name string) error {
	if b := w.broken[name]; b != nil {
		return fmt.Errorf("%s: %w", b, cube.ErrNotFound)
	}
	return cube.ErrNotFound
}

// chainAt returns the transparent cubes at a place that exists.
func (w *world) chainAt(at place) []string {
	if at.netdev != "" {
		return w.chains[at.netdev]
	}
	if rec := w.cubes[at.cube]; rec != nil && rec.ports[at.port] != nil {
		return rec.ports[at.port].tcubes
	}
	return nil
}

// linked says whether packets can cross between a port and its peer.
func (w *world) linked(rec *record, p *port) bool {
	if p.peer == "" {
		return false
	}
	at, err := parsePlace(p.peer)
	if err != nil {
		return false
	}
	if at.netdev != "" {
		return w.whyDown(at.netdev) == ""
	}
	_, other := w.runningPort(at)
	return other != nil && other.peer == (place{cube: rec.name, port: p.name}).String()
}

// holders maps the peers that are wanted to the ports that name them.
func (w *world) holders(wanted func(peer string) bool) map[string][]place {
	held := map[string][]place{}
	for _, rec := range w.allRunning() {
		for _, p := range rec.ports {
			if p.peer != "" && wanted(p.peer) {
				held[p.peer] = append(held[p.peer], place{cube: rec.name, port: p.name})
			}
		}
	}
	return held
}

// allHolders maps each peer that a port names to the ports that name it.
func (w *world) allHolders() map[string][]place {
	return w.holders(func(string) bool { return true })
}

// portsOf are the ports of a record, none of nil.
func (r *record) portsOf() map[string]*port {
	if r == nil {
		return nil
	}
	return r.ports
}

// peerOf returns the peer of a port.
func (w *world) peerOf(at place) (place, error) {
	_, p, err := w.portAt(at)
	if err != nil {
		return place{}, err
	}
	return parsePlace(p.peer)
}

// next is the port, or netdev, that a packet at a place comes to.
func (w *world) next(name string, egress bool) (place, error) {
	if rec := w.cubes[name]; rec != nil && rec.transparent {
		name = rec.parent
	}
	at, err := parsePlace(name)
	if err != nil {
		return place{}, err
	}
	switch {
	case at.netdev != "" && egress:
		return at, nil // the wire, or the stack
	case at.netdev != "":
		if held := w.allHolders()[at.netdev]; len(held) > 0 {
			return held[0], nil
		}
		return at, nil
	case egress:
		return w.peerOf(at)
	}
	return at, nil
}
