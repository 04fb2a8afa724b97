// SPDX-License-Identifier: Apache-2.0

// Loading a service: its module and its imports become one libyang context, because two services may use the same
// names.

package yang

// #include <stdlib.h>
// #include "libyang.h"
import "C"

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"unsafe"

	"github.com/polycube/polycube/internal/bulk"
	"github.com/polycube/polycube/internal/fault"
	"github.com/polycube/polycube/internal/yang/moduletext"
	models "github.com/polycube/polycube/yang"
)

// Groupings that make a service standard or transparent.
const (
	standardGrouping    = "standard-base-yang-module"
	transparentGrouping = "transparent-base-yang-module"
)

// Info is the description of a service in its model.
type Info struct {
	// Name is the service's name in URLs.
	Name string
	// Description is one line, for help.
	Description string
	// Version is the version of the model.
	Version string
	// MinKernel is the oldest kernel on which the service works.
	MinKernel string
	// Transparent distinguishes transparent services from standard ones.
	Transparent bool
	// Namespace is the module's namespace.
	Namespace string
	// Module is the module's name.
	Module string
	// Text is the text of the module as loaded.
	Text string
}

// Schema is the model of one service, in its own libyang context. It is safe for concurrent use, until Close.
type Schema struct {
	ctx    *C.struct_ly_ctx
	module *C.struct_lys_module
	root   *Node
	info   Info
	nodes  map[uintptr]*Node
	// conditional tells that validation may delete entries of a list, because the list or an ancestor has a when or is
	// in a choice. The diff does not have their order.
	conditional bool
	// bulk are the lists that are kept separately.
	bulk []*Node
	// forms are what the tables of these lists have in common, by the path of the list.
	forms map[string]*bulk.Form
}

// Load compiles the text of a service module. The modules that it imports come from package models and from libyang
// itself, never from the file system.
func Load(serviceModule string) (*Schema, error) {
	if err := moduletext.Check(serviceModule); err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	initialise()
	sources, free, err := imports()
	if err != nil {
		return nil, fmt.Errorf("load model: %w", err)
	}
	defer free()
	text := C.CString(serviceModule)
	defer C.free(unsafe.Pointer(text))

	s := &Schema{nodes: make(map[uintptr]*Node), forms: make(map[string]*bulk.Form)}
	var e C.struct_pcn_err
	var ctx *C.struct_ly_ctx
	var module *C.struct_lys_module
	code := C.pcn_load(sources, text, &ctx, &module, &e)
	s.ctx, s.module = ctx, module
	if err := takeError(code, &e); err != nil {
		return nil, fmt.Errorf("load model: %w", describeLoad(err))
	}
	if err := s.build(serviceModule); err != nil {
		s.Close()
		return nil, fmt.Errorf("load model: %w", err)
	}
	return s, nil
}

// Bound limits how many entries of a list of the cube are read from one body: a body with more is refused as soon as
// that is known.
func (s *Schema) Bound(list string, entries int) {
	if n := s.root.Child(list); n != nil {
		n.bound = entries
	}
}

// describeLoad adds the location to an error of libyang's parser.
func describeLoad(err error) error {
	var native *nativeError
	if errors.As(err, &native) && native.path != "" {
		return fmt.Errorf("%w (%s)", err, strings.TrimSuffix(native.path, "."))
	}
	return err
}

// Close frees the model. All trees must be closed before.
func (s *Schema) Close() {
	if s.ctx != nil {
		C.ly_ctx_destroy(s.ctx)
		s.ctx, s.module = nil, nil
	}
}

// Service returns what the model says about the service.
func (s *Schema) Service() Info { return s.info }

// Root returns the node of a cube: its children are the base members, then the service's own.
func (s *Schema) Root() *Node { return s.root }

// build copies the compiled model into Go.
func (s *Schema) build(text string) error {
	s.info = Info{
		Module:    C.GoString(s.module.name),
		Namespace: goString(s.module.ns),
		Text:      text,
	}
	s.info.Name = s.info.Module
	each(func(i C.size_t, name, owner **C.char) *C.char { return C.pcn_module_ext(s.module, i, name, owner) },
		func(name, arg string) {
			switch name {
			case "service-name":
				s.info.Name = arg
			case "service-description":
				s.info.Description = arg
			case "service-version":
				s.info.Version = arg
			case "service-min-kernel-version":
				s.info.MinKernel = arg
			}
		})
	var bases []string
	for i := C.size_t(0); ; i++ {
		used := C.pcn_uses(s.module, i)
		if used == nil {
			break
		}
		if name := fault.Bare(C.GoString(used)); name == standardGrouping || name == transparentGrouping {
			bases = append(bases, name)
		}
	}
	if len(bases) != 1 {
		return fmt.Errorf("module %s: must use exactly one of %s and %s, uses %d", s.info.Module, standardGrouping,
			transparentGrouping, len(bases))
	}
	s.info.Transparent = bases[0] == transparentGrouping
	return s.walk()
}

// each calls f for all of our extensions that next returns.
func each(next func(i C.size_t, name, owner **C.char) *C.char, f func(name, arg string)) {
	for i := C.size_t(0); ; i++ {
		var name, owner *C.char
		arg := next(i, &name, &owner)
		if arg == nil {
			return
		}
		if C.GoString(owner) == "polycube-base" {
			f(C.GoString(name), C.GoString(arg))
		}
	}
}

// imports passes the embedded modules to C; free must be called after the load.
func imports() (*C.struct_pcn_sources, func(), error) {
	names, err := fs.Glob(models.FS, "*.yang")
	if err != nil {
		return nil, nil, fmt.Errorf("list base modules: %w", err)
	}
	var list *C.struct_pcn_source
	memory := C.calloc(C.size_t(len(names)+1), C.size_t(unsafe.Sizeof(*list)))
	set := (*C.struct_pcn_sources)(C.calloc(1, C.size_t(unsafe.Sizeof(C.struct_pcn_sources{}))))
	set.list = (*C.struct_pcn_source)(memory)
	entries := unsafe.Slice(set.list, len(names)+1)
	free := func() {
		for _, e := range entries {
			C.free(unsafe.Pointer(e.name))
			C.free(unsafe.Pointer(e.text))
		}
		C.free(memory)
		C.free(unsafe.Pointer(set))
	}
	for i, name := range names {
		text, err := fs.ReadFile(models.FS, name)
		if err != nil {
			free()
			return nil, nil, fmt.Errorf("read base module %s: %w", name, err)
		}
		entries[i].name = C.CString(strings.TrimSuffix(name, ".yang"))
		entries[i].text = C.CString(string(text))
		set.count++
	}
	return set, free, nil
}
