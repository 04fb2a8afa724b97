// SPDX-License-Identifier: Apache-2.0

package link

import (
	"fmt"
	"path"
	"strings"

	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/btf"
)

// A linked program contains the code of many authors. If the kernel refuses it, the error names the author of the
// offending instruction, so the linker marks where each one's code begins.

// Origin is the author of an instruction. Without a cube it is the framework: one of its functions, or the driver.
type Origin struct {
	Cube, Service string
	// Function is the name in the source, not that of the copy.
	Function string
}

// driverName is the function with the linker's own code.
const driverName = "pcn_driver"

// Framework reports whether the code is the framework's.
func (o Origin) Framework() bool { return o.Cube == "" }

type originKey struct{}

// from marks an instruction as the first of an origin.
func from(ins asm.Instruction, o Origin) asm.Instruction {
	ins.Metadata.Set(originKey{}, o)
	return ins
}

// origin returns the origin of a site's function.
func (s site) origin(function string) Origin {
	return Origin{Cube: s.cube.Name, Service: s.cube.Service, Function: function}
}

// Line is a line of C.
type Line struct {
	File   string
	Number int
	Text   string
}

// String returns the form that compilers print: file:line.
func (l Line) String() string { return fmt.Sprintf("%s:%d", l.File, l.Number) }

// Place is the origin of an instruction of a linked program.
type Place struct {
	Origin
	// Line has no file if the code was not compiled from C.
	Line Line
	// Caller is the line of the function's own file from which Line, in a header, was inlined, as far as that is
	// known; it has no file if Line is in that file itself.
	Caller Line
	// Subprogram is the index of the function in the program, as the kernel counts them, and Symbol its name there.
	Subprogram int
	Symbol     string
}

// Places returns the place of each instruction of a linked program.
func Places(insns asm.Instructions) []Place {
	out := make([]Place, len(insns))
	at, home := Place{Subprogram: -1}, ""
	for i := range insns {
		fn, o := starts(&insns[i])
		if fn != nil {
			at.Origin, at.Symbol = Origin{Function: fn.Name}, insns[i].Symbol()
			at.Subprogram++
		}
		if o != nil {
			at.Origin = *o
		}
		if fn != nil || o != nil {
			at.Line, at.Caller, home = Line{}, Line{}, homeOf(insns[i:])
		}
		if line, ok := lineOf(&insns[i]); ok {
			switch {
			case line.File == home:
				at.Caller = Line{}
			case at.Line.File == home:
				at.Caller = at.Line
			}
			at.Line = line
		}
		out[i] = at
	}
	return out
}

// starts says what an instruction is the first of: a function, an origin's code, both or neither.
func starts(ins *asm.Instruction) (*btf.Func, *Origin) {
	if o, ok := ins.Metadata.Get(originKey{}).(Origin); ok {
		return btf.FuncMetadata(ins), &o
	}
	return btf.FuncMetadata(ins), nil
}

// lineOf returns the line of C that an instruction begins.
func lineOf(ins *asm.Instruction) (Line, bool) {
	l, ok := ins.Source().(*btf.Line)
	if !ok {
		return Line{}, false
	}
	return Line{File: path.Clean(l.FileName()), Number: int(l.LineNumber()), Text: l.Line()}, true
}

// homeOf returns the file of a function, given its first instruction: the first file that is no header, otherwise the
// first.
func homeOf(insns asm.Instructions) string {
	home := ""
	for i := range insns {
		if fn, o := starts(&insns[i]); i > 0 && (fn != nil || o != nil) {
			break
		}
		if line, ok := lineOf(&insns[i]); ok && (home == "" || !strings.HasSuffix(line.File, ".h")) {
			if home = line.File; !strings.HasSuffix(home, ".h") {
				break
			}
		}
	}
	return home
}
