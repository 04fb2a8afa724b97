// SPDX-License-Identifier: Apache-2.0

// The model as Go values. It is copied from libyang once, when a service is loaded, so walking it never calls C.

package yang

import (
	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/yang/leaftype"
)

// Kind is the kind of a schema node. A choice is not a kind: the nodes of its cases appear as members of its parent,
// as they do in the data.
type Kind int

// The kinds of schema node.
const (
	Container Kind = iota
	List
	Leaf
	LeafList
	Action
)

// String returns the YANG keyword of the kind.
func (k Kind) String() string {
	return [...]string{"container", "list", "leaf", "leaf-list", "action"}[k]
}

// Type is the type of a leaf or leaf-list.
type Type = leaftype.Type

// Node is a node of the model.
type Node struct {
	name, description, units, path string
	kind                           Kind
	config, mandatory, key         bool
	initOnly, presence, userOrder  bool
	when, musts, unique            bool
	systemCreated                  bool
	// bulk lists are kept separately; the following fields are only for them.
	bulk, holdsBulk   bool
	positions         bool
	refs              []reference
	conditions        []string
	def               *string
	typ               Type
	min, max          int
	bound             int // of the entries in one body, 0 for maxEntries
	extensions        map[string]string
	parent            *Node
	keys, children    []*Node
	byName            map[string]*Node
	input, output     *Node
	index             int
	schema            *Schema
	inInput, inOutput bool
	native            schemaRef
	cases             []alternative
	// taken are texts that a leaf of a union accepted.
	taken bulk.Texts
}

// alternative is a case of a choice that contains a node.
type alternative struct {
	choice, in schemaRef
	// name is the name of the choice.
	name string
}

// Name returns the node's name.
func (n *Node) Name() string { return n.name }

// Path returns the names from the cube to the node, separated by slashes.
func (n *Node) Path() string { return n.path }

// Kind returns what the node is.
func (n *Node) Kind() Kind { return n.kind }

// Config reports whether the node is configuration. It is true for the input
// of an action.
func (n *Node) Config() bool { return n.config }

// InitOnly reports whether the node can be set only at creation, because of its own statement or that of an ancestor.
func (n *Node) InitOnly() bool { return n.initOnly }

// Paged reports whether the node is a state list that is read in pages with the cube's own cursor.
func (n *Node) Paged() bool { return n.marked("paged") }

// Deletable reports whether the node is a state list whose entries can be deleted.
func (n *Node) Deletable() bool { return n.marked("deletable") }

// AddReplaces reports whether creating an entry of the list replaces an existing one.
func (n *Node) AddReplaces() bool {
	_, ok := n.extensions["add-replaces"]
	return ok && n.kind == List && n.config
}

// marked reports whether the node is a state list with an extension.
func (n *Node) marked(extension string) bool {
	_, ok := n.extensions[extension]
	return ok && n.kind == List && !n.config && !n.inOutput
}

// Mandatory reports whether the node must be given: because of a mandatory statement, as a key, or because of
// min-elements.
func (n *Node) Mandatory() bool { return n.mandatory }

// Presence reports whether the existence of a container has a meaning.
func (n *Node) Presence() bool { return n.presence }

// Keys returns the keys of a list in model order.
func (n *Node) Keys() []*Node { return n.keys }

// IsKey reports whether the node is a key of its list.
func (n *Node) IsKey() bool { return n.key }

// Default returns the default value of a leaf.
func (n *Node) Default() (string, bool) {
	if n.def == nil {
		return "", false
	}
	return *n.def, true
}

// Type returns the type of a leaf or leaf-list.
func (n *Node) Type() Type { return n.typ }

// Description returns the text of the description statement.
func (n *Node) Description() string { return n.description }

// Units returns the text of the units statement.
func (n *Node) Units() string { return n.units }

// Example returns the argument of cli-example.
func (n *Node) Example() string { return n.extensions["cli-example"] }

// Extension returns the argument of one of our extensions and whether the node
// has it.
func (n *Node) Extension(name string) (string, bool) {
	arg, ok := n.extensions[name]
	return arg, ok
}

// Children returns the members of a container, list, input or output in model
// order, actions last.
func (n *Node) Children() []*Node { return n.children }

// Child returns the member with a name, nil if there is none or the node is nil.
func (n *Node) Child(name string) *Node {
	if n == nil {
		return nil
	}
	return n.byName[name]
}

// Input returns the input node of an action; it has no members if the action has no input.
func (n *Node) Input() *Node { return n.input }

// Output returns the output node of an action.
func (n *Node) Output() *Node { return n.output }

// Parent returns the parent node, nil for the cube.
func (n *Node) Parent() *Node { return n.parent }

// MinElements returns the minimum number of entries of a list.
func (n *Node) MinElements() int { return n.min }

// MaxElements returns the maximum number of entries of a list, 0 for no limit.
func (n *Node) MaxElements() int { return n.max }

// UserOrdered reports whether a list is ordered by the user.
func (n *Node) UserOrdered() bool { return n.userOrder }

// listed reports whether the node has configuration entries.
func (n *Node) listed() bool { return n.config && (n.kind == List || n.kind == LeafList) }

// keyCount is the number of words that name an entry.
func (n *Node) keyCount() int {
	switch n.kind {
	case List:
		return len(n.keys)
	case LeafList:
		return 1
	default:
		return 0
	}
}

// what names the node at p in a message about its members.
func (n *Node) what(p Path) string {
	if len(p) == 0 {
		return n.schema.info.Name
	}
	return p.Words()
}

// has reports whether the node or an ancestor has the extension.
func (n *Node) inherits(extension string) bool {
	for ; n != nil; n = n.parent {
		if _, ok := n.extensions[extension]; ok {
			return true
		}
	}
	return false
}

// add links a member to its parent.
func (n *Node) add(child *Node) {
	child.index = len(n.children)
	n.children = append(n.children, child)
	if n.byName == nil {
		n.byName = make(map[string]*Node)
	}
	n.byName[child.name] = child
}

// Conditional reports whether the node exists only under a condition: it has a when, or is in a case of a choice.
func (n *Node) Conditional() bool { return n.when || len(n.cases) > 0 }

// Excludes reports whether a member of the same node is in another case of the same choice, so that they are mutually
// exclusive.
func (n *Node) Excludes(other *Node) bool {
	for _, a := range n.cases {
		for _, b := range other.cases {
			if a.choice == b.choice && a.in != b.in {
				return true
			}
		}
	}
	return false
}

// InOutput reports whether the node is part of an action's output.
func (n *Node) InOutput() bool { return n.inOutput }
