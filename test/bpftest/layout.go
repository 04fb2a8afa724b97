// SPDX-License-Identifier: Apache-2.0

package bpftest

import (
	"bytes"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// Layout fails the test unless a Go type is laid out as the value of a map in a compiled object:
// members in the same order, at the same offsets, of the same sizes, with the same names but for
// case and underscores. The C struct is the definition; `_` fields in Go are its padding.
func Layout(t testing.TB, object []byte, mapName string, value any) {
	t.Helper()
	layout(t, object, mapName, value, func(m *ebpf.MapSpec) *ebpf.MapSpec { return m })
}

// InnerLayout is Layout for the maps in a map of maps.
func InnerLayout(t testing.TB, object []byte, mapName string, value any) {
	t.Helper()
	layout(t, object, mapName, value, func(m *ebpf.MapSpec) *ebpf.MapSpec { return m.InnerMap })
}

func layout(t testing.TB, object []byte, mapName string, value any, of func(*ebpf.MapSpec) *ebpf.MapSpec) {
	t.Helper()
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(object))
	if err != nil {
		t.Fatal(err)
	}
	m := spec.Maps[mapName]
	if m == nil {
		t.Fatalf("the object has no map %s", mapName)
	}
	for _, fault := range differences(of(m).Value, reflect.TypeOf(value)) {
		t.Errorf("map %s: %s", mapName, fault)
	}
}

func differences(c btf.Type, g reflect.Type) []string {
	if one, ok := btf.UnderlyingType(c).(*btf.Array); ok && one.Nelems == 1 {
		c = one.Type
	}
	def, ok := btf.UnderlyingType(c).(*btf.Struct)
	if !ok || g.Kind() != reflect.Struct {
		return []string{fmt.Sprintf("%v and %v: two structs are wanted", c, g)}
	}
	var out []string
	if g.Size() != uintptr(def.Size) {
		out = append(out, fmt.Sprintf("struct %s has %d bytes, %v has %d", def.Name, def.Size, g, g.Size()))
	}
	if g.NumField() != len(def.Members) {
		return append(out, fmt.Sprintf("struct %s has %d members, %v has %d", def.Name, len(def.Members), g, g.NumField()))
	}
	for i, member := range def.Members {
		f := g.Field(i)
		size, err := btf.Sizeof(member.Type)
		if err != nil {
			return append(out, err.Error())
		}
		if f.Offset != uintptr(member.Offset.Bytes()) || f.Type.Size() != uintptr(size) {
			out = append(out, fmt.Sprintf("%s is %d bytes at %d, %s is %d at %d",
				member.Name, size, member.Offset.Bytes(), f.Name, f.Type.Size(), f.Offset))
		}
		if f.Name != "_" && !strings.EqualFold(f.Name, strings.ReplaceAll(member.Name, "_", "")) {
			out = append(out, fmt.Sprintf("member %d is %s in C and %s in Go", i, member.Name, f.Name))
		}
	}
	return out
}
