// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// TCPrograms lists the programs at the TC ingress or egress (ebpf.AttachTCXIngress or ...Egress) of a device of this
// namespace: those of tcx, and those of filters, which replace it on kernels before 6.6.
func TCPrograms(device netlink.Link, at ebpf.AttachType) ([]ebpf.ProgramID, error) {
	a := device.Attrs()
	var ids []ebpf.ProgramID
	found, err := link.QueryPrograms(link.QueryOptions{Target: a.Index, Attach: at})
	switch {
	case errors.Is(err, ebpf.ErrNotSupported), errors.Is(err, unix.EINVAL): // a kernel without tcx
	case err != nil:
		return nil, fmt.Errorf("programs of %s: %w", a.Name, err)
	default:
		for _, p := range found.Programs {
			ids = append(ids, p.ID)
		}
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if at == ebpf.AttachTCXEgress {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	filters, err := netlink.FilterList(device, parent)
	if err != nil {
		return ids, nil //nolint:nilerr // there is no qdisc for filters
	}
	for _, f := range filters {
		if b, ok := f.(*netlink.BpfFilter); ok {
			ids = append(ids, ebpf.ProgramID(b.Id))
		}
	}
	return ids, nil
}
