// SPDX-License-Identifier: Apache-2.0

package read

// Counters of cubes and netdevs, read without calling the code of cubes.

import (
	"fmt"
	"maps"
	"slices"

	"github.com/polycube/polycube/internal/datapath"
	"github.com/polycube/polycube/internal/topology/unit"
	"github.com/polycube/polycube/internal/topology/world"
)

// FrameworkFates reads what happened to packets that belong to no cube.
func (rd *Reader) FrameworkFates() ([]datapath.Fate, error) {
	fates, err := rd.dp.Fates(0)
	if err != nil {
		return nil, fmt.Errorf("fates of the framework: %w", err)
	}
	return fates, nil
}

// PortNumbers are the counters of a port.
type PortNumbers struct {
	Name string
	Up   bool
	// Reason says why the port is not up, or what is lost although it is.
	Reason string
	datapath.PortCounters
}

// CubeNumbers are the counters of a cube.
type CubeNumbers struct {
	Name, Service string
	// Trouble says why the cube's code is not called, or why it could not be restored; "" if neither. Broken is set
	// in the second case.
	Trouble string
	Broken  bool
	Ports   []PortNumbers
	Fates   []datapath.Fate
	// Shed counts packets and messages that the cube's code did not handle, Waiting those that wait for it.
	Shed    uint64
	Waiting int
	Status  datapath.CubeStatus
}

// counterReader is a data plane that reads many counters at once.
type counterReader interface {
	CounterReader() func(slot uint16) (datapath.PortCounters, error)
}

// Numbers reads the counters of all cubes, in order of creation. A cube that is deleted meanwhile is left out.
func (rd *Reader) Numbers() []CubeNumbers {
	w := rd.view.Load()
	read := rd.dp.PortCounters
	if r, ok := rd.dp.(counterReader); ok {
		read = r.CounterReader()
	}
	out := make([]CubeNumbers, 0, len(w.Cubes)+len(w.Broken))
	for _, rec := range w.InOrder() {
		n := CubeNumbers{Name: rec.Name, Service: rec.Service, Trouble: rd.Degraded(rec.Name)}
		if u := w.Units[rec.Name]; u != nil {
			n.Shed, n.Waiting, _ = u.Queued()
		}
		if rd.count(w, rec, &n, read) == nil {
			out = append(out, n)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Broken)) {
		b := w.Broken[name]
		n := CubeNumbers{Name: name, Service: b.Stored.Service, Trouble: b.String(), Broken: true}
		if b.Running == nil || rd.count(w, b.Running, &n, read) == nil {
			out = append(out, n)
		}
	}
	return out
}

// count reads the counters of a cube in the fast path.
func (rd *Reader) count(w *unit.Snapshot, rec *world.Cube, n *CubeNumbers, read func(uint16) (datapath.PortCounters, error)) (err error) {
	n.Status = rd.dp.Status(rec.ID)
	if n.Fates, err = rd.dp.Fates(rec.ID); err != nil {
		return fmt.Errorf("%s: fates: %w", rec.Name, err)
	}
	for _, p := range rec.PortsByIndex() {
		one := PortNumbers{Name: p.Name, Up: w.Linked(rec, p), Reason: w.Remark(rec, p, rd.notes)}
		if one.PortCounters, err = read(p.Slot); err != nil {
			return fmt.Errorf("port %s of %s: counters: %w", p.Name, rec.Name, err)
		}
		n.Ports = append(n.Ports, one)
	}
	return nil
}

// NetdevNumbers describes a netdev that is a port's peer or has transparent cubes.
type NetdevNumbers struct {
	Name    string
	Up      bool
	Carrier bool
	// Reason says why no packets pass through it.
	Reason string
}

// NetdevNumbers lists the netdevs that are peers of ports or have transparent cubes.
func (rd *Reader) NetdevNumbers() []NetdevNumbers {
	w := rd.view.Load()
	used := map[string]bool{}
	for name := range w.Chains {
		if name != world.HostStack {
			used[name] = true
		}
	}
	for _, rec := range w.AllRunning() {
		for _, p := range rec.Ports {
			if at, err := world.ParsePlace(p.Peer); p.Peer != "" && err == nil && at.Netdev != "" {
				used[at.Netdev] = true
			}
		}
	}
	out := make([]NetdevNumbers, 0, len(used))
	for _, name := range slices.Sorted(maps.Keys(used)) {
		why := w.WhyDown(name)
		out = append(out, NetdevNumbers{Name: name, Up: why == "", Carrier: w.Links[name].Carrier, Reason: why})
	}
	return out
}

// mapReader is a data plane that knows how full maps are.
type mapReader interface {
	MapUsage(id datapath.CubeID) []datapath.MapUsage
}

// Maps returns how full a cube's maps are; nil if the data plane does not know. It reads the maps from the kernel,
// which takes time in proportion to their size.
func (rd *Reader) Maps(name string) []datapath.MapUsage {
	r, ok := rd.dp.(mapReader)
	rec := rd.view.Load().Running(name)
	if !ok || rec == nil {
		return nil
	}
	return r.MapUsage(rec.ID)
}

// Status says how a cube's programs run.
func (rd *Reader) Status(name string) (datapath.CubeStatus, error) {
	rec, err := rd.findRunning(name)
	if err != nil {
		return datapath.CubeStatus{}, err
	}
	return rd.dp.Status(rec.ID), nil
}

// PortStats reads the counters of a port.
func (rd *Reader) PortStats(name, portName string) (datapath.PortCounters, error) {
	_, p, err := rd.view.Load().PortAt(world.Place{Cube: name, Port: portName})
	if err != nil {
		return datapath.PortCounters{}, err
	}
	c, err := rd.dp.PortCounters(p.Slot)
	if err != nil {
		return datapath.PortCounters{}, fmt.Errorf("port %s of %s: counters: %w", portName, name, err)
	}
	return c, nil
}

// Fates reads what happened to packets in a cube.
func (rd *Reader) Fates(name string) ([]datapath.Fate, error) {
	rec, err := rd.findRunning(name)
	if err != nil {
		return nil, err
	}
	fates, err := rd.dp.Fates(rec.ID)
	if err != nil {
		return nil, fmt.Errorf("%s: fates: %w", name, err)
	}
	return fates, nil
}

// findRunning returns a cube in the fast path.
func (rd *Reader) findRunning(name string) (*world.Cube, error) {
	w := rd.view.Load()
	if rec := w.Running(name); rec != nil {
		return rec, nil
	}
	return nil, &world.AbsentError{Kind: "cube", Name: name, Err: w.Missing(name)}
}
