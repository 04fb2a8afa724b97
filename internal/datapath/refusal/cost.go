// SPDX-License-Identifier: Apache-2.0

package refusal

import (
	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/internal/datapath/link"
)

// Cost is what a program takes of what the kernel limits.
type Cost struct {
	// Instructions is its size, and Verified how many instructions the verifier processed, each as often as it was
	// reached.
	Instructions, Verified int
	// Stack is that of the deepest chain of calls, in bytes as the kernel counts them: it allows 512.
	Stack int
	// Cubes are the shares of its cubes, by name.
	Cubes map[string]Share
}

// Share is the part of a cube in the cost of a program.
type Share struct {
	// Instructions are those of the cube's own functions. Those that several cubes call are the program's.
	Instructions int
	// Stack is what the cube adds to that of the driver: its deepest chain of calls, with all that its functions call.
	Stack int
}

// Most returns the larger of each figure of two programs.
func (c Cost) Most(other Cost) Cost {
	out := Cost{
		max(c.Instructions, other.Instructions), max(c.Verified, other.Verified), max(c.Stack, other.Stack), map[string]Share{},
	}
	for _, cubes := range []map[string]Share{c.Cubes, other.Cubes} {
		for name, s := range cubes {
			was := out.Cubes[name]
			out.Cubes[name] = Share{max(was.Instructions, s.Instructions), max(was.Stack, s.Stack)}
		}
	}
	return out
}

// costOf computes the cost of a program that the verifier has accepted. A function with some bytes of stack counts for
// round of them, which depends on the kernel.
func costOf(spec *ebpf.ProgramSpec, said report, round func(bytes int) int) Cost {
	out := Cost{Instructions: len(spec.Instructions), Verified: said.verified, Cubes: map[string]Share{}}
	parts := link.Parts(spec.Instructions)
	depths := said.depths
	if n := functions(parts); len(depths) > 0 && n > len(depths) {
		depths = frames(parts, n, depths[0])
	}
	c := callees(parts, len(depths))
	c.depths = make([]int, len(depths))
	for f, bytes := range depths {
		if c.loops[f] && &depths[0] == &said.depths[0] {
			bytes -= inlinedLoop
		}
		c.depths[f] = round(bytes)
	}
	if len(c.depths) > 0 {
		out.Stack = c.below(0)
	}
	for i, p := range parts {
		if p.Framework() || p.Subprogram >= len(c.depths) {
			continue
		}
		share := out.Cubes[p.Cube]
		share.Instructions += len(p.Code)
		if p.Inlined {
			most := 0
			for _, f := range c.calls[i] {
				most = max(most, c.below(f))
			}
			share.Stack = max(share.Stack, min(round(p.Frame), c.depths[0])+most)
		} else {
			share.Stack = max(share.Stack, c.below(p.Subprogram))
		}
		out.Cubes[p.Cube] = share
	}
	return out
}

// functions returns how many functions a program has.
func functions(parts []link.Part) (n int) {
	for _, p := range parts {
		n = max(n, p.Subprogram+1)
	}
	return n
}

// frames returns the stack of each function as its code says. The kernel reports those of the functions that are left when it
// has removed those that no packet reaches, without saying which these are. The first one stays.
func frames(parts []link.Part, n, first int) []int {
	out := make([]int, n)
	for _, p := range parts {
		out[p.Subprogram] = max(out[p.Subprogram], p.Frame)
	}
	out[0] = first
	return out
}

// inlinedLoop is the number of bytes that the kernel adds to the stack of a function when it inlines calls of bpf_loop
// in it, after it has compared the stack with the limit, and before it logs it.
const inlinedLoop = 24

// chains are the call chains of a program.
type chains struct {
	// calls are the functions that each part calls, and of each function, by number.
	calls, of [][]int
	loops     map[int]bool
	depths    []int
	// known are chains that were computed, by their first function.
	known map[int]int
}

// callees finds the calls of a program with n functions.
func callees(parts []link.Part, n int) *chains {
	c := &chains{calls: make([][]int, len(parts)), of: make([][]int, n), loops: map[int]bool{}, known: map[int]int{}}
	bySymbol := map[string]int{}
	for _, p := range parts {
		bySymbol[p.Symbol] = p.Subprogram
	}
	for i, p := range parts {
		for j := range p.Code {
			ins := &p.Code[j]
			if ins.IsBuiltinCall() && ins.Constant == int64(asm.FnLoop) {
				c.loops[p.Subprogram] = true
			}
			if !ins.IsFunctionReference() {
				continue
			}
			if to, ok := bySymbol[ins.Reference()]; ok && to < n && p.Subprogram < n {
				c.calls[i] = append(c.calls[i], to)
				c.of[p.Subprogram] = append(c.of[p.Subprogram], to)
			}
		}
	}
	return c
}

// below is the stack of the deepest chain of calls from a function on. There is no recursion: the kernel refuses it.
func (c *chains) below(f int) int {
	if bytes, ok := c.known[f]; ok {
		return bytes
	}
	most := 0
	for _, to := range c.of[f] {
		most = max(most, c.below(to))
	}
	c.known[f] = c.depths[f] + most
	return c.known[f]
}
