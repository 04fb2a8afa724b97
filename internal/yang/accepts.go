// SPDX-License-Identifier: Apache-2.0

package yang

import "fmt"

// Accepts reports whether a text, as typed on a command line, is a valid value of the leaf's type. It does not check
// other nodes: the target of a leafref need not exist.
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
