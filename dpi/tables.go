// SPDX-License-Identifier: Apache-2.0

package dpi

// The tables of a cube, opened by the process that classifies.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"path/filepath"
	"sync/atomic"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/cube/table"
	"github.com/polycube/polycube/ring"
)

// Tables are those of a cube `edpi`. One process classifies.
type Tables struct {
	// Packets are those to be inspected; words 0 and 1 of the metadata are the ID of the flow (FlowID), word 2 is 1 if the
	// higher end has sent the packet, and word 3 is not 0 if the flow was decided.
	Packets *ring.Reader

	decisions  table.Table[Key, Decision]
	flows      table.Table[Key, Flow]
	names      table.Table[uint32, Name]
	ended      table.Queue[Ended]
	classifier *table.Mapped[Classifier]
	beat       *uint64
	maps       map[string]*ebpf.Map
	dir        string
}

// FlowID is the ID of a packet's flow.
func FlowID(p *ring.Packet) uint64 { return uint64(p.Metadata[0]) | uint64(p.Metadata[1])<<32 }

// Open opens the tables in the directory of the cube's pins, BPFFS/cubes/UUID. Another process that reads the packets stops.
func Open(dir string) (*Tables, error) {
	t := &Tables{maps: map[string]*ebpf.Map{}, dir: dir}
	if err := t.open(); err != nil {
		return nil, errors.Join(err, t.Close())
	}
	return t, nil
}

// Map implements ring.Maps.
func (t *Tables) Map(name string) (*ebpf.Map, error) {
	if m := t.maps[name]; m != nil {
		return m, nil
	}
	m, err := ebpf.LoadPinnedMap(filepath.Join(t.dir, name), nil)
	if err != nil {
		return nil, fmt.Errorf("table %s: %w", name, err)
	}
	t.maps[name] = m
	return m, nil
}

func (t *Tables) open() (err error) {
	var errs [4]error
	t.decisions, errs[0] = open(t, "decisions", table.Of[Key, Decision])
	t.flows, errs[1] = open(t, "flows", table.Of[Key, Flow])
	t.names, errs[2] = open(t, "names", table.Of[uint32, Name])
	t.ended, errs[3] = open(t, "ended", table.QueueOf[Ended])
	if err := errors.Join(errs[:]...); err != nil {
		return err
	}
	if t.classifier, err = open(t, "classifier", table.MappedOf[Classifier]); err != nil {
		return err
	}
	values, err := t.classifier.Values()
	if err != nil {
		return err
	}
	t.beat = &values[0].Beat
	t.Packets, err = ring.Open(t, "packets")
	return err
}

func open[T any](t *Tables, name string, of func(string, *ebpf.Map) (T, error)) (is T, err error) {
	m, err := t.Map(name)
	if err != nil {
		return is, err
	}
	return of(name, m)
}

// Current reports whether the pinned tables are those that were opened. They are not if the cube was deleted, or has tables
// of another layout: close them, and open them again.
func (t *Tables) Current() bool {
	for name, opened := range t.maps {
		pinned, err := ebpf.LoadPinnedMap(filepath.Join(t.dir, name), nil)
		if err != nil {
			return false
		}
		same := idOf(pinned) == idOf(opened)
		_ = pinned.Close()
		if !same {
			return false
		}
	}
	return true
}

// idOf is the number of a map in the kernel.
func idOf(m *ebpf.Map) ebpf.MapID {
	info, err := m.Info()
	if err != nil {
		return 0
	}
	id, _ := info.ID()
	return id
}

// Close closes the tables. What is in them stays in effect.
func (t *Tables) Close() error {
	var errs []error
	if t.Packets != nil {
		errs = append(errs, t.Packets.Close())
	}
	if t.classifier != nil {
		errs = append(errs, t.classifier.Close())
	}
	for _, m := range t.maps {
		errs = append(errs, m.Close())
	}
	return errors.Join(errs...)
}

// Decide writes what a flow is, which takes effect with its next packet. If there is no room, the flow remains undecided.
func (t *Tables) Decide(k Key, d Decision) error { return t.decisions.Set(k, d) }

// DecideAll writes decisions, in order, in one system call. It returns how many of them were written before the error.
func (t *Tables) DecideAll(keys []Key, all []Decision) (int, error) {
	return t.decisions.SetAll(keys, all)
}

// Flow returns the entry of a flow.
func (t *Tables) Flow(k Key) (Flow, bool, error) { return t.flows.Get(k) }

// Beat says that all packets that came before a time of the monotonic clock were seen. Programs compare it with the present.
func (t *Tables) Beat(at uint64) { atomic.StoreUint64(t.beat, at) }

// NextEnded returns a flow that has ended, false if there is none.
func (t *Tables) NextEnded() (Ended, bool, error) { return t.ended.Pop() }

// Announce writes the names of classes and risks, and the version of the classifier: names are by row, those without one are empty.
func (t *Tables) Announce(version string, names *[Names]Name) error {
	rows, values, sum := make([]uint32, Names), make([]Name, Names), fnv.New64a()
	for i, name := range names {
		rows[i], values[i] = uint32(i), name
		_, _ = sum.Write(name[:]) // never fails
	}
	if _, err := t.names.SetAll(rows, values); err != nil {
		return fmt.Errorf("names of protocols: %w", err)
	}
	all, err := t.classifier.Values()
	if err != nil {
		return err
	}
	c := &all[0]
	c.Version = [48]byte{}
	copy(c.Version[:len(c.Version)-1], version)
	atomic.StoreUint64(&c.Names, binary.NativeEndian.Uint64(sum.Sum(nil))|1)
	return nil
}
