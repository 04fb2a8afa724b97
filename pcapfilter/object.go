// SPDX-License-Identifier: Apache-2.0

package pcapfilter

// Compiled filters as a part of a compiled object. Each function that is replaced is alone in its section, so only that
// section, its relocations and the size of its symbol change: the new ones are appended to the file.

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
)

// Action is what a program does with packets that pass its filter: it calls the function of that C name,
//
//	PCN_GLOBAL int function(struct CTXTYPE *ctx, __u32 first, __u32 second)
//
// with two numbers.
type Action struct {
	Function      string
	First, Second uint32
}

// ErrObject marks an object without the programs that Object would write. It is a mistake of the cube, not of its user.
var ErrObject = errors.New("the object cannot have filters")

// Object returns a copy of a compiled object (ELF) for a hook, in which programs that are declared with PCN_FILTER_PROGRAM
// run the filter, by C name. A nil filter passes all packets. The copy is for Program.Objects of package cube.
func (f *Filter) Object(object []byte, hook cube.Hook, programs map[string]Action) ([]byte, error) {
	file, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrObject, err)
	}
	symbols, err := file.Symbols()
	if err != nil {
		return nil, fmt.Errorf("%w: symbols: %w", ErrObject, err)
	}
	e := editor{file: file, symbols: symbols, out: slices.Clone(object)}
	if f != nil {
		if err := e.replace(functionAny, f.EBPF(functionAny, Calls{Load: "pcn_filter_field", Length: "pcn_filter_length"})); err != nil {
			return nil, err
		}
	}
	for name, then := range programs {
		if err := e.replace(name, f.program(hook, name, then)); err != nil {
			return nil, err
		}
	}
	return e.out, nil
}

// Sizes and offsets in a file of ELF64.
const (
	headerSections   = 0x28 // e_shoff
	headerEntrySize  = 0x3a // e_shentsize
	sectionOffset    = 0x18 // sh_offset, followed by sh_size
	symbolSize       = 24
	symbolSizeMember = 16 // st_size
	relocation       = 10 // R_BPF_64_32, a call
)

// editor changes an object.
type editor struct {
	file    *elf.File
	symbols []elf.Symbol
	out     []byte
}

// replace replaces the code of a function.
func (e *editor) replace(name string, code asm.Instructions) error {
	index, symbol := e.symbol(name)
	if symbol == nil || int(symbol.Section) >= len(e.file.Sections) {
		return fmt.Errorf("%w: no PCN_FILTER_PROGRAM(%s)", ErrObject, name)
	}
	section := e.file.Sections[symbol.Section]
	if symbol.Value != 0 || symbol.Size != section.Size {
		return fmt.Errorf("%w: %s is not alone in its section", ErrObject, name)
	}
	relocations, err := e.relocate(code)
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrObject, name, err)
	}
	var text bytes.Buffer
	if err := code.Marshal(&text, e.file.ByteOrder); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrObject, name, err)
	}
	e.put(int(symbol.Section), text.Bytes())
	table := slices.IndexFunc(e.file.Sections, func(s *elf.Section) bool { return s.Type == elf.SHT_SYMTAB })
	at := e.file.Sections[table].Offset + uint64(index)*symbolSize + symbolSizeMember
	e.file.ByteOrder.PutUint64(e.out[at:], uint64(text.Len()))
	for i, s := range e.file.Sections {
		if s.Type == elf.SHT_REL && s.Info == uint32(symbol.Section) {
			e.put(i, relocations)
			return nil
		}
	}
	return fmt.Errorf("%w: %s has no relocations", ErrObject, name)
}

// symbol finds a function, with its index in the table of symbols.
func (e *editor) symbol(name string) (index int, s *elf.Symbol) {
	i := slices.IndexFunc(e.symbols, func(s elf.Symbol) bool { return s.Name == name && elf.ST_TYPE(s.Info) == elf.STT_FUNC })
	if i < 0 {
		return 0, nil
	}
	return i + 1, &e.symbols[i] // the first one of the table is null, and left out
}

// relocate makes calls of other functions relocations.
func (e *editor) relocate(code asm.Instructions) ([]byte, error) {
	var out bytes.Buffer
	var offset uint64
	for i := range code {
		ins := &code[i]
		if ins.IsFunctionReference() {
			index, symbol := e.symbol(ins.Reference())
			if symbol == nil {
				return nil, fmt.Errorf("no function %s", ins.Reference())
			}
			entry := []uint64{offset, uint64(index)<<32 | relocation}
			if err := binary.Write(&out, e.file.ByteOrder, entry); err != nil {
				return nil, err
			}
			*ins = ins.WithReference("")
		}
		offset += ins.Size()
	}
	return out.Bytes(), nil
}

// put appends the content of a section, and moves the section there.
func (e *editor) put(section int, content []byte) {
	order := e.file.ByteOrder
	for len(e.out)%8 != 0 {
		e.out = append(e.out, 0)
	}
	header := order.Uint64(e.out[headerSections:]) + uint64(section)*uint64(order.Uint16(e.out[headerEntrySize:]))
	order.PutUint64(e.out[header+sectionOffset:], uint64(len(e.out)))
	order.PutUint64(e.out[header+sectionOffset+8:], uint64(len(content)))
	e.out = append(e.out, content...)
}
