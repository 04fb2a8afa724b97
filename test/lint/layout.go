// SPDX-License-Identifier: Apache-2.0

package lint

// Where files are: each cube has the same files, and nothing that is built is
// tracked.

import (
	"bytes"
	"path"
	"strings"

	"github.com/polycube/polycube/test/lint/readme"
)

// Generated reports tracked files that the build generates.
func Generated(t Tree) []Finding {
	var out []Finding
	for _, name := range t.Paths(isGenerated) {
		out = append(out, Finding{Path: name, What: "is built, and tracked",
			Remedy: "git rm --cached it; make generate builds it"})
	}
	return out
}

func isGenerated(name string) bool {
	switch path.Ext(name) {
	case ".o", ".a", ".so", ".test", ".pyc":
		return true
	}
	return layer(name) == "bin" || layer(name) == ".cache" ||
		strings.HasSuffix(name, "_bpfel.go") || strings.HasSuffix(name, "_bpfeb.go")
}

// CubeFiles requires the standard files in every folder of a cube.
func CubeFiles(t Tree) []Finding {
	var out []Finding
	for cube := range cubeNames(t) {
		dir := "cubes/" + cube
		for _, file := range []string{"README.md", cube + ".yang", cube + ".bpf.c", cube + ".go"} {
			if _, ok := t[dir+"/"+file]; !ok {
				out = append(out, Finding{Path: dir, What: file + " is missing",
					Remedy: "add it; CONTRIBUTING.md says what each file of a cube holds"})
			}
		}
		tests := t.Paths(func(n string) bool { return path.Dir(n) == dir && isGoTest(n) })
		if len(tests) == 0 {
			out = append(out, Finding{Path: dir, What: "has no test", Remedy: "add a _test.go in which every leaf changes something"})
		}
	}
	return out
}

// Examples requires testable examples in the README of every cube.
func Examples(t Tree) []Finding {
	const remedy = "show commands and their output in a block marked console, as package test/lint/readme reads them"
	var out []Finding
	for cube := range cubeNames(t) {
		name := "cubes/" + cube + "/README.md"
		text, ok := t[name]
		if !ok {
			continue // CubeFiles reports it
		}
		examples, err := readme.Parse(bytes.NewReader(text))
		switch {
		case err != nil:
			out = append(out, Finding{Path: name, What: err.Error(), Remedy: remedy})
		case len(examples) == 0:
			out = append(out, Finding{Path: name, What: "has no example", Remedy: remedy})
		}
	}
	return out
}

// cubeNames are the folders of cubes/ but cubes/all, which only lists them.
func cubeNames(t Tree) map[string]bool {
	names := map[string]bool{}
	for name := range t {
		parts := strings.Split(name, "/")
		if len(parts) > 2 && parts[0] == "cubes" && parts[1] != "all" {
			names[parts[1]] = true
		}
	}
	return names
}
