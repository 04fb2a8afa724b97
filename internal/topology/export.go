// SPDX-License-Identifier: Apache-2.0

package topology

// The whole configuration as one document, which Apply takes back. It holds what was asked for and nothing of what is:
// no ids, no state. The same configuration has the same bytes, whatever led to it.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Export writes the configuration as JSON, cube by cube, and returns its revision. Changes that are made meanwhile are
// not in it.
func (m *Manager) Export(ctx context.Context, to io.Writer) (uint64, error) {
	w := m.view.Load()
	names := slices.Collect(maps.Keys(w.cubes))
	for name := range w.broken {
		names = append(names, name)
	}
	err := writeDocument(to, names, w.chains, func(name string) (*image, error) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return m.imageOf(w, name)
	})
	if err != nil {
		return 0, fmt.Errorf("exporting the configuration: %w", err)
	}
	return w.revision, nil
}

// writeDocument writes cubes and chains in the order of their names.
func writeDocument(to io.Writer, names []string, chains map[string][]string, imageOf func(name string) (*image, error)) error {
	slices.SortFunc(names, compareNatural)
	var b bytes.Buffer
	b.WriteString(`{"cubes":[`)
	comma := false
	for _, name := range names {
		i, err := imageOf(name)
		if err != nil {
			return err
		}
		if i == nil {
			continue // nothing can be read of it
		}
		if comma {
			b.WriteByte(',')
		}
		comma = true
		i.emit(&b, member{"name", encode(name)}, member{"service-name", encode(i.service)})
		if _, err := b.WriteTo(to); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	if len(chains) > 0 {
		b.WriteString(`,"netdevs":[`)
		for i, dev := range slices.SortedFunc(maps.Keys(chains), compareNatural) {
			if i > 0 {
				b.WriteByte(',')
			}
			out := object{b: &b}
			out.member("name", encode(dev))
			out.member("tcubes", encode(chains[dev]))
			out.end()
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	_, err := b.WriteTo(to)
	return err
}
