// SPDX-License-Identifier: Apache-2.0

package cube

// Lists that may become very large are marked `bulk` in the model. Their entries are passed one by one, so that the
// cost of a change does not grow with the list.

import (
	"encoding/json"
	"fmt"
)

// EntryChange is an entry of a list marked `bulk` that was added, removed or changed.
type EntryChange struct {
	// List is the path of the list, without keys: ["fdb", "entry"].
	List []string
	// Above are the keys of the lists above it, outermost first: ["INGRESS"] for chain INGRESS rule 3.
	Above []string
	// Old and New are the entry before and after, as JSON of the model with defaults; Old is nil for an added
	// entry, New for a removed one. In a list marked `positions`, the key is not the position of the entry, but a
	// number that is greater than those of the entries before it and less than those of the entries after it. It
	// only changes where entries are inserted so often at one place that there is no number left.
	Old, New json.RawMessage
}

// DecodeEntries decodes the changes of one list. Each result has a nil where the change has one.
func DecodeEntries[E any](changes []EntryChange) ([]Changed[E], error) {
	out := make([]Changed[E], len(changes))
	for i, c := range changes {
		out[i].Above = c.Above
		for _, side := range []struct {
			raw  json.RawMessage
			into **E
		}{{c.Old, &out[i].Old}, {c.New, &out[i].New}} {
			if side.raw == nil {
				continue
			}
			e := new(E)
			if err := json.Unmarshal(side.raw, e); err != nil {
				return nil, fmt.Errorf("decode an entry of %v: %w", c.List, err)
			}
			*side.into = e
		}
	}
	return out, nil
}

// Changed is an EntryChange in a cube's own type.
type Changed[E any] struct {
	Above    []string
	Old, New *E
}
