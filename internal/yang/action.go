// SPDX-License-Identifier: Apache-2.0

// Actions: input and output are checked against the model and against the configuration that they refer to.

package yang

import (
	"context"
	"fmt"

	"github.com/polycube/polycube/internal/fault"
)

// ParseInput checks the body of a call of the action at p and returns it normalised, with defaults. The list entries
// on the path must exist.
func (t *Tree) ParseInput(p Path, body []byte) ([]byte, error) {
	return t.operation(p, body, false, false)
}

// CheckOutput checks the result of a call of the action at p and returns it normalised.
func (t *Tree) CheckOutput(p Path, body []byte) ([]byte, error) {
	return t.operation(p, body, true, false)
}

func (t *Tree) operation(p Path, body []byte, output, words bool) ([]byte, error) {
	if t.broken != nil {
		return nil, t.broken
	}
	action, err := t.schema.node(p)
	if err != nil {
		return nil, err
	}
	if action.kind != Action {
		return nil, fault.At(OperationNotSupported, p, "is not an action")
	}
	part := action.input
	if output {
		part = action.output
	}
	v, err := parse(&reader{ctx: context.Background(), words: words}, body, part, false)
	if err != nil {
		return nil, &Error{Tag: InvalidValue, Path: p.String(), Message: err.Error()}
	}
	b := &builder{ctx: context.Background()}
	defer b.free()
	call, err := t.call(b, p)
	if err != nil {
		return nil, err
	}
	b.object(call, part, p, v)
	if err := fault.Join(b.errs); err != nil {
		return nil, err
	}
	if err := validateOp(b.tops[0].topRef(), t.root, output); err != nil {
		return nil, t.explain(err)
	}
	items, err := t.read(call.ref, oneNode)
	if err != nil {
		return nil, err
	}
	pr := &printer{defaults: true}
	pr.object(items[0].kids)
	return pr.buf, nil
}

// call creates the action node and its ancestors.
func (t *Tree) call(b *builder, p Path) (*fragment, error) {
	var parent *fragment
	node := t.schema.root
	for i, step := range p {
		node = node.Child(step.Name)
		if node.kind == List {
			at, err := t.find(p[:i+1])
			if err != nil {
				return nil, err
			}
			if at == nil && !node.systemCreated {
				return nil, fault.At(DataMissing, p[:i+1], "does not exist")
			}
		}
		if parent = b.step(parent, node, p[:i], step.Keys); parent == nil {
			return nil, fault.Join(b.errs)
		}
	}
	if len(b.tops) == 0 {
		return nil, fmt.Errorf("call %s: libyang returned no action", p)
	}
	return parent, nil
}

// topRef returns the libyang node of a top: that of a list is its entry.
func (f *fragment) topRef() ref {
	if f.ref == nil && len(f.kids) > 0 {
		return f.kids[0].ref
	}
	return f.ref
}
