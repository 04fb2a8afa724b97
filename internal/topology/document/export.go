// SPDX-License-Identifier: Apache-2.0

package document

// The whole configuration as one document, which Apply accepts. It contains configuration only: no ids, no state. Equal
// configurations have equal bytes, however they came about.

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
)

// Configuration is the whole configuration at one point in time.
type Configuration struct {
	// At is the number of its revision.
	At uint64
	// Names are the names of the cubes, in order; Chains the transparent cubes of netdevs.
	Names  []string
	Chains map[string][]string
	// ImageOf reads a cube, nil if it cannot be read.
	ImageOf func(name string) (*Image, error)
}

// Revision is its number.
func (c *Configuration) Revision() uint64 { return c.At }

// Export writes it as JSON, cube by cube.
func (c *Configuration) Export(ctx context.Context, to io.Writer) error {
	if err := c.write(ctx, to); err != nil {
		return fmt.Errorf("export the configuration: %w", err)
	}
	return nil
}

// write writes cubes and chains in the order of their names.
func (c *Configuration) write(ctx context.Context, to io.Writer) error {
	var b bytes.Buffer
	b.WriteString(`{"cubes":[`)
	comma := false
	for _, name := range c.Names {
		if err := ctx.Err(); err != nil {
			return err
		}
		i, err := c.ImageOf(name)
		if err != nil {
			return err
		}
		if i == nil {
			continue // it cannot be read
		}
		if comma {
			b.WriteByte(',')
		}
		comma = true
		i.emit(&b, member{"name", Encode(name)}, member{"service-name", Encode(i.Service)})
		if _, err := b.WriteTo(to); err != nil {
			return err
		}
	}
	b.WriteByte(']')
	if len(c.Chains) > 0 {
		b.WriteString(`,"netdevs":[`)
		for i, dev := range slices.SortedFunc(maps.Keys(c.Chains), CompareNatural) {
			if i > 0 {
				b.WriteByte(',')
			}
			out := Writer{B: &b}
			out.Member("name", Encode(dev))
			out.Member("tcubes", Encode(c.Chains[dev]))
			out.End()
		}
		b.WriteByte(']')
	}
	b.WriteByte('}')
	_, err := b.WriteTo(to)
	return err
}
