// SPDX-License-Identifier: Apache-2.0

package lint

// Imports point one way: cmd → internal → cube ← cubes. A cube that imports the daemon, or another cube, could not be
// moved out of the tree.

import (
	"fmt"
	"go/parser"
	"path"
	"slices"
	"strconv"
	"strings"
)

// cgoHomes are the packages that may use cgo, by the library that each wraps.
var cgoHomes = map[string]string{"internal/yang": "libyang", "internal/ndpi": "libndpi, for polycube-ndpi alone"}

// parts are the packages that cubes share, each at the top level.
var parts = []string{"aging", "bypass", "classifier", "conntrack", "counter", "dpi", "fdb", "feedback", "gtppath", "gtpu", "haproxy", "health", "inet", "ipset", "memory", "neigh", "pdusession", "probe", "sdf", "wire"}

// ImportDirection reports imports inside the module that go against the layers.
// Tests may use the helpers under test/, and those of the daemon may use cubes.
func ImportDirection(t Tree) []Finding {
	var out []Finding
	eachImport(t, func(name string, line int, imported string) {
		target, ok := strings.CutPrefix(imported, Module+"/")
		if !ok {
			return
		}
		if why := importError(name, target); why != "" {
			out = append(out, Finding{name, line, fmt.Sprintf("imports %s: %s", target, why),
				"turn the dependency round: let the contract in cube/ carry what both sides need"})
		}
	})
	return out
}

// importError returns why a file may not import a package of the module; empty if it may.
func importError(file, target string) string {
	from, to := layer(path.Dir(file)), layer(target)
	switch {
	case to == "cmd":
		return "a program is not a library"
	case to == "test" && from != "test" && !isGoTest(file):
		return "test helpers do not ship"
	case from == "cube" && (to == "internal" || to == "cubes"):
		return "the contract knows neither the daemon nor the cubes"
	case slices.Contains(parts, from) && (to == "internal" || to == "cubes"):
		return "a part that cubes share knows neither the daemon nor the cubes"
	case from == "cubes" && to == "internal":
		return "a cube knows the contract in cube/ and nothing of the daemon"
	case from == "cubes" && to == "cubes" && !sameCube(path.Dir(file), target):
		return "a cube knows no other cube"
	case from == "internal" && to == "cubes" && !isGoTest(file):
		return "the daemon learns of cubes from the registry"
	}
	return ""
}

// layer is the first folder of a path.
func layer(dir string) string {
	first, _, _ := strings.Cut(dir, "/")
	return first
}

// sameCube reports whether two packages belong to one cube; cubes/all belongs to each.
func sameCube(dir, target string) bool {
	name := func(p string) string { return strings.SplitN(p+"//", "/", 3)[1] }
	return name(dir) == name(target) || name(dir) == "all"
}

// Cgo reports cgo outside its packages.
func Cgo(t Tree) []Finding {
	var out []Finding
	eachImport(t, func(name string, line int, imported string) {
		if imported == "C" && cgoHomes[path.Dir(name)] == "" {
			out = append(out, Finding{name, line, "uses cgo",
				"call libyang through internal/yang, and libndpi through internal/ndpi; everything else is pure Go"})
		}
	})
	return out
}

func eachImport(t Tree, visit func(name string, line int, imported string)) {
	for _, name := range t.Paths(isGo) {
		fset, file, _ := parseGo(name, t[name], parser.ImportsOnly)
		if file == nil {
			continue // GoFunctionLength and the compiler report it
		}
		for _, spec := range file.Imports {
			if imported, err := strconv.Unquote(spec.Path.Value); err == nil {
				visit(name, fset.Position(spec.Pos()).Line, imported)
			}
		}
	}
}
