// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/internal/datapath/framework"
)

// Helpers are the interfaces of the daemon itself: the TAPs of the slow path, the loop, the ends of spans.
type Helpers struct {
	dir, instance string
	clsact        bool
	loop          framework.Loop
	indexes       map[int]bool // of the TAPs and the ends of the loop
	fw            *framework.Framework
	log           *slog.Logger
}

// NewHelpers creates the Helpers of a Plane.
func NewHelpers(s Options) *Helpers {
	h := &Helpers{dir: s.Dir, instance: s.Instance, clsact: s.Clsact, loop: s.Loop, fw: s.Framework, log: s.Logger}
	h.indexes = s.helpers()
	return h
}

// helpers are the indexes of the TAPs and of the ends of the loop.
func (s Options) helpers() map[int]bool {
	indexes := map[int]bool{s.Loop.In: true, s.Loop.Out: true}
	for _, tap := range s.Taps {
		indexes[tap] = true
	}
	delete(indexes, 0)
	return indexes
}

// ForgetHelper removes an interface of the daemon from a trip. A packet that was sent down without a netdev comes up
// again as if it had entered there, but these interfaces have no stack that wants it.
func (h *Helpers) ForgetHelper(t *cube.Trip) {
	if h.indexes[t.Netdev] {
		t.Netdev = 0
	}
}

// own is a program of the framework on one of our own interfaces.
type own struct {
	pin, program string
	// xdp is the mode at XDP, 0 for a program at TC ingress.
	xdp ebpflink.XDPAttachFlags
}

// AttachTap attaches the packet-out programs of a hook to its TAP. Programs that a previous daemon attached to the same
// interface are replaced without a gap.
func (h *Helpers) AttachTap(hook cube.Hook, ifindex int) error {
	if hook == cube.TC {
		return h.attachOwn(ifindex, own{"tap-tc", "tc", 0})
	}
	if err := h.sharesFrames(ifindex); err != nil {
		return err
	}
	return h.attachOwn(ifindex, own{"tap-xdp", "xdp", ebpflink.XDPDriverMode}, own{"tap-pass", "pass", 0})
}

// AttachLoop attaches the programs to both ends, where copies come back in: those of native XDP at In, those of generic
// XDP at Out.
func (h *Helpers) AttachLoop() error {
	in, out := h.loop.In, h.loop.Out
	return errors.Join(
		h.sharesFrames(out),
		h.attachOwn(in, own{"loop-xdp", "loop-in", ebpflink.XDPDriverMode}, own{"loop-pass", "pass", 0}),
		h.attachOwn(out, own{"loop-skb", "loop-in", ebpflink.XDPGenericMode}, own{"loop-skb-pass", "pass", 0}),
	)
}

// sharesFrames tells programs that the copies of a frame from an interface may share its bytes, as with generic XDP.
func (h *Helpers) sharesFrames(ifindex int) error {
	if err := h.fw.Maps[abi.MapGeneric].Put(uint32(ifindex), uint32(1)); err != nil {
		return fmt.Errorf("interface %d has generic XDP: %w", ifindex, err)
	}
	return nil
}

func (h *Helpers) attachOwn(ifindex int, programs ...own) error {
	for _, o := range programs {
		pin, prog := filepath.Join(h.dir, "links", o.pin), h.fw.Downs[o.program]
		if h.updateOwn(pin, prog, ifindex) {
			continue
		}
		var l ebpflink.Link
		var err error
		if o.xdp != 0 {
			l, err = ebpflink.AttachXDP(ebpflink.XDPOptions{Program: prog, Interface: ifindex, Flags: o.xdp})
		} else {
			l, err = h.attachOwnTC(prog, ifindex)
		}
		if err != nil {
			return fmt.Errorf("attach %s: %w", o.pin, err)
		}
		if l == nil {
			continue
		}
		if err := errors.Join(l.Pin(pin), l.Close()); err != nil {
			return fmt.Errorf("pin %s: %w", o.pin, err)
		}
	}
	return nil
}

// attachOwnTC uses a filter if there is no tcx; then there is no link to pin.
func (h *Helpers) attachOwnTC(prog *ebpf.Program, ifindex int) (ebpflink.Link, error) {
	if !h.clsact {
		l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{
			Program: prog, Interface: ifindex, Attach: ebpf.AttachTCXIngress,
		})
		if !errors.Is(err, ebpf.ErrNotSupported) {
			return l, err
		}
	}
	_, err := attachFilter(spot{ifindex, kindIngress}, tapFilterName(h.instance), prog)
	return nil, err
}

// updateOwn updates the pinned link, if it is on this interface; a link of another one is dropped.
func (h *Helpers) updateOwn(pin string, prog *ebpf.Program, ifindex int) bool {
	l, err := ebpflink.LoadPinnedLink(pin, nil)
	if err != nil {
		return false
	}
	defer func() { _ = l.Close() }()
	if info, err := l.Info(); err == nil && linkIfindex(info) == ifindex && l.Update(prog) == nil {
		return true
	}
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.log.Warn("remove a stale link", "pin", pin, "err", err)
	}
	return false
}

// AttachSpanEnd attaches a program to an interface of a cube's namespace that keeps copies of the cube's traffic from
// the stack there. The calling thread is in the namespace. It is a filter, which needs no pin and is removed with the
// interface.
func (h *Helpers) AttachSpanEnd(ifindex int) error {
	_, err := attachFilter(spot{ifindex, kindIngress}, "polycube-span", h.fw.Downs["span-end"])
	return err
}
