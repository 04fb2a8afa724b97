// SPDX-License-Identifier: Apache-2.0

package netns

import (
	"errors"
	"fmt"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// AttachTC attaches a program of a test to a device in the namespace of the calling thread, until the test ends: as a
// tcx link, before Linux 6.6 as the first filter of clsact. The program returns TC_ACT_UNSPEC for packets that the next
// one may process.
func AttachTC(t testing.TB, ifindex int, prog *ebpf.Program, at ebpf.AttachType) error {
	l, err := link.AttachTCX(link.TCXOptions{Interface: ifindex, Program: prog, Attach: at})
	if err == nil {
		// A process that is being started may have the link open for a moment, too.
		t.Cleanup(func() { _, _ = l.Detach(), l.Close() })
		return nil
	}
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return fmt.Errorf("attach by tcx: %w", err)
	}
	qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT}}
	if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
		return fmt.Errorf("add clsact: %w", err)
	}
	parent := uint32(netlink.HANDLE_MIN_INGRESS)
	if at == ebpf.AttachTCXEgress {
		parent = netlink.HANDLE_MIN_EGRESS
	}
	filter := &netlink.BpfFilter{
		FilterAttrs: netlink.FilterAttrs{LinkIndex: ifindex, Parent: parent, Handle: 7, Protocol: unix.ETH_P_ALL, Priority: 1},
		Fd:          prog.FD(), Name: "test", DirectAction: true,
	}
	if err := netlink.FilterAdd(filter); err != nil {
		return fmt.Errorf("add a filter: %w", err)
	}
	home, err := netlink.NewHandle() // the cleanup may run in another namespace
	if err != nil {
		return err
	}
	t.Cleanup(func() {
		_ = home.FilterDel(filter) // the device may be gone, and the filter with it
		home.Close()
	})
	return nil
}
