// SPDX-License-Identifier: Apache-2.0

package yang

import "fmt"

// Accepts reports whether a text, as a command line has it, is a value of the leaf's type. It asks no other node: what
// a leafref refers to need not exist.
func (n *Node) Accepts(text string) error {
	if n.kind != Leaf && n.kind != LeafList {
		return fmt.Errorf("%s is a %s and has no value", n.name, n.kind)
	}
	word, err := n.word(text)
	if err != nil {
		return fmt.Errorf("%s: %w", n.name, err)
	}
	if _, err := canonical(n, word); err != nil {
		return fmt.Errorf("%s: %s", n.name, n.reason(word, err))
	}
	return nil
}
