// SPDX-License-Identifier: Apache-2.0

// The TAP through which packets go down. Only this framework uses the device: the stack must neither send on it nor
// receive from it, and it stays when the daemon ends, because programs in the kernel also send copies through it.

package slowpath

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/cilium/ebpf"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

const (
	tunDevice = "/dev/net/tun"
	// tapAlias marks the devices created here; ip link shows it.
	tapAlias = "polycube slow path"
	// tapMTU is the maximum of a TAP. A copy that a program sends to the TAP is checked against it.
	tapMTU = 65535 - ethernetHead
	// tapQueue is the shortest queue: nobody reads what the stack sends here.
	tapQueue = 1
	tapFlags = unix.IFF_TAP | unix.IFF_NO_PI | unix.IFF_VNET_HDR
)

// ErrForeign is returned for an existing device with the wanted name that was not created here.
var ErrForeign = errors.New("a network device with this name exists and was not created by polycubed")

// Tap is a TAP that sends packets down into the programs attached to it.
type Tap struct {
	name  string
	index int

	mu   sync.Mutex
	fd   int // -1 when closed
	mem  []byte
	down *down
	// waits is true if writes may wait (see wait).
	waits bool
	// Buffers of a write, so that packets allocate nothing.
	head [virtioHead]byte
	iov  [2]unix.Iovec
}

// OpenTap creates the TAP, or reuses the one that OpenTap created before, in the network namespace of the calling
// thread. A device of that name that is something else is ErrForeign.
func OpenTap(name string) (*Tap, error) {
	t := &Tap{name: name}
	exists, err := ownTap(name)
	if err != nil {
		return nil, fmt.Errorf("open the TAP %s: %w", name, err)
	}
	if t.fd, err = attachTap(name, exists); err != nil {
		return nil, fmt.Errorf("open the TAP %s: %w", name, err)
	}
	if err := t.configure(); err != nil {
		undo := unix.Close // a device that is not persistent is deleted with its descriptor
		if !exists {
			undo = dropTap
		}
		return nil, fmt.Errorf("open the TAP %s: %w", name, errors.Join(err, undo(t.fd)))
	}
	return t, nil
}

// ownTap reports whether the device exists; it is an error if it was not created here.
func ownTap(name string) (bool, error) {
	if name == "" || len(name) >= unix.IFNAMSIZ || strings.ContainsAny(name, "/%: \t\n") || name == "." || name == ".." {
		return false, errors.New("not a name of a network device")
	}
	link, err := netlink.LinkByName(name)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return false, nil
	case err != nil:
		return false, err
	}
	tap, ok := link.(*netlink.Tuntap)
	if !ok || tap.Mode != netlink.TUNTAP_MODE_TAP || tap.Attrs().Alias != tapAlias || tap.Attrs().Name != name {
		return false, ErrForeign
	}
	return true, nil
}

// attachTap opens a descriptor of the device, which the kernel creates unless it exists.
func attachTap(name string, exists bool) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return -1, err
	}
	fd, err := unix.Open(tunDevice, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return -1, fmt.Errorf("%s: %w", tunDevice, err)
	}
	flags := uint16(tapFlags)
	if !exists {
		flags |= unix.IFF_TUN_EXCL // another process may be creating it now
	}
	ifr.SetUint16(flags)
	err = unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr)
	switch {
	case err == nil:
		return fd, nil
	case errors.Is(err, unix.EBUSY) && exists:
		err = fmt.Errorf("another process uses it: %w", err)
	case errors.Is(err, unix.EBUSY):
		err = fmt.Errorf("%w: %w", ErrForeign, err)
	default:
		err = fmt.Errorf("attach: %w", err)
	}
	return -1, errors.Join(err, unix.Close(fd))
}

// configure configures the device, even if it was changed since it was created.
func (t *Tap) configure() error {
	link, err := netlink.LinkByName(t.name)
	if err != nil {
		return err
	}
	t.index = link.Attrs().Index
	for _, step := range []struct {
		what string
		do   func() error
	}{
		{"mark it", func() error { return netlink.LinkSetAlias(link, tapAlias) }},
		{"header size", func() error { return unix.IoctlSetPointerInt(t.fd, unix.TUNSETVNETHDRSZ, virtioHead) }},
		{"keep it", func() error { return unix.IoctlSetInt(t.fd, unix.TUNSETPERSIST, 1) }},
		{"ARP off", func() error { return netlink.LinkSetARPOff(link) }},
		{"IPv6 addresses off", func() error { return t.write(ipv6Conf, "addr_gen_mode", "1") }},
		{"IPv6 off", func() error { return t.write(ipv6Conf, "disable_ipv6", "1") }},
		{"receive on the sender's CPU", t.stayOnCPU},
		{"queue length", func() error { return netlink.LinkSetTxQLen(link, tapQueue) }},
		{"MTU", func() error { return netlink.LinkSetMTU(link, tapMTU) }},
		{"up", func() error { return netlink.LinkSetUp(link) }},
	} {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
	}
	return nil
}

const (
	ipv6Conf   = "/proc/sys/net/ipv6/conf"
	rpsDefault = "/proc/sys/net/core/rps_default_mask"
)

// write sets a file of the device; on a kernel without the feature the file does not exist, and there is nothing to
// switch off.
func (t *Tap) write(dir, file, value string) error {
	err := os.WriteFile(filepath.Join(dir, t.name, file), []byte(value), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// stayOnCPU keeps the kernel from passing frames to another CPU: the program must run inside the write. In a network
// namespace whose devices /sys does not show, a new device has the namespace's default.
func (t *Tap) stayOnCPU() error {
	path := filepath.Join("/sys/class/net", t.name)
	if index, err := os.ReadFile(filepath.Join(path, "ifindex")); err == nil && strings.TrimSpace(string(index)) == fmt.Sprint(t.index) {
		return t.write("/sys/class/net", "queues/rx-0/rps_cpus", "0")
	}
	mask, err := os.ReadFile(rpsDefault)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if strings.Trim(strings.TrimSpace(string(mask)), "0,") != "" {
		return fmt.Errorf("not visible in /sys, and %s is %s", rpsDefault, strings.TrimSpace(string(mask)))
	}
	return nil
}

// Index is the interface index.
func (t *Tap) Index() int { return t.index }

// SetDown sets the map by which the TAP's program learns what to do with a frame (pcn_down). The map may be closed
// afterwards.
func (t *Tap) SetDown(m *ebpf.Map) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 {
		return fmt.Errorf("TAP %s: %w", t.name, ErrClosed)
	}
	mem, err := mapArray(m, "pcn_down", downSize, 1)
	if err != nil {
		return fmt.Errorf("TAP %s: %w", t.name, err)
	}
	old := t.mem
	t.setMemory(mem)
	if err := unmap(old); err != nil {
		return fmt.Errorf("TAP %s: unmap the previous map: %w", t.name, err)
	}
	return nil
}

// Close closes the device, which stays.
func (t *Tap) Close() error {
	return t.end("close", unix.Close)
}

// Remove deletes the device, also after Close.
func (t *Tap) Remove() error {
	err := t.end("remove", dropTap)
	if !errors.Is(err, ErrClosed) {
		return err
	}
	link, err := netlink.LinkByIndex(t.index)
	var missing netlink.LinkNotFoundError
	switch {
	case errors.As(err, &missing):
		return nil
	case err == nil && (link.Attrs().Alias != tapAlias || link.Attrs().Name != t.name):
		return fmt.Errorf("remove the TAP %s: %w", t.name, ErrForeign)
	case err == nil:
		err = netlink.LinkDel(link)
	}
	if err != nil {
		return fmt.Errorf("remove the TAP %s: %w", t.name, err)
	}
	return nil
}

// dropTap makes the device non-persistent, so that it is deleted with its descriptor.
func dropTap(fd int) error {
	return errors.Join(unix.IoctlSetInt(fd, unix.TUNSETPERSIST, 0), unix.Close(fd))
}

func (t *Tap) end(what string, finish func(fd int) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.fd < 0 {
		return fmt.Errorf("%s the TAP %s: %w", what, t.name, ErrClosed)
	}
	err := errors.Join(unmap(t.mem), finish(t.fd))
	t.fd, t.mem, t.down = -1, nil, nil
	if err != nil {
		return fmt.Errorf("%s the TAP %s: %w", what, t.name, err)
	}
	return nil
}
