// SPDX-License-Identifier: Apache-2.0

package bpfmap

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"reflect"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// Entries of one map into another of the same layout.

// Copy copies all entries to a map of the same layout and another size. It returns their keys,
// where entries come and go.
func Copy(from, to *ebpf.Map) (KeySet, error) {
	switch from.Type() {
	case ebpf.RingBuf:
		return nil, nil // what is in it is read at once, or not at all
	case ebpf.Queue, ebpf.Stack, ebpf.BloomFilter:
		return nil, fmt.Errorf("a map of type %s cannot be read without emptying it, its size is fixed: %w", from.Type(), cube.ErrUnsupported)
	case ebpf.Array:
		return nil, copyBatches(from, to, func([]byte) {})
	case ebpf.Hash, ebpf.LRUHash:
		copied := KeySet{}
		return copied, copyBatches(from, to, copied.add)
	default:
	}
	copied := KeySet{}
	return copied, EachKey(from, func(key []byte) error {
		copied.add(key)
		return CopyEntry(from, to, key, ebpf.UpdateAny)
	})
}

// copyBatches copies entries by thousands and tells of each key.
func copyBatches(from, to *ebpf.Map, tell func(key []byte)) error {
	const size = 4096
	keys, values := buffer(size, from.KeySize()), buffer(size, from.ValueSize())
	var cursor ebpf.MapBatchCursor
	for {
		n, err := from.BatchLookup(&cursor, keys, values, nil)
		last := errors.Is(err, ebpf.ErrKeyNotExist)
		if err != nil && !last {
			return fmt.Errorf("reading entries: %w", err)
		}
		n = within(from, to, keys, n)
		for i := range n {
			tell(reflect.ValueOf(keys).Index(i).Slice(0, int(from.KeySize())).Bytes())
		}
		if n > 0 {
			if _, err := to.BatchUpdate(head(keys, n), head(values, n), nil); err != nil {
				return tooFew(to, err)
			}
		}
		if last {
			return nil
		}
	}
}

// CopyEntry copies one entry, with UpdateNoExist only if it is not there; one that was deleted meanwhile
// is left out.
func CopyEntry(from, to *ebpf.Map, key []byte, flags ebpf.MapUpdateFlags) error {
	switch from.Type() {
	case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
		return copyInner(from, to, key, flags)
	case ebpf.PerCPUArray, ebpf.PerCPUHash, ebpf.LRUCPUHash:
		return copyPerCPU(from, to, key, flags)
	default:
	}
	value, err := from.LookupBytes(key)
	if err != nil || value == nil {
		return err
	}
	return Put(to, key, value, flags)
}

// within returns how many of n entries of a batch have a place: a smaller array loses its end.
func within(from, to *ebpf.Map, keys any, n int) int {
	if from.Type() != ebpf.Array || n == 0 {
		return n
	}
	first := nativeKey(reflect.ValueOf(keys).Index(0).Slice(0, 4).Bytes())
	return max(0, min(n, int(to.MaxEntries())-int(first)))
}

// tooFew says when the entries do not fit.
func tooFew(to *ebpf.Map, err error) error {
	if errors.Is(err, unix.E2BIG) || errors.Is(err, unix.ENOSPC) {
		return fmt.Errorf("more than %d entries are there: %w", to.MaxEntries(), cube.ErrFull)
	}
	return fmt.Errorf("writing entries: %w", err)
}

// nativeKey is the key of an array.
func nativeKey(key []byte) uint32 { return binary.NativeEndian.Uint32(key) }

// buffer is a slice of n entries of size bytes.
func buffer(n int, size uint32) any {
	return reflect.MakeSlice(reflect.SliceOf(reflect.ArrayOf(int(size), reflect.TypeFor[byte]())), n, n).Interface()
}

func head(list any, n int) any { return reflect.ValueOf(list).Slice(0, n).Interface() }

// Put writes an entry of a copy. With UpdateNoExist one that is there is left as it is, and one beyond the end
// of a smaller array is left out.
func Put(to *ebpf.Map, key []byte, value any, flags ebpf.MapUpdateFlags) error {
	err := to.Update(key, value, flags)
	if err == nil || flags == ebpf.UpdateNoExist && errors.Is(err, ebpf.ErrKeyExist) {
		return nil
	}
	if to.Type() == ebpf.PerCPUArray && nativeKey(key) >= to.MaxEntries() {
		return nil // beyond the end of a smaller array
	}
	return tooFew(to, err)
}

// copyPerCPU copies the values of all CPUs.
func copyPerCPU(from, to *ebpf.Map, key []byte, flags ebpf.MapUpdateFlags) error {
	all, err := from.LookupBytes(key)
	if err != nil || all == nil {
		return err
	}
	stride := int(from.ValueSize()+7) &^ 7
	var values [][]byte
	for ; len(all) >= stride; all = all[stride:] {
		values = append(values, all[:from.ValueSize()])
	}
	return Put(to, key, values, flags)
}

// copyInner copies a reference: both maps of maps have the same maps inside.
func copyInner(from, to *ebpf.Map, key []byte, flags ebpf.MapUpdateFlags) error {
	var inner *ebpf.Map
	err := from.Lookup(key, &inner)
	if errors.Is(err, ebpf.ErrKeyNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading the map inside: %w", err)
	}
	defer func() { _ = inner.Close() }()
	if to.Type() == ebpf.ArrayOfMaps && nativeKey(key) >= to.MaxEntries() {
		return nil
	}
	return Put(to, key, inner, flags)
}

// KeySet is a set of keys, of which it keeps hashes of 64 bits: keys of a million sessions are as many as
// the sessions themselves.
type KeySet map[uint64]struct{}

var keySeed = maphash.MakeSeed()

func (s KeySet) add(key []byte) { s[maphash.Bytes(keySeed, key)] = struct{}{} }

// Contains tells whether a key is in the set.
func (s KeySet) Contains(key []byte) bool {
	_, ok := s[maphash.Bytes(keySeed, key)]
	return ok
}

// EachKey calls fn for each key once. Keys that come and go meanwhile may be left out.
func EachKey(m *ebpf.Map, fn func(key []byte) error) error {
	seen := map[string]bool{}
	key, err := m.NextKeyBytes(nil)
	for err == nil && key != nil && len(seen) <= int(m.MaxEntries()) {
		if !seen[string(key)] {
			seen[string(key)] = true
			if err := fn(key); err != nil {
				return err
			}
		}
		key, err = m.NextKeyBytes(key)
	}
	if err != nil {
		return fmt.Errorf("reading keys: %w", err)
	}
	return nil
}
