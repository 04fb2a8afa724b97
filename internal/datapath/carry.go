// SPDX-License-Identifier: Apache-2.0

package datapath

// State from one layout to another. A map whose declaration changed gets a successor beside it,
// filled while packets still use the old one. Both live until programs that use the successor are
// in place; then it takes over the pin. Until that moment everything can be as if nothing had
// happened, whatever fails and whenever the daemon dies.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// move is a pin that goes over to a successor once programs use that one.
type move struct {
	path string
	now  *ebpf.Map
}

// succession is a map that was replaced by one of another size: what programs have added since it
// was copied follows after the swap.
type succession struct {
	was, now *ebpf.Map
	copied   keySet
}

// carry returns m if its layout is as spec says, else a successor with its entries.
func (in *instance) carry(name string, m *ebpf.Map, spec *ebpf.MapSpec, u *undo) (*ebpf.Map, error) {
	was := in.was[name]
	kind, what := compare(m, was, spec)
	if kind == same {
		return m, nil
	}
	if kind == other && in.spec.Migrate == nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and the service cannot carry its entries over: %w",
			name, what, cube.ErrUnsupported)
	}
	s := spec.Copy()
	s.Pinning = ebpf.PinNone
	next, err := makeMap(s)
	if err != nil {
		return nil, fmt.Errorf("creating map %s: %w", name, err)
	}
	u.push(next.Close)
	if kind == resized {
		copied, err := copyEntries(m, next)
		if err != nil {
			return nil, fmt.Errorf("map %s (%s): %w", name, what, err)
		}
		in.late = append(in.late, succession{m, next, copied})
		return next, nil
	}
	step := cube.Migration{Cube: in.spec.Name, Map: name, Old: m, New: next, Was: was}
	if err := migrate(in.spec.Migrate, step); err != nil {
		return nil, fmt.Errorf("map %s has another layout (%s), and its entries cannot be carried over: %w", name, what, err)
	}
	return next, nil
}

// migrate calls the service's function, whose panic is an error like any other.
func migrate(fn func(cube.Migration) error, step cube.Migration) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic in the service's Migrate: %v\n%s", v, debug.Stack())
		}
	}()
	return fn(step)
}

// copyEntries copies all entries to a map of the same layout and another size. It returns their keys,
// where entries come and go.
func copyEntries(from, to *ebpf.Map) (keySet, error) {
	switch from.Type() {
	case ebpf.RingBuf:
		return nil, nil // what is in it is read at once, or not at all
	case ebpf.Queue, ebpf.Stack, ebpf.BloomFilter:
		return nil, fmt.Errorf("a map of type %s cannot be read without emptying it, its size is fixed: %w", from.Type(), cube.ErrUnsupported)
	case ebpf.Array:
		return nil, copyBatches(from, to, func([]byte) {})
	case ebpf.Hash, ebpf.LRUHash:
		copied := keySet{}
		return copied, copyBatches(from, to, copied.add)
	default:
	}
	copied := keySet{}
	return copied, eachKey(from, func(key []byte) error {
		copied.add(key)
		return copyEntry(from, to, key, ebpf.UpdateAny)
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

// copyEntry copies one entry, with UpdateNoExist only if it is not there; one that was deleted meanwhile
// is left out.
func copyEntry(from, to *ebpf.Map, key []byte, flags ebpf.MapUpdateFlags) error {
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
	return put(to, key, value, flags)
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

func put(to *ebpf.Map, key []byte, value any, flags ebpf.MapUpdateFlags) error {
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
	return put(to, key, values, flags)
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
	return put(to, key, inner, flags)
}

// keySet is a set of keys, of which it keeps hashes of 64 bits: keys of a million sessions are as many as
// the sessions themselves.
type keySet map[uint64]struct{}

var keySeed = maphash.MakeSeed()

func (s keySet) add(key []byte) { s[maphash.Bytes(keySeed, key)] = struct{}{} }

func (s keySet) contains(key []byte) bool {
	_, ok := s[maphash.Bytes(keySeed, key)]
	return ok
}

// eachKey calls fn for each key once. Keys that come and go meanwhile may be left out.
func eachKey(m *ebpf.Map, fn func(key []byte) error) error {
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

// settled closes a map that programs may still use once they do not.
func (in *instance) settled(m *ebpf.Map) { in.olds = append(in.olds, m) }

// takeOver gives the successors the pins, now that programs use them, and brings along what was
// written to maps of another size since they were copied.
func (p *Plane) takeOver(in *instance) error {
	var errs []error
	for _, mv := range in.moves {
		errs = append(errs, repin(mv.now, mv.path))
	}
	for _, place := range in.commons {
		if c := p.commons[place]; c.moved {
			errs = append(errs, repin(c.m, p.dir(place)))
			c.moved = false
		}
	}
	late, olds := in.late, in.olds
	if len(in.moves) > 0 {
		in.taken++
	}
	in.moves, in.late, in.olds = nil, nil, nil
	for i := range late { // the cube may be gone before it is their turn
		next, err := late[i].now.Clone()
		if err != nil {
			return errors.Join(append(errs, fmt.Errorf("keeping a map open: %w", err))...)
		}
		late[i].now = next
		olds = append(olds, next)
	}
	if len(olds) > 0 {
		p.collect.add(func() error { return lastWords(late, olds) })
	}
	return errors.Join(errs...)
}

// lastWords copies what programs added to maps before they left them, and closes those. What had been
// copied before does not follow: where it is not there any more, it was deleted since.
func lastWords(late []succession, olds []*ebpf.Map) error {
	var errs []error
	for _, s := range late {
		switch s.was.Type() {
		case ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.LPMTrie:
			if err := s.follow(); err != nil {
				errs = append(errs, fmt.Errorf("entries written while a map was copied: %w", err))
			}
		default: // an array's entries are all there
		}
	}
	for _, m := range olds {
		_ = m.Close()
	}
	return errors.Join(errs...)
}

// follow copies the entries that came after the others.
func (s succession) follow() error {
	return eachKey(s.was, func(key []byte) error {
		if s.copied.contains(key) {
			return nil
		}
		return copyEntry(s.was, s.now, key, ebpf.UpdateNoExist)
	})
}

// repin makes path the pin of m, in one step.
func repin(m *ebpf.Map, path string) error {
	next := filepath.Join(filepath.Dir(path), "+next")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("replacing pin %s: %w", path, err)
	}
	if err := pinAlso(m, next); err != nil {
		return err
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("replacing pin %s: %w", path, err)
	}
	return nil
}

// pinAlso pins a map at one more path.
func pinAlso(m *ebpf.Map, path string) error {
	twin, err := m.Clone()
	if err != nil {
		return fmt.Errorf("pinning %s: %w", path, err)
	}
	defer func() { _ = twin.Close() }()
	if err := twin.Pin(path); err != nil {
		return fmt.Errorf("pinning %s: %w", path, err)
	}
	return nil
}
