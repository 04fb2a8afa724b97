// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"maps"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/kernel"
)

// Mode is the form of cubes' programs in the linked program.
type Mode uint8

// Call keeps them as global functions; Inline copies them into the driver.
const (
	Call Mode = iota
	Inline
)

// String returns "call" or "inline".
func (m Mode) String() string {
	if m == Inline {
		return "inline"
	}
	return "call"
}

// Role is the place where packets enter a linked program.
type Role uint8

const (
	// OnIngress programs get packets from netdevs.
	OnIngress Role = iota
	// OnEgress programs (TC) get packets that leave through netdevs.
	OnEgress
	// OnResume programs are entered by a tail call, and continue where pcn_resume says.
	OnResume
)

// String returns the role's name, as programs are named in the kernel.
func (r Role) String() string { return [...]string{"in", "out", "resume"}[r] }

// Core is the framework's part of every linked program.
type Core struct {
	Object *Object
	// Maps of the framework by C name.
	Maps map[string]asm.FDer
	// Rodata holds the constants of all cubes of the component, frozen.
	Rodata asm.FDer
	// Generation is the program array for turning back; slot 0 is the resume program.
	Generation asm.FDer
	// Members is an array of one row, the bits of the cubes for which a program of cubes that are alike is; it is
	// only used there.
	Members asm.FDer
	// TapIndex is the interface through which packets re-enter, 0 for none: copies for cubes (TC), and packets that
	// have turned too often.
	TapIndex int
	// Frags is set if XDP frames may be in several buffers, so that reading their length takes a call.
	Frags bool
	// Kernel contains the features that the programs may use.
	Kernel kernel.Features
}

// sk_buff and xdp_md fields, verdicts.
const (
	skbLen, skbMark, skbIfindex, skbTCIndex       = 0, 8, 40, 44
	xdpData, xdpDataEnd, xdpIngressIfindex        = 0, 4, 12
	tcUnspec, tcShot                        int32 = -1, 2
	xdpDrop, xdpPass, xdpRedirect           int32 = 1, 2, 4
)

// Verdicts and reasons of <pcn/md.h>.
const (
	verdictPass, verdictSend, verdictDrop, verdictFlood, verdictController = 0, 1, 2, 3, 4
	verdictCall                                                            = 5

	reasonUnspecified, reasonPass, reasonNoPeer           = 0, 1, 4
	reasonBadPort, reasonBadVerdict, reasonHopLimit       = 5, 6, 7
	reasonNoProgram, reasonTooLong                        = 9, 14
	targetRX, targetTX, targetIn, targetInNext, targetOut = 0, 1, 2, 3, 4
	targetOutNext                                         = 5
	targetShift                                           = 3 // the upper bits are the program's index
)

// generator writes the sites, and the steps after them. The types that it embeds write the rest of the driver, into the
// same code.
type generator struct {
	linking
	*code
	veil
	tracer
	copier
	registers
	*turner
	// order is the order of the sites in the first sweep, index the position of each in it.
	order []site
	index map[site]int
}

// linking is the input of the linker. It does not change.
type linking struct {
	c    *Component
	core *Core
	mode Mode
	role Role
}

// code is the driver's code so far.
type code struct {
	maps   map[string]asm.FDer // of the framework
	blocks []*block
	cold   []*block // rarely executed code, laid out after the rest
	err    error
}

// newGenerator returns a generator without code.
func newGenerator(l linking) *generator {
	g := &generator{linking: l, code: &code{maps: l.core.Maps}, veil: veil{l.core.Kernel.StackByAnyRegister},
		copier: copier{l.core.Rodata, l.core.Kernel, l.c.commonMaps()}}
	g.tracer = tracer{g.veil, l.c.Trace, l.core.Object}
	g.turner = &turner{linking: l, code: g.code, turns: map[turn]string{}, edges: map[int32]bool{}}
	g.order, g.index = order(l.roots())
	g.registers = keep(l.mode, g.order)
	return g
}

// Program links the component's program for a role.
func Program(c *Component, core *Core, mode Mode, role Role) (*ebpf.ProgramSpec, error) {
	g := newGenerator(linking{c: c, core: core, mode: mode, role: role})
	in := &entry{g.linking, g.code, g.tracer, g.registers, g.turner}
	out := &exits{g.linking, g.code, g.veil, g.tracer, g.turner}
	in.prologue()
	for _, s := range g.order {
		g.site(place{s, 0})
	}
	for _, s := range slices.Backward(g.order) {
		g.site(place{s, 1})
	}
	g.blocks = append(g.blocks, g.cold...)
	for _, cb := range c.Cubes {
		in.rx(cb)
		out.ends(cb)
	}
	out.tails()
	g.emitTurns()
	g.emitEdges()
	if g.err != nil {
		return nil, g.err
	}
	main, err := layout(g.blocks)
	if err != nil {
		return nil, fmt.Errorf("%s program of %s: %w", role, c.Cubes[0].Name, err)
	}
	main[0] = btf.WithFuncMetadata(main[0], mainFunc(c.Hook)).WithSymbol(driverName).
		WithSource(asm.Comment("driver: entry"))
	functions, err := g.functions(main)
	if err != nil {
		return nil, err
	}
	insns := append(main, functions...)
	if err := checkLimits(insns); err != nil {
		return nil, fmt.Errorf("%d cubes in one component, among them %s: %w", len(c.Cubes), c.Cubes[0].Name, err)
	}
	spec := &ebpf.ProgramSpec{
		Name: "pcn_" + role.String(), Type: ebpf.SchedCLS, License: "Dual BSD/GPL",
		Instructions: insns,
	}
	if c.Hook == cube.XDP {
		spec.Type, spec.AttachType, spec.Flags = ebpf.XDP, ebpf.AttachXDP, FlagFrags
	}
	return spec, nil
}

// FlagFrags is BPF_F_XDP_HAS_FRAGS. All XDP programs have it, because programs that differ in it cannot share a program
// array.
const FlagFrags = 1 << 5

// mainFunc is the type of the driver: int pcn_driver(struct CTXTYPE *ctx).
func mainFunc(hook cube.Hook) *btf.Func {
	name := "__sk_buff"
	if hook == cube.XDP {
		name = "xdp_md"
	}
	return &btf.Func{
		Name: driverName, Linkage: btf.GlobalFunc,
		Type: &btf.FuncProto{
			Return: &btf.Int{Name: "int", Size: 4, Encoding: btf.Signed},
			Params: []btf.FuncParam{{Name: "ctx", Type: &btf.Pointer{Target: &btf.Fwd{Name: name}}}},
		},
	}
}

// roots are the sites where packets may enter the program.
func (l linking) roots() []site {
	var out []site
	for _, c := range l.c.Cubes {
		switch {
		case l.role == OnResume:
			out = append(out, c.arrivals()...)
			if c.has(cube.Egress) {
				out = append(out, entrance(c, cube.Egress))
			}
		case !c.Entry:
		case l.role == OnIngress:
			out = append(out, c.arrivals()...)
		case l.role == OnEgress && c.Transparent:
			out = append(out, entrance(c, cube.Egress))
		}
	}
	return slices.DeleteFunc(out, func(s site) bool { return s.cube.Foreign })
}

// block starts a block.
func (w *code) block(format string, args ...any) *block {
	b := &block{label: fmt.Sprintf(format, args...)}
	w.blocks = append(w.blocks, b)
	return b
}

// later lays out a block after the rest.
func (w *code) later(b *block) { w.cold = append(w.cold, b) }

// m returns one of the framework's maps.
func (w *code) m(name string) asm.FDer {
	m := w.maps[name]
	if m == nil && w.err == nil {
		w.err = fmt.Errorf("framework map %s: %w", name, cube.ErrNotFound)
	}
	return m
}

func (l linking) tc() bool { return l.c.Hook == cube.TC }

// drop is the verdict of a program that drops a packet, pass of one that leaves it to the stack.
func (l linking) drop() int32 {
	if l.tc() {
		return tcShot
	}
	return xdpDrop
}

func (l linking) pass() int32 {
	if l.tc() {
		return tcUnspec
	}
	return xdpPass
}

// functions returns the functions that the driver calls: the cubes' programs in call mode, the cubes' static functions,
// and the framework's functions.
func (g *generator) functions(main asm.Instructions) (asm.Instructions, error) {
	var candidates []asm.Instructions
	has := map[string]bool{}
	for _, s := range g.order {
		f := s.program().Function
		if g.mode == Call {
			body, err := g.function(s, s.symbol(f.Name), f.Body, btf.GlobalFunc)
			if err != nil {
				return nil, err
			}
			candidates = append(candidates, body)
		}
		callees, err := g.callees(s, f, has)
		if err != nil {
			return nil, err
		}
		candidates = append(candidates, callees...)
	}
	filters, err := g.filters()
	if err != nil {
		return nil, err
	}
	out := called(main, append(candidates, filters...))
	core, err := g.coreFunctions(append(main.FunctionReferences(), out.FunctionReferences()...))
	return append(out, core...), err
}

// called returns those functions that the driver calls, directly or indirectly. The kernel refuses a program with a
// function that is never called, and layout may have omitted the place of a cube that packets cannot reach.
func called(main asm.Instructions, functions []asm.Instructions) asm.Instructions {
	byName := map[string]asm.Instructions{}
	for _, f := range functions {
		byName[f[0].Symbol()] = f
	}
	wanted := map[string]bool{}
	for work := main.FunctionReferences(); len(work) > 0; work = work[1:] {
		if f := byName[work[0]]; f != nil && !wanted[work[0]] {
			wanted[work[0]] = true
			work = append(work, f.FunctionReferences()...)
		}
	}
	var out asm.Instructions
	for _, f := range functions {
		if wanted[f[0].Symbol()] {
			out = append(out, f...)
		}
	}
	return out
}

// The kernel's limits of one program (BPF_MAX_SUBPROGS, MAX_USED_MAPS).
const (
	maxFunctions = 256
	maxMaps      = 64
)

// checkLimits returns which limit of the kernel a program exceeds; the kernel's own error would be "argument list too
// long".
func checkLimits(insns asm.Instructions) error {
	functions, used := 0, map[asm.FDer]bool{}
	for i := range insns {
		if btf.FuncMetadata(&insns[i]) != nil {
			functions++
		}
		if m := insns[i].Map(); m != nil {
			used[m] = true
		}
	}
	if functions > maxFunctions {
		return fmt.Errorf("they need %d functions in one program, the kernel's limit is %d: %w", functions, maxFunctions, ErrTooLarge)
	}
	if len(used) > maxMaps {
		return fmt.Errorf("they need %d maps in one program, the kernel's limit is %d: %w", len(used), maxMaps, ErrTooLarge)
	}
	return nil
}

// coreFunctions returns the framework's functions among the references, with their callees.
func (g *generator) coreFunctions(references []string) (asm.Instructions, error) {
	var out asm.Instructions
	done := map[string]bool{}
	add := func(body asm.Instructions) error {
		for _, ins := range body {
			if ins.IsLoadFromMap() {
				if err := ins.AssociateMap(g.m(ins.Reference())); err != nil {
					return fmt.Errorf("framework function: %w", err)
				}
			}
			out = append(out, ins)
		}
		return g.err
	}
	for _, name := range references {
		f := g.core.Object.Functions[name]
		if f == nil {
			continue // a cube's
		}
		bodies := map[string]asm.Instructions{name: f.Body}
		for callee, body := range f.Callees {
			bodies[callee] = body
		}
		for _, n := range slices.Sorted(maps.Keys(bodies)) {
			if done[n] {
				continue
			}
			done[n] = true
			if err := add(g.guard(bodies[n])); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
