// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/netdev"
)

// filterHolder is a bpf filter on a clsact qdisc, for kernels before 6.6, which have no tcx.
// The filter keeps its program without a pin.
type filterHolder struct{ filter *netlink.BpfFilter }

// filterPriority leaves room for filters of others before and after ours.
const filterPriority = 49152

// filterName is the name of the filter at an attachment point.
func filterName(instance string, place kind) string {
	if place.atHost() {
		return "polycube-" + instance + "@host"
	}
	return "polycube-" + instance
}

// placeOf is the attachment point of a filter with a name, in the direction of another one; false if it is not ours.
func placeOf(name, instance string, direction kind) (kind, bool) {
	own, host := kindIngress, kindHostIn
	if direction.outward() {
		own, host = kindEgress, kindHostOut
	}
	for _, place := range []kind{own, host} {
		if name == filterName(instance, place) {
			return place, true
		}
	}
	return "", false
}

// priority is that of the filter at an attachment point. The one next to the wire is first on the way in, and last on the way
// out.
func priority(place kind) uint16 {
	switch place {
	case kindHostIn:
		return filterPriority + 1
	case kindHostOut:
		return filterPriority - 1
	case kindIngress, kindEgress, kindXDP, kindGeneric:
	}
	return filterPriority
}

// tapFilterName differs, so that a TAP is not taken for a netdev of the graph.
func tapFilterName(instance string) string { return "polycube-tap-" + instance }

func filterParent(place kind) uint32 {
	if place.outward() {
		return netlink.HANDLE_MIN_EGRESS
	}
	return netlink.HANDLE_MIN_INGRESS
}

// attachFilter creates the qdisc if necessary and sets the filter.
func attachFilter(s spot, name string, prog *ebpf.Program) (holder, error) {
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
		LinkIndex: s.ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
	}}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return nil, fmt.Errorf("add clsact: %w", err)
	}
	h := &filterHolder{filter: &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{
			LinkIndex: s.ifindex, Parent: filterParent(s.place), Handle: 1,
			Protocol: unix.ETH_P_ALL, Priority: priority(s.place),
		},
		Name: name, DirectAction: true,
	}}
	return h, h.set(prog)
}

func (h *filterHolder) update(r *root) error { return h.set(r.prog) }

func (h *filterHolder) set(prog *ebpf.Program) error {
	h.filter.Fd = prog.FD()
	if err := netlink.FilterReplace(h.filter); err != nil {
		return fmt.Errorf("set bpf filter: %w", err)
	}
	return nil
}

func (h *filterHolder) detach() error {
	err := netlink.FilterDel(h.filter)
	if errors.Is(err, unix.ENODEV) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EINVAL) {
		return nil // the netdev or its qdisc is gone, and the filter with it
	}
	return err
}

func (h *filterHolder) close() {}

// listFilters lists the filters at an attachment point of a netdev.
func listFilters(dev netlink.Link, place kind) ([]netlink.Filter, error) {
	return netdev.Listed(func() ([]netlink.Filter, error) { return netlink.FilterList(dev, filterParent(place)) })
}

// noFilters reports whether an error of listFilters means that there can be none: the netdev has no qdisc for filters,
// or is gone.
func noFilters(err error) bool {
	return errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENODEV)
}

// openFilters finds our filters on all netdevs.
func openFilters(instance string, roots map[ebpf.ProgramID]*root) ([]*attachment, error) {
	links, err := netdev.Listed(netlink.LinkList)
	if err != nil {
		return nil, fmt.Errorf("list netdevs: %w", err)
	}
	var out []*attachment
	for _, l := range links {
		for _, place := range []kind{kindIngress, kindEgress} {
			filters, err := listFilters(l, place)
			if noFilters(err) {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("list the filters of %s: %w", l.Attrs().Name, err)
			}
			for _, f := range filters {
				b, ok := f.(*netlink.BpfFilter)
				if !ok {
					continue
				}
				place, own := placeOf(b.Name, instance, place)
				if !own {
					continue
				}
				s := spot{ifindex: l.Attrs().Index, place: place}
				h := &filterHolder{filter: b}
				r := roots[ebpf.ProgramID(b.Id)]
				if r == nil {
					if err := h.detach(); err != nil {
						return nil, fmt.Errorf("remove a stale filter: %w", err)
					}
					continue
				}
				out = append(out, &attachment{spot: s, root: r, hold: h})
			}
		}
	}
	return out, nil
}
