// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"

	"github.com/cilium/ebpf"
)

// Image records the entries of a map at one moment: the hash of each value by the hash of its key. Hashes have 64 bits;
// the entries of a million sessions would take ten times the memory.
type Image map[uint64]uint64

var imageSeed = maphash.MakeSeed()

func hashed(b []byte) uint64 { return maphash.Bytes(imageSeed, b) }

// note records an entry. A nil image records nothing.
func (i Image) note(key, value []byte) {
	if i != nil {
		i[hashed(key)] = hashed(value)
	}
}

// SameAs reports whether a map still has exactly the entries of the image.
func (i Image) SameAs(m *ebpf.Map) (bool, error) {
	n := 0
	differs := errors.New("it differs")
	err := Each(m, func(key, value []byte) error {
		n++
		if was, had := i[hashed(key)]; !had || was != hashed(value) {
			return differs
		}
		return nil
	})
	if errors.Is(err, differs) {
		return false, nil
	}
	return err == nil && n == len(i), err
}

// Note records the current entries of a map instead.
func (i Image) Note(m *ebpf.Map) error {
	clear(i)
	return Each(m, func(key, value []byte) error { i.note(key, value); return nil })
}

// Update carries over what has changed since the image was made of from, whose entries were copied to another map: entries
// that were added, changed or deleted. An entry that also changed in the copy is left as it is there. What an LRU map
// evicts is not deleted from the copy. No program may use the copy yet. The image then records the current entries;
// carried is the number of entries that were carried over.
func (i Image) Update(from, to *ebpf.Map) (carried int, err error) {
	n := 0
	err = Each(from, func(key, value []byte) error {
		n++
		k, v := hashed(key), hashed(value)
		was, had := i[k]
		if had && was == v {
			return nil
		}
		i[k] = v
		if had {
			if same, err := holds(to, key, was); err != nil || !same {
				return err
			}
		}
		carried++
		return Put(to, key, value, flagsFor(had))
	})
	if err != nil || len(i) == n || !forgetsOnlyDeleted(from.Type()) {
		return carried, err
	}
	gone, err := i.withdraw(from, to)
	return carried + gone, err
}

func flagsFor(had bool) ebpf.MapUpdateFlags {
	if had {
		return ebpf.UpdateAny
	}
	return ebpf.UpdateNoExist
}

// forgetsOnlyDeleted reports whether entries only disappear from a map when they are deleted.
func forgetsOnlyDeleted(t ebpf.MapType) bool {
	return t == ebpf.Hash || t == ebpf.PerCPUHash || t == ebpf.LPMTrie
}

// holds reports whether the value of a key has a hash.
func holds(m *ebpf.Map, key []byte, hash uint64) (bool, error) {
	if isArray(m.Type()) && nativeKey(key) >= m.MaxEntries() {
		return false, nil
	}
	value, err := Lookup(m, key)
	return value != nil && hashed(value) == hash, err
}

// withdraw deletes from a copy the entries that were deleted since the image was made, and returns their number.
func (i Image) withdraw(from, to *ebpf.Map) (int, error) {
	there := Image{}
	if err := there.Note(from); err != nil {
		return 0, err
	}
	var keys [][]byte
	err := Each(to, func(key, value []byte) error {
		k := hashed(key)
		_, stays := there[k]
		if was, had := i[k]; had && !stays && was == hashed(value) {
			keys = append(keys, bytes.Clone(key))
		}
		return nil
	})
	for _, key := range keys {
		if err == nil {
			err = to.Delete(key)
		}
		if errors.Is(err, ebpf.ErrKeyNotExist) {
			err = nil
		}
	}
	for k := range i {
		if _, stays := there[k]; !stays {
			delete(i, k)
		}
	}
	return len(keys), err
}

// Add carries over the entries that are not in the image, and records them. Existing entries of the copy are not changed.
func (i Image) Add(from, to *ebpf.Map) (carried int, err error) {
	err = Each(from, func(key, value []byte) error {
		k := hashed(key)
		if _, had := i[k]; had {
			return nil
		}
		i[k] = hashed(value)
		carried++
		return Put(to, key, value, ebpf.UpdateNoExist)
	})
	return carried, err
}

// Rest creates a map with the entries that are not in the image, nil if there are none; added is their image. The caller
// closes the map.
func (i Image) Rest(m *ebpf.Map) (rest *ebpf.Map, added Image, err error) {
	var keys, values [][]byte
	added = Image{}
	err = Each(m, func(key, value []byte) error {
		if _, had := i[hashed(key)]; !had {
			added.note(key, value)
			keys, values = append(keys, bytes.Clone(key)), append(values, bytes.Clone(value))
		}
		return nil
	})
	if err != nil || len(keys) == 0 {
		return nil, nil, err
	}
	rest, err = New(&ebpf.MapSpec{Name: "pcn_rest", Type: m.Type(), KeySize: m.KeySize(), ValueSize: m.ValueSize(), MaxEntries: uint32(len(keys)), Flags: m.Flags()})
	if err != nil {
		return nil, nil, fmt.Errorf("create a map for %d entries: %w", len(keys), err)
	}
	for n, key := range keys {
		if err := Put(rest, key, values[n], ebpf.UpdateAny); err != nil {
			return nil, nil, errors.Join(err, rest.Close())
		}
	}
	return rest, added, nil
}
