// SPDX-License-Identifier: Apache-2.0

// The linked program behind the root program of a netdev.

package lab

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// Entry opens the program that packets of the loopback, where test runs enter, run after the
// root program.
func (p *Plane) Entry() (prog *ebpf.Program, err error) {
	err = p.ns.Do(func() error {
		prog, err = entry(p.dir, p.typ.Hook(), "lo")
		return err
	})
	return prog, err
}

// Entry is the same for a daemon, of a netdev.
func (d *Daemon) Entry(hook cube.Hook, dev string) (prog *ebpf.Program, err error) {
	err = d.ns.Do(func() error {
		prog, err = entry(d.pins, hook, dev)
		return err
	})
	return prog, err
}

// Carried opens the programs that a netdev carries, on the way in and on the way out, until the rig closes. The time of what they
// call is in their statistics.
func (d *Daemon) Carried(hook cube.Hook, dev string) (all []*ebpf.Program, err error) {
	err = d.ns.Do(func() error {
		in, err := carries(dev, hook)
		if err != nil {
			return err
		}
		ids := []ebpf.ProgramID{in}
		l, err := netlink.LinkByName(dev)
		if err != nil {
			return err
		}
		out, err := netns.TCPrograms(l, ebpf.AttachTCXEgress)
		if err != nil {
			return err
		}
		for _, id := range append(ids, out...) {
			p, err := ebpf.NewProgramFromID(id)
			if err != nil {
				return err
			}
			d.rig.Closing(p)
			all = append(all, p)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("programs of %s: %w", dev, err)
	}
	return all, nil
}

// entry finds the root program of a netdev among those pinned in a directory, and the program in its slot.
func entry(dir string, hook cube.Hook, dev string) (*ebpf.Program, error) {
	carried, err := carries(dev, hook)
	if err != nil {
		return nil, fmt.Errorf("root program of %s: %w", dev, err)
	}
	roots, err := filepath.Glob(filepath.Join(dir, "roots", "*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range roots {
		id, err := pinned(filepath.Join(dir, "prog"))
		if err != nil {
			return nil, err
		}
		if id == carried {
			return inSlot(filepath.Join(dir, "slot"))
		}
	}
	return nil, fmt.Errorf("root program of %s among %d: %w", dev, len(roots), cube.ErrNotFound)
}

// carries is the program on a netdev of this namespace.
func carries(dev string, hook cube.Hook) (ebpf.ProgramID, error) {
	l, err := netlink.LinkByName(dev)
	if err != nil {
		return 0, err
	}
	if hook == cube.XDP {
		if x := l.Attrs().Xdp; x != nil && x.Attached {
			return ebpf.ProgramID(x.ProgId), nil
		}
		return 0, errors.New("it carries no XDP program")
	}
	found, err := netns.TCPrograms(l, ebpf.AttachTCXIngress)
	if err != nil {
		return 0, err
	}
	if len(found) != 1 {
		return 0, fmt.Errorf("it carries %d programs, want 1", len(found))
	}
	return found[0], nil
}

func pinned(path string) (ebpf.ProgramID, error) {
	prog, err := ebpf.LoadPinnedProgram(path, nil)
	if err != nil {
		return 0, fmt.Errorf("root program: %w", err)
	}
	defer func() { _ = prog.Close() }()
	info, err := prog.Info()
	if err != nil {
		return 0, fmt.Errorf("root program: %w", err)
	}
	id, ok := info.ID()
	if !ok {
		return 0, errors.New("the kernel does not tell the number of a root program")
	}
	return id, nil
}

func inSlot(path string) (*ebpf.Program, error) {
	slot, err := ebpf.LoadPinnedMap(path, nil)
	if err != nil {
		return nil, fmt.Errorf("slot of the root program: %w", err)
	}
	defer func() { _ = slot.Close() }()
	var id uint32
	if err := slot.Lookup(uint32(0), &id); err != nil {
		return nil, fmt.Errorf("slot of the root program: %w", err)
	}
	prog, err := ebpf.NewProgramFromID(ebpf.ProgramID(id))
	if err != nil {
		return nil, fmt.Errorf("program of the root's slot: %w", err)
	}
	return prog, nil
}
