// SPDX-License-Identifier: Apache-2.0

// Package counter reads the counters that a program declares by PCN_COUNTERS. Their names are those of the program's
// enum, in lower case, with dashes, and without the service's name: NAT_TABLE_FULL is table-full.
package counter

import (
	"bytes"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/table"
)

// Names are the counters of a service by name, read once from the BTF of its program.
type Names struct {
	enum  string
	index func() (map[string]uint32, error)
}

// Of returns the names of an enum in the compiled programs (*.o) of a service's files. The names of its values begin with that
// of the enum, or with what is in front of _counter there.
func Of(files fs.FS, enum string) *Names {
	return &Names{enum, sync.OnceValues(func() (map[string]uint32, error) { return read(files, enum) })}
}

func read(files fs.FS, enum string) (map[string]uint32, error) {
	objects, err := fs.Glob(files, "*.o")
	if err == nil && len(objects) == 0 {
		err = fs.ErrNotExist
	}
	var object []byte
	if err == nil {
		object, err = fs.ReadFile(files, objects[0]) // the enum is the same in each
	}
	if err != nil {
		return nil, fmt.Errorf("read enum %s of a program: %w", enum, err)
	}
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("read enum %s of a program: %w", enum, err)
	}
	var e *btf.Enum
	if err := spec.TypeByName(enum, &e); err != nil {
		return nil, fmt.Errorf("read enum %s of a program: %w", enum, err)
	}
	prefix := strings.ToUpper(strings.TrimSuffix(enum, "_counter")) + "_"
	index := make(map[string]uint32, len(e.Values))
	for _, v := range e.Values {
		name := strings.TrimPrefix(v.Name, prefix)
		index[strings.ToLower(strings.ReplaceAll(name, "_", "-"))] = uint32(v.Value)
	}
	return index, nil
}

// Set contains the counters of a cube. The zero value has none.
type Set struct {
	values table.PerCPU[uint32, uint64]
	names  *Names
}

// In returns the counters of a cube, in the map that PCN_COUNTERS declares. The map opens itself.
func (n *Names) In(env cube.Env, mapName string) Set {
	return Set{table.NewPerCPU[uint32, uint64](env, mapName), n}
}

// Sum returns the sum over all CPUs.
func (s Set) Sum(name string) (uint64, error) {
	index, err := s.names.index()
	if err != nil {
		return 0, err
	}
	i, ok := index[name]
	if !ok {
		return 0, fmt.Errorf("enum %s has no counter %s: %w", s.names.enum, name, cube.ErrNotFound)
	}
	return table.Sum(s.values, i)
}
