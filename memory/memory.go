// SPDX-License-Identifier: Apache-2.0

// Package memory determines how much memory the daemon can still allocate. Maps allocate theirs when they are created,
// and the kernel charges it to the daemon's control group. A map that does not fit is refused, but while the kernel
// tries, the group's limit is exhausted, and a daemon that touches a new page at that moment is killed. So large maps
// are compared with the available memory before they are created.
package memory

import (
	"bufio"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Room is available memory, and the owner of the limit.
type Room struct {
	Bytes uint64
	// Of is "the machine" or "the daemon's control group".
	Of string
}

// Available is the minimum of the machine's available memory and what each control group of the daemon allows. Unknown
// limits are ignored.
func Available() Room { return available("/") }

// available is Available with the files below a directory.
func available(root string) Room {
	least := Room{Bytes: math.MaxUint64, Of: "the machine"}
	if kb, ok := field(filepath.Join(root, "proc/meminfo"), "MemAvailable:"); ok {
		least.Bytes = kb << 10
	}
	for _, g := range groups(root) {
		if left, ok := g.left(); ok && left < least.Bytes {
			least = Room{left, "the daemon's control group"}
		}
	}
	return least
}

// group is a control group, with the names of its files, which differ between versions 1 and 2.
type group struct{ dir, limit, usage, cache string }

// left is what processes in the group can allocate until they reach its limit. The kernel frees inactive file pages if
// needed.
func (g group) left() (uint64, bool) {
	limit, ok := number(filepath.Join(g.dir, g.limit))
	if !ok {
		return 0, false
	}
	usage, ok := number(filepath.Join(g.dir, g.usage))
	if !ok {
		return 0, false
	}
	cache, _ := field(filepath.Join(g.dir, "memory.stat"), g.cache)
	usage -= min(usage, cache)
	return limit - min(limit, usage), true
}

// groups are the memory groups of the daemon, from its own to the root of the tree. A container may see only the root,
// which is then its own.
func groups(root string) (all []group) {
	own, err := os.Open(filepath.Join(root, "proc/self/cgroup"))
	if err != nil {
		return nil
	}
	defer own.Close()
	for lines := bufio.NewScanner(own); lines.Scan(); {
		f := strings.SplitN(lines.Text(), ":", 3)
		if len(f) != 3 {
			continue
		}
		tree := filepath.Join(root, "sys/fs/cgroup")
		g := group{"", "memory.max", "memory.current", "inactive_file"}
		if f[1] != "" {
			if f[1] != "memory" {
				continue
			}
			tree = filepath.Join(tree, "memory")
			g = group{"", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"}
		}
		for at := filepath.Join("/", f[2]); ; at = filepath.Dir(at) {
			g.dir = filepath.Join(tree, at)
			all = append(all, g)
			if at == "/" {
				break
			}
		}
	}
	return all
}

// number reads a file with a number. "max" is no limit.
func number(path string) (uint64, bool) {
	text, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// field reads the number after a word at the start of a line.
func field(path, name string) (uint64, bool) {
	f, err := os.Open(path)
	if err != nil {
		return 0, false
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		words := strings.Fields(lines.Text())
		if len(words) > 1 && words[0] == name {
			n, err := strconv.ParseUint(words[1], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}
