// SPDX-License-Identifier: Apache-2.0

package classifier

// Exceptions: conditions of packets that a rule does not match (docs/adr/0049). They follow the rule in memory, and a
// packet is compared with them only if it matches the rest of the rule.

import (
	"fmt"
	"unique"

	"github.com/polycube/polycube/cube"
)

// maxExceptions is PCN_CLASSIFY_EXCEPTIONS.
const maxExceptions = 16

// exception is a list of exceptions. Few rules have any, and a Match has to be comparable.
type exception struct {
	conditions
	next unique.Handle[exception]
}

// Except excludes packets that match n, which may have no exceptions of its own. Packets without the headers that n needs
// do not match either: all but port 80 means the other ports, not packets without ports. A rule has at most 16
// exceptions.
func (m *Match) Except(n Match) error {
	needs := n.mask[wordLink] & (0xff &^ kindFragment)
	is := m.conditions
	is.set(wordLink, n.value[wordLink], needs)
	switch {
	case n.except != unique.Handle[exception]{}:
		return fmt.Errorf("an exception has exceptions: %w", cube.ErrInvalid)
	case m.exceptionCount() == maxExceptions:
		return fmt.Errorf("a rule has at most %d exceptions: %w", maxExceptions, cube.ErrFull)
	case (m.value[wordLink]^n.value[wordLink])&m.mask[wordLink]&needs != 0:
		return fmt.Errorf("an exception has another IP version than the rule: %w", cube.ErrInvalid)
	case is.mask[wordLink]&kindPorts != 0 && is.mask[wordLink]&kindICMP != 0:
		return fmt.Errorf("ICMP has no ports: %w", cube.ErrInvalid)
	}
	m.conditions = is
	m.except = unique.Make(exception{n.conditions, m.except})
	return nil
}

// exceptions yields the exceptions, the last one first.
func (m *Match) exceptions(yield func(*conditions) bool) {
	for at := m.except; at != (unique.Handle[exception]{}); {
		e := at.Value()
		if !yield(&e.conditions) {
			return
		}
		at = e.next
	}
}

func (m *Match) exceptionCount() (n int) {
	for range m.exceptions {
		n++
	}
	return n
}
