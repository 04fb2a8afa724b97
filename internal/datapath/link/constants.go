// SPDX-License-Identifier: Apache-2.0

package link

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// Constants returns a copy of the object's constants with values set by C name. A value is
// a Go integer, bool or struct laid out as the C type, of the same size.
func (o *Object) Constants(values map[string]any) ([]byte, error) {
	data := bytes.Clone(o.rodata)
	for name, value := range values {
		v, ok := o.variables[name]
		if !ok {
			known := slices.Sorted(maps.Keys(o.variables))
			return nil, fmt.Errorf("constant %s: no such variable in the program (it has %s): %w",
				name, strings.Join(known, ", "), cube.ErrNotFound)
		}
		if value == nil {
			return nil, fmt.Errorf("constant %s: no value: %w", name, cube.ErrInvalid)
		}
		var buf bytes.Buffer
		if err := binary.Write(&buf, binary.NativeEndian, fixedSize(value)); err != nil {
			return nil, fmt.Errorf("constant %s: %w", name, err)
		}
		if buf.Len() != int(v.size) {
			return nil, fmt.Errorf("constant %s: value of %d bytes for a variable of %d: %w",
				name, buf.Len(), v.size, cube.ErrInvalid)
		}
		copy(data[v.offset:], buf.Bytes())
	}
	return data, nil
}

// fixedSize makes int and uint, which have no size of their own, 32 bits wide.
func fixedSize(v any) any {
	switch x := v.(type) {
	case int:
		return int32(x)
	case uint:
		return uint32(x)
	}
	return v
}

// IsSet reports whether a constant of that C name exists and is not zero in constants of the object.
func (o *Object) IsSet(constants []byte, name string) bool {
	v, ok := o.variables[name]
	return ok && slices.ContainsFunc(constants[v.offset:v.offset+v.size], func(b byte) bool { return b != 0 })
}

// Reads reports whether a program of the object, or a function that it calls, loads the constant of that C name.
func (o *Object) Reads(name string) bool {
	v, ok := o.variables[name]
	return ok && o.loaded[v.offset]
}

// addLoaded notes which constants functions load.
func (o *Object) addLoaded() {
	o.loaded = map[uint32]bool{}
	add := func(body asm.Instructions) {
		for _, ins := range body {
			if base, constant := o.sections[ins.Reference()]; constant && ins.IsLoadFromMap() {
				o.loaded[uint32(uint64(ins.Constant)>>32)+base] = true
			}
		}
	}
	for _, f := range o.Functions {
		add(f.Body)
		for _, body := range f.Callees {
			add(body)
		}
	}
}

// HasConstant reports whether the object has a constant of that C name.
func (o *Object) HasConstant(name string) bool {
	_, ok := o.variables[name]
	return ok
}
