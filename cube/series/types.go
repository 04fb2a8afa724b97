// SPDX-License-Identifier: Apache-2.0

package series

// Types of the BTF, as functions over the bytes of a value.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"slices"
	"strconv"

	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
)

// node is a type.
type node struct {
	size int
	// json appends a value as JSON.
	json func(dst, data []byte) []byte
	// add adds a value to another one: integers are added, for anything else the later value counts.
	add func(to, data []byte)
	// number returns an integer, sign-extended; nil for any other type. signed says how it is to be read.
	number func(data []byte) uint64
	signed bool
	// text appends a value as the text of a label; nil for structs.
	text func(dst, data []byte) []byte
	// members are those of a struct, without anonymous ones.
	members []member
	// name is that of a struct, element and count are those of an array.
	name    string
	element *node
	count   int
}

type member struct {
	name   string
	offset int
	*node
}

// maxDepth is how deep structs and arrays may be nested.
const maxDepth = 16

func unsupported(t btf.Type) error {
	return fmt.Errorf("values of type %v cannot be shown: %w", t, cube.ErrInvalid)
}

// nodeOf translates a type.
func nodeOf(t btf.Type, depth int) (*node, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("its type is nested deeper than %d levels: %w", maxDepth, cube.ErrInvalid)
	}
	switch t := t.(type) {
	case *btf.Typedef:
		if n := named(t); n != nil {
			return n, nil
		}
		return nodeOf(t.Type, depth+1)
	case *btf.Const:
		return nodeOf(t.Type, depth+1)
	case *btf.Volatile:
		return nodeOf(t.Type, depth+1)
	case *btf.TypeTag:
		return nodeOf(t.Type, depth+1)
	case *btf.Int:
		return intNode(t)
	case *btf.Enum:
		return enumNode(t), nil
	case *btf.Pointer:
		return integer(8, false, binary.NativeEndian), nil
	case *btf.Array:
		return arrayNode(t, depth)
	case *btf.Struct:
		if t.Name == "in6_addr" && t.Size == 16 {
			return textNode(16, appendAddress6), nil
		}
		return structNode(t.Name, int(t.Size), t.Members, depth)
	case *btf.Union:
		n, err := structNode(t.Name, int(t.Size), t.Members, depth)
		if err == nil {
			n.add = later
		}
		return n, err
	}
	return nil, unsupported(t)
}

func later(to, data []byte) { copy(to, data) }

// named are types that are known by the name of their typedef.
func named(t *btf.Typedef) *node {
	size, err := btf.Sizeof(t)
	if err != nil {
		return nil
	}
	switch {
	case t.Name == "pcn_address" && size == 16:
		return textNode(16, func(dst, data []byte) []byte { return inet.Address(data).Addr().AppendTo(dst) })
	case t.Name == "pcn_ipv4" && size == 4:
		return textNode(4, func(dst, data []byte) []byte { return netip.AddrFrom4([4]byte(data)).AppendTo(dst) })
	case t.Name == "pcn_mac_address" && size == 6:
		return textNode(6, func(dst, data []byte) []byte { return append(dst, net.HardwareAddr(data).String()...) })
	case t.Name == "__be16" && size == 2, t.Name == "__be32" && size == 4, t.Name == "__be64" && size == 8:
		return integer(size, false, binary.BigEndian)
	}
	return nil
}

func appendAddress6(dst, data []byte) []byte { return netip.AddrFrom16([16]byte(data)).AppendTo(dst) }

// textNode is a type whose values are text without quotes.
func textNode(size int, text func(dst, data []byte) []byte) *node {
	return &node{size: size, text: func(dst, data []byte) []byte { return text(dst, data[:size]) }, add: later,
		json: func(dst, data []byte) []byte { return append(text(append(dst, '"'), data[:size]), '"') }}
}

// integer is a number of 1, 2, 4 or 8 bytes.
func integer(size int, signed bool, order binary.ByteOrder) *node {
	n := &node{size: size, signed: signed}
	var store func(to []byte, v uint64)
	switch size {
	case 1:
		n.number = func(data []byte) uint64 { return extend(uint64(data[0]), 8, signed) }
		store = func(to []byte, v uint64) { to[0] = byte(v) }
	case 2:
		n.number = func(data []byte) uint64 { return extend(uint64(order.Uint16(data)), 16, signed) }
		store = func(to []byte, v uint64) { order.PutUint16(to, uint16(v)) }
	case 4:
		n.number = func(data []byte) uint64 { return extend(uint64(order.Uint32(data)), 32, signed) }
		store = func(to []byte, v uint64) { order.PutUint32(to, uint32(v)) }
	default:
		n.number = func(data []byte) uint64 { return order.Uint64(data) }
		store = func(to []byte, v uint64) { order.PutUint64(to, v) }
	}
	n.json = func(dst, data []byte) []byte { return n.appendNumber(dst, n.number(data)) }
	n.add = func(to, data []byte) { store(to, n.number(to)+n.number(data)) }
	n.text = n.json
	return n
}

func extend(v uint64, bits int, signed bool) uint64 {
	if signed {
		return uint64(int64(v<<(64-bits)) >> (64 - bits))
	}
	return v
}

func (n *node) appendNumber(dst []byte, v uint64) []byte {
	if n.signed {
		return strconv.AppendInt(dst, int64(v), 10)
	}
	return strconv.AppendUint(dst, v, 10)
}

func intNode(t *btf.Int) (*node, error) {
	switch {
	case t.Encoding == btf.Bool && t.Size == 1:
		n := integer(1, false, binary.NativeEndian)
		n.number = func(data []byte) uint64 { return uint64(min(data[0], 1)) }
		n.json = func(dst, data []byte) []byte { return strconv.AppendBool(dst, data[0] != 0) }
		n.text, n.add = n.json, func(to, data []byte) { to[0] |= data[0] }
		return n, nil
	case t.Size == 16:
		return textNode(16, func(dst, data []byte) []byte {
			big128 := bytes.Clone(data)
			slices.Reverse(big128) // the machines that programs are compiled for are little-endian
			return new(big.Int).SetBytes(big128).Append(dst, 10)
		}), nil
	case t.Size == 1, t.Size == 2, t.Size == 4, t.Size == 8:
		return integer(int(t.Size), t.Encoding == btf.Signed, binary.NativeEndian), nil
	}
	return nil, unsupported(t)
}

func enumNode(t *btf.Enum) *node {
	n := integer(int(t.Size), t.Signed, binary.NativeEndian)
	names := map[uint64]string{}
	for _, v := range t.Values {
		names[v.Value] = v.Name
	}
	number := n.number
	n.text = func(dst, data []byte) []byte {
		v := number(data)
		if name, ok := names[v]; ok {
			return append(dst, name...)
		}
		return n.appendNumber(dst, v)
	}
	n.json = func(dst, data []byte) []byte {
		if name, ok := names[number(data)]; ok {
			return append(append(append(dst, '"'), name...), '"')
		}
		return n.appendNumber(dst, number(data))
	}
	n.add = later
	return n
}

func isChar(t btf.Type) bool {
	i, ok := btf.UnderlyingType(t).(*btf.Int)
	return ok && i.Name == "char" && i.Size == 1
}

func arrayNode(t *btf.Array, depth int) (*node, error) {
	count := int(t.Nelems)
	if isChar(t.Type) {
		return charsNode(count), nil
	}
	of, err := nodeOf(t.Type, depth+1)
	if err != nil {
		return nil, err
	}
	n := &node{size: count * of.size, element: of, count: count}
	n.json = func(dst, data []byte) []byte {
		dst = append(dst, '[')
		for i := range count {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = of.json(dst, data[i*of.size:])
		}
		return append(dst, ']')
	}
	n.add = func(to, data []byte) {
		for i := range count {
			of.add(to[i*of.size:], data[i*of.size:])
		}
	}
	n.text = n.json
	return n, nil
}

// charsNode is text up to a NUL. Bytes that are no UTF-8 come from packets, and are replaced.
func charsNode(size int) *node {
	chars := func(data []byte) string {
		text, _, _ := bytes.Cut(data[:size], []byte{0})
		return string(bytes.ToValidUTF8(text, []byte("\uFFFD")))
	}
	return &node{size: size, add: later,
		text: func(dst, data []byte) []byte { return append(dst, chars(data)...) },
		json: func(dst, data []byte) []byte {
			quoted, err := json.Marshal(chars(data))
			if err != nil {
				return append(dst, `""`...) // not reached: it is UTF-8
			}
			return append(dst, quoted...)
		}}
}

func structNode(name string, size int, fields []btf.Member, depth int) (*node, error) {
	n := &node{size: size, name: name}
	for _, f := range fields {
		at := int(f.Offset / 8)
		if f.BitfieldSize > 0 {
			n.members = append(n.members, member{f.Name, at, bitField(int(f.Offset%8), int(f.BitfieldSize), f.Type)})
			continue
		}
		of, err := nodeOf(f.Type, depth+1)
		if err != nil {
			return nil, fmt.Errorf("member %s: %w", f.Name, err)
		}
		if f.Name != "" {
			n.members = append(n.members, member{f.Name, at, of})
			continue
		}
		for _, inner := range of.members {
			n.members = append(n.members, member{inner.name, at + inner.offset, inner.node})
		}
	}
	prefixes := make([]string, len(n.members))
	for i, m := range n.members {
		prefixes[i] = "," + strconv.Quote(m.name) + ":"
		if i == 0 {
			prefixes[i] = prefixes[i][1:]
		}
	}
	n.json = func(dst, data []byte) []byte {
		dst = append(dst, '{')
		for i, m := range n.members {
			dst = m.json(append(dst, prefixes[i]...), data[m.offset:])
		}
		return append(dst, '}')
	}
	n.add = func(to, data []byte) {
		for _, m := range n.members {
			m.add(to[m.offset:], data[m.offset:])
		}
	}
	return n, nil
}

// bitField is a member of some bits, from a bit of its first byte on.
func bitField(first, bits int, t btf.Type) *node {
	signed := false
	if i, ok := btf.UnderlyingType(t).(*btf.Int); ok {
		signed = i.Encoding == btf.Signed
	}
	n := &node{size: (first + bits + 7) / 8, signed: signed, add: func([]byte, []byte) {}}
	n.number = func(data []byte) (v uint64) {
		for i := range bits {
			v |= uint64(data[(first+i)/8]>>((first+i)%8)&1) << i
		}
		return extend(v, bits, signed)
	}
	n.json = func(dst, data []byte) []byte { return n.appendNumber(dst, n.number(data)) }
	n.text = n.json
	return n
}
