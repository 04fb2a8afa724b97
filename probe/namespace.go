// SPDX-License-Identifier: Apache-2.0

package probe

// The namespace and its TUN device. Only its descriptor keeps it.

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// device is the name of the TUN device.
const device = "checks"

// open makes the namespace with its device.
func (p *Path) open(mtu int) error {
	err := apart(func() (err error) {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("unshare: %w", err)
		}
		if p.ns, err = os.Open("/proc/thread-self/ns/net"); err != nil {
			return err
		}
		if p.tun, err = openTUN(); err != nil {
			return errors.Join(err, p.ns.Close())
		}
		if err = up(mtu); err != nil {
			return errors.Join(err, p.tun.Close(), p.ns.Close())
		}
		return nil
	})
	p.mtu = mtu
	return err
}

// openTUN makes the device in the namespace of the thread. It is removed with its descriptor.
func openTUN() (*os.File, error) {
	fd, err := unix.Open("/dev/net/tun", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("/dev/net/tun: %w", err)
	}
	ifr, err := unix.NewIfreq(device)
	if err == nil {
		ifr.SetUint16(unix.IFF_TUN | unix.IFF_NO_PI)
		err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("a TUN device: %w", err), unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), "/dev/net/tun"), nil // registered with Go's poller
}

// up makes the device the way to everything, in the namespace of the thread.
func up(mtu int) error {
	link, err := netlink.LinkByName(device)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetMTU(link, mtu); err != nil {
		return fmt.Errorf("MTU %d: %w", mtu, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("set the device up: %w", err)
	}
	return routes(link, mtu)
}

// routes adds the default routes.
func routes(link netlink.Link, mtu int) error {
	for _, all := range []net.IPNet{{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, {IP: net.IPv6zero, Mask: net.CIDRMask(0, 128)}} {
		if all.IP.To4() == nil && mtu < MinIPv6 {
			continue
		}
		r := netlink.Route{LinkIndex: link.Attrs().Index, Dst: &all, Scope: netlink.SCOPE_LINK}
		if err := netlink.RouteReplace(&r); err != nil && !noIPv6(all.IP, err) {
			return fmt.Errorf("the route %s: %w", all.String(), err)
		}
	}
	return nil
}

// noIPv6 reports whether an error is due to a kernel without IPv6: checks of IPv6 then say that they cannot be made.
func noIPv6(a net.IP, err error) bool {
	return a.To4() == nil && (errors.Is(err, unix.EAFNOSUPPORT) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EACCES))
}

// SetSources makes these addresses, and no others, the ones that checks can have as their source.
func (p *Path) SetSources(sources []netip.Addr) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	want := map[netip.Addr]bool{}
	for _, a := range sources {
		want[a] = true
	}
	err := p.within(func(link netlink.Link) error {
		for a := range want {
			if !p.sources[a] && p.carries(a) {
				if err := netlink.AddrReplace(link, host(a)); err != nil && !noIPv6(a.AsSlice(), err) {
					return fmt.Errorf("the address %v: %w", a, err)
				}
			}
		}
		for a := range p.sources {
			if !want[a] && p.carries(a) {
				if err := netlink.AddrDel(link, host(a)); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
					return fmt.Errorf("the address %v: %w", a, err)
				}
			}
		}
		return routes(link, p.mtu) // the kernel removes those of IPv4 with the last address
	})
	if err != nil {
		return fmt.Errorf("sources of health checks: %w", err)
	}
	p.sources = want
	return nil
}

// carries reports whether the device has addresses of this family. The caller holds mu.
func (p *Path) carries(a netip.Addr) bool { return a.Is4() || p.mtu >= MinIPv6 }

// host is an address of the device. There is no one who could have the same.
func host(a netip.Addr) *netlink.Addr {
	return &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}, Flags: unix.IFA_F_NODAD}
}

// SetMTU changes the MTU.
func (p *Path) SetMTU(mtu int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if mtu == p.mtu {
		return nil
	}
	err := p.within(func(link netlink.Link) error {
		if err := netlink.LinkSetMTU(link, mtu); err != nil {
			return err
		}
		if mtu >= MinIPv6 { // the kernel has removed them if it was smaller
			for a := range p.sources {
				if err := netlink.AddrReplace(link, host(a)); err != nil && !noIPv6(a.AsSlice(), err) {
					return fmt.Errorf("the address %v: %w", a, err)
				}
			}
		}
		return routes(link, mtu)
	})
	if err != nil {
		return fmt.Errorf("MTU %d of health checks: %w", mtu, err)
	}
	p.mtu = mtu
	return nil
}

// within calls a function in the namespace, with the device.
func (p *Path) within(fn func(netlink.Link) error) error {
	return apart(func() error {
		if err := unix.Setns(int(p.ns.Fd()), unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter the namespace: %w", err)
		}
		link, err := netlink.LinkByName(device)
		if err != nil {
			return err
		}
		return fn(link)
	})
}

// apart calls a function that changes its thread's namespace, on a thread other than the first of the process, whose
// namespace would be shown as that of the process.
func apart(fn func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			moved := make(chan struct{})
			go func() {
				runtime.LockOSThread()
				close(moved)
				result <- stay(fn)
			}()
			<-moved // while this goroutine occupies the first thread
			runtime.UnlockOSThread()
			return
		}
		result <- stay(fn)
	}()
	return <-result
}

// stay returns the thread to its namespace. If that is impossible, the thread stays locked and ends with its goroutine.
func stay(fn func() error) error {
	home, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	defer home.Close()
	err = fn()
	if back := unix.Setns(int(home.Fd()), unix.CLONE_NEWNET); back != nil {
		return errors.Join(err, fmt.Errorf("return to the namespace: %w", back))
	}
	runtime.UnlockOSThread()
	return err
}
