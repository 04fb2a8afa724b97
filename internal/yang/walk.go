// SPDX-License-Identifier: Apache-2.0

// Copies libyang's compiled schema into Nodes.

package yang

// #include "libyang.h"
import "C"

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unsafe"
)

// baseMembers come first in a cube, in this order.
var baseMembers = []string{"uuid", "type", "service-name", "loglevel", "shadow", "span", "ports", "parent"}

// walker copies one model.
type walker struct {
	schema *Schema
	err    error
}

// walk fills in the root of the schema and the map from libyang's nodes to ours.
func (s *Schema) walk() error {
	w := &walker{schema: s}
	all := &Node{schema: s, kind: Container, config: true}
	w.members(all, C.pcn_module_data(s.module), 0, false)
	w.members(all, C.pcn_module_rpcs(s.module), 0, false)
	if w.err != nil {
		return w.err
	}
	s.root = &Node{schema: s, kind: Container, config: true, description: s.info.Description}
	for _, name := range baseMembers {
		if c := all.byName[name]; c != nil {
			s.root.add(c)
		}
	}
	for _, c := range all.children {
		if s.root.Child(c.name) == nil {
			s.root.add(c)
		}
	}
	for _, c := range s.root.children {
		c.parent = s.root
	}
	s.conditional = s.root.conditional(false)
	if err := s.root.checkMarks(); err != nil {
		return err
	}
	if err := s.findBulk(s.root); err != nil {
		return err
	}
	return s.checkMentions(s.root)
}

// fail records the first statement that this package cannot represent.
func (w *walker) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}

// members adds the siblings starting with first to parent, through choices.
func (w *walker) members(parent *Node, first schemaRef, depth int, inOutput bool) {
	if depth > maxDepth {
		w.fail("%s nests deeper than %d nodes", parent.path, maxDepth)
	}
	for ref := first; ref != nil && w.err == nil; {
		var sn C.struct_pcn_snode
		C.pcn_schema(ref, &sn)
		if sn.nodetype&(C.LYS_CHOICE|C.LYS_CASE) != 0 {
			w.alternatives(parent, ref, &sn, depth, inOutput)
		} else if sn.nodetype&C.LYS_NOTIF == 0 {
			w.node(parent, ref, &sn, depth, inOutput)
		}
		ref = sn.next
	}
}

// alternatives adds the content of a choice or case to its parent.
func (w *walker) alternatives(parent *Node, ref schemaRef, sn *C.struct_pcn_snode, depth int, inOutput bool) {
	before := len(parent.children)
	parent.conditions = append(parent.conditions, conditions(ref)...)
	w.members(parent, sn.child, depth+1, inOutput)
	if sn.nodetype != C.LYS_CASE {
		return
	}
	var choice C.struct_pcn_snode
	C.pcn_schema(ref.parent, &choice)
	name := C.GoString(choice.name)
	for _, n := range parent.children[before:] {
		n.cases = append(n.cases, alternative{choice: ref.parent, in: ref, name: name})
	}
}

// node copies one node with its descendants.
func (w *walker) node(parent *Node, ref schemaRef, sn *C.struct_pcn_snode, depth int, inOutput bool) {
	n := &Node{
		name:        C.GoString(sn.name),
		description: goString(sn.dsc),
		units:       goString(sn.units),
		native:      ref,
		schema:      w.schema,
		parent:      parent,
		inInput:     parent != nil && parent.inInput, inOutput: inOutput,
		config:     sn.flags&C.LYS_CONFIG_R == 0 && !inOutput,
		mandatory:  sn.flags&C.LYS_MAND_TRUE != 0,
		extensions: make(map[string]string),
	}
	n.path = strings.TrimPrefix(parent.path+"/"+n.name, "/")
	if parent.Child(n.name) != nil {
		w.fail("%s appears twice", n.path)
		return
	}
	each(func(i C.size_t, name, owner **C.char) *C.char { return C.pcn_node_ext(ref, i, name, owner) },
		func(name, arg string) { n.extensions[name] = arg })
	n.initOnly = n.inherits("init-only-config")
	w.schema.nodes[uintptr(unsafe.Pointer(ref))] = n
	parent.add(n)
	n.when, n.musts, n.unique = sn.has_when != 0, sn.has_must != 0, sn.has_unique != 0
	n.conditions = conditions(ref)
	_, n.bulk = n.extensions["bulk"]
	_, n.positions = n.extensions["positions"]
	_, n.systemCreated = n.extensions["system-created"]
	w.kind(n, sn, depth)
}

// conditions are the expressions of the node's own when and must statements.
func conditions(ref schemaRef) []string {
	var out []string
	for i := C.size_t(0); ; i++ {
		expression := C.pcn_condition(ref, i)
		if expression == nil {
			return out
		}
		out = append(out, C.GoString(expression))
	}
}

// conditional reports whether n or a descendant is a list, and it or a node in between has a when or is in a choice.
func (n *Node) conditional(above bool) bool {
	above = above || n.when || len(n.cases) > 0
	if above && n.listed() {
		return true
	}
	return slices.ContainsFunc(n.children, func(c *Node) bool { return c.conditional(above) })
}

// kind fills in what depends on the kind of node.
func (w *walker) kind(n *Node, sn *C.struct_pcn_snode, depth int) {
	switch sn.nodetype {
	case C.LYS_LEAF, C.LYS_LEAFLIST:
		n.kind = Leaf
		n.key = sn.nodetype == C.LYS_LEAF && sn.flags&C.LYS_KEY != 0
		n.mandatory = n.mandatory || n.key
		if sn.nodetype == C.LYS_LEAFLIST {
			n.kind = LeafList
			w.bounds(n, sn)
		}
		n.typ = copyType(sn.type_name, sn._type)
		if sn.dflt != nil {
			value := C.GoString(sn.dflt)
			n.def = &value
		}
	case C.LYS_CONTAINER:
		n.kind = Container
		n.presence = sn.flags&C.LYS_PRESENCE != 0
	case C.LYS_LIST:
		n.kind = List
		w.bounds(n, sn)
	case C.LYS_ACTION, C.LYS_RPC:
		n.kind = Action
		n.config = false
		n.input = w.inout(n, sn.input, "input", depth)
		n.output = w.inout(n, sn.output, "output", depth)
		return
	case C.LYS_INPUT, C.LYS_OUTPUT:
	default:
		w.fail("%s: anydata and anyxml are not supported", n.path)
		return
	}
	w.members(n, sn.child, depth+1, n.inOutput)
	w.members(n, sn.actions, depth+1, n.inOutput)
	for _, c := range n.children {
		if n.kind == List && c.key {
			n.keys = append(n.keys, c)
		}
	}
	if n.kind == List && len(n.keys) > C.PCN_MAX_KEYS {
		w.fail("%s has more than %d keys", n.path, C.PCN_MAX_KEYS)
	}
	if n.kind == List && sn.flags&C.LYS_CONFIG_W != 0 && len(n.keys) == 0 {
		w.fail("%s has no key", n.path)
	}
}

func (w *walker) bounds(n *Node, sn *C.struct_pcn_snode) {
	n.min, n.userOrder = int(sn.min), sn.flags&C.LYS_ORDBY_USER != 0
	if sn.max != 0 && sn.max != math.MaxUint32 {
		n.max = int(sn.max)
	}
	n.mandatory = n.min > 0
}

// inout copies the input or output of an action.
func (w *walker) inout(action *Node, ref schemaRef, name string, depth int) *Node {
	n := &Node{name: name, kind: Container, schema: w.schema, parent: action, config: name == "input",
		path: action.path + "/" + name, native: ref, inInput: name == "input", inOutput: name == "output"}
	var sn C.struct_pcn_snode
	C.pcn_schema(ref, &sn)
	w.members(n, sn.child, depth+1, n.inOutput)
	return n
}

// builtin names libyang's base types.
var builtin = map[C.uint32_t]string{
	C.LY_TYPE_BINARY: "binary", C.LY_TYPE_UINT8: "uint8", C.LY_TYPE_UINT16: "uint16", C.LY_TYPE_UINT32: "uint32",
	C.LY_TYPE_UINT64: "uint64", C.LY_TYPE_STRING: "string", C.LY_TYPE_BITS: "bits", C.LY_TYPE_BOOL: "boolean",
	C.LY_TYPE_DEC64: "decimal64", C.LY_TYPE_EMPTY: "empty", C.LY_TYPE_ENUM: "enumeration",
	C.LY_TYPE_IDENT: "identityref", C.LY_TYPE_INST: "instance-identifier", C.LY_TYPE_LEAFREF: "leafref",
	C.LY_TYPE_UNION: "union", C.LY_TYPE_INT8: "int8", C.LY_TYPE_INT16: "int16", C.LY_TYPE_INT32: "int32",
	C.LY_TYPE_INT64: "int64",
}

// copyType copies a type; name is its name in the model.
func copyType(name *C.char, ref *C.struct_lysc_type) Type {
	var st C.struct_pcn_stype
	C.pcn_type(ref, &st)
	if st.real != nil {
		t := copyType(nil, st.real)
		t.LeafrefPath = goString(st.path)
		t.Name = "leafref"
		if name != nil {
			t.Name = C.GoString(name)
		}
		return t
	}
	t := Type{Base: builtin[st.base], FractionDigits: int(st.fraction_digits)}
	t.Name = t.Base
	if name != nil {
		t.Name = C.GoString(name)
	}
	bounds := ranges(ref, &st)
	switch t.Base {
	case "string", "binary":
		t.Length = bounds
	default:
		t.Range = bounds
	}
	for i := C.size_t(0); i < st.patterns; i++ {
		var inverted C.int
		pattern := C.GoString(C.pcn_type_pattern(ref, i, &inverted))
		if inverted != 0 {
			pattern = "!" + pattern
		}
		t.Patterns = append(t.Patterns, pattern)
	}
	for i := C.size_t(0); i < st.names; i++ {
		t.Enums = append(t.Enums, C.GoString(C.pcn_type_name(ref, i)))
		t.EnumTexts = append(t.EnumTexts, C.GoString(C.pcn_type_name_text(ref, i)))
	}
	for i := C.size_t(0); i < st.members; i++ {
		t.Union = append(t.Union, copyType(nil, C.pcn_type_member(ref, i)))
	}
	if st.base == C.LY_TYPE_IDENT {
		copyIdentities(&t, ref)
	}
	return t
}

func copyIdentities(t *Type, ref *C.struct_lysc_type) {
	t.Identities = make(map[string]string)
	for i := C.size_t(0); ; i++ {
		var module *C.char
		name := C.pcn_identity(ref, i, &module)
		if name == nil {
			return
		}
		id := C.GoString(name)
		if _, ok := t.Identities[id]; !ok {
			t.Identities[id] = C.GoString(module) + ":" + id
			t.Enums = append(t.Enums, id)
		}
	}
}

// ranges prints a range or length in YANG syntax.
func ranges(ref *C.struct_lysc_type, st *C.struct_pcn_stype) string {
	var parts []string
	for i := C.size_t(0); i < st.ranges; i++ {
		var lo, hi C.int64_t
		C.pcn_type_range(ref, i, &lo, &hi)
		from, to := bound(int64(lo), st), bound(int64(hi), st)
		if from == to {
			parts = append(parts, from)
		} else {
			parts = append(parts, from+".."+to)
		}
	}
	if len(parts) == 0 {
		return intRange[builtin[st.base]]
	}
	return strings.Join(parts, " | ")
}

// intRange is the range of an integer type that the model does not restrict.
var intRange = map[string]string{
	"int8": "-128..127", "int16": "-32768..32767", "int32": "-2147483648..2147483647",
	"int64": "-9223372036854775808..9223372036854775807", "uint8": "0..255", "uint16": "0..65535",
	"uint32": "0..4294967295", "uint64": "0..18446744073709551615",
}

func bound(v int64, st *C.struct_pcn_stype) string {
	switch {
	case st.base == C.LY_TYPE_DEC64:
		digits := int(st.fraction_digits)
		text := strings.TrimPrefix(strconv.FormatInt(v, 10), "-")
		text = strings.Repeat("0", max(0, digits+1-len(text))) + text
		text = strings.TrimRight(text[:len(text)-digits]+"."+text[len(text)-digits:], "0")
		if strings.HasSuffix(text, ".") {
			text += "0"
		}
		if v < 0 {
			return "-" + text
		}
		return text
	case st.is_unsigned != 0:
		return strconv.FormatUint(uint64(v), 10)
	}
	return strconv.FormatInt(v, 10)
}

// baseName names the base type that dump.c wrote.
func baseName(b byte) string { return builtin[C.uint32_t(b)] }
