// SPDX-License-Identifier: Apache-2.0

package datapath

// Reports to callers about linked programs.

// Relinked reports programs that are now in use, or that could not be linked.
type Relinked struct {
	// Cubes are the cubes whose packets the programs process.
	Cubes []string
	// Mode is call or inline.
	Mode string
	// Reason says why the programs are not inlined; "" if they are, or if that will be tried.
	Reason string
	// Instructions is the size of the largest of the programs.
	Instructions int
}

// Segment is one set of programs in use.
type Segment struct {
	// First is the name of its first cube, Cubes the number of its cubes.
	First string
	Cubes int
	Mode  string
	// Reason says why it is not inlined.
	Reason string
	// Instructions, Verified, Stack and Maps are the largest among its programs.
	Instructions, Verified, Stack, Maps int
}

// Segments lists the programs in use.
func (p *Plane) Segments() []Segment {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make([]Segment, 0, len(p.parts))
	for _, c := range p.parts {
		out = append(out, Segment{First: c.Code.Cubes[0].Name, Cubes: len(c.IDs), Mode: c.gen.Mode.String(), Reason: p.whyCall(c),
			Instructions: c.gen.Instructions, Verified: c.gen.Verified, Stack: c.gen.Stack, Maps: c.gen.Maps})
	}
	return out
}

// tell reports the programs of segments that have the same ones. It is called with the plane's lock held: the receiver must
// not wait.
func (p *Plane) tell(same ...*segment) {
	if p.opts.Relinked == nil {
		return
	}
	var names []string
	for _, c := range same {
		for _, lc := range c.Code.Cubes {
			names = append(names, lc.Name)
		}
	}
	c := same[0]
	p.opts.Relinked(Relinked{Cubes: names, Mode: c.gen.Mode.String(), Reason: c.note, Instructions: c.gen.Instructions})
}

// Activity returns counters of the linker.
func (p *Plane) Activity() Activity { return p.maker.Activity() }
