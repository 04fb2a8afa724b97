// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"

	"github.com/polycube/polycube/cube"
)

// own is a program of the framework on one of our own interfaces.
type own struct {
	pin, program string
	xdp          bool
}

// AttachTap puts the packet-out programs of a hook on its TAP. What an earlier daemon attached
// to the same interface is replaced without a gap.
func (p *Plane) AttachTap(h cube.Hook, ifindex int) error {
	if h == cube.TC {
		return p.attachOwn(ifindex, own{"tap-tc", "tc", false})
	}
	return p.attachOwn(ifindex, own{"tap-xdp", "xdp", true}, own{"tap-pass", "pass", false})
}

// AttachLoop puts the programs on the end where copies come back in.
func (p *Plane) AttachLoop() error {
	return p.attachOwn(p.opts.Loop.In, own{"loop-xdp", "loop-in", true}, own{"loop-pass", "pass", false})
}

func (p *Plane) attachOwn(ifindex int, programs ...own) error {
	for _, o := range programs {
		pin, prog := filepath.Join(p.dir("links"), o.pin), p.fw.downs[o.program]
		if p.updateOwn(pin, prog, ifindex) {
			continue
		}
		var l ebpflink.Link
		var err error
		if o.xdp {
			l, err = ebpflink.AttachXDP(ebpflink.XDPOptions{Program: prog, Interface: ifindex})
		} else {
			l, err = p.attachOwnTC(prog, ifindex)
		}
		if err != nil {
			return fmt.Errorf("attaching %s: %w", o.pin, err)
		}
		if l == nil {
			continue
		}
		if err := errors.Join(l.Pin(pin), l.Close()); err != nil {
			return fmt.Errorf("pinning %s: %w", o.pin, err)
		}
	}
	return nil
}

// attachOwnTC uses a filter where there is no tcx; then there is no link to pin.
func (p *Plane) attachOwnTC(prog *ebpf.Program, ifindex int) (ebpflink.Link, error) {
	if !p.opts.Clsact {
		l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{
			Program: prog, Interface: ifindex, Attach: ebpf.AttachTCXIngress,
		})
		if !errors.Is(err, ebpf.ErrNotSupported) {
			return l, err
		}
	}
	_, err := attachFilter(spot{ifindex, kindIngress}, tapFilterName(p.opts.Instance), prog)
	return nil, err
}

// updateOwn updates the pinned link, if it is on this interface; another one's is dropped.
func (p *Plane) updateOwn(pin string, prog *ebpf.Program, ifindex int) bool {
	l, err := ebpflink.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer func() { _ = l.Close() }()
	if info, err := l.Info(); err == nil && linkIfindex(info) == ifindex && l.Update(prog) == nil {
		return true
	}
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("removing a stale link", "pin", pin, "err", err)
	}
	return false
}
