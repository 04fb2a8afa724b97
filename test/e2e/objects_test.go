// SPDX-License-Identifier: Apache-2.0

// The kernel objects of a daemon: all that can be reached from its descriptors, its pins and the devices of its lab.
// Other processes use eBPF on the same machine, so totals would be meaningless.

package e2e

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/cilium/ebpf/pin"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/test/netns"
)

// inventory is the objects of a daemon.
type inventory struct {
	Maps, Programs, Links, Pins, Files, Devices int
	// KB of memory that is resident and no file's.
	RSS int
}

func (i inventory) String() string {
	return fmt.Sprintf("%d maps, %d programs, %d links, %d pins, %d descriptors, %d devices", i.Maps, i.Programs, i.Links, i.Pins, i.Files, i.Devices)
}

// walker follows references between objects.
type walker struct {
	maps, progs, links map[uint32]bool
	pins               int
}

// attached lists the programs on the devices of the lab.
func (m *machine) attached() []ebpf.ProgramID {
	m.t.Helper()
	var ids []ebpf.ProgramID
	m.lab.Must(func() error {
		devices, err := netlink.LinkList()
		if err != nil {
			return err
		}
		for _, d := range devices {
			if x := d.Attrs().Xdp; x != nil && x.ProgId != 0 {
				ids = append(ids, ebpf.ProgramID(x.ProgId))
			}
			for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
				found, err := netns.TCPrograms(d, at)
				if err != nil {
					return err
				}
				ids = append(ids, found...)
			}
		}
		return nil
	})
	return ids
}

// Inventory counts the current objects of a daemon.
func (d *daemon) Inventory() inventory {
	d.t.Helper()
	w := walker{maps: map[uint32]bool{}, progs: map[uint32]bool{}, links: map[uint32]bool{}}
	files := w.descriptors(d.t, d.Pid())
	w.pinned(d.t, d.pins)
	for _, id := range d.attached() {
		w.program(uint32(id))
	}
	devices := 0
	d.lab.Must(func() error {
		all, err := net.Interfaces()
		devices = len(all)
		return err
	})
	return inventory{len(w.maps), len(w.progs), len(w.links), w.pins, files, devices, residentKB(d.t, d.Pid())}
}

// descriptors follows the descriptors of a process and counts them, without sockets: clients connect and disconnect.
func (w *walker) descriptors(t testing.TB, pid int) int {
	t.Helper()
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for _, e := range entries {
		target, err := os.Readlink(filepath.Join(dir, e.Name()))
		if err != nil || strings.HasPrefix(target, "socket:") {
			continue
		}
		count++
		info, _ := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%s", pid, e.Name())) // closed meanwhile: nothing to follow
		for line := range strings.Lines(string(info)) {
			key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
			id, err := strconv.ParseUint(strings.TrimSpace(value), 10, 32)
			if err != nil {
				continue
			}
			switch key {
			case "map_id":
				w.mapOf(uint32(id))
			case "prog_id":
				w.program(uint32(id))
			case "link_id":
				w.links[uint32(id)] = true
			}
		}
	}
	return count
}

func (w *walker) pinned(t testing.TB, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a pin that was just removed
		}
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		w.pins++
		o, err := pin.Load(path, nil)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("pin %s: %w", path, err)
		}
		defer o.Close()
		return w.object(o)
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (w *walker) object(o pin.Pinner) error {
	switch o := o.(type) {
	case *ebpf.Program:
		info, err := o.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		w.program(uint32(id))
	case *ebpf.Map:
		info, err := o.Info()
		if err != nil {
			return err
		}
		id, _ := info.ID()
		w.mapOf(uint32(id))
	case link.Link:
		info, err := o.Info()
		if err != nil {
			return err
		}
		w.links[uint32(info.ID)] = true
		w.program(uint32(info.Program))
	}
	return nil
}

// program records a program with its maps. One that was just freed has none.
func (w *walker) program(id uint32) {
	if id == 0 || w.progs[id] {
		return
	}
	p, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return
	}
	defer p.Close()
	w.progs[id] = true
	info, err := p.Info()
	if err != nil {
		return
	}
	ids, _ := info.MapIDs()
	for _, m := range ids {
		w.mapOf(uint32(m))
	}
}

// mapOf records a map with its references.
func (w *walker) mapOf(id uint32) {
	if w.maps[id] {
		return
	}
	m, err := ebpf.NewMapFromID(ebpf.MapID(id))
	if err != nil {
		return
	}
	defer m.Close()
	w.maps[id] = true
	var follow func(uint32)
	switch m.Type() {
	case ebpf.ProgramArray:
		follow = w.program
	case ebpf.ArrayOfMaps, ebpf.HashOfMaps:
		follow = w.mapOf
	default:
		return
	}
	key, value := make([]byte, m.KeySize()), uint32(0)
	for it := m.Iterate(); it.Next(key, &value); {
		follow(value)
	}
}

func residentKB(t testing.TB, pid int) int {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "RssAnon:"); ok {
			kb, err := strconv.Atoi(strings.Fields(rest)[0])
			if err != nil {
				t.Fatal(err)
			}
			return kb
		}
	}
	t.Fatal("no RssAnon")
	return 0
}
