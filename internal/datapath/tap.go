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

// AttachTap puts the packet-out programs of a hook on its TAP. What an earlier daemon attached
// to the same interface is replaced without a gap.
func (p *Plane) AttachTap(h cube.Hook, ifindex int) error {
	type place struct {
		name string
		prog *ebpf.Program
		xdp  bool
	}
	places := []place{{"tap-tc", p.fw.downs["tc"], false}}
	if h == cube.XDP {
		places = []place{{"tap-xdp", p.fw.downs["xdp"], true}, {"tap-pass", p.fw.downs["pass"], false}}
	}
	for _, pl := range places {
		pin := filepath.Join(p.dir("links"), pl.name)
		if p.updateTap(pin, pl.prog, ifindex) {
			continue
		}
		var l ebpflink.Link
		var err error
		if pl.xdp {
			l, err = ebpflink.AttachXDP(ebpflink.XDPOptions{Program: pl.prog, Interface: ifindex})
		} else {
			l, err = p.attachTapTC(pl.prog, ifindex)
		}
		if err != nil {
			return fmt.Errorf("attaching %s: %w", pl.name, err)
		}
		if l == nil {
			continue
		}
		if err := errors.Join(l.Pin(pin), l.Close()); err != nil {
			return fmt.Errorf("pinning %s: %w", pl.name, err)
		}
	}
	return nil
}

// attachTapTC uses a filter where there is no tcx; then there is no link to pin.
func (p *Plane) attachTapTC(prog *ebpf.Program, ifindex int) (ebpflink.Link, error) {
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

// updateTap updates the pinned link, if it is on this interface; another one's is dropped.
func (p *Plane) updateTap(pin string, prog *ebpf.Program, ifindex int) bool {
	l, err := ebpflink.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer l.Close()
	if info, err := l.Info(); err == nil && linkIfindex(info) == ifindex && l.Update(prog) == nil {
		return true
	}
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		p.log.Warn("removing a stale link", "pin", pin, "err", err)
	}
	return false
}
