// SPDX-License-Identifier: Apache-2.0

// Package link creates one kernel program from many cubes. It has no side effects: compiled objects and a description
// of the graph go in, instructions come out; nothing is loaded here.
//
// A cube's program is a function int f(ctx, md). The linker copies its instructions once per instance, renames its
// symbols, binds the instance's maps and constants, and writes a driver around the copies that keeps md on its stack
// and acts on each verdict. In call mode the copies stay global functions, which the verifier checks one by one; in
// inline mode their bodies are copied into the driver.
package link

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// Names of a cube's programs in its object.
const (
	Ingress = "pcn_ingress"
	Egress  = "pcn_egress"
)

// reasonFirst and reasonMax are PCN_REASON_FIRST and PCN_REASON_MAX of <pcn/md.h>.
const (
	reasonFirst = 32
	reasonMax   = 64
)

// ErrObject marks an object that does not belong to a cube, or is malformed. It is a kind of cube.ErrInvalid.
var ErrObject error = objectError{}

type objectError struct{}

func (objectError) Error() string { return "not a cube's object" }

func (objectError) Is(target error) bool { return target == cube.ErrInvalid }

// Object is a compiled cube, parsed once and shared by its instances.
type Object struct {
	Hook cube.Hook
	// Functions by name: Ingress, Egress, and for the framework's own object its helpers.
	Functions map[string]*Function
	// Maps to create for each instance.
	Maps map[string]*ebpf.MapSpec
	// Reasons are the labels of the cube's own drop reasons; Reasons[0] is PCN_REASON_FIRST. SlowpathReasons are
	// those of the reasons for sending packets to its slow path.
	Reasons, SlowpathReasons []string
	// Further are the names of its PCN_PROGRAM functions, sorted.
	Further []string
	// Switches are its constants with known values, by name.
	Switches []Switch

	rodata    []byte
	sections  map[string]uint32 // offset of each .rodata section in rodata
	variables map[string]variable
	loaded    map[uint32]bool // offsets in rodata of the constants that functions load
}

type variable struct {
	offset, size uint32
	typ          *btf.Var
}

// Function is a program with the static functions that it calls.
type Function struct {
	Name string
	Body asm.Instructions
	// Callees are the static functions that Body reaches, by name.
	Callees map[string]asm.Instructions
	// Common are the symbols of those callees that are the same for all cubes, by name.
	Common map[string]string
	// Undirected are those callees that do not tell the framework in which direction they run.
	Undirected map[string]bool
	// Maps are the names of those that the function and its callees refer to, constants included, and Instructions is
	// their total number. Common functions are left out: a program has one copy of each.
	Maps         []string
	Instructions int
	// Frame is the number of stack bytes that Body uses.
	Frame int
	// narrow contains the 8-byte stack slots (as negative offsets) that Body writes partially.
	narrow []int16
	// effects are the changes that Body may make to md.
	effects effects
	// resizes is set if Body, or a function that it calls, may change the packet's length.
	resizes bool
	// registers is the set of registers that Body uses, as a bit mask.
	registers uint16
	// notInlinable is the reason why Body cannot be inlined into a driver, or empty.
	notInlinable string
}

// ParseObject reads a compiled object (ELF). Whatever the problem, the error wraps ErrObject.
func ParseObject(hook cube.Hook, elf []byte) (o *Object, err error) {
	defer func() {
		if v := recover(); v != nil { // the object may come from a service, and one that is malformed must not end the daemon
			o, err = nil, fmt.Errorf("read object: %v: %w", v, ErrObject)
		}
	}()
	return parse(hook, elf)
}

func parse(hook cube.Hook, elf []byte) (*Object, error) {
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(elf))
	if err != nil {
		return nil, fmt.Errorf("read object: %w: %w", err, ErrObject)
	}
	if err := checkTypes(spec.Types); err != nil {
		return nil, err
	}
	o := &Object{Hook: hook, Functions: map[string]*Function{}, Maps: map[string]*ebpf.MapSpec{}}
	want := ebpf.SchedCLS
	if hook == cube.XDP {
		want = ebpf.XDP
	}
	for name, p := range spec.Programs {
		if p.Type != want {
			return nil, fmt.Errorf("program %s is of type %s, want %s: %w", name, p.Type, want, ErrObject)
		}
		if err := o.addFunctions(p.Instructions); err != nil {
			return nil, fmt.Errorf("program %s: %w", name, err)
		}
		if o.Functions[name] == nil {
			return nil, fmt.Errorf("program %s has no function of that name: %w", name, ErrObject)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		if name != Ingress && name != Egress && o.Functions[name].IsProgram() {
			o.Further = append(o.Further, name)
		}
	}
	if err := o.addMaps(spec); err != nil {
		return nil, err
	}
	o.addCommon()
	for _, f := range o.Functions {
		f.addUses()
	}
	o.addLoaded()
	if o.Switches, err = o.switches(); err != nil {
		return nil, err
	}
	for name, labels := range map[string]*[]string{"pcn_reasons": &o.Reasons, "pcn_slowpath_reasons": &o.SlowpathReasons} {
		if v, ok := spec.Variables[name]; ok {
			if *labels, err = reasonLabels(v); err != nil {
				return nil, err
			}
		}
	}
	return o, nil
}

// addMaps divides the object's maps into constants and maps of the instance.
func (o *Object) addMaps(spec *ebpf.CollectionSpec) error {
	o.sections, o.variables = map[string]uint32{}, map[string]variable{}
	for name, m := range spec.Maps {
		if !strings.HasPrefix(name, ".rodata") {
			o.Maps[name] = m
			continue
		}
		var content []byte
		if len(m.Contents) == 1 {
			content, _ = m.Contents[0].Value.([]byte)
		}
		if content == nil {
			return fmt.Errorf("section %s has no bytes: %w", name, ErrObject)
		}
		for len(o.rodata)%16 != 0 {
			o.rodata = append(o.rodata, 0)
		}
		o.sections[name] = uint32(len(o.rodata))
		o.rodata = append(o.rodata, content...)
	}
	for name, v := range spec.Variables {
		if v.Type == nil {
			return fmt.Errorf("variable %s has no type information: %w", name, ErrObject)
		}
		if base, ok := o.sections[v.SectionName]; ok {
			o.variables[name] = variable{base + v.Offset, uint32(len(v.Value)), v.Type}
		}
	}
	return nil
}

// addFunctions cuts a flattened program into its functions.
func (o *Object) addFunctions(insns asm.Instructions) error {
	functions := map[string]asm.Instructions{}
	var order []string
	for _, ins := range insns {
		if btf.FuncMetadata(&ins) != nil {
			order = append(order, ins.Symbol())
		}
		if len(order) == 0 {
			return fmt.Errorf("no type information for functions: %w", ErrObject)
		}
		name := order[len(order)-1]
		functions[name] = append(functions[name], ins)
	}
	for _, name := range order {
		if _, ok := o.Functions[name]; ok {
			continue
		}
		f := &Function{Name: name, Body: functions[name], Callees: map[string]asm.Instructions{}}
		if err := checkFlow(f.Body); err != nil {
			return err
		}
		if err := f.addCallees(functions, f.Body); err != nil {
			return err
		}
		f.measure()
		o.Functions[name] = f
	}
	return nil
}

func (f *Function) addCallees(all map[string]asm.Instructions, body asm.Instructions) error {
	for _, ref := range body.FunctionReferences() {
		if _, ok := f.Callees[ref]; ok || ref == f.Name {
			continue
		}
		if len(all[ref]) == 0 {
			return fmt.Errorf("function %s calls %s, which the object does not have: %w", f.Name, ref, ErrObject)
		}
		f.Callees[ref] = all[ref]
		if err := f.addCallees(all, all[ref]); err != nil {
			return err
		}
	}
	return nil
}

// measure analyses the body's use of its stack for inlining. The frame pointer may only be a base of accesses below it
// and be copied to take the address of a local: a body that keeps the pointer itself would get the driver's when it is
// inlined.
func (f *Function) measure() {
	slots := map[int16]bool{}
	for i := range f.Body {
		ins := &f.Body[i]
		onStack := ins.Dst == asm.R10 && isStore(ins) || ins.Src == asm.R10 && isLoad(ins)
		switch {
		case ins.Src == asm.R10 && ins.OpCode.Class() == asm.StXClass:
			f.notInlinable = "it stores its frame pointer"
		case onStack && ins.Offset >= 0:
			f.notInlinable = "it reaches above its frame"
		case onStack:
			f.Frame = max(f.Frame, int(-ins.Offset))
			if isStore(ins) && ins.OpCode.Size() != asm.DWord {
				slots[ins.Offset&^7] = true
			}
		case ins.Src == asm.R10 && !isFrameCopy(ins):
			f.notInlinable = "it does arithmetic on its frame pointer"
		}
	}
	// Addresses of locals: mov rX, r10; add rX, -n. The lowest one bounds the frame; helpers and callees write
	// slots that are reached through pointers.
	for i := 0; i+1 < len(f.Body); i++ {
		next := &f.Body[i+1]
		if isFrameCopy(&f.Body[i]) && next.Dst == f.Body[i].Dst && next.OpCode.ALUOp() == asm.Add &&
			next.OpCode.Source() == asm.ImmSource && next.Constant < 0 {
			f.Frame = max(f.Frame, int(-next.Constant))
		}
	}
	for s := range slots {
		f.narrow = append(f.narrow, s)
	}
	f.effects, f.registers = effectsOf(f.Body), usedRegisters(f.Body)
	f.resizes = resizes(f.Body)
	for _, body := range f.Callees {
		f.resizes = f.resizes || resizes(body)
	}
}

// Whole is the number of instructions of the function and all that it calls.
func (f *Function) Whole() int {
	total := len(f.Body)
	for _, body := range f.Callees {
		total += len(body)
	}
	return total
}

// addUses sets Maps and Instructions.
func (f *Function) addUses() {
	seen := map[string]bool{}
	count := func(body asm.Instructions) {
		f.Instructions += len(body)
		for i := range body {
			if name := body[i].Reference(); body[i].IsLoadFromMap() && !seen[name] {
				seen[name] = true
				f.Maps = append(f.Maps, name)
			}
		}
	}
	count(f.Body)
	for name, body := range f.Callees {
		if f.Common[name] == "" {
			count(body)
		}
	}
}

// IsProgram reports whether the function has the type of a cube's program, int (ctx, md).
func (f *Function) IsProgram() bool {
	fn := btf.FuncMetadata(&f.Body[0])
	if fn == nil || fn.Linkage != btf.GlobalFunc {
		return false
	}
	proto, ok := fn.Type.(*btf.FuncProto)
	if !ok || len(proto.Params) != 2 {
		return false
	}
	md, ok := proto.Params[1].Type.(*btf.Pointer)
	if !ok {
		return false
	}
	to, ok := btf.UnderlyingType(md.Target).(*btf.Struct)
	return ok && to.Name == "pcn_md"
}

func isStore(ins *asm.Instruction) bool {
	return ins.OpCode.Class() == asm.StClass || ins.OpCode.Class() == asm.StXClass
}

func isLoad(ins *asm.Instruction) bool { return ins.OpCode.Class() == asm.LdXClass }

func isFrameCopy(ins *asm.Instruction) bool {
	return ins.OpCode.Class() == asm.ALU64Class && ins.OpCode.ALUOp() == asm.Mov &&
		ins.OpCode.Source() == asm.RegSource && ins.Src == asm.R10
}

// reasonLabels turns enumerators such as SIMPLEBRIDGE_SAME_PORT into labels ("same-port").
func reasonLabels(v *ebpf.VariableSpec) ([]string, error) {
	typ, ok := btf.UnderlyingType(v.Type.Type).(*btf.Enum)
	if !ok {
		return nil, fmt.Errorf("PCN_REASONS names %v, not an enum: %w", v.Type.Type, ErrObject)
	}
	prefix := strings.ToUpper(strings.TrimSuffix(typ.Name, "reason"))
	labels := make([]string, 0, len(typ.Values))
	for i, e := range typ.Values {
		if e.Value != uint64(reasonFirst+i) || e.Value >= reasonMax {
			return nil, fmt.Errorf("enum %s: %s is %d, want %d (below %d): %w",
				typ.Name, e.Name, e.Value, reasonFirst+i, reasonMax, ErrObject)
		}
		name := strings.TrimPrefix(e.Name, prefix)
		labels = append(labels, strings.ReplaceAll(strings.ToLower(name), "_", "-"))
	}
	return labels, nil
}
