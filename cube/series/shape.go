// SPDX-License-Identifier: Apache-2.0

package series

import (
	"encoding/json"
	"fmt"
	"strconv"
	"unsafe"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/sketch"
)

// Names of types of <pcn/sketch.h> and <pcn/monitor.h> that are more than a struct.
const (
	typeDistinct  = "pcn_sketch_distinct"
	typeSet       = "pcn_sketch_set"
	typeHistogram = "pcn_histogram"
)

// maxHeavy is how many keys of a PCN_SKETCH_TOP are shown.
const maxHeavy = 1024

// Shape knows how to read and show the entries of a map.
type Shape struct {
	kind  ebpf.MapType
	max   int
	key   *node // nil for arrays, queues and stacks
	value *node
	seed  sketch.Seed
}

// ShapeOf derives the shape of a map from its declaration. The error wraps cube.ErrInvalid if it cannot be shown. seed is that
// of the hashes in its sketches.
func ShapeOf(spec *ebpf.MapSpec, seed sketch.Seed) (*Shape, error) {
	s := &Shape{kind: spec.Type, max: int(spec.MaxEntries), seed: seed}
	if !isArray(s.kind) && !isHash(s.kind) && !isQueue(s.kind) && s.kind != ebpf.LPMTrie {
		return nil, fmt.Errorf("maps of type %s cannot be read: %w", spec.Type, cube.ErrInvalid)
	}
	var err error
	if s.value, err = part(spec.Value, spec.ValueSize); err != nil {
		return nil, fmt.Errorf("value: %w", err)
	}
	if !isArray(s.kind) && !isQueue(s.kind) {
		if s.key, err = part(spec.Key, spec.KeySize); err != nil {
			return nil, fmt.Errorf("key: %w", err)
		}
	}
	switch {
	case s.value.name == typeDistinct && s.value.size != int(unsafe.Sizeof(sketch.Distinct{})),
		s.value.name == typeSet && s.value.size != int(unsafe.Sizeof(sketch.Set{})):
		return nil, fmt.Errorf("struct %s has another size here; use the headers of this version: %w", s.value.name, cube.ErrInvalid)
	}
	return s, nil
}

// part translates the type of keys or values. Without a type, they are bytes.
func part(t btf.Type, size uint32) (*node, error) {
	if t == nil {
		t = &btf.Array{Type: &btf.Int{Name: "unsigned char", Size: 1}, Index: &btf.Int{Size: 4}, Nelems: size}
	}
	n, err := nodeOf(t, 0)
	if err == nil && n.size != int(size) {
		err = fmt.Errorf("its type has %d bytes, but the map has %d: %w", n.size, size, cube.ErrInvalid)
	}
	return n, err
}

// JSON returns entries as JSON: a list of values for arrays, queues and stacks, otherwise a list of objects with members key
// and value. With a value for each CPU, value is a list of these. What sketches of <pcn/sketch.h> stand for is shown, not their
// bytes: a number, or a list of keys.
func (s *Shape) JSON(e *Entries) json.RawMessage {
	switch {
	case s.value.name == typeSet:
		return s.heavyJSON(s.top(e))
	case s.value.name == typeDistinct && s.key == nil && e.Len == 1:
		return strconv.AppendUint(nil, s.distinct(e, 0), 10)
	}
	dst := make([]byte, 0, 32+e.Len*32)
	dst = append(dst, '[')
	for i := range e.Len {
		if i > 0 {
			dst = append(dst, ',')
		}
		if s.key != nil {
			dst = s.key.json(append(dst, `{"key":`...), e.Key(i))
			dst = append(s.valueJSON(append(dst, `,"value":`...), e, i), '}')
		} else {
			dst = s.valueJSON(dst, e, i)
		}
	}
	return append(dst, ']')
}

func (s *Shape) valueJSON(dst []byte, e *Entries, i int) []byte {
	switch {
	case s.value.name == typeDistinct:
		return strconv.AppendUint(dst, s.distinct(e, i), 10)
	case !isPerCPU(s.kind):
		return s.value.json(dst, e.Value(i, 0))
	}
	dst = append(dst, '[')
	for cpu := range e.CPUs {
		if cpu > 0 {
			dst = append(dst, ',')
		}
		dst = s.value.json(dst, e.Value(i, cpu))
	}
	return append(dst, ']')
}

// distinct estimates the number of keys of an entry, over all CPUs.
func (s *Shape) distinct(e *Entries, i int) uint64 {
	var all sketch.Distinct
	for cpu := range e.CPUs {
		var of sketch.Distinct
		copy(of.Rank[:], e.Value(i, cpu))
		all.Merge(of)
	}
	return all.Count()
}

// top returns the heaviest keys. Entries of both sides of a map have the same index.
func (s *Shape) top(e *Entries) []sketch.Heavy {
	byIndex := map[string][]int{}
	var indexes []string
	for i := range e.Len {
		key := string(e.Key(i))
		if byIndex[key] == nil {
			indexes = append(indexes, key)
		}
		byIndex[key] = append(byIndex[key], i)
	}
	return sketch.Top(s.seed, maxHeavy, func(yield func([]sketch.Set)) {
		for _, key := range indexes {
			var sets []sketch.Set
			for _, i := range byIndex[key] {
				for cpu := range e.CPUs {
					var set sketch.Set
					copy(unsafe.Slice((*byte)(unsafe.Pointer(&set)), unsafe.Sizeof(set)), e.Value(i, cpu))
					sets = append(sets, set)
				}
			}
			yield(sets)
		}
	})
}

func (s *Shape) heavyJSON(heavy []sketch.Heavy) json.RawMessage {
	dst := []byte{'['}
	for i, h := range heavy {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = append(dst, `{"key":{"address":"`...)
		dst = h.Address.Addr().AppendTo(dst)
		dst = strconv.AppendUint(append(dst, `","number":`...), h.Number, 10)
		dst = strconv.AppendUint(append(dst, `},"sum":`...), h.Sum, 10)
		dst = strconv.AppendUint(append(dst, `,"error":`...), h.Error, 10)
		dst = append(dst, '}')
	}
	return append(dst, ']')
}

// Add adds entries of another map of the same shape: numbers of the same key are added, and keys that only the other one has
// are added to the end. Entries of queues and stacks come after those of the first.
func (s *Shape) Add(to, more *Entries) {
	if more.Len == 0 {
		return
	}
	at := make(map[string]int, to.Len)
	for i := range to.Len {
		at[string(to.Key(i))] = i
	}
	width := more.stride * more.CPUs
	for i := range more.Len {
		same, ok := at[string(more.Key(i))]
		if !ok || isQueue(s.kind) || s.value.name == typeSet {
			to.Keys = append(to.Keys, more.Keys[i*more.keySize:][:min(more.keySize, len(more.Keys))]...)
			to.Values = append(to.Values, more.Values[i*width:][:width]...)
			to.Len++
			continue
		}
		for cpu := range to.CPUs {
			s.addValue(to.Value(same, cpu), more.Value(i, cpu))
		}
	}
}

// addValue adds values. Registers of a HyperLogLog are no counters.
func (s *Shape) addValue(to, data []byte) {
	if s.value.name != typeDistinct {
		s.value.add(to, data)
		return
	}
	for i, rank := range data {
		to[i] = max(to[i], rank)
	}
}
