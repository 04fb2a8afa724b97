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
	"github.com/polycube/polycube/internal/datapath/abi"
)

// own is a program of the framework on one of our own interfaces.
type own struct {
	pin, program string
	// xdp is the mode at XDP, 0 for a program at TC ingress.
	xdp ebpflink.XDPAttachFlags
}

// AttachTap puts the packet-out programs of a hook on its TAP. What an earlier daemon attached
// to the same interface is replaced without a gap.
func (p *Plane) AttachTap(h cube.Hook, ifindex int) error {
	if h == cube.TC {
		return p.attachOwn(ifindex, own{"tap-tc", "tc", 0})
	}
	if err := p.sharesFrames(ifindex); err != nil {
		return err
	}
	return p.attachOwn(ifindex, own{"tap-xdp", "xdp", ebpflink.XDPDriverMode}, own{"tap-pass", "pass", 0})
}

// AttachLoop puts the programs on both ends, where copies come back in: those of native XDP at In, those of generic XDP at
// Out.
func (p *Plane) AttachLoop() error {
	in, out := p.opts.Loop.In, p.opts.Loop.Out
	return errors.Join(
		p.sharesFrames(out),
		p.attachOwn(in, own{"loop-xdp", "loop-in", ebpflink.XDPDriverMode}, own{"loop-pass", "pass", 0}),
		p.attachOwn(out, own{"loop-skb", "loop-in", ebpflink.XDPGenericMode}, own{"loop-skb-pass", "pass", 0}),
	)
}

// sharesFrames tells programs that the copies of a frame from an interface may share its bytes, as with generic XDP.
func (p *Plane) sharesFrames(ifindex int) error {
	if err := p.fw.maps[abi.MapGeneric].Put(uint32(ifindex), uint32(1)); err != nil {
		return fmt.Errorf("interface %d has generic XDP: %w", ifindex, err)
	}
	return nil
}

func (p *Plane) attachOwn(ifindex int, programs ...own) error {
	for _, o := range programs {
		pin, prog := filepath.Join(p.dir("links"), o.pin), p.fw.downs[o.program]
		if p.updateOwn(pin, prog, ifindex) {
			continue
		}
		var l ebpflink.Link
		var err error
		if o.xdp != 0 {
			l, err = ebpflink.AttachXDP(ebpflink.XDPOptions{Program: prog, Interface: ifindex, Flags: o.xdp})
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
