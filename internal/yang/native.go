// SPDX-License-Identifier: Apache-2.0

// The interface to C for data: each wrapper converts Go values, checks results, and converts libyang's errors.

package yang

// #cgo pkg-config: libyang
// #include <stdlib.h>
// #include "libyang.h"
import "C"

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"unsafe"
)

type (
	ref       = *C.struct_lyd_node
	schemaRef = *C.struct_lysc_node
)

// last is the position of an entry after all others.
const last = math.MaxUint64

// initialise keeps libyang from printing to standard error.
var initialise = sync.OnceFunc(func() { C.pcn_init() })

// nativeError is an error message of libyang.
type nativeError struct {
	code              int
	msg, path, apptag string
}

func (e *nativeError) Error() string {
	if e.msg == "" {
		return fmt.Sprintf("libyang error %d", e.code)
	}
	return e.msg
}

// takeError frees e and returns its message.
func takeError(code C.int, e *C.struct_pcn_err) error {
	defer C.pcn_err_free(e)
	if code == 0 {
		return nil
	}
	return &nativeError{code: int(code), msg: goString(e.msg), path: goString(e.path), apptag: goString(e.apptag)}
}

func goString(s *C.char) string {
	if s == nil {
		return ""
	}
	return C.GoString(s)
}

var errNul = errors.New("a text with a NUL byte")

// newList creates a list entry. Without a parent it is a root.
func newList(parent ref, n *Node, keys []string) (ref, error) {
	if len(keys) != len(n.keys) {
		return nil, fmt.Errorf("%s has %d keys, not %d", n.name, len(n.keys), len(keys))
	}
	for _, k := range keys {
		if strings.IndexByte(k, 0) >= 0 {
			return nil, errNul
		}
	}
	text := C.CString(strings.Join(keys, "\x00"))
	defer C.free(unsafe.Pointer(text))
	var node ref
	var e C.struct_pcn_err
	code := C.pcn_new_list(parent, n.native, text, C.size_t(len(keys)), n.outputFlag(), &node, &e)
	return made(node, code, &e)
}

// newInner creates a container or an action.
func newInner(parent ref, n *Node) (ref, error) {
	var node ref
	var e C.struct_pcn_err
	code := C.pcn_new_inner(parent, n.native, n.outputFlag(), &node, &e)
	return made(node, code, &e)
}

// newTerm creates a leaf or an entry of a leaf-list.
func newTerm(parent ref, n *Node, value string) (ref, error) {
	if strings.IndexByte(value, 0) >= 0 {
		return nil, errNul
	}
	text := C.CString(value)
	defer C.free(unsafe.Pointer(text))
	var node ref
	var e C.struct_pcn_err
	code := C.pcn_new_term(parent, n.native, text, n.outputFlag(), &node, &e)
	return made(node, code, &e)
}

func made(node ref, code C.int, e *C.struct_pcn_err) (ref, error) {
	if err := takeError(code, e); err != nil {
		return nil, err
	}
	if node == nil {
		return nil, errors.New("libyang created no node")
	}
	return node, nil
}

func (n *Node) outputFlag() C.int {
	if n.inOutput {
		return 1
	}
	return 0
}

// canonical returns the canonical form of a value of a leaf.
func canonical(n *Node, value string) (string, error) {
	if strings.IndexByte(value, 0) >= 0 {
		return "", errNul
	}
	text := C.CString(value)
	defer C.free(unsafe.Pointer(text))
	var e C.struct_pcn_err
	out := C.pcn_canonical(n.native, text, &e)
	if out == nil {
		return "", takeError(1, &e)
	}
	defer C.free(unsafe.Pointer(out))
	return C.GoString(out), takeError(0, &e)
}

// findSchema returns the first instance of n among the children of parent, or
// among the siblings of root when there is no parent.
func findSchema(root, parent ref, n *Node) ref { return C.pcn_find_schema(root, parent, n.native) }

// findSame returns the node with the same keys (a list entry) or value (a
// leaf-list entry) as like.
func findSame(root, parent, like ref) ref { return C.pcn_find_same(root, parent, like) }

func firstChild(node ref) ref { return C.pcn_child(node) }

func nextSibling(node ref) ref { return C.pcn_next(node) }

func isDefault(node ref) bool { return node.flags&C.LYD_DEFAULT != 0 }

func termValue(node ref) string { return C.GoString(C.pcn_value(node)) }

// position returns how many entries precede node in its list, or last.
func position(node ref) uint64 {
	n := C.pcn_position(node)
	if uint64(n) == uint64(C.SIZE_MAX) {
		return last
	}
	return uint64(n)
}

// unlink removes node from its tree. Roots are passed to C as a copy, because the Go struct around them may contain Go
// pointers.
func unlink(root *ref, node ref) {
	r := *root
	C.pcn_unlink(&r, node)
	*root = r
}

func freeTree(node ref) {
	if node != nil {
		C.lyd_free_tree(node)
	}
}

func freeAll(node ref) {
	if node != nil {
		C.lyd_free_all(node)
	}
}

func insertAt(root *ref, parent, node ref, at uint64) error {
	var e C.struct_pcn_err
	pos := C.size_t(C.SIZE_MAX)
	if at != last {
		pos = C.size_t(at)
	}
	r := *root
	code := C.pcn_insert_at(&r, parent, node, pos, &e)
	*root = r
	return takeError(code, &e)
}

// validate checks the whole tree, adds defaults, and removes what a when or a choice excludes. Its changes are
// returned even if it fails.
func (s *Schema) validate(root *ref) (diff ref, err error) {
	var e C.struct_pcn_err
	r := *root
	code := C.pcn_validate(&r, s.module, &diff, &e)
	*root = r
	return diff, takeError(code, &e)
}

// diffKeeps reports whether a node of a diff was neither added nor deleted.
func diffKeeps(node ref) bool { return C.pcn_diff_keeps(node) != 0 }

// addDefaults adds the defaults below a node outside the tree.
func addDefaults(node ref) error {
	var e C.struct_pcn_err
	return takeError(C.pcn_defaults(node, &e), &e)
}

// validateOp checks the input or output of an action against the data in tree.
func validateOp(op, tree ref, output bool) error {
	var e C.struct_pcn_err
	out := C.int(0)
	if output {
		out = 1
	}
	return takeError(C.pcn_validate_op(op, tree, out, &e), &e)
}

// undoDiff reverts the changes of a validation.
func undoDiff(root *ref, diff ref) error {
	var e C.struct_pcn_err
	r := *root
	code := C.pcn_undo_diff(&r, diff, &e)
	*root = r
	return takeError(code, &e)
}

func cloneTree(root ref) (ref, error) {
	if root == nil {
		return nil, nil
	}
	var node ref
	var e C.struct_pcn_err
	code := C.pcn_clone(root, &node, &e)
	return made(node, code, &e)
}

// scope is how much of a level of the tree a dump covers.
type scope = C.int

const (
	oneNode      scope = C.PCN_ONE
	allSiblings  scope = C.PCN_SIBLINGS
	allInstances scope = C.PCN_INSTANCES
)

// dump serialises the data at node; see [Schema.decode].
func dump(node ref, what scope, diff bool) ([]byte, error) {
	if node == nil {
		return nil, nil
	}
	ops := C.int(0)
	if diff {
		ops = 1
	}
	var buf *C.char
	var n C.size_t
	if C.pcn_dump(node, what, ops, &buf, &n) != 0 {
		return nil, errors.New("out of memory printing data")
	}
	defer C.free(unsafe.Pointer(buf))
	if n > math.MaxInt32 {
		return nil, errors.New("the data is too large to print")
	}
	return C.GoBytes(unsafe.Pointer(buf), C.int(n)), nil
}
