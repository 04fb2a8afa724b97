// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
)

// A netdev with other tools' programs at the same attachment point is refused. With tcx our program would take the
// packets away from theirs, or theirs from ours, without any error.

// attachPoint is the tcx name of an attachment point.
func attachPoint(place kind) ebpf.AttachType {
	if place.outward() {
		return ebpf.AttachTCXEgress
	}
	return ebpf.AttachTCXIngress
}

// foreign returns an error if other tools' programs are at an attachment point of a netdev. At XDP the kernel itself
// refuses.
func (n *Netdevs) foreign(name string, s spot) error {
	if s.place == kindXDP || s.place.atHost() && !n.clsact {
		return nil // with tcx, a program at the host's stack is in front of theirs
	}
	others, err := n.foreignPrograms(s)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", name, err)
	}
	direction := "ingress"
	if s.place.outward() {
		direction = "egress"
	}
	if len(others) > 0 {
		return fmt.Errorf("attach to %s: other programs are attached at its TC %s hook (%s; see `bpftool net show dev %s`): detach them first: %w",
			name, direction, strings.Join(others, ", "), name, cube.ErrInUse)
	}
	filters, err := foreignFilters(s, n.instance)
	if err != nil {
		return fmt.Errorf("attach to %s: %w", name, err)
	}
	if len(filters) > 0 {
		return fmt.Errorf("attach to %s: other filters are attached at its TC %s hook (%s): remove them first (tc filter del dev %s %s): %w",
			name, direction, strings.Join(filters, ", "), name, direction, cube.ErrInUse)
	}
	return nil
}

// foreignPrograms names the tcx programs of other tools.
func (n *Netdevs) foreignPrograms(s spot) ([]string, error) {
	there, err := ebpflink.QueryPrograms(ebpflink.QueryOptions{Target: s.ifindex, Attach: attachPoint(s.place)})
	if errors.Is(err, ebpf.ErrNotSupported) || errors.Is(err, unix.EINVAL) {
		return nil, nil // a kernel without tcx
	}
	if err != nil {
		return nil, fmt.Errorf("query its programs: %w", err)
	}
	if len(there.Programs) == 0 {
		return nil, nil
	}
	ours := map[ebpf.ProgramID]bool{}
	for r := range n.roots {
		if info, err := r.prog.Info(); err == nil {
			id, _ := info.ID()
			ours[id] = true
		}
	}
	var names []string
	for _, prog := range there.Programs {
		if !ours[prog.ID] {
			names = append(names, programName(prog.ID))
		}
	}
	return names, nil
}

func programName(id ebpf.ProgramID) string {
	name := "?"
	if prog, err := ebpf.NewProgramFromID(id); err == nil {
		if info, err := prog.Info(); err == nil {
			name = info.Name
		}
		_ = prog.Close()
	}
	return fmt.Sprintf("program %d %s", id, name)
}

// foreignFilters names the filters of other tools.
func foreignFilters(s spot, instance string) ([]string, error) {
	dev := &netlink.Device{LinkAttrs: netlink.LinkAttrs{Index: s.ifindex}}
	filters, err := listFilters(dev, s.place)
	if noFilters(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("query its filters: %w", err)
	}
	var names []string
	for _, f := range filters {
		name := f.Type()
		if b, ok := f.(*netlink.BpfFilter); ok {
			if _, own := placeOf(b.Name, instance, s.place); own {
				continue
			}
			name += " " + b.Name
		}
		names = append(names, fmt.Sprintf("%s, priority %d", name, f.Attrs().Priority))
	}
	return names, nil
}

// carries reports whether a link's program is on the netdev that has the link's index in this namespace: the netdev may
// have moved to another one and its index may belong to another device.
func carries(info *ebpflink.Info, s spot) (bool, error) {
	if info.XDP() != nil {
		l, err := netlink.LinkByIndex(s.ifindex)
		if err != nil {
			return false, fmt.Errorf("netdev %d: %w", s.ifindex, err)
		}
		x := l.Attrs().Xdp
		return x != nil && x.Attached && ebpf.ProgramID(x.ProgId) == info.Program, nil
	}
	there, err := ebpflink.QueryPrograms(ebpflink.QueryOptions{Target: s.ifindex, Attach: attachPoint(s.place)})
	if err != nil {
		return false, fmt.Errorf("netdev %d: query its programs: %w", s.ifindex, err)
	}
	for _, prog := range there.Programs {
		if id, ok := prog.LinkID(); ok && id == info.ID {
			return true, nil
		}
	}
	return false, nil
}
