// SPDX-License-Identifier: Apache-2.0

// What happens when the BPF file system takes no pins: a change that needs one is refused with
// what to do, and a pin that cannot be removed is removed later.

package datapath

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// temporary tells whether the machine had no room for something that it may have room for later.
func temporary(err error) bool {
	return slices.ContainsFunc([]error{unix.EROFS, unix.ENOMEM, unix.EMFILE, unix.ENFILE}, func(e error) bool { return errors.Is(err, e) })
}

// withoutDescriptors returns the reason for an error that says a feature is missing. The library
// says so of a kernel that it cannot ask, because the process has no descriptor left.
func withoutDescriptors(err error) error {
	if !errors.Is(err, ebpf.ErrNotSupported) {
		return err
	}
	fd, no := unix.Eventfd(0, unix.EFD_CLOEXEC)
	if no != nil {
		return no
	}
	_ = unix.Close(fd)
	return err
}

// dispose closes a generation that no packet is in, now or, where its pins cannot be removed, later.
func (p *Plane) dispose(gen *generation) {
	_ = p.collect.OrLater(gen.close) // the collector has logged it
}
