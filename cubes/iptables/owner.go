// SPDX-License-Identifier: Apache-2.0

package iptables

// Conditions about the local socket of a packet: owner.h.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"sync"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/iptables/language"
)

func ownerTests(m language.Owner) (out []test, err error) {
	if m.SupplGroups {
		return nil, fmt.Errorf("--suppl-groups is not supported: leave it out to compare the group that a program runs with: %w", cube.ErrUnsupported)
	}
	if m.SocketExists {
		out = append(out, test{Kind: testSocket, Negated: m.SocketNot})
	}
	if m.UID != nil {
		out = append(out, numbers(testUser, m.UID.Not, m.UID.First, m.UID.Last))
	}
	if m.GID != nil {
		t := numbers(testGroup, m.GID.Not, m.GID.First, m.GID.Last)
		way, err := wayToGroup()
		if err != nil {
			return nil, fmt.Errorf("--gid-owner: %w: %w", err, cube.ErrUnsupported)
		}
		for i, offset := range way {
			binary.NativeEndian.PutUint32(t.Data[4*(2+i):], offset)
		}
		out = append(out, t)
	}
	return out, nil
}

// wayToGroup are the offsets in bytes by which the kernel gets from a socket to the group of its program: of a pointer to the
// next structure in the one before, and of the group in the last.
var wayToGroup = sync.OnceValues(func() (way []uint32, err error) {
	kernel, err := btf.LoadKernelSpec()
	if err != nil {
		return nil, fmt.Errorf("the kernel does not tell its types: %w", err)
	}
	for _, step := range []struct{ of, member string }{{"sock", "sk_socket"}, {"socket", "file"}, {"file", "f_cred"}, {"cred", "fsgid"}} {
		var s *btf.Struct
		if err := kernel.TypeByName(step.of, &s); err != nil {
			return nil, fmt.Errorf("struct %s: %w", step.of, err)
		}
		offset, ok := offsetOf(s.Members, step.member)
		if !ok {
			return nil, errors.New("struct " + step.of + " of this kernel has no member " + step.member)
		}
		way = append(way, offset)
	}
	return way, nil
})

// offsetOf finds a member, also in structures and unions without a name.
func offsetOf(members []btf.Member, name string) (uint32, bool) {
	for _, m := range members {
		if m.Name == name {
			return m.Offset.Bytes(), true
		}
		if m.Name != "" {
			continue
		}
		var inner []btf.Member
		switch t := btf.UnderlyingType(m.Type).(type) {
		case *btf.Struct:
			inner = t.Members
		case *btf.Union:
			inner = t.Members
		}
		if offset, ok := offsetOf(inner, name); ok {
			return m.Offset.Bytes() + offset, true
		}
	}
	return 0, false
}
