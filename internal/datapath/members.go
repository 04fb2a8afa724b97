// SPDX-License-Identifier: Apache-2.0

package datapath

// For which cubes programs are that several cubes use.

import "github.com/polycube/polycube/internal/datapath/undo"

// admit makes a segment's programs process packets of its cubes.
func (p *Plane) admit(u *undo.Stack, c *segment) error {
	for _, id := range c.IDs {
		if was := p.byCube[id]; was != nil && was.gen == c.gen {
			continue
		}
		gen := c.gen
		if err := gen.Admit(id); err != nil {
			return err
		}
		u.Push(func() error { return gen.Expel(id) })
	}
	return nil
}

// expel makes programs that others still use, or may use again, forget the cubes of segments that are no longer in use, once
// no packet of them can be there.
func (p *Plane) expel(left []*segment) {
	for _, c := range left {
		gen := c.gen
		for _, id := range c.IDs {
			stays := func() bool {
				now := p.byCube[id]
				return now != nil && now.gen == gen || p.users[gen] == 0 && !p.kept.has(gen)
			}
			if stays() {
				continue
			}
			p.collect.Add(func() error {
				p.mu.Lock()
				defer p.mu.Unlock()
				if stays() {
					return nil
				}
				return gen.Expel(id)
			})
		}
	}
}
