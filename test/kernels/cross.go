// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// sysrootPackages are the packages that the daemon and its tests are linked with.
var sysrootPackages = strings.Fields("libc6-dev libyang2-dev linux-libc-dev libgcc-12-dev")

// triplets are the architectures by the name that compilers have for them.
var triplets = map[string]string{"amd64": "x86_64-linux-gnu", "arm64": "aarch64-linux-gnu"}

// Environment returns the variables with which go build builds for the cache's architecture: on another one, clang with
// the headers and libraries for it.
func (c *Cache) Environment(ctx context.Context) ([]string, error) {
	if c.arch == runtime.GOARCH {
		return nil, nil
	}
	triplet, ok := triplets[c.arch]
	if !ok {
		return nil, fmt.Errorf("%s is none of the architectures that are built for: amd64, arm64", c.arch)
	}
	codename, err := codename()
	if err != nil {
		return nil, err
	}
	key := sha256.Sum256([]byte(strings.Join(append([]string{codename, c.arch}, sysrootPackages...), "\n")))
	done, err := c.once(fmt.Sprintf("sysroot-%s-%x", c.arch, key[:6]), func(dir string) error { return c.makeSysroot(ctx, dir) }, "done")
	if err != nil {
		return nil, err
	}
	root := filepath.Join(filepath.Dir(done), "root")
	return []string{
		"GOARCH=" + c.arch, "CC=clang --target=" + triplet + " --sysroot=" + root + " -fuse-ld=lld -Wno-unused-command-line-argument",
		"PKG_CONFIG_SYSROOT_DIR=" + root, "PKG_CONFIG_LIBDIR=" + filepath.Join(root, "usr/lib", triplet, "pkgconfig"),
	}, nil
}

func (c *Cache) makeSysroot(ctx context.Context, dir string) error {
	a, err := c.packages(ctx)
	if err != nil {
		return err
	}
	c.say("fetching headers and libraries of %s", c.arch)
	debs, err := a.fetch(ctx, sysrootPackages...)
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := skeleton(root); err != nil {
		return err
	}
	for _, deb := range debs {
		if err := unpack(ctx, deb, root); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "done"), nil, 0o644)
}

// BuildPrograms builds the daemon and its command line for the cache's architecture into a folder.
func (c *Cache) BuildPrograms(ctx context.Context, checkout, into string) error {
	env, err := c.Environment(ctx)
	if err != nil {
		return err
	}
	into, err = filepath.Abs(into)
	if err != nil {
		return err
	}
	for name, cgo := range map[string]string{"polycubed": "1", "polycubectl": "0"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", filepath.Join(into, name), "./cmd/"+name)
		cmd.Dir, cmd.Env = checkout, append(append(os.Environ(), env...), "CGO_ENABLED="+cgo)
		if _, err := output(cmd); err != nil {
			return fmt.Errorf("build %s for %s: %w", name, c.arch, err)
		}
	}
	return nil
}
