// SPDX-License-Identifier: Apache-2.0

package cube

// Lists that may become very large are marked `bulk` in the model. Their entries are passed one by one, so that the
// cost of a change does not grow with the list.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"
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

// DecodeEntries decodes the changes of one list, many of them on all CPUs. Each result has a nil where the change has one.
func DecodeEntries[E any](changes []EntryChange) ([]Changed[E], error) {
	const share = 4096
	out := make([]Changed[E], len(changes))
	errs := make([]error, len(changes)/share+1)
	var wg sync.WaitGroup
	for i := range errs {
		from, to := i*share, min((i+1)*share, len(changes))
		if to == len(changes) {
			errs[i] = decodeEntries(changes[from:to], out[from:to])
			break
		}
		wg.Go(func() { errs[i] = decodeEntries(changes[from:to], out[from:to]) })
	}
	wg.Wait()
	return out, cmp.Or(errs...)
}

func decodeEntries[E any](changes []EntryChange, out []Changed[E]) error {
	decoded := func(c EntryChange, raw json.RawMessage) (*E, error) {
		if raw == nil {
			return nil, nil
		}
		e := new(E)
		if err := json.Unmarshal(raw, e); err != nil {
			return nil, fmt.Errorf("decode an entry of %v: %w", c.List, err)
		}
		return e, nil
	}
	for i, c := range changes {
		old, err := decoded(c, c.Old)
		if err != nil {
			return err
		}
		is, err := decoded(c, c.New)
		if err != nil {
			return err
		}
		out[i] = Changed[E]{Above: c.Above, Old: old, New: is}
	}
	return nil
}

// Changed is an EntryChange in a cube's own type.
type Changed[E any] struct {
	Above    []string
	Old, New *E
}
