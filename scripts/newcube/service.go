// SPDX-License-Identifier: Apache-2.0

package main

// External services: a folder anywhere, with the model and the program of a cube and a control plane in another process,
// built with what make install has installed.

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// service is what to create.
type service struct {
	Name, Upper string
	// Language of the control plane: go or python.
	Language    string
	Transparent bool
	// Prefix is where Polycube is installed.
	Prefix string
	// Go is the version that the SDK needs, Requires the modules that it imports, with their versions.
	Go       string
	Requires []string
}

var (
	errLanguage = errors.New("a service needs the language of its control plane: make new-service NAME=quota LANG=go (or LANG=python)")
	errPlace    = errors.New("choose another folder with DIR=")
	errPrefix   = errors.New("PREFIX must be the absolute path, without blanks and quotes, where Polycube is installed")
)

var goodPrefix = regexp.MustCompile(`^/[A-Za-z0-9_.+/-]*$`)

// Program is the path of the installed program.
func (s service) Program() string {
	place := path.Join(s.Prefix, "lib/polycube", s.Name)
	if s.Language == "python" {
		return path.Join(place, "bin", "polycube-"+s.Name)
	}
	return place
}

// scaffoldService writes the folder of a service, and returns the paths of its files.
func scaffoldService(root, dir string, s service) ([]string, error) {
	if s.Language != "go" && s.Language != "python" {
		return nil, errLanguage
	}
	if err := checkName(root, s.Name); err != nil {
		return nil, err
	}
	if s.Prefix = path.Clean(s.Prefix); !goodPrefix.MatchString(s.Prefix) {
		return nil, fmt.Errorf("%.80q: %w", s.Prefix, errPrefix)
	}
	if dir == "" {
		dir = filepath.Join(root, "examples/services", s.Name)
	}
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: %w", dir, errPlace)
	}
	var err error
	if s.Go, s.Requires, err = modulesOf(root); err != nil {
		return nil, err
	}
	files, err := s.render()
	if err != nil {
		return nil, err
	}
	if s.Language == "go" {
		if files["go.sum"], err = os.ReadFile(filepath.Join(root, "go.sum")); err != nil {
			return nil, fmt.Errorf("read the checksums of modules: %w", err)
		}
	}
	if err := writeService(dir, files); err != nil {
		return nil, err
	}
	var written []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		written = append(written, filepath.Join(dir, name))
	}
	return written, nil
}

// writeService writes the files, or leaves the folder as it was.
func writeService(dir string, files map[string][]byte) error {
	_, err := os.Lstat(dir)
	existed := err == nil
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the folder of the service: %w", err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			return errors.Join(fmt.Errorf("write the files of the service: %w", err), clean(dir, files, existed))
		}
	}
	return nil
}

// clean removes the files, and a folder that did not exist.
func clean(dir string, files map[string][]byte, existed bool) error {
	if !existed {
		return os.RemoveAll(dir)
	}
	for name := range files {
		_ = os.Remove(filepath.Join(dir, name)) // it may not have been written
	}
	return nil
}

// render creates the files, by name: the model and the program of a cube, and what is specific to the language.
func (s service) render() (map[string][]byte, error) {
	cubes, err := render(s.Name, ordinary(s.Transparent))
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{s.Name + ".yang": cubes[s.Name+".yang"], s.Name + ".bpf.c": cubes[s.Name+".bpf.c"]}
	for _, kind := range []string{"any", s.Language} {
		if err := fill(files, path.Join("templates/service", kind), s.Name, s); err != nil {
			return nil, err
		}
	}
	files[".gitignore"] = files["gitignore"]
	delete(files, "gitignore")
	return files, nil
}

// sdkModules are the modules that provide what the SDK in Go imports.
var sdkModules = []string{"github.com/cilium/ebpf", "golang.org/x/net", "golang.org/x/sys", "golang.org/x/text",
	"google.golang.org/genproto/googleapis/rpc", "google.golang.org/grpc", "google.golang.org/protobuf"}

// modulesOf reads the Go version and the modules of the SDK from the repository's go.mod, which is installed with it.
func modulesOf(root string) (version string, requires []string, err error) {
	text, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		return "", nil, fmt.Errorf("read the versions of modules: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		switch words := strings.Fields(line); {
		case len(words) == 2 && words[0] == "go":
			version = words[1]
		case len(words) >= 2 && slices.Contains(sdkModules, words[0]):
			requires = append(requires, words[0]+" "+words[1]+" // indirect")
		}
	}
	if len(requires) != len(sdkModules) || version == "" {
		return "", nil, fmt.Errorf("go.mod names %d of the %d modules of the SDK: %w", len(requires), len(sdkModules), os.ErrNotExist)
	}
	slices.Sort(requires)
	return version, requires, nil
}
