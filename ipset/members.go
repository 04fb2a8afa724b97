// SPDX-License-Identifier: Apache-2.0

package ipset

import (
	"cmp"
	"fmt"
	"slices"
)

// ByPosition compares the places of members of a set of sets.
func ByPosition(a, b *Entry) int {
	return cmp.Or(cmp.Compare(a.Position, b.Position), cmp.Compare(a.Entry, b.Entry))
}

// Place returns the names of the members of a set of sets in order, with another one: at the end, or next to the one that the
// options name. One that is a member already stays where it is.
func (o Options) Place(members []*Entry, name string) ([]string, error) {
	names := make([]string, 0, len(members)+1)
	for _, e := range members {
		names = append(names, e.Entry)
	}
	at := len(names)
	if next := o.Before + o.After; next != "" {
		if at = slices.Index(names, next); at < 0 {
			return nil, fmt.Errorf("The set %s, which the element is to be next to, is not a member", next)
		}
		if o.After != "" {
			at++
		}
	}
	if slices.Contains(names, name) {
		return names, nil
	}
	return slices.Insert(names, at, name), nil
}
