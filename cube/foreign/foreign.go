// SPDX-License-Identifier: Apache-2.0

// Package foreign decides which programs from outside the daemon it loads: those of external services, and those that a
// user injects. The kernel's verifier keeps a program from crashing the machine; it does not keep one from sending packets
// past the cubes, reading the memory of other processes or filling the machine's memory with maps. So everything that is
// not on the lists here is refused before anything is loaded, with an error that says where it is and what to use instead.
// Everything in <pcn/cube.h> is on them.
package foreign

import (
	"bytes"
	"debug/elf"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"

	"github.com/polycube/polycube/cube"
)

// MaxObject, MaxEntries and MaxMemory limit an object in bytes, a map in entries, and the maps of an object in bytes.
const (
	MaxObject  = 4 << 20
	MaxEntries = 1 << 20
	MaxMemory  = 256 << 20
)

// Other limits of an object.
const (
	maxInstructions = 65_536
	maxPrograms     = 64
	maxMaps         = 32
	maxRing         = 16 << 20
	// entryOverhead is about what the kernel needs in addition to key and value.
	entryOverhead = 64
)

// helpers that a program may call at any hook.
var helpers = []asm.BuiltinFunc{
	asm.FnMapLookupElem, asm.FnMapUpdateElem, asm.FnMapDeleteElem, asm.FnMapPushElem, asm.FnMapPopElem, asm.FnMapPeekElem,
	asm.FnMapLookupPercpuElem, asm.FnKtimeGetNs, asm.FnKtimeGetBootNs, asm.FnKtimeGetCoarseNs, asm.FnKtimeGetTaiNs,
	asm.FnJiffies64, asm.FnGetPrandomU32, asm.FnGetSmpProcessorId, asm.FnGetNumaNodeId, asm.FnCsumDiff, asm.FnFibLookup,
	asm.FnCheckMtu, asm.FnStrncmp, asm.FnRingbufReserve, asm.FnRingbufSubmit, asm.FnRingbufDiscard, asm.FnRingbufOutput,
	asm.FnRingbufQuery,
}

// hookHelpers are allowed at one hook only.
var hookHelpers = map[cube.Hook][]asm.BuiltinFunc{
	cube.TC: {
		asm.FnSkbLoadBytes, asm.FnSkbLoadBytesRelative, asm.FnSkbStoreBytes, asm.FnSkbPullData, asm.FnL3CsumReplace,
		asm.FnL4CsumReplace, asm.FnCsumUpdate, asm.FnCsumLevel, asm.FnSkbVlanPush, asm.FnSkbVlanPop, asm.FnSkbChangeProto,
		asm.FnSkbChangeTail, asm.FnSkbChangeHead, asm.FnSkbAdjustRoom, asm.FnGetHashRecalc, asm.FnSetHash,
		asm.FnSetHashInvalid, asm.FnSkbEcnSetCe,
	},
	cube.XDP: {
		asm.FnXdpAdjustHead, asm.FnXdpAdjustTail, asm.FnXdpLoadBytes, asm.FnXdpStoreBytes, asm.FnXdpGetBuffLen,
	},
}

const sendInstead = "return pcn_pkt_send(ctx, md, port), in a transparent cube pcn_pkt_redirect(ctx, md, output)"

// instead is what to use instead of something that is not allowed.
var instead = map[asm.BuiltinFunc]string{
	asm.FnRedirect:        sendInstead,
	asm.FnRedirectMap:     sendInstead,
	asm.FnRedirectPeer:    sendInstead,
	asm.FnRedirectNeigh:   sendInstead,
	asm.FnCloneRedirect:   "return pcn_pkt_flood(ctx, md), or send copies from the slow path",
	asm.FnTailCall:        "return pcn_call_program(ctx, md, index)",
	asm.FnTracePrintk:     "use pcn_log(ctx, LOG_DEBUG, ...)",
	asm.FnTraceVprintk:    "use pcn_log(ctx, LOG_DEBUG, ...)",
	asm.FnPerfEventOutput: "use pcn_ring_packet, pcn_notify or pcn_pkt_copy",
	asm.FnXdpAdjustMeta:   "use the words md->md",
	asm.FnLoop:            "write a loop with a bound",
	asm.FnForEachMapElem:  "let the service go through the map",
	asm.FnTimerInit:       "let the service keep the time",
	asm.FnSpinLock:        "use __sync_fetch_and_add, or a map with a value for each CPU",
}

// mapTypes are the allowed map types.
var mapTypes = []ebpf.MapType{
	ebpf.Hash, ebpf.Array, ebpf.PerCPUHash, ebpf.PerCPUArray, ebpf.LRUHash, ebpf.LRUCPUHash, ebpf.LPMTrie, ebpf.Queue,
	ebpf.Stack, ebpf.BloomFilter, ebpf.ArrayOfMaps, ebpf.HashOfMaps, ebpf.RingBuf,
}

// Flags of maps, as in <linux/bpf.h>.
const (
	flagNoPrealloc  = 1 << 0
	flagNoCommonLRU = 1 << 1
	flagRdonlyProg  = 1 << 7
	flagWronlyProg  = 1 << 8
	flagMmapable    = 1 << 10
	flagInnerMap    = 1 << 12
	mapFlags        = flagNoPrealloc | flagNoCommonLRU | flagRdonlyProg | flagWronlyProg | flagMmapable | flagInnerMap
)

// licences that allow linking a program with the framework.
var licences = []string{"GPL", "GPL v2", "GPL and additional rights", "Dual BSD/GPL", "Dual MIT/GPL", "Dual MPL/GPL"}

// Check checks compiled programs from outside the daemon, by hook.
func Check(objects map[cube.Hook][]byte) error {
	if len(objects) == 0 {
		return fmt.Errorf("no programs: %w", cube.ErrInvalid)
	}
	for _, h := range slices.Sorted(maps.Keys(objects)) {
		if err := checkObject(h, objects[h]); err != nil {
			return fmt.Errorf("%s object: %w", h, err)
		}
	}
	return nil
}

func checkObject(h cube.Hook, file []byte) (err error) {
	if len(file) > MaxObject {
		return fmt.Errorf("it has %d bytes, the limit is %d: %w", len(file), MaxObject, cube.ErrInvalid)
	}
	// The ELF reader was written for trusted files: whatever it does with this one, the daemon must continue.
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("cannot be read (%v): %w", cause, cube.ErrInvalid)
		}
	}()
	if err := checkSections(file); err != nil {
		return err
	}
	spec, err := ebpf.LoadCollectionSpecFromReader(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("read it: %w: %w", err, cube.ErrInvalid)
	}
	if err := checkMaps(spec.Maps); err != nil {
		return err
	}
	return checkPrograms(h, spec)
}

// checkSections refuses a file whose sections expand to more than its size.
func checkSections(file []byte) error {
	f, err := elf.NewFile(bytes.NewReader(file))
	if err != nil {
		return fmt.Errorf("read it: %w: %w", err, cube.ErrInvalid)
	}
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_COMPRESSED != 0 {
			return fmt.Errorf("section %.80q is compressed: %w", s.Name, cube.ErrInvalid)
		}
	}
	return nil
}

func checkPrograms(h cube.Hook, spec *ebpf.CollectionSpec) error {
	if len(spec.Programs) > maxPrograms {
		return fmt.Errorf("it has %d programs, the limit is %d: %w", len(spec.Programs), maxPrograms, cube.ErrInvalid)
	}
	want, total := ebpf.SchedCLS, 0
	if h == cube.XDP {
		want = ebpf.XDP
	}
	for _, name := range slices.Sorted(maps.Keys(spec.Programs)) {
		p := spec.Programs[name]
		total += len(p.Instructions)
		var err error
		switch {
		case total > maxInstructions:
			err = fmt.Errorf("with it, the programs have more than %d instructions: %w", maxInstructions, cube.ErrInvalid)
		case p.Type != want || p.SectionName != h.String() && p.SectionName != h.String()+"/"+name:
			err = fmt.Errorf("wrong section %q, use PCN_INGRESS, PCN_EGRESS, PCN_PROGRAM or PCN_FILTER_PROGRAM: %w", p.SectionName, cube.ErrInvalid)
		case p.Flags != 0 || p.AttachTo != "":
			err = fmt.Errorf("it requests special load flags: %w", cube.ErrInvalid)
		case !slices.Contains(licences, p.License):
			err = fmt.Errorf("its licence %.80q cannot be linked with the framework; use PCN_LICENSE: %w", p.License, cube.ErrInvalid)
		default:
			err = checkInstructions(h, spec, p.Instructions)
		}
		if err != nil {
			return fmt.Errorf("program %.80s: %w", name, err)
		}
	}
	return nil
}

// checkInstructions checks each instruction of a program and of the functions that it calls.
func checkInstructions(h cube.Hook, spec *ebpf.CollectionSpec, insns asm.Instructions) error {
	functions, at := map[string]bool{}, ""
	for i := range insns {
		if s := insns[i].Symbol(); s != "" {
			functions[s] = true
		}
	}
	for i := range insns {
		ins := &insns[i]
		if line, ok := ins.Source().(*btf.Line); ok && line.LineNumber() > 0 {
			at = fmt.Sprintf("%.200s:%d: ", line.FileName(), line.LineNumber())
		}
		if err := checkInstruction(h, spec, functions, ins); err != nil {
			return fmt.Errorf("%sinstruction %d: %w", at, i, err)
		}
	}
	return nil
}

func checkInstruction(h cube.Hook, spec *ebpf.CollectionSpec, functions map[string]bool, ins *asm.Instruction) error {
	class := ins.OpCode.Class()
	switch {
	case ins.IsKfuncCall():
		return fmt.Errorf("calls the kernel function %.80q, which foreign programs may not: %w", ins.Reference(), cube.ErrInvalid)
	case ins.IsLoadOfFunctionPointer():
		return fmt.Errorf("takes the address of a function, but foreign programs may not use callbacks: %w", cube.ErrInvalid)
	case ins.OpCode.IsDWordLoad():
		return checkLoad(spec, ins)
	case class == asm.LdClass:
		return fmt.Errorf("uses legacy packet access (BPF_ABS or BPF_IND), which can end the program; use a cursor (pcn_cursor_open): %w", cube.ErrInvalid)
	case class.IsJump() && ins.OpCode.JumpOp() == asm.Call:
		return checkCall(h, functions, ins)
	case class.IsJump() && !isPlainJump(ins):
		return fmt.Errorf("uses a jump instruction (%#x) that foreign programs may not use: %w", uint32(ins.OpCode), cube.ErrInvalid)
	}
	return nil
}

// isPlainJump reports whether the instruction alone determines the target of a jump.
func isPlainJump(ins *asm.Instruction) bool {
	switch op := ins.OpCode.JumpOp(); op {
	case asm.JEq, asm.JGT, asm.JGE, asm.JSet, asm.JNE, asm.JSGT, asm.JSGE, asm.JLT, asm.JLE, asm.JSLT, asm.JSLE, asm.Exit:
		return true
	case asm.Ja:
		return ins.OpCode.Source() == asm.ImmSource
	default:
		return false
	}
}

// checkLoad lets a program load numbers and its own maps. Everything else is an address in the kernel.
func checkLoad(spec *ebpf.CollectionSpec, ins *asm.Instruction) error {
	switch name := ins.Reference(); {
	case ins.IsConstantLoad(asm.DWord) && name == "":
		return nil
	case ins.IsLoadFromMap() && name != "" && spec.Maps[name] != nil:
		return checkConstant(spec, name, uint32(uint64(ins.Constant)>>32))
	case ins.IsLoadFromMap() && name == "":
		return fmt.Errorf("refers to a map by number; declare maps with PCN_MAP: %w", cube.ErrInvalid)
	default:
		return fmt.Errorf("refers to the kernel symbol %.80q, which foreign programs may not: %w", name, cube.ErrInvalid)
	}
}

// checkConstant refuses to load the constant that lets a program send by any netdev of the host, and what is beyond those of a
// section, where the next section is.
func checkConstant(spec *ebpf.CollectionSpec, section string, offset uint32) error {
	if offset > 0 && offset >= spec.Maps[section].ValueSize {
		return fmt.Errorf("loads what is beyond %.80s: %w", section, cube.ErrInvalid)
	}
	if v := spec.Variables["pcn_netdevs"]; v != nil && v.SectionName == section && offset >= v.Offset && offset < v.Offset+v.Size() {
		return fmt.Errorf("calls pcn_pkt_redirect_netdev or pcn_pkt_redirect_neigh, which foreign programs may not; %s: %w", sendInstead, cube.ErrInvalid)
	}
	return nil
}

func checkCall(h cube.Hook, functions map[string]bool, ins *asm.Instruction) error {
	if ins.IsFunctionCall() {
		if !functions[ins.Reference()] {
			return fmt.Errorf("calls %.80q, which is not in the object: %w", ins.Reference(), cube.ErrInvalid)
		}
		return nil
	}
	if !ins.IsBuiltinCall() {
		return fmt.Errorf("is an unknown kind of call: %w", cube.ErrInvalid)
	}
	fn := asm.BuiltinFunc(uint32(ins.Constant))
	if slices.Contains(helpers, fn) || slices.Contains(hookHelpers[h], fn) {
		return nil
	}
	for other, list := range hookHelpers {
		if slices.Contains(list, fn) {
			return fmt.Errorf("calls %s, which is only for programs at %s: %w", helperName(fn), other, cube.ErrInvalid)
		}
	}
	if hint := instead[fn]; hint != "" {
		return fmt.Errorf("calls %s, which foreign programs may not; %s: %w", helperName(fn), hint, cube.ErrInvalid)
	}
	return fmt.Errorf("calls %s, which foreign programs may not: %w", helperName(fn), cube.ErrInvalid)
}

// helperName is the name in C: FnMapLookupElem is bpf_map_lookup_elem.
func helperName(fn asm.BuiltinFunc) string {
	name, ok := strings.CutPrefix(fn.String(), "Fn")
	if !ok {
		return fmt.Sprintf("helper %d", uint32(fn))
	}
	var b strings.Builder
	b.WriteString("bpf")
	for _, r := range name {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}
