// SPDX-License-Identifier: Apache-2.0

// Our data plane without the daemon: a graph that a benchmark grows and commits.

package lab

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/kernel"
	"github.com/polycube/polycube/test/netns"
)

// Plane is a data plane in a network namespace, with the graph of its cubes.
type Plane struct {
	*datapath.Plane
	Graph *datapath.Graph

	ns    *netns.Namespace
	dir   string
	typ   cube.Type
	slots uint16
	slow  *slow // nil: none
}

// PlaneOptions of NewPlane.
type PlaneOptions struct {
	Type cube.Type
	Mode datapath.Mode
	// Services are the objects of cubes, by service and hook.
	Services map[string]map[cube.Hook][]byte
	// SegmentCubes limits the cubes of a segment; 0 is the kernel's limit.
	SegmentCubes int
	// Kernel sets the kernel's features; nil probes them.
	Kernel *kernel.Features
	// Clsact attaches by filters where the kernel has tcx.
	Clsact bool
	// SlowPath creates the helper interfaces by which packets are sent down.
	SlowPath bool
}

// NewPlane opens a data plane in a namespace; it ends with the rig.
func (r *Rig) NewPlane(ns *netns.Namespace, o PlaneOptions) (*Plane, error) {
	p := &Plane{
		Graph: &datapath.Graph{Cubes: map[datapath.CubeID]*datapath.Node{}, Netdevs: map[string]*datapath.Netdev{}},
		ns:    ns, typ: o.Type, dir: filepath.Join(netns.Bpffs(r), "pcn"),
	}
	if o.SlowPath {
		var err error
		if p.slow, err = r.openSlow(ns); err != nil {
			return nil, err
		}
	}
	if err := ns.Do(func() error { return p.open(o) }); err != nil {
		return nil, err
	}
	r.Cleanup(func() {
		if err := ns.Do(p.Cleanup); err != nil {
			r.Error(err)
		}
	})
	for name, objects := range o.Services {
		if err := p.CheckObject(name, objects); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// open runs in the plane's namespace.
func (p *Plane) open(o PlaneOptions) (err error) {
	opts := datapath.Options{
		Dir: p.dir, Instance: "bench", Mode: o.Mode, SegmentCubes: o.SegmentCubes,
		Kernel: o.Kernel, Clsact: o.Clsact,
		// The loopback, through which test runs enter, has an MTU that would require fragments.
		MTU: func(int) (int, error) { return 1500, nil },
	}
	if p.slow != nil {
		opts.Taps, opts.Loop = p.slow.indexes(), p.slow.loop
	}
	if p.Plane, err = datapath.Open(opts); err != nil || p.slow == nil {
		return err
	}
	if err := p.slow.attach(p.Plane); err != nil {
		return errors.Join(err, p.Cleanup())
	}
	return nil
}

// Cube adds a standard cube with a number of ports to the graph.
func (p *Plane) Cube(service string, ports int, sizes map[string]uint32) (*datapath.Node, error) {
	id := datapath.CubeID(len(p.Graph.Cubes) + 1)
	n := &datapath.Node{
		ID: id, Name: fmt.Sprintf("%s%d", service, id), Type: p.typ, LogLevel: datapath.LogInfo,
		Ports: map[uint16]*datapath.Port{},
	}
	err := p.CreateCube(datapath.Spec{
		ID: id, UUID: n.Name, Name: n.Name, Service: service, Type: p.typ, MapSizes: sizes,
	})
	if err != nil {
		return nil, err
	}
	for i := range uint16(ports) {
		n.Ports[i] = &datapath.Port{Index: i, Name: fmt.Sprintf("p%d", i), Slot: p.slots}
		p.slots++
	}
	p.Graph.Cubes[id] = n
	return n, nil
}

// Link makes two ports of cubes each other's peer.
func (p *Plane) Link(a *datapath.Node, i uint16, b *datapath.Node, j uint16) {
	a.Ports[i].Peer = datapath.Peer{Cube: b.ID, Port: j}
	b.Ports[j].Peer = datapath.Peer{Cube: a.ID, Port: i}
}

// Netdev makes a netdev of the namespace the peer of a port.
func (p *Plane) Netdev(n *datapath.Node, port uint16, name string) error {
	return p.ns.Do(func() error {
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("netdev %s: %w", name, err)
		}
		p.Graph.Netdevs[name] = &datapath.Netdev{Name: name, Index: dev.Index}
		n.Ports[port].Peer = datapath.Peer{Netdev: name}
		return nil
	})
}

// Commit applies the graph.
func (p *Plane) Commit() error {
	_, _, err := p.TimedCommit()
	return err
}

// TimedCommit applies the graph, and returns how long it took to prepare it (to link and load) and to commit it (to
// swap it in).
func (p *Plane) TimedCommit() (prepared, committed time.Duration, err error) {
	g := p.snapshot()
	err = p.ns.Do(func() error {
		start := time.Now()
		ch, err := p.Prepare(context.Background(), g)
		if err != nil {
			return err
		}
		prepared = time.Since(start)
		start = time.Now()
		err = ch.Commit()
		committed = time.Since(start)
		return err
	})
	return prepared, committed, err
}

// snapshot copies what benchmarks change between commits, because a plane keeps its input.
func (p *Plane) snapshot() *datapath.Graph {
	out := &datapath.Graph{Cubes: map[datapath.CubeID]*datapath.Node{}, Netdevs: maps.Clone(p.Graph.Netdevs)}
	for id, n := range p.Graph.Cubes {
		c := *n
		c.Constants, c.Ports = maps.Clone(n.Constants), map[uint16]*datapath.Port{}
		for i, port := range n.Ports {
			q := *port
			c.Ports[i] = &q
		}
		out.Cubes[id] = &c
	}
	return out
}
