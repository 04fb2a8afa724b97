// SPDX-License-Identifier: Apache-2.0

package link

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strings"

	"github.com/cilium/ebpf/asm"
)

// Functions of headers that depend on nothing of a cube are the same in all cubes that include them. A program has one copy
// of such a function, however many cubes call it, so the verifier checks it once: the search of rules, for example, takes
// more of the verifier's time than all of the rest of a cube. Of the others, it has one copy for each cube, whatever the
// direction of its programs, unless they call the framework, which must know that.

// commonTag is the tag of PCN_MAP_SHARED. The maps of a namespace are the same for all cubes.
const commonTag = "pcn_shared:"

// commonPlace returns the namespace and the name of a map that all cubes share; "" for any other map.
func (o *Object) commonPlace(name string) string {
	spec := o.Maps[name]
	if spec == nil {
		return ""
	}
	for _, tag := range spec.Tags {
		if space, ok := strings.CutPrefix(tag, commonTag); ok {
			return space + "/" + name
		}
	}
	return ""
}

// addCommon finds the functions of which a program has one copy among those that the object's programs call.
func (o *Object) addCommon() {
	for _, f := range o.Functions {
		f.Common, f.Undirected = map[string]string{}, map[string]bool{}
		for name := range f.Callees {
			if symbol := o.commonSymbol(f, name); symbol != "" {
				f.Common[name] = symbol
			}
			f.Undirected[name] = !slices.ContainsFunc(reached(f.Callees, name), isStub)
		}
	}
}

// isStub reports whether the linker binds a function to one of the framework, with the caller's identity.
func isStub(function string) bool {
	_, ok := stubs[function]
	return ok
}

// commonSymbol returns the symbol of a common function, "" for any other function. It is different for functions that
// differ, themselves or in what they call: cubes may be compiled with different versions of a header.
func (o *Object) commonSymbol(f *Function, name string) string {
	hash, buf := fnv.New64a(), []byte(nil)
	names := reached(f.Callees, name)
	for _, n := range names {
		body := f.Callees[n]
		if isStub(n) || body == nil {
			return ""
		}
		fmt.Fprintf(hash, "%s %d\n", n, len(body))
		for i := range body {
			ins := &body[i]
			constant := ins.Constant
			if ins.IsLoadFromMap() {
				place := o.commonPlace(ins.Reference())
				if place == "" {
					return ""
				}
				fmt.Fprintf(hash, "map %s %s\n", place, o.Maps[ins.Reference()])
			}
			if ins.IsFunctionReference() {
				constant = 0 // a distance
			}
			buf = binary.NativeEndian.AppendUint64(buf[:0], uint64(ins.OpCode)<<32|uint64(ins.Dst)<<24|uint64(ins.Src)<<16|uint64(uint16(ins.Offset)))
			buf = binary.NativeEndian.AppendUint64(buf, uint64(constant))
			buf = append(append(buf, ins.Reference()...), '\n')
			_, _ = hash.Write(buf)
		}
	}
	return fmt.Sprintf("common_%s_%016x", name, hash.Sum64())
}

// reached lists a function and those that it calls, directly or not, in a fixed order.
func reached(functions map[string]asm.Instructions, name string) []string {
	seen := map[string]bool{name: true}
	for work := []string{name}; len(work) > 0; work = work[1:] {
		for _, next := range functions[work[0]].FunctionReferences() {
			if !seen[next] {
				seen[next] = true
				work = append(work, next)
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// commonMaps returns the maps that all cubes of the component share, by place. Each cube has its own descriptor of them.
func (c *Component) commonMaps() map[string]asm.FDer {
	out := map[string]asm.FDer{}
	for _, lc := range c.Cubes {
		for name, m := range lc.Maps {
			for _, o := range lc.objects() {
				place := o.commonPlace(name)
				if _, ok := out[place]; place != "" && !ok {
					out[place] = m
				}
			}
		}
	}
	return out
}

// objects are those of a cube's programs.
func (c *Cube) objects() []*Object {
	var out []*Object
	for _, dir := range c.Programs {
		for _, p := range dir {
			if !slices.Contains(out, p.Object) {
				out = append(out, p.Object)
			}
		}
	}
	if c.Object != nil && !slices.Contains(out, c.Object) {
		out = append(out, c.Object)
	}
	return out
}
