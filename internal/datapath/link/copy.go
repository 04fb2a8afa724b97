// SPDX-License-Identifier: Apache-2.0

package link

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
)

// Reasons why a component cannot be linked in a mode.
var (
	ErrTooLarge     = fmt.Errorf("program too large: %w", cube.ErrFull)
	ErrNotInlinable = errors.New("cannot be inlined")
)

// way is the direction, as part of a caller's identity in a call to the framework.
func (s site) way() int32 { return int32(s.dir) << 16 }

// who identifies the caller in a call to the framework: cube and direction. The framework finds the cube by itself if the
// code is that of several.
func (s site) who() int32 {
	if s.cube.Alike {
		return s.way()
	}
	return int32(s.cube.ID) | s.way()
}

// symbol is the name of the site's copy of a function.
func (s site) symbol(function string) string {
	if s.index > 0 {
		return fmt.Sprintf("c%d%c%d_%s", s.cube.ID, "io"[s.dir], s.index, function)
	}
	return fmt.Sprintf("c%d%c_%s", s.cube.ID, "io"[s.dir], function)
}

// callee is the symbol of a function that the site's program calls.
func (s site) callee(function string) string {
	p := s.program()
	switch symbol := p.Function.Common[function]; {
	case symbol != "":
		return symbol
	case p.Function.Undirected[function]:
		return fmt.Sprintf("c%d.%d_%s", s.cube.ID, slices.Index(s.cube.objects(), p.Object), function)
	}
	return s.symbol(function)
}

// stubs are the functions of <pcn/core.h> that a cube calls; the linker binds them to the framework's own, passing the
// caller's identity in an additional argument.
var stubs = map[string]struct {
	function string
	who      asm.Register
}{
	"pcn_core_copy":   {"pcn_core_copy_for", asm.R4},
	"pcn_core_log":    {"pcn_core_log_for", asm.R3},
	"pcn_core_notify": {"pcn_core_notify_for", asm.R3},
	"pcn_core_mirror": {"pcn_core_mirror_for", asm.R4},
	toSet:             {"pcn_core_to_set_for", asm.R5},
}

// copier makes the copies of cubes' functions.
type copier struct {
	rodata asm.FDer // the constants of all cubes
	kernel kernel.Features
	// common are the maps that all cubes share, by place.
	common map[string]asm.FDer
}

// bind rewrites one instruction of a cube for the site: maps, constants, calls. It may
// return two instructions.
func (cp copier) bind(s site, ins asm.Instruction) (asm.Instructions, error) {
	switch {
	case ins.IsLoadFromMap():
		return cp.bindMap(s, ins)
	case ins.IsFunctionReference():
		name := ins.Reference()
		stub, ok := stubs[name]
		if !ok {
			return asm.Instructions{ins.WithReference(s.callee(name))}, nil
		}
		who := asm.Mov.Imm(stub.who, s.who()).WithSymbol(ins.Symbol())
		return asm.Instructions{who, ins.WithSymbol("").WithReference(stub.function)}, nil
	}
	return asm.Instructions{ins}, nil
}

func (cp copier) bindMap(s site, ins asm.Instruction) (asm.Instructions, error) {
	name, c, p := ins.Reference(), s.cube, s.program()
	m := c.Maps[name]
	if common := cp.common[p.Object.commonPlace(name)]; common != nil {
		m = common
	}
	if base, ok := p.Object.sections[name]; ok {
		m = cp.rodata
		offset := uint32(uint64(ins.Constant)>>32) + base + p.Rodata
		if err := ins.RewriteMapOffset(offset); err != nil {
			return nil, fmt.Errorf("%s: constants in %s: %w", c.Name, name, err)
		}
	}
	if m == nil || name == "" {
		return nil, fmt.Errorf("%s: map %q: %w", c.Name, name, cube.ErrNotFound)
	}
	if err := ins.AssociateMap(m); err != nil {
		return nil, fmt.Errorf("%s: map %s: %w", c.Name, name, err)
	}
	return asm.Instructions{ins}, nil
}

// function returns the site's copy of a function, as a function of the program with that name.
func (cp copier) function(s site, name string, body asm.Instructions, linkage btf.FuncLinkage) (asm.Instructions, error) {
	out := make(asm.Instructions, 0, len(body)+8)
	labelled := label(body, name+".", name)
	heads := cp.loopHeads(labelled)
	for n, ins := range labelled {
		if heads[n] {
			out = append(out, asm.Ja.Label(ins.Symbol()))
		}
		fn := btf.FuncMetadata(&ins)
		bound, err := cp.bind(s, ins)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			renamed := *fn
			renamed.Name, renamed.Linkage = name, linkage
			bound[0] = from(btf.WithFuncMetadata(bound[0], &renamed), s.origin(fn.Name))
		}
		out = append(out, bound...)
	}
	return cp.guard(out), nil
}

// callees returns the site's copies of the functions that its program calls, without those that the program has.
// A global one stays global: the verifier checks it separately, whatever its callers know.
func (cp copier) callees(s site, f *Function, has map[string]bool) ([]asm.Instructions, error) {
	var out []asm.Instructions
	for _, name := range slices.Sorted(maps.Keys(f.Callees)) {
		body := f.Callees[name]
		if isStub(name) {
			continue
		}
		symbol := s.callee(name)
		if has[symbol] {
			continue
		}
		has[symbol] = true
		fn, err := cp.function(s, symbol, body, btf.FuncMetadata(&body[0]).Linkage)
		if err != nil {
			return nil, err
		}
		out = append(out, fn)
	}
	return out, nil
}

// label turns the relative jumps inside a function into symbolic ones, so that instructions can be inserted. The first
// instruction gets the symbol first.
func label(body asm.Instructions, prefix, first string) asm.Instructions {
	index := map[asm.RawInstructionOffset]int{}
	for it := body.Iterate(); it.Next(); {
		index[it.Offset] = it.Index
	}
	out := make(asm.Instructions, len(body))
	copy(out, body)
	out[0] = out[0].WithSymbol(first)
	for it := body.Iterate(); it.Next(); {
		ins := it.Ins
		op := ins.OpCode
		if !op.Class().IsJump() || op.JumpOp() == asm.Exit || op.JumpOp() == asm.Call || ins.Reference() != "" {
			continue
		}
		delta := asm.RawInstructionOffset(int64(ins.Offset))
		long := op.Class() == asm.Jump32Class && op.JumpOp() == asm.Ja
		if long {
			delta = asm.RawInstructionOffset(ins.Constant)
		}
		target := index[it.Offset+delta+1]
		name := out[target].Symbol()
		if name == "" {
			name = fmt.Sprintf("%s%d", prefix, target)
			out[target] = out[target].WithSymbol(name)
		}
		jump := out[it.Index].WithReference(name)
		if long {
			jump.Constant = -1
		} else {
			jump.Offset = -1
		}
		out[it.Index] = jump
	}
	return out
}

// inline appends the body of the site's program to the driver's block: its frame is below the driver's, and its returns
// become jumps to done.
func (g *generator) inline(b *block, at place, f *Function, done string) error {
	if f.notInlinable != "" {
		return fmt.Errorf("%s: %s: %w", at.cube.Name, f.notInlinable, ErrNotInlinable)
	}
	if f.Frame+frameSize > stackLimit {
		return fmt.Errorf("%s: stack of %d bytes: %w", at.cube.Name, f.Frame, ErrNotInlinable)
	}
	// Slots written partially keep junk of the previous cube in their other bytes, which prevents the verifier from
	// recognizing states that it has seen. Zeroing them first avoids that.
	for _, slot := range f.narrow {
		b.set(asm.R10, slot-frameSize, 0, asm.DWord)
	}
	prefix := b.label + ".b"
	body := label(f.Body, prefix, prefix)
	var skip threads
	if f.effects&writesFramework == 0 && !f.resizes && !g.traced() { // otherwise more is done on every way out
		skip = g.threads(at, f, body)
	}
	heads := g.loopHeads(body)
	start := len(b.ins)
	for i, ins := range body {
		if heads[i] {
			b.jump(ins.Symbol())
		}
		if to, ok := skip.at[i]; ok {
			jump := asm.Ja.Label(to)
			jump.Metadata = strip(ins).Metadata
			b.add(jump.WithReference(to))
			continue
		}
		if to, ok := skip.before[i]; ok {
			b.jump(to)
		}
		if i > 0 && isExit(&ins) && ins.Symbol() != "" && !skip.reaches(body, i) {
			continue // all code that reached this goes elsewhere
		}
		bound, err := g.bind(at.site, strip(ins))
		if err != nil {
			return err
		}
		for _, one := range bound {
			b.add(shift(one, done)...)
		}
	}
	if start < len(b.ins) {
		b.ins[start], b.inlined = from(b.ins[start], at.origin(f.Name)), true
	}
	return nil
}

// strip removes the metadata that makes an instruction the start of a function.
func strip(ins asm.Instruction) asm.Instruction {
	if btf.FuncMetadata(&ins) == nil {
		return ins
	}
	out := ins.WithMetadata(asm.Metadata{}).WithReference(ins.Reference()).WithSymbol(ins.Symbol())
	if source := ins.Source(); source != nil {
		out = out.WithSource(source)
	}
	return out
}

// shift moves an inlined instruction's frame accesses below the driver's frame.
func shift(ins asm.Instruction, done string) asm.Instructions {
	switch {
	case ins.OpCode.JumpOp() == asm.Exit && ins.OpCode.Class().IsJump():
		leave := asm.Ja.Label(done)
		leave.Metadata = ins.Metadata
		return asm.Instructions{leave.WithReference(done)}
	case isStore(&ins) && ins.Dst == asm.R10, isLoad(&ins) && ins.Src == asm.R10:
		ins.Offset -= frameSize
	case isFrameCopy(&ins):
		return asm.Instructions{ins, asm.Add.Imm(ins.Dst, -frameSize)}
	}
	return asm.Instructions{ins}
}
