// SPDX-License-Identifier: Apache-2.0

// Package clang compiles C that a user gives a cube, with the clang of the machine. The text is not trusted: clang runs
// confined as a service does, without a network, with a read-only file system and limits of memory and time.
package clang

import (
	"bytes"
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	include "github.com/polycube/polycube/bpf/include"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cube/compile"
	"github.com/polycube/polycube/internal/confine"
)

// Limits of a compilation.
const (
	maxTime   = 20 * time.Second
	maxMemory = 1 << 30
	maxText   = 256 << 10
	maxObject = 4 << 20
	maxOutput = 64 << 10
)

const install = "install clang 14 or newer and the headers (Debian: apt-get install clang libbpf-dev linux-libc-dev), " +
	"or give a compiled object"

// Compiler compiles one source at a time.
type Compiler struct {
	options Options
	turn    chan struct{}
}

// Options of a Compiler.
type Options struct {
	// RunDir is a directory that only root can enter, where files are for the time of a compilation.
	RunDir string
	// Hidden are directories that clang must not see.
	Hidden []string
	Log    *slog.Logger
	// Keep is a directory that only root can enter, where compiled objects stay: the same code is then not compiled again.
	// "" keeps none.
	Keep string
	// Path is where clang is looked for, like the environment variable; "" is that of the daemon.
	Path string
}

// New returns a Compiler. Whether clang is installed is only found out by the first compilation.
func New(o Options) *Compiler { return &Compiler{options: o, turn: make(chan struct{}, 1)} }

// fileName is what names of sources have to be.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// Compile implements compile.Compiler. Code that was compiled before needs no compiler.
func (c *Compiler) Compile(ctx context.Context, s compile.Source) ([]byte, error) {
	switch {
	case !fileName.MatchString(s.Name):
		return nil, fmt.Errorf("%.80q is no name of a source: %w", s.Name, cube.ErrInvalid)
	case len(s.Text) > maxText:
		return nil, fmt.Errorf("the code has %d bytes, the limit is %d: %w", len(s.Text), maxText, cube.ErrInvalid)
	}
	files, err := headers()
	if err != nil {
		return nil, err
	}
	select {
	case c.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for another compilation: %w", ctx.Err())
	}
	defer func() { <-c.turn }()
	before, name := kept{c.options.Keep}, nameOf(s, files)
	if object := before.find(name); object != nil {
		return object, nil
	}
	object, err := c.run(ctx, s, files)
	if err != nil {
		return nil, err
	}
	if err := before.keep(name, object); err != nil && c.options.Log != nil { // it is compiled again then
		c.options.Log.Warn("a compiled object is not kept", "name", s.Name, "error", err)
	}
	return object, nil
}

// run runs clang with some headers.
func (c *Compiler) run(ctx context.Context, s compile.Source, files map[string][]byte) ([]byte, error) {
	path, err := find(c.options.Path)
	if err != nil {
		return nil, err
	}
	const object = "out.o"
	files[s.Name] = s.Text
	limited, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	did, err := confine.Run(limited, confine.Config{Name: "clang", Path: path, Args: arguments(s, object), RunDir: c.options.RunDir,
		Hidden: c.options.Hidden, Log: c.options.Log, Limits: confine.Limits{Memory: maxMemory, Processes: 64}},
		confine.Tool{Files: files, Result: object, MaxResult: maxObject, MaxOutput: maxOutput})
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return nil, fmt.Errorf("compile %s: clang takes longer than %s: %w", s.Name, maxTime, cube.ErrInvalid)
	case err != nil:
		return nil, fmt.Errorf("compile %s with %s: %w", s.Name, path, err)
	case did.Failed != nil:
		return nil, refusal(s, did)
	case !bytes.HasPrefix(did.Result, []byte(elf.ELFMAG)):
		return nil, fmt.Errorf("compile %s: %s wrote no object; %s: %w", s.Name, path, install, cube.ErrUnsupported)
	}
	return did.Result, nil
}

// refusal is the error with what clang said.
func refusal(s compile.Source, did confine.Outcome) error {
	said := strings.TrimSpace(strings.ReplaceAll(did.Output, confine.ToolDir+"/", ""))
	lines := strings.Split(said, "\n")
	for _, header := range []string{"bpf/bpf_helpers.h", "linux/bpf.h", "linux/types.h", "asm/types.h"} {
		if strings.Contains(said, fmt.Sprintf("'%s' file not found", header)) {
			return fmt.Errorf("compile %s: the machine has no <%s>; %s: %w", s.Name, header, install, &compile.Error{Lines: lines, Kind: cube.ErrUnsupported})
		}
	}
	if said == "" {
		return fmt.Errorf("%s does not compile for %s: clang %w: %w", s.Name, s.Hook, did.Failed, cube.ErrInvalid)
	}
	return fmt.Errorf("%s does not compile for %s: %w", s.Name, s.Hook, &compile.Error{Lines: lines, Kind: cube.ErrInvalid})
}

// arguments are those of clang: the flags of polycube-cc, except that warnings are no errors.
func arguments(s compile.Source, object string) []string {
	machine := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[runtime.GOARCH]
	args := []string{"-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-fno-color-diagnostics",
		"-ferror-limit=0", "-I", confine.ToolDir, "-idirafter", "/usr/include/" + machine + "-linux-gnu",
		"-DPCN_" + strings.ToUpper(s.Hook.String()), "-ffile-prefix-map=" + confine.ToolDir + "=."}
	for _, d := range s.Defines {
		args = append(args, "-D"+d)
	}
	return append(args, "-c", filepath.Join(confine.ToolDir, s.Name), "-o", filepath.Join(confine.ToolDir, object))
}

// headers are the files of <pcn/...>.
func headers() (map[string][]byte, error) {
	files := map[string][]byte{}
	err := fs.WalkDir(include.Headers, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		files[path], err = include.Headers.ReadFile(path)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the headers: %w", err)
	}
	return files, nil
}

// find returns the path of clang, without links, or of the newest clang-N.
func find(path string) (string, error) {
	if path == "" {
		path = os.Getenv("PATH")
	}
	newest, found := -1, ""
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		names, _ := filepath.Glob(filepath.Join(dir, "clang-[0-9]*")) // the pattern is valid
		for _, name := range append(names, filepath.Join(dir, "clang")) {
			version, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(name), "clang-"))
			if filepath.Base(name) == "clang" {
				version, err = 1<<20, nil // what the machine's owner has chosen
			}
			if _, missing := exec.LookPath(name); err == nil && missing == nil && version > newest {
				newest, found = version, name
			}
		}
	}
	if found == "" {
		return "", fmt.Errorf("no compiler is installed here; %s: %w", install, cube.ErrUnsupported)
	}
	real, err := filepath.EvalSymlinks(found)
	if err != nil {
		return "", fmt.Errorf("find clang: %w", err)
	}
	return real, nil
}
