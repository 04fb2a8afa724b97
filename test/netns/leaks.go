// SPDX-License-Identifier: Apache-2.0

// What a test binary must not leave behind. Other test binaries run at the same time, so only objects that certainly
// belong to this process are checked: its descriptors, its children, the namespaces and bpffs mounts named after it,
// and the eBPF objects that were pinned or attached in those.

package netns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/pin"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/nsname"
	"github.com/polycube/polycube/test/pace"
)

// leakDeadline is how long objects may take to disappear: namespaces and eBPF objects are freed in the background.
var leakDeadline = pace.Stretch(15 * time.Second)

// object is an eBPF object seen in a place that only this process's tests use.
type object struct {
	kind string // "program", "map" or "link"
	id   uint32
}

// seen records the place of each object.
var (
	seenMu sync.Mutex
	seen   = map[object]string{}
)

func note(kind string, id uint32, where string) {
	if id == 0 {
		return
	}
	seenMu.Lock()
	defer seenMu.Unlock()
	seen[object{kind, id}] = where
}

// track records the programs attached to the devices of a namespace that is about to be removed.
func track(n *Namespace) {
	err := n.Do(func() error {
		links, err := netlink.LinkList()
		for try := 1; errors.Is(err, netlink.ErrDumpInterrupted) && try < 10; try++ {
			links, err = netlink.LinkList()
		}
		if err != nil {
			return err
		}
		for _, l := range links {
			a := l.Attrs()
			where := "on " + a.Name + " of namespace " + n.Name
			if a.Xdp != nil {
				note("program", a.Xdp.ProgId, where)
			}
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				ids, err := TCPrograms(l, at)
				if errors.Is(err, unix.ENODEV) {
					break // its other end was in a namespace that went before, and the kernel has got to it by now
				}
				if err != nil {
					return err
				}
				for _, id := range ids {
					note("program", uint32(id), where)
				}
			}
		}
		return nil
	})
	if err != nil {
		n.t.Errorf("namespace %s: list its devices: %v", n.Name, err)
	}
}

// Bpffs mounts a bpffs of the test's own and returns its directory; it is unmounted when the test ends.
func Bpffs(t testing.TB) string {
	t.Helper()
	NeedRoot(t)
	dir := filepath.Join(t.TempDir(), "bpf")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(mountSource(), dir, "bpf", 0, "mode=0700"); err != nil {
		t.Fatalf("mount bpffs on %s: %v", dir, err)
	}
	t.Cleanup(func() {
		if err := trackPins(dir); err != nil {
			t.Errorf("bpffs %s: list its pins: %v", dir, err)
		}
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
		}
	})
	return dir
}

// mountSource marks the mounts of this process.
func mountSource() string { return Prefix + strconv.Itoa(os.Getpid()) }

// trackPins records the pins below dir, without the iterators that the kernel itself creates in every bpffs.
func trackPins(dir string) error {
	return filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Dir(path) == dir && strings.HasSuffix(path, ".debug") {
			return err
		}
		o, err := pin.Load(path, nil)
		if err != nil {
			return err
		}
		defer o.Close()
		return notePinned(o, "pinned at "+path)
	})
}

func notePinned(o pin.Pinner, where string) error {
	switch o := o.(type) {
	case *ebpf.Program:
		info, err := o.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		note("program", uint32(id), where)
	case *ebpf.Map:
		info, err := o.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		note("map", uint32(id), where)
	case link.Link:
		info, err := o.Info()
		if err != nil {
			return err
		}
		note("link", uint32(info.ID), where)
		note("program", uint32(info.Program), where)
	}
	return nil
}

// CheckLeaks runs the tests and then reports on standard error what they left behind; use it as
//
//	func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }
//
// It returns the tests' exit code, or 1 when they passed and left something.
func CheckLeaks(m *testing.M) int {
	Interruptible()
	before := descriptors()
	code := m.Run()
	var left []string
	for deadline := time.Now().Add(leakDeadline); ; {
		left = leaks(before)
		if len(left) == 0 || time.Now().After(deadline) {
			break
		}
		time.Sleep(pollInterval)
	}
	for _, l := range left {
		fmt.Fprintln(os.Stderr, "leaked:", l)
	}
	if code == 0 && len(left) > 0 {
		return 1
	}
	return code
}

// leaks lists objects that did not exist before, and belong to no test that still runs.
func leaks(before map[string]string) []string {
	var left []string
	for fd, target := range descriptors() {
		if before[fd] != target {
			left = append(left, fmt.Sprintf("descriptor %s: %s%s", fd, target, bpfIdentity(fd)))
		}
	}
	slices.Sort(left)
	names, _ := filepath.Glob(filepath.Join(nsname.Dir, mountSource()+"-*")) // the pattern is well formed
	for _, name := range names {
		left = append(left, "namespace "+filepath.Base(name))
	}
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // unreadable: no /proc, and nothing else works either
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); slices.Contains(f, mountSource()) {
			left = append(left, "bpffs "+f[4])
		}
	}
	left = append(left, children()...)
	seenMu.Lock()
	defer seenMu.Unlock()
	for o, where := range seen {
		if !o.exists() {
			delete(seen, o)
			continue
		}
		left = append(left, fmt.Sprintf("eBPF %s %d, once %s", o.kind, o.id, where))
	}
	return left
}

// exists looks up the object's number, which the kernel does not reuse before four billion others. It does not open
// programs and maps: closing a program array that clears itself at that moment leaks it (the kernel takes a reference
// for each clearing and returns one).
func (o object) exists() bool {
	switch o.kind {
	case "program":
		id, err := ebpf.ProgramGetNextID(ebpf.ProgramID(o.id - 1))
		return err == nil && uint32(id) == o.id
	case "map":
		id, err := ebpf.MapGetNextID(ebpf.MapID(o.id - 1))
		return err == nil && uint32(id) == o.id
	}
	l, err := link.NewFromID(link.ID(o.id))
	return err == nil && l.Close() == nil
}

// descriptors maps the open descriptors of this process to their descriptions, without those of the Go runtime, which
// it opens on demand.
func descriptors() map[string]string {
	open := map[string]string{}
	entries, _ := os.ReadDir("/proc/self/fd") // see mountinfo
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join("/proc/self/fd", e.Name()))
		if err != nil { // the descriptor of this listing itself
			continue
		}
		if target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" {
			open[e.Name()] = target
		}
	}
	return open
}

// bpfIdentity returns the id, as in bpftool, of the object behind a descriptor.
func bpfIdentity(fd string) string {
	info, _ := os.ReadFile(filepath.Join("/proc/self/fdinfo", fd)) // closed meanwhile: nothing to report
	for line := range strings.Lines(string(info)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if key == "prog_id" || key == "map_id" || key == "link_id" {
			return fmt.Sprintf(" (%s %s)", key, strings.TrimSpace(value))
		}
	}
	return ""
}

// children lists the processes that this one started and that still run.
func children() []string {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	var left []string
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil { // it has ended
			continue
		}
		// "pid (comm) state ppid ...", and comm may hold anything.
		comm, rest, _ := strings.Cut(string(b), " (")
		name, fields := rest[:max(0, strings.LastIndexByte(rest, ')'))], strings.Fields(rest[strings.LastIndexByte(rest, ')')+1:])
		if len(fields) > 1 && fields[1] == strconv.Itoa(os.Getpid()) && fields[0] != "Z" {
			left = append(left, fmt.Sprintf("process %s (%s)", comm, name))
		}
	}
	return left
}
