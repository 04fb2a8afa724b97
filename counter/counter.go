// SPDX-License-Identifier: Apache-2.0

// Package counter reads the counters that a program declares by PCN_COUNTERS. They have the names of the program's enum,
// in lower case, with dashes, and without that of the service: NAT_TABLE_FULL is table-full.
package counter

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// Names are the counters of a service by their names, read once from the type information of its program.
type Names struct {
	enum  string
	index func() (map[string]uint32, error)
}

// Of are the names of an enum of a compiled program (ELF). It must be called SERVICE_counter.
func Of(object []byte, enum string) *Names {
	return &Names{enum, sync.OnceValues(func() (map[string]uint32, error) { return read(object, enum) })}
}

func read(object []byte, enum string) (map[string]uint32, error) {
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("reading enum %s of a program: %w", enum, err)
	}
	var e *btf.Enum
	if err := spec.TypeByName(enum, &e); err != nil {
		return nil, fmt.Errorf("reading enum %s of a program: %w", enum, err)
	}
	service := strings.ToUpper(strings.TrimSuffix(enum, "counter"))
	index := make(map[string]uint32, len(e.Values))
	for _, v := range e.Values {
		name := strings.TrimPrefix(v.Name, service)
		index[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = uint32(v.Value)
	}
	return index, nil
}

// Set are the counters of a cube. The zero value has none.
type Set struct {
	values cube.PerCPU[uint32, uint64]
	names  *Names
}

// Open opens the map that PCN_COUNTERS declares.
func (n *Names) Open(env cube.Env, mapName string) (Set, error) {
	values, err := cube.OpenPerCPU[uint32, uint64](env, mapName)
	return Set{values, n}, err
}

// Sum is what all CPUs have counted.
func (s Set) Sum(name string) (uint64, error) {
	index, err := s.names.index()
	if err != nil {
		return 0, err
	}
	i, ok := index[name]
	if !ok {
		return 0, fmt.Errorf("enum %s has no counter %s: %w", s.names.enum, name, cube.ErrNotFound)
	}
	return cube.Sum(s.values, i)
}
