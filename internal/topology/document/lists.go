// SPDX-License-Identifier: Apache-2.0

package document

// Reading lists: the entries of the layers are merged by their keys.

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/topology/world"
	"github.com/polycube/polycube/internal/yang"
)

// Entry is a list entry in each layer that has it.
type Entry struct {
	Keys   []string
	layers []any
}

// Merge merges the entries of arrays: configured ones first, then those that exist in the state only.
func Merge(list *yang.Node, layers []any) []*Entry {
	byKey := map[string]*Entry{}
	var all []*Entry
	for _, l := range layers {
		array, _ := l.([]any)
		for _, entry := range array {
			keys := KeysOf(list, entry)
			id := fmt.Sprintf("%q", keys)
			e := byKey[id]
			if e == nil {
				e = &Entry{Keys: keys}
				byKey[id] = e
				all = append(all, e)
			}
			e.layers = append(e.layers, entry)
		}
	}
	return all
}

func (e *Entry) emit(b *bytes.Buffer, list *yang.Node) { emitObject(b, list, e.layers) }

// EachOfTable calls f with the entries of a large list that come after the keys in after, in the order of their keys.
func EachOfTable(list *yang.Node, table *world.Rows, layers []any, after []string, f func(keys []string, entry json.RawMessage) bool) error {
	state := Merge(list, layers)
	byKey := make(map[string]*Entry, len(state))
	var alone []*Entry
	for _, e := range state {
		if _, ok := table.Get(e.Keys); ok {
			byKey[fmt.Sprintf("%q", e.Keys)] = e
		} else if after == nil || table.Compare(e.Keys, after) > 0 {
			alone = append(alone, e)
		}
	}
	slices.SortFunc(alone, func(a, b *Entry) int { return table.Compare(a.Keys, b.Keys) })
	var b bytes.Buffer
	show := func(e *Entry) bool {
		b.Reset()
		e.emit(&b, list)
		return f(e.Keys, b.Bytes())
	}
	goOn := true
	var failed error
	table.After(after, func(e *bulk.Entry) bool {
		for goOn && len(alone) > 0 && table.Compare(alone[0].Keys, e.Keys) < 0 {
			goOn, alone = show(alone[0]), alone[1:]
		}
		if !goOn {
			return false
		}
		var with *Entry
		if len(byKey) > 0 {
			with = byKey[fmt.Sprintf("%q", e.Keys)]
		}
		if with == nil {
			goOn = f(e.Keys, table.Text(e))
			return goOn
		}
		conf, err := table.Decode(e)
		if err != nil {
			failed = err
			return false
		}
		goOn = show(&Entry{Keys: e.Keys, layers: append([]any{conf}, with.layers...)})
		return goOn
	})
	for goOn && failed == nil && len(alone) > 0 {
		goOn, alone = show(alone[0]), alone[1:]
	}
	return failed
}

// EachInOrder does the same for a list that has an order of its own.
func EachInOrder(list *yang.Node, path yang.Path, layers []any, after []string, f func(keys []string, entry json.RawMessage) bool) error {
	all := Merge(list, layers)
	if after != nil {
		i := slices.IndexFunc(all, func(e *Entry) bool { return sameKeys(list, e.Keys, after) })
		if i < 0 {
			return &yang.Error{Tag: yang.InvalidValue, Path: path.String(),
				Message: fmt.Sprintf("%s: the entry %.80q no longer exists, read from the start", path.Words(), after)}
		}
		all = all[i+1:]
	}
	var b bytes.Buffer
	for _, e := range all {
		b.Reset()
		e.emit(&b, list)
		if !f(e.Keys, b.Bytes()) {
			break
		}
	}
	return nil
}

// emitList writes a list.
func emitList(b *bytes.Buffer, list *yang.Node, layers []any) {
	b.WriteByte('[')
	comma := false
	add := func(_ []string, entry json.RawMessage) bool {
		if comma {
			b.WriteByte(',')
		}
		comma = true
		b.Write(entry)
		return true
	}
	if i := slices.IndexFunc(layers, isTable); i >= 0 {
		_ = EachOfTable(list, layers[i].(*world.Rows), layers, nil, add) // entries of a table can be decoded
	} else {
		_ = EachInOrder(list, nil, layers, nil, add) // fails only if after is not nil
	}
	b.WriteByte(']')
}

func isTable(layer any) bool {
	_, ok := layer.(*world.Rows)
	return ok
}
