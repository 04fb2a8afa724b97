// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/polycube/polycube/test/kernels/guest"
)

// Built is the part of the checkout that a run needs: the machines' first process, and a tree with the checkout, the
// programs and the test binaries.
type Built struct {
	dir, init string
}

// build builds in dir for the cache's architecture. For the same architecture, the checkout's programs are used.
func (c *Cache) build(ctx context.Context, checkout, dir string, jobs []Job) (*Built, error) {
	b := &Built{dir: filepath.Join(dir, "tree"), init: filepath.Join(dir, "guest")}
	cross, err := c.Environment(ctx)
	if err != nil {
		return nil, err
	}
	if err := buildInit(ctx, checkout, b.init, cross); err != nil {
		return nil, err
	}
	if err := copyTree(checkout, b.dir); err != nil {
		return nil, err
	}
	if cross != nil {
		if err := c.BuildPrograms(ctx, checkout, filepath.Join(b.dir, "bin")); err != nil {
			return nil, err
		}
	}
	if pkgs := packagesOf(jobs); len(pkgs) > 0 {
		tests := filepath.Join(b.dir, ".guest/tests")
		if err := os.MkdirAll(tests, 0o755); err != nil {
			return nil, err
		}
		// Without debug information, linking takes half as long.
		cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-c", "-vet=off", "-ldflags=-s -w", "-o", tests + "/"}, pkgs...)...)
		cmd.Dir, cmd.Env = checkout, append(append(os.Environ(), cross...), "CGO_ENABLED=1")
		if _, err := output(cmd); err != nil {
			return nil, err
		}
	}
	return b, os.MkdirAll(filepath.Join(b.dir, ".guest"), 0o755)
}

// buildInit builds the machines' first process.
func buildInit(ctx context.Context, checkout, into string, cross []string) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-ldflags=-s -w", "-o", into, "./test/kernels/cmd/guest")
	cmd.Dir, cmd.Env = checkout, append(append(os.Environ(), cross...), "CGO_ENABLED=0")
	_, err := output(cmd)
	return err
}

func packagesOf(jobs []Job) []string {
	var out []string
	for _, j := range jobs {
		if dir := "./" + j.Package; j.Package != "" && !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

// disk creates the disk of one machine.
func (b *Built) disk(ctx context.Context, image string, p guest.Plan) error {
	data, err := json.Marshal(p)
	if err != nil {
		return err
	}
	inTree := func(file string) string { return filepath.Join(b.dir, strings.TrimPrefix(file, guest.Tree)) }
	if err := os.WriteFile(inTree(guest.PlanFile), data, 0o644); err != nil {
		return err
	}
	init, err := os.ReadFile(b.init)
	if err != nil {
		return err
	}
	if err := os.WriteFile(inTree(guest.Binary), init, 0o755); err != nil { //nolint:gosec // the machine executes it
		return err
	}
	return makeDisk(ctx, b.dir, image, "2G")
}

// left are parts of a checkout that no test reads.
var left = map[string]bool{".git": true, ".cache": true}

// copyTree copies the checkout including compiled objects, programs, and uncommitted files.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch info, err := d.Info(); {
		case err != nil:
			return err
		case left[rel] && d.IsDir():
			return filepath.SkipDir
		case left[rel]:
			return nil
		case d.IsDir():
			return os.MkdirAll(target, info.Mode().Perm())
		case info.Mode()&fs.ModeSymlink != 0:
			link, err := os.Readlink(path)
			if err != nil {
				return err
			}
			return os.Symlink(link, target)
		case info.Mode().IsRegular():
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(target, data, info.Mode().Perm())
		default:
			return fmt.Errorf("%s is no file, folder or link", path)
		}
	})
}
