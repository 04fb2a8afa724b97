// SPDX-License-Identifier: Apache-2.0

package bpfmap

// Two declarations of a map are compared before entries are taken over. Sizes are not enough: they stay the same if two
// members swap places.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/btf"
)

// TagDisposable is the tag that PCN_DISPOSABLE of <pcn/map.h> writes to the object.
const TagDisposable = "pcn_disposable"

// Disposable reports whether the entries of a map may be dropped when its declaration changes.
func Disposable(s *ebpf.MapSpec) bool { return slices.Contains(s.Tags, TagDisposable) }

// Difference is how an existing map differs from its current declaration.
type Difference uint8

// The differences. With Resized, only max_entries differs.
const (
	Same Difference = iota
	Resized
	Other
)

// Compare returns how the map m, declared as was (nil if that is not known), differs from the declaration is, and the
// difference in words.
func Compare(m *ebpf.Map, was, is *ebpf.MapSpec) (Difference, string) {
	fit := is.Copy()
	fit.MaxEntries = m.MaxEntries()
	if err := fit.Compatible(m); err != nil {
		return Other, strings.TrimSuffix(err.Error(), ": "+ebpf.ErrMapIncompatible.Error())
	}
	if was != nil {
		if what := unlike(was, is); what != "" {
			return Other, what
		}
	}
	if m.MaxEntries() != is.MaxEntries && is.Compatible(m) != nil {
		return Resized, fmt.Sprintf("max_entries: %d changed to %d", m.MaxEntries(), is.MaxEntries)
	}
	return Same, ""
}

// unlike returns how the types of two declarations differ, "" if they do not.
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
		return fmt.Sprintf("inner maps: %s changed to %s", a, b)
	}
	if what := unlike(a, b); what != "" {
		return "inner maps: " + what
	}
	return ""
}

// shape returns a type's layout: names and offsets of members, sizes of numbers. Names of types do not matter.
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
		return Members(t.Members)
	case *btf.Union:
		return Members(t.Members)
	case *btf.Datasec:
		var b strings.Builder
		for _, v := range t.Vars {
			fmt.Fprintf(&b, "%s %s at %d; ", v.Type.TypeName(), shape(v.Type.(*btf.Var).Type), v.Offset)
		}
		return "{" + strings.TrimSuffix(b.String(), "; ") + "}"
	}
	return ""
}

// Members returns the members of a struct or union with their offsets.
func Members(list []btf.Member) string {
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

// DeclaredOtherwise returns how two declarations of one map differ, "" if they do not.
func DeclaredOtherwise(a, b *ebpf.MapSpec) string {
	if a.Type != b.Type || a.KeySize != b.KeySize || a.ValueSize != b.ValueSize || a.MaxEntries != b.MaxEntries || a.Flags != b.Flags {
		return fmt.Sprintf("%s and not %s", a, b)
	}
	if Disposable(a) != Disposable(b) {
		return "only one of the declarations has PCN_DISPOSABLE"
	}
	return unlike(a, b)
}
