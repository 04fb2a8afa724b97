// SPDX-License-Identifier: Apache-2.0

package external

// A service reads and writes the maps of its own cubes as bytes. The sizes are checked here, the rest by the kernel.

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	pb "github.com/polycube/polycube/api/polycube/service/v1"
	"github.com/polycube/polycube/cube"
)

// table is a map of a cube, or an inner map of a map of maps.
type table struct {
	name  string
	inner []byte
	m     *ebpf.Map
	cpus  int
}

// table opens a map. The caller closes it.
func (i *instance) table(name string, inner []byte) (*table, error) {
	m, err := i.env.Map(name)
	if err != nil {
		return nil, err
	}
	t := &table{name: name, inner: inner, m: m}
	if inner != nil {
		if t.m, err = inside(name, m, inner); err != nil {
			return nil, err
		}
	}
	if perCPU(t.m.Type()) {
		if t.cpus, err = ebpf.PossibleCPU(); err != nil {
			t.close()
			return nil, fmt.Errorf("map %s: count CPUs: %w", name, err)
		}
	}
	return t, nil
}

// inside opens an inner map.
func inside(name string, m *ebpf.Map, key []byte) (*ebpf.Map, error) {
	if m.Type() != ebpf.ArrayOfMaps && m.Type() != ebpf.HashOfMaps {
		return nil, fmt.Errorf("map %s: it has no inner maps: %w", name, cube.ErrInvalid)
	}
	if len(key) != int(m.KeySize()) {
		return nil, fmt.Errorf("map %s: a key of %d bytes instead of %d: %w", name, len(key), m.KeySize(), cube.ErrInvalid)
	}
	var found *ebpf.Map
	err := m.Lookup(key, &found)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil, fmt.Errorf("map %s: no map at %x: %w", name, key, cube.ErrNotFound)
	}
	if err != nil {
		return nil, fmt.Errorf("map %s: read %x: %w", name, key, err)
	}
	return found, nil
}

// close closes an inner map; the cube's own maps belong to the framework.
func (t *table) close() {
	if t.inner != nil {
		_ = t.m.Close()
	}
}

func perCPU(t ebpf.MapType) bool {
	return t == ebpf.PerCPUArray || t == ebpf.PerCPUHash || t == ebpf.LRUCPUHash
}

func array(t ebpf.MapType) bool { return t == ebpf.Array || t == ebpf.PerCPUArray }

func queue(t ebpf.MapType) bool { return t == ebpf.Queue || t == ebpf.Stack }

func mapOfMaps(t ebpf.MapType) bool { return t == ebpf.ArrayOfMaps || t == ebpf.HashOfMaps }

// plain refuses maps that are not read and written entry by entry.
func (t *table) plain() error {
	switch typ := t.m.Type(); {
	case mapOfMaps(typ):
		return fmt.Errorf("map %s: it has inner maps: specify one of them, or replace it: %w", t.name, cube.ErrInvalid)
	case typ == ebpf.RingBuf || typ == ebpf.BloomFilter || typ == ebpf.PerfEventArray:
		return fmt.Errorf("map %s: a map of type %s has no entries to read or write: %w", t.name, typ, cube.ErrUnsupported)
	}
	return nil
}

func (t *table) checkKey(key []byte) error {
	if len(key) != int(t.m.KeySize()) {
		return fmt.Errorf("map %s: a key of %d bytes instead of %d: %w", t.name, len(key), t.m.KeySize(), cube.ErrInvalid)
	}
	return nil
}

// width is the length of all values of an entry.
func (t *table) width() int {
	if t.cpus > 0 {
		return t.cpus * t.stride()
	}
	return int(t.m.ValueSize())
}

func (t *table) stride() int { return int(t.m.ValueSize()+7) &^ 7 }

// get reads an entry; nil if there is none.
func (t *table) get(key []byte) ([]byte, error) {
	if err := t.checkKey(key); err != nil {
		return nil, err
	}
	value, err := t.m.LookupBytes(key)
	if err != nil {
		return nil, fmt.Errorf("map %s: read %x: %w", t.name, key, err)
	}
	return value, nil
}

// put writes an entry.
func (t *table) put(key, value []byte, flags ebpf.MapUpdateFlags) error {
	if err := t.checkKey(key); err != nil {
		return err
	}
	content, err := t.content(value)
	if err != nil {
		return err
	}
	if queue(t.m.Type()) {
		err = t.m.Put(nil, content)
	} else {
		err = t.m.Update(key, content, flags)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ebpf.ErrKeyExist):
		return fmt.Errorf("map %s: %x: %w", t.name, key, cube.ErrExists)
	case errors.Is(err, ebpf.ErrKeyNotExist):
		return fmt.Errorf("map %s: %x: %w", t.name, key, cube.ErrNotFound)
	case errors.Is(err, unix.E2BIG) && array(t.m.Type()):
		return fmt.Errorf("map %s: %x is beyond its %d entries: %w", t.name, key, t.m.MaxEntries(), cube.ErrInvalid)
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOSPC):
		return fmt.Errorf("map %s: all %d entries are in use: %w", t.name, t.m.MaxEntries(), cube.ErrFull)
	}
	return fmt.Errorf("map %s: write %x: %w", t.name, key, err)
}

// content is a value in the library's form.
func (t *table) content(value []byte) (any, error) {
	size := int(t.m.ValueSize())
	if t.cpus == 0 {
		if len(value) != size {
			return nil, fmt.Errorf("map %s: a value of %d bytes instead of %d: %w", t.name, len(value), size, cube.ErrInvalid)
		}
		return value, nil
	}
	values := make([][]byte, t.cpus)
	switch len(value) {
	case size:
		for c := range values {
			values[c] = value
		}
	case t.width():
		for c := range values {
			values[c] = value[c*t.stride():][:size]
		}
	default:
		return nil, fmt.Errorf("map %s: a value of %d bytes instead of %d or, for each of %d CPUs, %d: %w",
			t.name, len(value), size, t.cpus, t.stride(), cube.ErrInvalid)
	}
	return values, nil
}

// delete removes an entry, or sets that of an array to zero; it reports whether there was one.
func (t *table) delete(key []byte) (bool, error) {
	if err := t.checkKey(key); err != nil {
		return false, err
	}
	if array(t.m.Type()) {
		return true, t.put(key, make([]byte, t.m.ValueSize()), 0)
	}
	err := t.m.Delete(key)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("map %s: delete %x: %w", t.name, key, err)
	}
	return true, nil
}

// page reads up to limit entries after a key; last is true if there are no more.
func (t *table) page(after []byte, limit int, yield func(key, value []byte) error) (last bool, err error) {
	if err := t.plain(); err != nil {
		return false, err
	}
	if queue(t.m.Type()) {
		return false, fmt.Errorf("map %s: a map of type %s can only be read by removing entries: %w", t.name, t.m.Type(), cube.ErrUnsupported)
	}
	if after != nil {
		if err := t.checkKey(after); err != nil {
			return false, err
		}
	}
	for n, size := 0, 0; n < limit && size < maxDocument; n++ {
		var key []byte
		if after == nil {
			key, err = t.m.NextKeyBytes(nil)
		} else {
			key, err = t.m.NextKeyBytes(after)
		}
		if err != nil {
			return false, fmt.Errorf("map %s: read keys: %w", t.name, err)
		}
		if key == nil {
			return true, nil
		}
		value, err := t.get(key)
		if err != nil {
			return false, err
		}
		after = key
		if value == nil {
			continue // it was deleted meanwhile
		}
		size += len(key) + len(value)
		if err := yield(key, value); err != nil {
			return false, err
		}
	}
	return false, nil
}

// keys lists the keys of a map.
func (t *table) keys() ([][]byte, error) {
	var list [][]byte
	var after []byte
	for rounds := 0; rounds < 2+int(t.m.MaxEntries())/maxBatch; rounds++ {
		last, err := t.page(after, maxBatch, func(key, _ []byte) error {
			list = append(list, bytes.Clone(key))
			return nil
		})
		if err != nil || last || len(list) == 0 {
			return list, err
		}
		after = list[len(list)-1]
	}
	return list, nil
}

// write carries out what a plan says about a map.
func (i *instance) write(w *pb.MapWrite, j *journal) error {
	t, err := i.table(w.GetMap(), nil)
	if err != nil {
		return err
	}
	defer t.close()
	if err := t.plain(); err != nil {
		return err
	}
	if queue(t.m.Type()) {
		return fmt.Errorf("map %s: writes to a map of type %s cannot be undone: %w", t.name, t.m.Type(), cube.ErrUnsupported)
	}
	stay := map[string]bool{}
	for _, e := range w.GetEntries() {
		stay[string(e.GetKey())] = true
	}
	if w.GetReplace() {
		keys, err := t.keys()
		if err != nil {
			return err
		}
		for _, key := range slices.DeleteFunc(keys, func(k []byte) bool { return stay[string(k)] }) {
			if err := t.change(key, nil, 0, j); err != nil {
				return err
			}
		}
	}
	for _, e := range w.GetEntries() {
		if err := t.change(e.GetKey(), e.GetValue(), 0, j); err != nil {
			return err
		}
	}
	return nil
}

// change writes an entry, or deletes it if there is no value, and records the previous one.
func (t *table) change(key, value []byte, flags ebpf.MapUpdateFlags, j *journal) error {
	if !queue(t.m.Type()) {
		if err := j.add(t, key); err != nil {
			return err
		}
	}
	if len(value) == 0 {
		_, err := t.delete(key)
		return err
	}
	return t.put(key, value, flags)
}

// info describes the map.
func (t *table) info() *pb.MapInfo {
	return mapInfo(t.m, t.cpus > 0)
}

func mapInfo(m *ebpf.Map, perCPU bool) *pb.MapInfo {
	return &pb.MapInfo{Type: typeName(m.Type()), KeySize: m.KeySize(), ValueSize: m.ValueSize(), MaxEntries: m.MaxEntries(), PerCpu: perCPU}
}

// typeName is the kernel's name of a type: LRUCPUHash is lru_percpu_hash there.
func typeName(t ebpf.MapType) string {
	names := map[ebpf.MapType]string{
		ebpf.Hash: "hash", ebpf.Array: "array", ebpf.PerCPUHash: "percpu_hash", ebpf.PerCPUArray: "percpu_array",
		ebpf.LRUHash: "lru_hash", ebpf.LRUCPUHash: "lru_percpu_hash", ebpf.LPMTrie: "lpm_trie",
		ebpf.ArrayOfMaps: "array_of_maps", ebpf.HashOfMaps: "hash_of_maps", ebpf.Queue: "queue", ebpf.Stack: "stack",
	}
	if name := names[t]; name != "" {
		return name
	}
	return strings.ToLower(t.String())
}
