// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"

	"github.com/cilium/ebpf/btf"
)

// A compiler nests types a few levels deep, and a program's map has a few hundred members.
const (
	maxNesting = 32
	maxMembers = 1 << 16
)

// extent is how deep a type nests others by value, and how many it contains in total.
type extent struct{ depth, members int }

// typeWalk measures types. One that is being measured has the zero extent.
type typeWalk map[btf.Type]extent

// checkTypes refuses types that contain themselves, nest too deep or contain too many others: the BTF of an object is
// not trusted, and code that follows types from one to the next must terminate.
func checkTypes(spec *btf.Spec) error {
	if spec == nil {
		return nil
	}
	w := typeWalk{}
	for t, err := range spec.All() {
		if err != nil {
			return fmt.Errorf("read the object's types: %w: %w", err, ErrObject)
		}
		if _, err := w.measure(t, 0); err != nil {
			return err
		}
	}
	return nil
}

func (w typeWalk) measure(t btf.Type, above int) (extent, error) {
	is, known := w[t]
	switch {
	case known && is == extent{}:
		return is, fmt.Errorf("type %q contains itself: %w", t.TypeName(), ErrObject)
	case known:
		return is, nil
	case above > maxNesting:
		return is, fmt.Errorf("type %q is nested more than %d levels deep: %w", t.TypeName(), maxNesting, ErrObject)
	}
	w[t] = extent{}
	is = extent{depth: 1, members: 1}
	for _, inner := range byValue(t) {
		of, err := w.measure(inner, above+1)
		if err != nil {
			return is, err
		}
		is.depth, is.members = max(is.depth, of.depth+1), is.members+of.members
		if is.depth > maxNesting || is.members > maxMembers {
			return is, fmt.Errorf("type %q contains %d types on %d levels, the limit is %d on %d: %w",
				t.TypeName(), is.members, is.depth, maxMembers, maxNesting, ErrObject)
		}
	}
	w[t] = is
	return is, checkMembers(t)
}

// checkMembers refuses members outside of their parent.
func checkMembers(t btf.Type) error {
	var size uint32
	var list []btf.Member
	switch t := t.(type) {
	case *btf.Struct:
		size, list = t.Size, t.Members
	case *btf.Union:
		size, list = t.Size, t.Members
	}
	for _, m := range list {
		n, err := btf.Sizeof(m.Type)
		if err != nil || m.BitfieldSize == 0 && uint64(m.Offset.Bytes())+uint64(n) > uint64(size) {
			return fmt.Errorf("type %q: member %q is not in its %d bytes: %w", t.TypeName(), m.Name, size, ErrObject)
		}
	}
	return nil
}

// byValue are the types that a type consists of. Types behind pointers are not among them.
func byValue(t btf.Type) []btf.Type {
	var inner []btf.Type
	members := func(list []btf.Member) {
		for _, m := range list {
			inner = append(inner, m.Type)
		}
	}
	switch t := t.(type) {
	case *btf.Struct:
		members(t.Members)
	case *btf.Union:
		members(t.Members)
	case *btf.Array:
		inner = append(inner, t.Type)
	case *btf.Datasec:
		for _, v := range t.Vars {
			inner = append(inner, v.Type)
		}
	case *btf.Var:
		inner = append(inner, t.Type)
	case *btf.Typedef:
		inner = append(inner, t.Type)
	case *btf.Const:
		inner = append(inner, t.Type)
	case *btf.Volatile:
		inner = append(inner, t.Type)
	case *btf.Restrict:
		inner = append(inner, t.Type)
	case *btf.TypeTag:
		inner = append(inner, t.Type)
	}
	return inner
}
