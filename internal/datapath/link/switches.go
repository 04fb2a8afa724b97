// SPDX-License-Identifier: Apache-2.0

package link

// The constants that enable code. The verifier does not check code that a constant disables, so a program that it
// accepts with the defaults may be refused with other values. The type of a bool or enum constant defines its values;
// for a number, PCN_TRY does.

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/cilium/ebpf/btf"
)

// Switch is a constant, or a member of one that is a struct, with the values to try.
type Switch struct {
	// Name is the C name, with dots before members.
	Name string
	// Values are in words, the default first.
	Values []string

	constant string
	offset   uint32 // in the constant
	raw      [][]byte
}

// tagTry is the tag that PCN_TRY of <pcn/config.h> leaves in the object.
const tagTry = "pcn_try:"

// switches finds them. Constants that begin with pcn_ belong to the framework, and one that is not volatile is no
// PCN_CONFIG: the compiler has used its value already.
func (o *Object) switches() ([]Switch, error) {
	var out []Switch
	for _, name := range slices.Sorted(maps.Keys(o.variables)) {
		v := o.variables[name]
		if v.typ == nil || strings.HasPrefix(name, "pcn_") || !isVolatile(v.typ.Type) {
			continue
		}
		numbers, err := triedNumbers(v)
		if err != nil {
			return nil, fmt.Errorf("constant %s: %w", name, err)
		}
		data := o.rodata[v.offset : v.offset+v.size]
		if size, err := btf.Sizeof(v.typ.Type); err != nil || size != len(data) {
			return nil, fmt.Errorf("constant %s: has %d bytes, but its type has %d: %w", name, len(data), size, ErrObject)
		}
		for _, s := range switchesIn(name, v.typ.Type, 0, data, numbers, maxNesting) {
			s.constant = name
			out = append(out, s)
		}
	}
	return out, nil
}

// maxQualifiers bounds a chain of qualifiers and typedefs, as the kernel does: in a damaged or hostile object it can be a cycle.
const maxQualifiers = 32

func isVolatile(t btf.Type) bool {
	for range maxQualifiers {
		switch q := t.(type) {
		case *btf.Volatile:
			return true
		case *btf.Const:
			t = q.Type
		case *btf.Typedef:
			t = q.Type
		default:
			return false
		}
	}
	return false
}

// triedNumbers are the values given with PCN_TRY.
func triedNumbers(v variable) ([]int64, error) {
	var out []int64
	for _, tag := range v.typ.Tags {
		text, ok := strings.CutPrefix(tag, tagTry)
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(strings.TrimRight(text, "uUlL"), 0, 64)
		if _, isInt := btf.UnderlyingType(v.typ.Type).(*btf.Int); err != nil || !isInt {
			return nil, fmt.Errorf("PCN_TRY(%.40s) must have a literal number: %w", text, ErrObject)
		}
		out = append(out, n)
	}
	return out, nil
}

// switchesIn finds the switches in a value of a type, at an offset of the constant with these bytes, down to a number
// of levels.
func switchesIn(name string, t btf.Type, offset uint32, data []byte, numbers []int64, levels int) []Switch {
	if levels == 0 {
		return nil
	}
	s := Switch{Name: name, offset: offset}
	add := func(size uint32, text string, n int64) {
		raw := binary.LittleEndian.AppendUint64(nil, uint64(n)) // objects are compiled for machines of that kind
		s.add(text, raw[:min(size, 8)])
	}
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Struct:
		var out []Switch
		for _, m := range t.Members {
			if m.BitfieldSize == 0 {
				out = append(out, switchesIn(name+"."+m.Name, m.Type, offset+m.Offset.Bytes(), data, nil, levels-1)...)
			}
		}
		return out
	case *btf.Int:
		if t.Encoding == btf.Bool {
			add(t.Size, "false", 0)
			add(t.Size, "true", 1)
		}
		for _, n := range numbers {
			add(t.Size, strconv.FormatInt(n, 10), n)
		}
	case *btf.Enum:
		for _, v := range t.Values {
			add(t.Size, v.Name, int64(v.Value))
		}
	}
	if len(s.raw) == 0 {
		return nil
	}
	s.begin(data[offset : int(offset)+len(s.raw[0])])
	return []Switch{s}
}

// add adds a value that the switch does not have yet.
func (s *Switch) add(text string, raw []byte) {
	if !slices.ContainsFunc(s.raw, func(r []byte) bool { return bytes.Equal(r, raw) }) {
		s.Values, s.raw = append(s.Values, text), append(s.raw, raw)
	}
}

// begin puts the default first.
func (s *Switch) begin(value []byte) {
	var raw [8]byte
	copy(raw[:], value)
	text := strconv.FormatUint(binary.LittleEndian.Uint64(raw[:]), 10)
	if i := slices.IndexFunc(s.raw, func(r []byte) bool { return bytes.Equal(r, value) }); i >= 0 {
		text = s.Values[i]
		s.Values, s.raw = slices.Delete(s.Values, i, i+1), slices.Delete(s.raw, i, i+1)
	}
	s.Values, s.raw = slices.Insert(s.Values, 0, text), slices.Insert(s.raw, 0, bytes.Clone(value))
}

// Switched returns the constants with the switches at values by number, for Constants. Those at their defaults are
// omitted.
func (o *Object) Switched(values []int) map[string]any {
	out := map[string]any{}
	for i, n := range values {
		s := &o.Switches[i]
		if n == 0 {
			continue
		}
		raw, ok := out[s.constant].([]byte)
		if !ok {
			v := o.variables[s.constant]
			raw = bytes.Clone(o.rodata[v.offset : v.offset+v.size])
			out[s.constant] = raw
		}
		copy(raw[s.offset:], s.raw[n])
	}
	return out
}

// ConstantAt returns the beginning and the end of the constant at an offset of the object's constants; ok is false if
// there is none with a name, such as in a string.
func (o *Object) ConstantAt(offset uint32) (from, to uint32, ok bool) {
	for _, v := range o.variables {
		if offset >= v.offset && offset < v.offset+v.size {
			return v.offset, v.offset + v.size, true
		}
	}
	return 0, 0, false
}
