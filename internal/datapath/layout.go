// SPDX-License-Identifier: Apache-2.0

package datapath

// Two declarations of a map are compared before state is handed from one to the other: sizes are
// not enough, since two members that change places leave them as they are.

import (
	"bytes"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/bpf/core"
	"github.com/polycube/polycube/cube"
)

// difference is how a map that exists differs from its present declaration.
type difference uint8

const (
	same    difference = iota
	resized            // in max_entries alone
	other
)

// compare tells how the map m, declared as was (nil where that is not known), differs from the
// declaration is, and says so in words.
func compare(m *ebpf.Map, was, is *ebpf.MapSpec) (difference, string) {
	fit := is.Copy()
	fit.MaxEntries = m.MaxEntries()
	if err := fit.Compatible(m); err != nil {
		return other, strings.TrimSuffix(err.Error(), ": "+ebpf.ErrMapIncompatible.Error())
	}
	if was != nil {
		if what := unlike(was, is); what != "" {
			return other, what
		}
	}
	if m.MaxEntries() != is.MaxEntries && is.Compatible(m) != nil {
		return resized, fmt.Sprintf("max_entries: %d changed to %d", m.MaxEntries(), is.MaxEntries)
	}
	return same, ""
}

// unlike says how the types of two declarations differ, "" if they do not.
func unlike(was, is *ebpf.MapSpec) string {
	for _, c := range []struct {
		what    string
		was, is btf.Type
	}{{"key", was.Key, is.Key}, {"value", was.Value, is.Value}} {
		if a, b := shape(c.was), shape(c.is); a != b && a != "" && b != "" {
			return fmt.Sprintf("%s: %.120s changed to %.120s", c.what, a, b)
		}
	}
	if was.InnerMap == nil || is.InnerMap == nil {
		return ""
	}
	a, b := was.InnerMap, is.InnerMap
	if a.Type != b.Type || a.KeySize != b.KeySize || a.ValueSize != b.ValueSize || a.Flags != b.Flags || a.MaxEntries != b.MaxEntries {
		return fmt.Sprintf("the maps inside: %s changed to %s", a, b)
	}
	if what := unlike(a, b); what != "" {
		return "the maps inside: " + what
	}
	return ""
}

// shape writes a type's layout: members with names and offsets, numbers with sizes; names of
// types do not matter.
func shape(t btf.Type) string {
	switch t := btf.UnderlyingType(t).(type) {
	case *btf.Int:
		return fmt.Sprintf("%c%d", "ui"[btof(t.Encoding == btf.Signed)], t.Size*8)
	case *btf.Enum:
		return fmt.Sprintf("u%d", t.Size*8)
	case *btf.Float:
		return fmt.Sprintf("f%d", t.Size*8)
	case *btf.Pointer:
		return "pointer"
	case *btf.Array:
		return fmt.Sprintf("[%d]%s", t.Nelems, shape(t.Type))
	case *btf.Struct:
		return members(t.Members)
	case *btf.Union:
		return members(t.Members)
	case *btf.Datasec:
		var b strings.Builder
		for _, v := range t.Vars {
			fmt.Fprintf(&b, "%s %s at %d; ", v.Type.TypeName(), shape(v.Type.(*btf.Var).Type), v.Offset)
		}
		return "{" + strings.TrimSuffix(b.String(), "; ") + "}"
	}
	return ""
}

func members(list []btf.Member) string {
	parts := make([]string, 0, len(list))
	for _, m := range list {
		at := fmt.Sprint(m.Offset.Bytes())
		if m.BitfieldSize != 0 {
			at = fmt.Sprintf("bit %d, %d bits", m.Offset, m.BitfieldSize)
		}
		parts = append(parts, fmt.Sprintf("%s %s at %s", m.Name, shape(m.Type), at))
	}
	return "{" + strings.Join(parts, "; ") + "}"
}

func btof(b bool) int {
	if b {
		return 1
	}
	return 0
}

// metadataOf returns struct pcn_md as an object was compiled with it.
func metadataOf(elf []byte) (*btf.Struct, error) {
	spec, err := btf.LoadSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		return nil, fmt.Errorf("types of an object: %w", err)
	}
	var md *btf.Struct
	if err := spec.TypeByName("pcn_md", &md); err != nil {
		return nil, fmt.Errorf("types of an object: %w", err)
	}
	return md, nil
}

// sameMetadata refuses an object that takes struct pcn_md for another one than ours.
func sameMetadata(elf []byte) error {
	was, err := metadataOf(elf)
	if err != nil {
		return err
	}
	ours, err := core.Objects.ReadFile("core.tc.o")
	if err != nil {
		return fmt.Errorf("framework programs: %w (run make generate)", err)
	}
	is, err := metadataOf(ours)
	if err != nil {
		return err
	}
	return extends(was, is)
}

// extends tells whether a struct is an earlier one with some of its reserved room in use.
func extends(was, is *btf.Struct) error {
	if was.Size != is.Size {
		return fmt.Errorf("struct %s had %d bytes, and has %d: %w", was.Name, was.Size, is.Size, cube.ErrUnsupported)
	}
	there := map[string]bool{}
	for _, m := range is.Members {
		there[members([]btf.Member{m})] = true
	}
	for _, m := range was.Members {
		if what := members([]btf.Member{m}); m.Name != "reserved" && !there[what] {
			return fmt.Errorf("struct %s had %s: %w", was.Name, what, cube.ErrUnsupported)
		}
	}
	return nil
}
