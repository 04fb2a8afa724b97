// SPDX-License-Identifier: Apache-2.0

package main

// Creates files from a name: everything is rendered before anything is written, so that an invalid name leaves the tree
// unchanged.

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"go/format"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"text/template"

	"github.com/polycube/polycube/internal/commands"
)

//go:embed all:templates
var templates embed.FS

// placeholder is replaced by the cube's name in the file names of templates.
const placeholder = "NAME"

// listing is the file that imports every cube.
const listing = "cubes/all/all.go"

// nameLimit keeps lines that contain the name within the formatter's columns.
const nameLimit = 24

var (
	errNameless = errors.New("it needs a name: NAME=firewall")
	errName     = errors.New("choose another name")
	goodName    = regexp.MustCompile(`^[a-z][a-z0-9]+$`)
)

// words are names with another meaning: on the command line, to the Go tools, or in the headers of the eBPF programs.
var words = append(commands.Reserved(), "all", "main", "internal", "vendor", "testdata", "cube", "pcn")

// checkName returns why a service cannot have a name.
func checkName(root, name string) error {
	switch {
	case name == "":
		return errNameless
	case len(name) > nameLimit || !goodName.MatchString(name):
		return fmt.Errorf("%.80q: a name must have 2 to %d lower-case letters and digits and begin with a letter, because it names "+
			"a YANG module, a Go package and C enums: %w", name, nameLimit, errName)
	case token.IsKeyword(name) || slices.Contains(words, name):
		return fmt.Errorf("%q is reserved by the command line, Go or the framework: %w", name, errName)
	}
	switch _, err := os.Lstat(filepath.Join(root, "cubes", name)); {
	case err == nil:
		return fmt.Errorf("cubes/%s already exists: %w", name, errName)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("look for cubes/%s: %w", name, err)
	}
	return nil
}

// modes are the working modes of hybrid network functions, each with a folder vnf-MODE of templates.
var modes = []string{"proactive", "reactive", "offloading"}

// kind returns the folder of templates for a cube; mode is "none" if it is no hybrid network function.
func kind(transparent bool, mode string) (string, error) {
	switch {
	case mode == "none":
		return ordinary(transparent), nil
	case !slices.Contains(modes, mode):
		return "", fmt.Errorf("%q is no working mode: choose MODE=%s", mode, strings.Join(modes, ", MODE="))
	}
	return "vnf-" + mode, nil
}

// ordinary returns the folder of templates for a cube that is no hybrid network function.
func ordinary(transparent bool) string {
	if transparent {
		return "transparent"
	}
	return "standard"
}

// scaffold writes the cube's folder from the templates of a kind and lists it, and returns the paths of the files it wrote.
func scaffold(root, name, kind string) ([]string, error) {
	if err := checkName(root, name); err != nil {
		return nil, err
	}
	files, err := render(name, kind)
	if err != nil {
		return nil, err
	}
	list := filepath.Join(root, filepath.FromSlash(listing))
	all, err := os.ReadFile(list)
	if err != nil {
		return nil, fmt.Errorf("read the list of cubes: %w", err)
	}
	if all, err = enlist(all, name); err != nil {
		return nil, fmt.Errorf("add %s to %s: %w", name, listing, err)
	}
	dir := filepath.Join(root, "cubes", name)
	if err := writeAll(dir, files); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := os.WriteFile(list, all, 0o644); err != nil {
		return nil, errors.Join(fmt.Errorf("write the list of cubes: %w", err), os.RemoveAll(dir))
	}
	written := []string{listing}
	for file := range files {
		written = append(written, path.Join("cubes", name, file))
	}
	slices.Sort(written)
	return written, nil
}

func writeAll(dir string, files map[string][]byte) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("create the cube's folder: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return fmt.Errorf("write the cube's files: %w", err)
		}
	}
	return nil
}

// render creates the files of a cube from the templates of its kind, by name.
func render(name, kind string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fill(files, path.Join("templates", kind), name, struct{ Name, Upper string }{name, strings.ToUpper(name)})
	return files, err
}

// fill adds the files that the templates of a folder make.
func fill(files map[string][]byte, dir, name string, data any) error {
	entries, err := templates.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read the templates: %w", err)
	}
	for _, e := range entries {
		text, err := execute(path.Join(dir, e.Name()), data)
		if err != nil {
			return err
		}
		file := strings.TrimSuffix(strings.ReplaceAll(e.Name(), placeholder, name), ".tmpl")
		files[file] = text
		if path.Ext(file) != ".go" {
			continue
		}
		if files[file], err = format.Source(text); err != nil {
			return fmt.Errorf("format %s: %w", file, err)
		}
	}
	return nil
}

// execute fills in a template.
func execute(name string, data any) ([]byte, error) {
	source, err := templates.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read a template: %w", err)
	}
	// The usual braces occur everywhere in the rendered files.
	t, err := template.New(path.Base(name)).Delims("[[", "]]").Option("missingkey=error").Parse(string(source))
	if err != nil {
		return nil, fmt.Errorf("read a template: %w", err)
	}
	var text bytes.Buffer
	if err := t.Execute(&text, data); err != nil {
		return nil, fmt.Errorf("fill in a template: %w", err)
	}
	return text.Bytes(), nil
}

// enlist adds the import of a cube to the source of package all, in alphabetical order.
func enlist(source []byte, name string) ([]byte, error) {
	const prefix = "\t_ \"github.com/polycube/polycube/cubes/"
	line := prefix + name + "\" // registers itself"
	lines := strings.Split(string(source), "\n")
	last := -1
	for i, l := range lines {
		if strings.HasPrefix(l, prefix) {
			if strings.Compare(l, line) > 0 {
				return format.Source([]byte(strings.Join(slices.Insert(lines, i, line), "\n")))
			}
			last = i
		}
	}
	if last < 0 {
		return nil, errors.New("it imports no cube, so the place for a new one is unknown")
	}
	return format.Source([]byte(strings.Join(slices.Insert(lines, last+1, line), "\n")))
}
