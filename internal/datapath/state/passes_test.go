// SPDX-License-Identifier: Apache-2.0

package state

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"testing"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/datapath/undo"
	"github.com/polycube/polycube/test/netns"
)

// A succession of maps by whose entries a test speaks as numbers: key and value.
type rig struct {
	t *testing.T
	*succession
}

// types are those of maps that programs write.
var writtenTypes = []ebpf.MapType{ebpf.Hash, ebpf.LRUHash, ebpf.PerCPUHash, ebpf.LRUCPUHash, ebpf.LPMTrie, ebpf.Array, ebpf.PerCPUArray}

// roomy is enough that no LRU map evicts.
const roomy = 8192

func newRig(t *testing.T, typ ebpf.MapType, entries map[int]byte) *rig {
	t.Helper()
	spec := &ebpf.MapSpec{Type: typ, KeySize: 4, ValueSize: 8, MaxEntries: roomy}
	if typ == ebpf.LPMTrie {
		spec.KeySize, spec.Flags = 8, 1
	}
	r := &rig{t, &succession{was: newMap(t, spec, roomy), now: newMap(t, spec, roomy+1), copied: bpfmap.Image{}}}
	for n, v := range entries {
		r.put(r.was, n, v)
	}
	return r
}

// resized makes the successor as a resize does.
func (r *rig) resized() *rig {
	r.t.Helper()
	if err := bpfmap.Copy(r.was, r.now, r.copied); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// migrated makes the successor as a migration does that adds 100 to the values.
func (r *rig) migrated() *rig {
	r.t.Helper()
	spec := &ebpf.MapSpec{Type: r.now.Type(), KeySize: r.now.KeySize(), ValueSize: 8, MaxEntries: r.now.MaxEntries(), Flags: r.now.Flags()}
	r.other = &otherLayout{had: bpfmap.Image{}, spec: spec, migrate: func(from, to *ebpf.Map) error {
		return bpfmap.Each(from, func(key, value []byte) error {
			if value[0] == 0 {
				return nil // of an array
			}
			value[0] += 100
			return bpfmap.Put(to, key, value, ebpf.UpdateAny)
		})
	}}
	if err := r.begin(); err != nil {
		r.t.Fatal(err)
	}
	return r
}

func (r *rig) put(m *ebpf.Map, n int, v byte) {
	r.t.Helper()
	size := 8
	if m.Type() == ebpf.PerCPUHash || m.Type() == ebpf.LRUCPUHash || m.Type() == ebpf.PerCPUArray {
		size *= ebpf.MustPossibleCPU()
	}
	value := make([]byte, size)
	value[0], value[size-1] = v, v
	if v == 0 && !isArray(m.Type()) {
		if err := m.Delete(key(m, n)); err != nil {
			r.t.Fatal(err)
		}
		return
	}
	if err := bpfmap.Put(m, key(m, n), value, ebpf.UpdateAny); err != nil {
		r.t.Fatal(err)
	}
}

// change writes entries, or deletes those with the value 0.
func (r *rig) change(m *ebpf.Map, entries map[int]byte) {
	r.t.Helper()
	for n, v := range entries {
		r.put(m, n, v)
	}
}

func (r *rig) want(when string, want map[int]byte) {
	r.t.Helper()
	got := map[int]byte{}
	err := bpfmap.Each(r.now, func(k, value []byte) error {
		n := int(k[0])
		if r.now.Type() == ebpf.LPMTrie {
			n = int(k[4])
		}
		if value[0] != 0 {
			got[n] = value[0]
		}
		if value[0] != value[len(value)-1] && value[len(value)-1] != 0 && value[0] < 100 {
			return fmt.Errorf("entry %d of CPUs: % x", n, value)
		}
		return nil
	})
	if err != nil || !maps.Equal(got, want) {
		r.t.Errorf("%s: the successor has %v, want %v (%v)", when, got, want, err)
	}
}

// TestPassesCarryOver: what programs do between the copy and the end of the programs, and what the control plane did to the
// copy meanwhile.
func TestPassesCarryOver(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	before := map[int]byte{1: 11, 2: 12, 3: 13, 4: 14, 5: 15}
	for _, typ := range writtenTypes {
		for name, make := range map[string]func(*rig) *rig{"resized": (*rig).resized, "migrated": (*rig).migrated} {
			t.Run(typ.String()+", "+name, func(t *testing.T) {
				t.Parallel()
				is := func(entries map[int]byte) map[int]byte { // in the successor's layout
					if name == "resized" {
						return entries
					}
					out := map[int]byte{}
					for n, v := range entries {
						if out[n] = v; v > 0 && v < 50 {
							out[n] = v + 100
						}
					}
					return out
				}
				r := make(newRig(t, typ, before))
				r.want("after the copy", is(before))

				// 1 is changed by programs, 2 by both, 3 deleted by the control plane and changed, 6 added.
				r.change(r.was, map[int]byte{1: 21, 2: 22, 3: 23, 6: 26})
				r.change(r.now, map[int]byte{2: 77, 3: 0})
				want := map[int]byte{1: 21, 2: 77, 4: 14, 5: 15, 6: 26}
				if !isArray(typ) {
					r.change(r.was, map[int]byte{5: 0})
					delete(want, 5)
				}
				if typ == ebpf.LRUHash || typ == ebpf.LRUCPUHash {
					want[5] = 15 // it may be gone for lack of room
				}
				if err := r.catchUp(); err != nil {
					t.Fatal(err)
				}
				r.want("before the programs are replaced", is(want))

				// Programs use the successor; those before still write. 4 was deleted by the new ones, 7 is known to both.
				r.change(r.was, map[int]byte{1: 31, 7: 27, 8: 28})
				r.change(r.now, map[int]byte{4: 0, 7: 88})
				if !isArray(typ) {
					want[8] = 28
				}
				delete(want, 4)
				want[7] = 88
				for range 2 {
					if err := r.follow(); err != nil {
						t.Fatal(err)
					}
					r.want("after the programs were replaced", is(want))
				}
				if !isArray(typ) { // what follows once is not brought back
					r.change(r.now, map[int]byte{8: 0})
					delete(want, 8)
					if err := r.follow(); err != nil {
						t.Fatal(err)
					}
					r.want("in the end", is(want))
				}
			})
		}
	}
}

// TestAPassThatFailsSaysSo: the service cannot carry over what came later, or there is no room for it.
func TestAPassThatFailsSaysSo(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	boom := errors.New("boom")
	r := newRig(t, ebpf.Hash, map[int]byte{1: 11}).migrated()
	r.other.migrate = func(*ebpf.Map, *ebpf.Map) error { return boom }
	if err := errors.Join(r.catchUp(), r.follow()); err != nil {
		t.Errorf("the service is asked although nothing has changed: %v", err)
	}
	r.change(r.was, map[int]byte{2: 12})
	if err := r.catchUp(); !errors.Is(err, boom) {
		t.Errorf("before the programs are replaced: %v", err)
	}
	r.change(r.was, map[int]byte{3: 13})
	if err := r.follow(); !errors.Is(err, boom) {
		t.Errorf("after: %v", err)
	}
}

// TestAPinGoesToTheSuccessorAndBack: until the change is over, the map before can get it back.
func TestAPinGoesToTheSuccessorAndBack(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	path := filepath.Join(netns.Bpffs(t), "m")
	spec := &ebpf.MapSpec{Type: ebpf.Hash, KeySize: 4, ValueSize: 8}
	was, now := newMap(t, spec, 1), newMap(t, spec, 2)
	if err := bpfmap.PinAlso(was, path); err != nil {
		t.Fatal(err)
	}
	pinned := func(want uint32) {
		t.Helper()
		m, err := ebpf.LoadPinnedMap(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = m.Close() }()
		if m.MaxEntries() != want {
			t.Errorf("a map for %d entries is pinned, want %d", m.MaxEntries(), want)
		}
	}
	mv := &move{path: path, now: now}
	for _, want := range []uint32{1, 2} {
		var u undo.Stack
		for range 2 { // cubes that have the map in common
			if err := mv.pin(&u); err != nil {
				t.Fatal(err)
			}
		}
		pinned(2)
		if want == 1 {
			if err := u.Run(); err != nil {
				t.Fatal(err)
			}
		} else if err := mv.pin(nil); err != nil {
			t.Fatal(err)
		}
		pinned(want)
		if mv.was != nil {
			t.Error("the map before is still open")
		}
	}
}
