// SPDX-License-Identifier: Apache-2.0

// Package splice joins the text of a configuration with the entries of its bulk lists, which are in tables.
package splice

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/jsonscan"
	"github.com/polycube/polycube/internal/yang"
)

// splicer is one text that is being joined.
type splicer struct {
	tables *bulk.Tables
	// defaults says that entries have leaves with their default value.
	defaults bool
	// filled are the paths of the lists that have entries.
	filled []string
	buf    []byte
}

// Whole inserts the entries of tables into a configuration that was printed without them. A configuration without bulk lists
// is returned unchanged.
func Whole(s *yang.Schema, apart []byte, tables *bulk.Tables, defaults bool) ([]byte, error) {
	if tables.Len() == 0 {
		return apart, nil
	}
	p := &splicer{tables: tables, defaults: defaults}
	for _, list := range s.BulkLists() {
		if tables.Has(list.Path()) {
			p.filled = append(p.filled, list.Path())
		}
	}
	if err := p.object(s.Root(), nil, apart); err != nil {
		return nil, fmt.Errorf("add the entries of large lists: %w", err)
	}
	return p.buf, nil
}

// object prints the object of n, which is below list entries with some keys.
func (p *splicer) object(n *yang.Node, above []string, apart []byte) error {
	members := jsonscan.Object{}
	if len(apart) > 0 {
		var ok bool
		if members, ok = jsonscan.ReadObject(apart); !ok {
			return fmt.Errorf("%s is no object", n.Path())
		}
	}
	p.buf = append(p.buf, '{')
	start := len(p.buf)
	for _, c := range n.Children() {
		raw, given := members.Get(c.Name())
		filled := c.Bulk() && p.tables.At(c.Path(), above).Len() > 0
		below := !c.Bulk() && slices.ContainsFunc(p.filled, func(list string) bool { return strings.HasPrefix(list, c.Path()+"/") })
		if !given && !filled && !below {
			continue
		}
		if len(p.buf) > start {
			p.buf = append(p.buf, ',')
		}
		p.buf = append(jsonscan.AppendString(p.buf, c.Name()), ':')
		var err error
		switch {
		case filled:
			p.buf = p.tables.AppendAll(p.buf, p.tables.At(c.Path(), above), p.defaults)
		case below && c.Kind() == yang.List:
			err = p.entries(c, above, raw)
		case below:
			err = p.object(c, above, raw)
		default:
			p.buf = append(p.buf, raw...)
		}
		if err != nil {
			return err
		}
	}
	p.buf = append(p.buf, '}')
	return nil
}

// entries prints the entries of a list.
func (p *splicer) entries(n *yang.Node, above []string, apart []byte) error {
	var entries [][]byte
	if len(apart) > 0 {
		var ok bool
		if entries, ok = jsonscan.ReadArray(apart); !ok {
			return fmt.Errorf("%s is no array", n.Path())
		}
	}
	p.buf = append(p.buf, '[')
	for i, raw := range entries {
		if i > 0 {
			p.buf = append(p.buf, ',')
		}
		keys, err := keysOf(n, raw)
		if err == nil {
			err = p.object(n, slices.Concat(above, keys), raw)
		}
		if err != nil {
			return err
		}
	}
	p.buf = append(p.buf, ']')
	return nil
}

// keysOf returns the keys of an entry as the model spells them.
func keysOf(n *yang.Node, raw []byte) ([]string, error) {
	entry, ok := jsonscan.ReadObject(raw)
	keys := make([]string, len(n.Keys()))
	for i, k := range n.Keys() {
		value, given := entry.Get(k.Name())
		ok = ok && given
		keys[i] = string(value)
		if len(value) > 0 && value[0] == '"' && json.Unmarshal(value, &keys[i]) != nil {
			ok = false
		}
	}
	if !ok {
		return nil, fmt.Errorf("an entry of %s has no key", n.Path())
	}
	return n.CanonicalKeys(keys)
}
