// SPDX-License-Identifier: Apache-2.0

package leaftype

import (
	"fmt"
	"net/netip"
	"strings"
)

// CheckHostBits refuses a prefix with host bits set.
func CheckHostBits(text string) error {
	p, err := netip.ParsePrefix(text)
	if err != nil || p == p.Masked() {
		return nil //nolint:nilerr // libyang says what is wrong with it
	}
	return fmt.Errorf("%s is an address in a network: the network is %s", text, p.Masked())
}

// Like gives the example in the model, "" if there is none. The name of a type defined in the model says little: without an
// example, its patterns are given if they are readable.
func (t *Type) Like(example string) string {
	const readable = 60
	if example != "" {
		return fmt.Sprintf(" (for example %s)", example)
	}
	patterns := strings.Join(t.Patterns, " and ")
	if t.Name == t.Base || patterns == "" || len(patterns) > readable || strings.Contains(patterns, "!") {
		return ""
	}
	return ", which matches " + patterns
}
