// SPDX-License-Identifier: Apache-2.0

// What happens when the BPF file system takes no pins: a change that needs one is refused with
// what to do, and a pin that cannot be removed is removed later.

package datapath

import (
	"errors"
	"slices"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/bpffs"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
)

// unpinned puts what to do in place of the error of a pin that cannot be made.
func (p *Plane) unpinned(err error) error {
	if !errors.Is(err, unix.EROFS) {
		return err
	}
	return &pinError{bpffs.ReadOnly(p.opts.Dir), err}
}

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

// pinError says what to do, and not which of the pins could not be made.
type pinError struct {
	*bpffs.ReadOnlyError
	cause error
}

func (e *pinError) Error() string { return e.ReadOnlyError.Error() + ": " + e.Remedy() }

func (e *pinError) Unwrap() []error { return []error{e.ReadOnlyError, cube.ErrUnavailable, e.cause} }

// dispose closes a generation that no packet is in, now or, where its pins cannot be removed, later.
func (p *Plane) dispose(gen *generation) {
	_ = p.collect.OrLater(gen.close) // the collector has logged it
}

// removePins removes those of a cube that is not open, and those of maps in common that nobody uses.
func (p *Plane) removePins(dir string) error {
	return errors.Join(bpfmap.RemoveAll(dir), p.dropCommons())
}

// removeLater is removePins once that is possible, unless the cube was opened again.
func (p *Plane) removeLater(dir string, err error) {
	p.collect.Again(func() error {
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, in := range p.cubes {
			if in.dir == dir {
				return nil
			}
		}
		return p.removePins(dir)
	}, err)
}
