// SPDX-License-Identifier: Apache-2.0

package foreign

// Changes to a compiled object, so that it can be one of several of a cube: its maps and functions get other names, and its
// constants values. The file is written again, without the parts that only a debugger reads.

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/polycube/polycube/cube"
)

// Changes are those of Rewrite.
type Changes struct {
	// Maps are new names of maps, and Functions those of functions, by their names.
	Maps, Functions map[string]string
	// Constants are values of constants (PCN_CONFIG) by name, as their bytes.
	Constants map[string][]byte
}

// ErrRewrite marks an object that cannot be changed. It is a kind of cube.ErrInvalid.
var ErrRewrite error = rewriteError{}

type rewriteError struct{}

func (rewriteError) Error() string { return "not an object that can be changed" }

func (rewriteError) Is(target error) bool { return target == cube.ErrInvalid }

// Rewrite returns a changed copy of an object that Check accepts. Names that the object does not have are left out.
func Rewrite(object []byte, c Changes) (out []byte, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			out, err = nil, fmt.Errorf("%w: %v", ErrRewrite, cause)
		}
	}()
	w, err := newRewriter(object)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRewrite, err)
	}
	if err := errors.Join(w.symbols(c), w.types(c)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRewrite, err)
	}
	return w.file()
}

// Layout of ELF64 files.
const (
	headerSize    = 64
	sectionSize   = 64
	symbolSize    = 24
	headerShoff   = 0x28
	headerShnum   = 0x3c
	symbolInfo    = 4
	symbolSection = 6
	symbolValue   = 8
	symbolLength  = 16
)

// rewriter holds the sections of an object.
type rewriter struct {
	header   []byte
	headers  [][]byte // of sections
	names    []string
	contents [][]byte
}

var order = binary.LittleEndian

func newRewriter(object []byte) (*rewriter, error) {
	f, err := elf.NewFile(bytes.NewReader(object))
	if err != nil {
		return nil, err
	}
	if f.Class != elf.ELFCLASS64 || f.Data != elf.ELFDATA2LSB || len(object) < headerSize {
		return nil, errors.New("want a little-endian ELF64 file")
	}
	w := &rewriter{header: bytes.Clone(object[:headerSize])}
	at := order.Uint64(object[headerShoff:])
	for i, s := range f.Sections {
		w.headers = append(w.headers, bytes.Clone(object[at+uint64(i)*sectionSize:][:sectionSize]))
		w.names = append(w.names, s.Name)
		var content []byte
		if s.Type != elf.SHT_NOBITS && s.Type != elf.SHT_NULL {
			content = bytes.Clone(object[s.Offset:][:s.Size])
		}
		w.contents = append(w.contents, content)
	}
	return w, nil
}

// section returns the index of a section, -1 for none.
func (w *rewriter) section(name string) int {
	for i, n := range w.names {
		if n == name {
			return i
		}
	}
	return -1
}

func (w *rewriter) kind(section int) elf.SectionType {
	return elf.SectionType(order.Uint32(w.headers[section][4:]))
}

// symbols changes names and values in the table of symbols.
func (w *rewriter) symbols(c Changes) error {
	for i := range w.headers {
		if w.kind(i) != elf.SHT_SYMTAB {
			continue
		}
		text := int(order.Uint32(w.headers[i][40:])) // sh_link
		for at := 0; at+symbolSize <= len(w.contents[i]); at += symbolSize {
			s := w.contents[i][at:][:symbolSize]
			name, section := stringAt(w.contents[text], order.Uint32(s)), int(order.Uint16(s[symbolSection:]))
			if section == 0 || section >= len(w.names) {
				continue
			}
			next := ""
			switch {
			case elf.ST_TYPE(s[symbolInfo]) == elf.STT_FUNC:
				next = c.Functions[name]
			case w.names[section] == ".maps":
				next = c.Maps[name]
			case c.Constants[name] != nil && strings.HasPrefix(w.names[section], ".rodata"):
				if value := c.Constants[name]; order.Uint64(s[symbolLength:]) != uint64(len(value)) {
					return fmt.Errorf("constant %s has %d bytes, not %d", name, order.Uint64(s[symbolLength:]), len(value))
				}
				copy(w.contents[section][order.Uint64(s[symbolValue:]):][:len(c.Constants[name])], c.Constants[name])
			}
			if next != "" {
				order.PutUint32(s, w.addString(text, next))
			}
		}
	}
	return nil
}

// addString appends a string to a section of strings.
func (w *rewriter) addString(section int, s string) uint32 {
	at := len(w.contents[section])
	w.contents[section] = append(append(w.contents[section], s...), 0)
	return uint32(at)
}

func stringAt(text []byte, at uint32) string {
	name, _, _ := bytes.Cut(text[at:], []byte{0})
	return string(name)
}

// Layout of BTF: struct btf_header and struct btf_type of <linux/btf.h>.
const (
	btfMagic      = 0xeb9f
	btfHeaderSize = 24
	btfTypeSize   = 12
	kindFunc      = 12
	kindVar       = 14
)

// trailing returns the bytes that follow a struct btf_type of a kind, with a number of members.
func trailing(kind, members uint32) (int, bool) {
	switch kind {
	case 1, 14, 17: // INT, VAR, DECL_TAG
		return 4, true
	case 2, 7, 8, 9, 10, 11, 12, 16, 18: // PTR, FWD, TYPEDEF, qualifiers, FUNC, FLOAT, TYPE_TAG
		return 0, true
	case 3: // ARRAY
		return 12, true
	case 4, 5, 15, 19: // STRUCT, UNION, DATASEC, ENUM64
		return 12 * int(members), true
	case 6, 13: // ENUM, FUNC_PROTO
		return 8 * int(members), true
	}
	return 0, false
}

// types changes names in the BTF.
func (w *rewriter) types(c Changes) error {
	at := w.section(".BTF")
	if at < 0 {
		return errors.New("it has no BTF; compile it with -g")
	}
	raw := w.contents[at]
	if len(raw) < btfHeaderSize || order.Uint16(raw) != btfMagic {
		return errors.New("its BTF is malformed")
	}
	size := order.Uint32(raw[4:])
	types := raw[size+order.Uint32(raw[8:]):][:order.Uint32(raw[12:])]
	text := bytes.Clone(raw[size+order.Uint32(raw[16:]):][:order.Uint32(raw[20:])])
	for len(types) >= btfTypeSize {
		info := order.Uint32(types[4:])
		kind := info >> 24 & 0x1f
		more, ok := trailing(kind, info&0xffff)
		if !ok {
			return fmt.Errorf("its BTF has a type of the unknown kind %d", kind)
		}
		names := map[uint32]map[string]string{kindFunc: c.Functions, kindVar: c.Maps}[kind]
		if next := names[stringAt(text, order.Uint32(types))]; next != "" {
			order.PutUint32(types, uint32(len(text)))
			text = append(append(text, next...), 0)
		}
		types = types[btfTypeSize+more:]
	}
	// The strings move behind everything else: their old place is left as it is.
	order.PutUint32(raw[16:], uint32(len(raw))-size)
	order.PutUint32(raw[20:], uint32(len(text)))
	w.contents[at] = append(raw, text...)
	return nil
}

// file returns the object.
func (w *rewriter) file() ([]byte, error) {
	out := bytes.Clone(w.header)
	for i, content := range w.contents {
		h := w.headers[i]
		if debugs(w.names[i]) {
			clear(h[4:])
			continue
		}
		if w.kind(i) == elf.SHT_NULL || w.kind(i) == elf.SHT_NOBITS {
			continue
		}
		for len(out)%16 != 0 {
			out = append(out, 0)
		}
		order.PutUint64(h[0x18:], uint64(len(out)))
		order.PutUint64(h[0x20:], uint64(len(content)))
		out = append(out, content...)
	}
	for len(out)%16 != 0 {
		out = append(out, 0)
	}
	order.PutUint64(out[headerShoff:], uint64(len(out)))
	for _, h := range w.headers {
		out = append(out, h...)
	}
	if _, err := elf.NewFile(bytes.NewReader(out)); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRewrite, err)
	}
	return out, nil
}

// debugs reports whether a section is of use for a debugger alone.
func debugs(name string) bool {
	return strings.HasPrefix(name, ".debug") || strings.HasPrefix(name, ".rel.debug") || name == ".llvm_addrsig" || name == ".rel.llvm_addrsig"
}
