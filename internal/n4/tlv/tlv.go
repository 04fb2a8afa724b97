// SPDX-License-Identifier: Apache-2.0

// Package tlv splits PFCP messages into information elements (IEs). It reads groups one level at a time: the parser of
// go-pfcp follows every level of nesting, so a datagram of 64 KiB keeps it busy for seconds. The values of IEs are
// decoded by go-pfcp where its decoders check lengths.
package tlv

import (
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/wmnsk/go-pfcp/ie"
)

// MaxIEs of a message or of a group. More than that no session can have.
const MaxIEs = 1024

// IE is an information element. Value is part of the message.
type IE struct {
	Type  uint16
	Value []byte
}

// Group is the content of a message or of a grouped IE, in the order of the message.
type Group []IE

// Split returns the IEs. Those of vendors are left out, because this end knows none (TS 29.244 5.3).
func Split(b []byte) (Group, error) {
	g := make(Group, 0, min(len(b)/5, 16))
	for len(b) > 0 {
		if len(b) < 4 {
			return nil, fmt.Errorf("%d bytes after the last IE", len(b))
		}
		is := IE{Type: binary.BigEndian.Uint16(b)}
		n := int(binary.BigEndian.Uint16(b[2:]))
		if len(b) < 4+n {
			return nil, fmt.Errorf("IE %d has %d bytes of %d", is.Type, len(b)-4, n)
		}
		is.Value = b[4 : 4+n : 4+n]
		b = b[4+n:]
		if is.Type&0x8000 != 0 {
			continue
		}
		if len(g) == MaxIEs {
			return nil, fmt.Errorf("more than %d IEs", MaxIEs)
		}
		g = append(g, is)
	}
	return g, nil
}

// Group splits a grouped IE.
func (i IE) Group() (Group, error) { return Split(i.Value) }

// Decode returns the IE in the form of go-pfcp's decoders, for one that is not grouped.
func (i IE) Decode() *ie.IE {
	return &ie.IE{Type: i.Type, Length: uint16(len(i.Value)), Payload: i.Value}
}

// Uint returns the number in the first size bytes.
func (i IE) Uint(size int) (uint64, error) {
	if len(i.Value) < size {
		return 0, fmt.Errorf("IE %d has %d bytes of %d", i.Type, len(i.Value), size)
	}
	var n uint64
	for _, b := range i.Value[:size] {
		n = n<<8 | uint64(b)
	}
	return n, nil
}

// First returns the first IE of a type. Further ones are ignored by those that expect one (TS 29.244 7.6.5).
func (g Group) First(kind uint16) (IE, bool) {
	for _, i := range g {
		if i.Type == kind {
			return i, true
		}
	}
	return IE{}, false
}

// Has reports whether there is an IE of a type.
func (g Group) Has(kind uint16) bool {
	_, ok := g.First(kind)
	return ok
}

// Any returns the type of the first IE that is one of kinds.
func (g Group) Any(kinds []uint16) (uint16, bool) {
	for _, i := range g {
		if slices.Contains(kinds, i.Type) {
			return i.Type, true
		}
	}
	return 0, false
}
