// SPDX-License-Identifier: Apache-2.0

package netdevs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/bpfmap"
	"github.com/polycube/polycube/internal/expedite"
)

// spot is one attachment point of one netdev.
type spot struct {
	ifindex int
	place   kind
}

// attachment is a root program on a netdev.
type attachment struct {
	spot spot
	root *root
	mode cube.Type // type of the cube it leads to; "" at TC after a restart, where it makes no difference
	port bool      // promiscuous as the peer of a port
	// link is the netdev's link state when it was last checked.
	link linkState
	hold holder
}

// holder keeps a program on a netdev: a pinned bpf_link, or a filter if the kernel has no tcx.
type holder interface {
	// update swaps the program without a gap.
	update(*root) error
	// detach detaches the program.
	detach() error
	// close closes descriptors; the program stays.
	close()
}

// linkHolder is a pinned bpf_link (XDP and tcx).
type linkHolder struct {
	link ebpflink.Link
	pin  string
}

func (l *linkHolder) update(r *root) error {
	expedite.Renew()
	return l.link.Update(r.prog)
}

func (l *linkHolder) detach() error {
	expedite.Renew()
	err := l.link.Detach()
	if errors.Is(err, unix.ENOLINK) || errors.Is(err, ebpf.ErrNotSupported) {
		err = nil // the netdev is gone already, or closing the link detaches
	}
	_ = l.link.Close()
	if rm := os.Remove(l.pin); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		err = errors.Join(err, rm)
	}
	return err
}

func (l *linkHolder) close() { _ = l.link.Close() }

// put attaches a root program to a netdev.
func (n *Netdevs) put(name string, s spot, mode cube.Type, r *root) (*attachment, error) {
	a := &attachment{spot: s, root: r, mode: mode}
	expedite.Renew()
	var err error
	switch {
	case s.place == kindXDP:
		a.hold, err = n.attachXDP(s, mode, r)
	case n.clsact:
		a.hold, err = attachFilter(s, filterName(n.instance, s.place), r.prog)
	default:
		a.hold, err = n.attachTCX(s, r)
		if errors.Is(err, ebpf.ErrNotSupported) {
			a.hold, err = attachFilter(s, filterName(n.instance, s.place), r.prog)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("attach to %s: %w", name, explain(err, name, mode))
	}
	return a, nil
}

// explain adds the remedy to kernel errors that users see.
func explain(err error, name string, mode cube.Type) error {
	switch {
	case errors.Is(err, unix.EBUSY), errors.Is(err, unix.EEXIST):
		return fmt.Errorf("%s already has another XDP program (see `ip link show %s`), detach it first: %w: %w", name, name, cube.ErrInUse, err)
	case errors.Is(err, unix.EOPNOTSUPP), errors.Is(err, ebpf.ErrNotSupported):
		return fmt.Errorf("the driver of %s does not support %s; use type XDP_SKB or TC: %w: %w", name, mode, cube.ErrUnsupported, err)
	case errors.Is(err, unix.ERANGE):
		return fmt.Errorf("the MTU of %s or of its peer is too large for %s; lower it: %w: %w", name, mode, cube.ErrUnsupported, err)
	}
	return err
}

func (n *Netdevs) linkPin(s spot) string {
	return filepath.Join(n.dir, "links", fmt.Sprintf("%s-%d", s.place, s.ifindex))
}

func (n *Netdevs) attachXDP(s spot, mode cube.Type, r *root) (holder, error) {
	flags := ebpflink.XDPDriverMode
	if mode == cube.TypeXDPSKB {
		flags = ebpflink.XDPGenericMode
	} else if dev, err := netlink.LinkByIndex(s.ifindex); err == nil && dev.Type() == "bond" {
		// The driver accepts the program and runs it in its members, and floods from there are lost.
		return nil, fmt.Errorf("the device is a bond: %w", unix.EOPNOTSUPP)
	}
	l, err := ebpflink.AttachXDP(ebpflink.XDPOptions{Program: r.prog, Interface: s.ifindex, Flags: flags})
	if err != nil {
		return nil, err
	}
	return n.pinLink(l, s)
}

func (n *Netdevs) attachTCX(s spot, r *root) (holder, error) {
	l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{Program: r.prog, Interface: s.ifindex, Attach: attachPoint(s.place), Anchor: n.anchor(s)})
	if err != nil {
		return nil, err
	}
	return n.pinLink(l, s)
}

// anchor says where among the programs of an attachment point one is put. That between a netdev and the stack is next to
// the netdev's own, or else in front of those of other tools: behind them it would not run if they accept the packet.
func (n *Netdevs) anchor(s spot) ebpflink.Anchor {
	if s.place == kindHostIn {
		if own, ok := n.attached[spot{s.ifindex, kindIngress}]; ok {
			return ebpflink.AfterProgram(own.root.prog)
		}
	}
	if s.place == kindEgress {
		if host, ok := n.attached[spot{s.ifindex, kindHostOut}]; ok {
			return ebpflink.AfterProgram(host.root.prog)
		}
	}
	return ebpflink.Head()
}

func (n *Netdevs) pinLink(l ebpflink.Link, s spot) (holder, error) {
	pin := n.linkPin(s)
	// An existing pin belongs to a netdev that had this index before.
	if err := os.Remove(pin); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(err, l.Close())
	}
	if err := l.Pin(pin); err != nil {
		return nil, errors.Join(fmt.Errorf("pin: %w", err), l.Close())
	}
	return &linkHolder{link: l, pin: pin}, nil
}

// openAttachments finds the attachments of a previous daemon.
func (n *Netdevs) openAttachments() error {
	roots, err := n.openRoots()
	if err != nil {
		return err
	}
	pins, err := os.ReadDir(filepath.Join(n.dir, "links"))
	if err != nil {
		return fmt.Errorf("read links: %w", err)
	}
	for _, pin := range pins {
		if err := n.openLink(pin.Name(), roots); err != nil {
			n.log.Warn("drop an attachment from before the restart", "pin", pin.Name(), "err", err)
			if err := os.Remove(filepath.Join(n.dir, "links", pin.Name())); err != nil {
				return fmt.Errorf("remove link: %w", err)
			}
		}
	}
	filters, err := openFilters(n.instance, roots)
	if err != nil {
		return err
	}
	for _, a := range filters {
		n.attached[a.spot] = a
	}
	used := map[*root]bool{}
	for _, a := range n.attached {
		used[a.root] = true
	}
	for _, r := range roots {
		n.roots[r] = true
		if !used[r] {
			delete(n.roots, r)
			if err := r.remove(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Netdevs) openLink(name string, roots map[ebpf.ProgramID]*root) error {
	place, number, _ := strings.Cut(name, "-")
	ifindex, err := strconv.Atoi(number)
	if err != nil {
		return nil //nolint:nilerr // a TAP's: updateOwn opens it
	}
	s := spot{ifindex: ifindex, place: kind(place)}
	l, err := ebpflink.LoadPinnedLink(n.linkPin(s), nil)
	if err != nil {
		return err
	}
	info, err := l.Info()
	if err != nil {
		return errors.Join(err, l.Close())
	}
	a := &attachment{spot: s, root: roots[info.Program], hold: &linkHolder{link: l, pin: n.linkPin(s)}}
	if a.root == nil || linkIfindex(info) != ifindex {
		return errors.Join(errors.New("its netdev or its root program was deleted"), l.Close())
	}
	a.mode = a.root.kind.mode()
	there, err := carries(info, s)
	if err == nil && !there {
		err = errors.New("its netdev is in another namespace")
	}
	if err != nil {
		return errors.Join(err, l.Close())
	}
	n.attached[s] = a
	return nil
}

// linkIfindex returns the netdev of a link, 0 if it is gone.
func linkIfindex(info *ebpflink.Info) int {
	if x := info.XDP(); x != nil {
		return int(x.Ifindex)
	}
	if t := info.TCX(); t != nil {
		return int(t.Ifindex)
	}
	return 0
}

// unpinLater removes the pin of a detached link once that is possible, unless the netdev has another one by then.
func (n *Netdevs) unpinLater(s spot, err error) {
	n.collect.Again(func() error {
		n.mu.Lock()
		defer n.mu.Unlock()
		if n.attached[s] != nil {
			return nil // attaching has replaced it
		}
		return bpfmap.RemovePin(n.linkPin(s))
	}, err)
}
