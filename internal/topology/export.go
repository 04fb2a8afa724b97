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

// Configuration is the whole configuration as it was at one moment.
type Configuration struct {
	revision uint64
	// names are those of the cubes, in their order; chains the transparent cubes of netdevs.
	names  []string
	chains map[string][]string
	// imageOf reads a cube, nil if nothing can be read of it.
	imageOf func(name string) (*image, error)
}

// Revision is its number.
func (c *Configuration) Revision() uint64 { return c.revision }

// Export writes it as JSON, cube by cube.
func (c *Configuration) Export(ctx context.Context, to io.Writer) error {
	if err := c.write(ctx, to); err != nil {
		return fmt.Errorf("exporting the configuration: %w", err)
	}
	return nil
}

// write writes cubes and chains in the order of their names.
func (c *Configuration) write(ctx context.Context, to io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`{"cubes":[`)
	comma := false
	for _, name := range c.names {
		if err := ctx.Err(); err != nil {
			return err
		}
		i, err := c.imageOf(name)
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
	if len(c.chains) > 0 {
		b.WriteString(`,"netdevs":[`)
		for i, dev := range slices.SortedFunc(maps.Keys(c.chains), compareNatural) {
			if i > 0 {
				b.WriteByte(',')
			}
			out := object{b: &b}
			out.member("name", encode(dev))
			out.member("tcubes", encode(c.chains[dev]))
			out.end()
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	_, err := b.WriteTo(to)
	return err
}
