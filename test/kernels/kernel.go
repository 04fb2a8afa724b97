// SPDX-License-Identifier: Apache-2.0

package kernels

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Kernel is a kernel that apt offers.
type Kernel struct {
	// Release is its name in uname, Version that of the package.
	Release, Version string
}

// Series is the part of the release that determines its features, like 6.12.
func (k Kernel) Series() string {
	return series.FindString(k.Release)
}

var series = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// listAge is how old the list of kernels may be before apt is queried again.
const listAge = 14 * 24 * time.Hour

// Kernels lists the kernels that apt offers, oldest first: the dependencies of the packages without a version in their
// name, in each of the release's suites. The list is cached, and used beyond its age if there is no network.
func (c *Cache) Kernels(ctx context.Context, refresh bool) ([]Kernel, error) {
	file := filepath.Join(c.dir, "kernels-"+c.arch+".json")
	var known []Kernel
	data, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(data, &known)
	}
	if info, statErr := os.Stat(file); err == nil && statErr == nil && !refresh && time.Since(info.ModTime()) < listAge {
		return known, nil
	}
	var found []Kernel
	err = c.fill(func() (err error) {
		found, err = c.ask(ctx)
		return err
	})
	if err != nil {
		if len(known) == 0 {
			return nil, err
		}
		c.say("the list of kernels is old: %v", err)
		return known, nil
	}
	if data, err = json.Marshal(found); err != nil {
		return nil, err
	}
	return found, os.WriteFile(file, data, 0o644)
}

// ask queries apt for the packages that depend on the newest kernel of a suite, and for their dependencies.
func (c *Cache) ask(ctx context.Context) ([]Kernel, error) {
	a, err := c.packages(ctx)
	if err != nil {
		return nil, err
	}
	names, err := a.run(ctx, "apt-cache", "search", "--names-only", `^linux-image(-[0-9]+\.[0-9]+)?-cloud-`+c.arch+"$")
	if err != nil {
		return nil, err
	}
	var found []Kernel
	for line := range strings.Lines(names) {
		name, _, _ := strings.Cut(line, " ")
		text, err := a.run(ctx, "apt-cache", "show", name)
		if err != nil {
			return nil, err
		}
		for _, m := range standsFor.FindAllStringSubmatch(text, -1) {
			if k := (Kernel{Release: m[1], Version: m[2]}); !slices.Contains(found, k) {
				found = append(found, k)
			}
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("apt offers no linux-image-cloud-%s", c.arch)
	}
	slices.SortFunc(found, func(a, b Kernel) int { return compareVersions(a.Version, b.Version) })
	return found, nil
}

var (
	standsFor = regexp.MustCompile(`(?m)^Depends: linux-image-(\S+) \(= ([^)]+)\)`)
	number    = regexp.MustCompile(`[0-9]+`)
)

// compareVersions compares the numbers in two versions, in their order.
func compareVersions(a, b string) int {
	numbers := func(v string) (out []int) {
		for _, s := range number.FindAllString(v, -1) {
			n, _ := strconv.Atoi(s) // digits: if there are too many, all are equal
			out = append(out, n)
		}
		return out
	}
	return slices.Compare(numbers(a), numbers(b))
}

// Files of a kernel in the cache.
type kernelFiles struct {
	// image is the kernel, modules a disk with its modules.
	image, modules string
	// early are the modules that reach the disks, in the order in which they are loaded.
	early []string
}

// earlyModules are the modules for a machine's disks. Debian's kernels contain the file system of the disks.
var earlyModules = []string{"virtio_pci", "virtio_blk", "ext4"}

// Files returns a kernel's files, which it fetches when they are not in the cache.
func (c *Cache) files(ctx context.Context, k Kernel) (kernelFiles, error) {
	image, err := c.once("kernel-"+k.Release+"-"+k.Version, func(dir string) error { return c.fetchKernel(ctx, k, dir) }, "vmlinuz")
	if err != nil {
		return kernelFiles{}, err
	}
	dir := filepath.Dir(image)
	early, err := os.ReadFile(filepath.Join(dir, "early"))
	if err != nil {
		return kernelFiles{}, err
	}
	files := kernelFiles{image: image, modules: filepath.Join(dir, "modules.img")}
	for _, name := range strings.Fields(string(early)) {
		files.early = append(files.early, filepath.Join(dir, name))
	}
	return files, nil
}

func (c *Cache) fetchKernel(ctx context.Context, k Kernel, dir string) error {
	a, err := c.packages(ctx)
	if err != nil {
		return err
	}
	c.say("fetching Linux %s", k.Release)
	deb, err := a.fetchOne(ctx, "linux-image-"+k.Release, k.Version, dir)
	if err != nil {
		return err
	}
	tree := filepath.Join(dir, "tree")
	if err := os.Mkdir(tree, 0o755); err != nil {
		return err
	}
	if err := unpack(ctx, deb, tree); err != nil {
		return err
	}
	if _, err := output(exec.CommandContext(ctx, "depmod", "-b", tree, k.Release)); err != nil {
		return err
	}
	modules := filepath.Join(tree, "lib/modules")
	if err := keepEarly(ctx, filepath.Join(modules, k.Release), dir); err != nil {
		return err
	}
	if err := makeDisk(ctx, modules, filepath.Join(dir, "modules.img"), "400M"); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(tree, "boot/vmlinuz-"+k.Release), filepath.Join(dir, "vmlinuz")); err != nil {
		return err
	}
	return os.RemoveAll(tree)
}

// keepEarly copies the modules that reach the disks, unpacked, and writes their order into the file early.
func keepEarly(ctx context.Context, modules, dir string) error {
	f, err := os.Open(filepath.Join(modules, "modules.dep"))
	if err != nil {
		return err
	}
	defer f.Close()
	needs := map[string][]string{} // of a file, the files it needs, the first of which needs the others
	files := map[string]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		file, rest, _ := strings.Cut(lines.Text(), ":")
		needs[file] = strings.Fields(rest)
		name, _, _ := strings.Cut(filepath.Base(file), ".ko")
		files[strings.ReplaceAll(name, "-", "_")] = file
	}
	if err := lines.Err(); err != nil {
		return err
	}
	var order []string
	for _, name := range earlyModules {
		file, ok := files[name]
		if !ok {
			continue // a part of the kernel itself
		}
		for _, file := range backward(needs[file], file) {
			if !slices.Contains(order, file) {
				order = append(order, file)
			}
		}
	}
	var names []string
	for _, file := range order {
		name := strings.TrimSuffix(filepath.Base(file), ".xz")
		names = append(names, name)
		if err := unpackModule(ctx, filepath.Join(modules, file), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, "early"), []byte(strings.Join(names, "\n")), 0o644)
}

// unpackModule copies a module. The kernels of the series 6.1 cannot unpack one themselves.
func unpackModule(ctx context.Context, from, to string) error {
	data, err := os.ReadFile(from)
	if err == nil && strings.HasSuffix(from, ".xz") {
		var text string
		text, err = output(exec.CommandContext(ctx, "xz", "-dc", from))
		data = []byte(text)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o644)
}

// backward returns the dependencies of a module, the deepest first, and then the module.
func backward(needs []string, file string) []string {
	order := slices.Clone(needs)
	slices.Reverse(order)
	return append(order, file)
}
