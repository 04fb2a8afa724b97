// SPDX-License-Identifier: Apache-2.0

package main

// A phone: its device, its session, and the usage that was reported of it.

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"text/tabwriter"

	"github.com/vishvananda/netlink"
	"github.com/wmnsk/go-pfcp/ie"
	"github.com/wmnsk/go-pfcp/message"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/ran"
	"github.com/polycube/polycube/test/smf"
)

// phone is a phone in a namespace of its own.
type phone struct {
	ran.Phone
	name, namespace string
	session         *smf.Session // nil: none any more
	station         int
	// seen are the numbers of the reports in sum. One that was not answered in time comes again.
	seen map[uint32]bool
	sum  smf.Usage
}

// device is the name of the TUN device in each phone's namespace.
const device = "tun0"

// inside runs a function on a thread of a network namespace.
func inside(namespace string, do func() error) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends
		f, err := os.Open(filepath.Join("/run/netns", namespace))
		if err == nil {
			err = unix.Setns(int(f.Fd()), unix.CLONE_NEWNET)
			_ = f.Close() // it was only read
		}
		if err == nil {
			err = do()
		}
		result <- err
	}()
	return <-result
}

// connect makes the phone's device, with the address of the session and a default route.
func (p *phone) connect(station *ran.Station) error {
	return inside(p.namespace, func() error {
		if err := station.Attach(device, &p.Phone); err != nil {
			return err
		}
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		address := &net.IPNet{IP: p.session.IPv4.AsSlice(), Mask: net.CIDRMask(32, 32)}
		_, all, err := net.ParseCIDR("0.0.0.0/0")
		for _, do := range []func() error{
			func() error { return err },
			func() error { return netlink.AddrAdd(link, &netlink.Addr{IPNet: address}) },
			func() error { return netlink.LinkSetMTU(link, ran.MTU) },
			func() error { return netlink.LinkSetUp(link) },
			func() error { return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Dst: all}) },
		} {
			if err := do(); err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
		}
		return nil
	})
}

// note adds the usage reports of a message.
func (p *phone) note(m message.Message) error {
	reports, err := smf.UsageReports(m)
	if err != nil {
		return err
	}
	if p.seen == nil {
		p.seen = map[uint32]bool{}
	}
	for _, r := range reports {
		if !p.seen[r.Sequence] {
			p.seen[r.Sequence] = true
			p.sum.Up, p.sum.Down = p.sum.Up+r.Up, p.sum.Down+r.Down
		}
	}
	return nil
}

// passed are the bytes that the phone has sent and got.
func (p *phone) passed() (up, down uint64, err error) {
	err = inside(p.namespace, func() error {
		link, err := netlink.LinkByName(device)
		if err == nil {
			n := link.Attrs().Statistics
			up, down = n.TxBytes, n.RxBytes
		}
		return err
	})
	return up, down, err
}

// usages asks for the usage of all phones, and returns a table. Reports that differ from what has passed a phone's device are an
// error, unless packets are on their way.
func (n *network) usages(ctx context.Context) (string, error) {
	var text strings.Builder
	var wrong error
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "phone\taddress\treports\tbytes up\tbytes down\tup, by the phone\tdown, by the phone")
	for _, p := range n.phones {
		if p.session == nil {
			continue
		}
		if err := n.modify(ctx, p, ie.NewQueryURR(ie.NewURRID(usage))); err != nil {
			return "", err
		}
		up, down, err := p.passed()
		if err != nil {
			return "", err
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\n", p.name, p.session.IPv4, len(p.seen), p.sum.Up, p.sum.Down, up, down)
		if p.sum.Up != up || p.sum.Down != down {
			wrong = fmt.Errorf("the reports of %s say %d bytes up and %d down, %d and %d have passed its device", p.name, p.sum.Up, p.sum.Down, up, down)
		}
	}
	if wrong != nil {
		return "", wrong
	}
	err := w.Flush()
	return text.String(), err
}
