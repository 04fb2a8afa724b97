// SPDX-License-Identifier: Apache-2.0

package need

// Control groups that limit memory.

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

// MemoryLimits is the feature that MemoryGroup needs: a control group with the controller of memory can be made.
const MemoryLimits Feature = "memory-limits"

// MemoryGroup is a control group of a test, in the tree of version 1 or 2.
type MemoryGroup struct {
	t       testing.TB
	dir     string
	unified bool
}

// made is the number of groups created.
var made atomic.Int32

// NewMemoryGroup creates a group, which is removed when the test ends: the processes in it must have ended then. It
// skips the test if none can be created, or fails it if the environment says that the machine has MemoryLimits.
func NewMemoryGroup(t testing.TB) *MemoryGroup {
	t.Helper()
	netns.NeedRoot(t)
	g := &MemoryGroup{t: t}
	switch err := g.make("/sys/fs/cgroup"); {
	case err == nil:
	case slices.Contains(strings.Split(os.Getenv(Variable), ","), string(MemoryLimits)):
		t.Fatalf("%s says that the machine has %s: %v", Variable, MemoryLimits, err)
	default:
		t.Skipf("needs %s: %v", MemoryLimits, err)
	}
	t.Cleanup(func() {
		netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return unix.Rmdir(g.dir) })
	})
	return g
}

// make creates the group below that of the test in version 1; in version 2 below the root, because a group with
// processes cannot have children.
func (g *MemoryGroup) make(root string) error {
	name := fmt.Sprintf("%s%d-%d", netns.Prefix, os.Getpid(), made.Add(1))
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return err
	}
	for line := range strings.Lines(string(own)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 || f[1] != "memory" {
			continue
		}
		parent := filepath.Join(root, "memory", f[2])
		if _, err := os.Stat(parent); err != nil {
			parent = filepath.Join(root, "memory") // in a container
		}
		g.dir = filepath.Join(parent, name)
		return os.Mkdir(g.dir, 0o755)
	}
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory"), 0); err != nil {
		return err
	}
	g.dir, g.unified = filepath.Join(root, name), true
	return os.Mkdir(g.dir, 0o755)
}

// file reads or, with text, writes the file for one setting in version 1 or 2.
func (g *MemoryGroup) file(v1, v2, text string) string {
	g.t.Helper()
	name := v1
	if g.unified {
		name = v2
	}
	path := filepath.Join(g.dir, name)
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0); err != nil {
			g.t.Fatalf("control group: %v", err)
		}
		return ""
	}
	got, err := os.ReadFile(path)
	if err != nil {
		g.t.Fatalf("control group: %v", err)
	}
	return string(got)
}

// Add moves a process into the group. Its later allocations are counted.
func (g *MemoryGroup) Add(pid int) {
	g.t.Helper()
	g.file("cgroup.procs", "cgroup.procs", strconv.Itoa(pid))
}

// Limit limits the group's memory.
func (g *MemoryGroup) Limit(bytes uint64) {
	g.t.Helper()
	g.file("memory.limit_in_bytes", "memory.max", strconv.FormatUint(bytes, 10))
}

// KernelPeak is the maximum kernel memory of the group, including maps and the verifier; 0 if it is not counted
// separately.
func (g *MemoryGroup) KernelPeak() uint64 {
	if g.unified {
		return 0
	}
	return g.number("memory.kmem.max_usage_in_bytes", "")
}

// Peak is the maximum memory of the group.
func (g *MemoryGroup) Peak() uint64 { return g.number("memory.max_usage_in_bytes", "memory.peak") }

// Usage is the current memory of the group.
func (g *MemoryGroup) Usage() uint64 { return g.number("memory.usage_in_bytes", "memory.current") }

func (g *MemoryGroup) number(v1, v2 string) uint64 {
	g.t.Helper()
	text := g.file(v1, v2, "")
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 64)
	if err != nil {
		g.t.Fatalf("control group: %v", err)
	}
	return n
}

// Killed is the number of processes that the kernel has killed for lack of memory.
func (g *MemoryGroup) Killed() (n int) {
	g.t.Helper()
	for line := range strings.Lines(g.file("memory.oom_control", "memory.events", "")) {
		if words := strings.Fields(line); len(words) == 2 && words[0] == "oom_kill" {
			n, _ = strconv.Atoi(words[1]) // the kernel wrote it
		}
	}
	return n
}
