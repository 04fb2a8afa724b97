// SPDX-License-Identifier: Apache-2.0

// The device itself, in namespaces of the tests' own.

package slowpath

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/test/netns"
)

// openTap opens a TAP in a namespace and removes it when the test ends.
func openTap(t testing.TB, ns *netns.Namespace, name string) *Tap {
	t.Helper()
	var tap *Tap
	ns.Must(func() (err error) { tap, err = OpenTap(name); return err })
	t.Cleanup(func() {
		if err := ns.Do(tap.Remove); err != nil {
			t.Error(err)
		}
	})
	return tap
}

func TestTapIsSilentAndStays(t *testing.T) {
	ns := netns.New(t, netns.WithIPv6())
	tap := openTap(t, ns, "pcn0")
	check := func() {
		t.Helper()
		ns.Must(func() error {
			link, err := netlink.LinkByName("pcn0")
			if err != nil {
				return err
			}
			a := link.Attrs()
			if a.Index != tap.Index() || a.RawFlags&0x80 == 0 || a.RawFlags&1 == 0 || a.TxQLen != tapQueue || a.MTU != tapMTU {
				t.Errorf("index %d (Index says %d), flags %x, queue %d, MTU %d", a.Index, tap.Index(), a.RawFlags, a.TxQLen, a.MTU)
			}
			for file, want := range map[string]string{"addr_gen_mode": "1", "disable_ipv6": "1"} {
				if got, err := os.ReadFile(filepath.Join(ipv6Conf, "pcn0", file)); err != nil || strings.TrimSpace(string(got)) != want {
					t.Errorf("%s is %q, %v", file, got, err)
				}
			}
			addrs, err := netlink.AddrList(link, netlink.FAMILY_ALL)
			if len(addrs) != 0 {
				t.Errorf("it has addresses: %v", addrs)
			}
			return err
		})
	}
	check()
	if err := ns.Do(func() error { _, err := OpenTap("pcn0"); return err }); err == nil || errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), "another process") {
		t.Errorf("opened twice: %v", err)
	}
	index := tap.Index()
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	ns.Run("ip", "link", "set", "pcn0", "down", "arp", "on", "mtu", "1400", "txqueuelen", "500")
	tap = openTap(t, ns, "pcn0")
	check()
	if tap.Index() != index {
		t.Errorf("index %d after it was opened again, it was %d", tap.Index(), index)
	}
}

func TestTapLeavesStrangersAlone(t *testing.T) {
	ns := netns.New(t)
	for _, cmd := range []string{
		"tuntap add mode tap name tap0", "tuntap add mode tun name tun0", "link add d0 type bridge", "link add v0 type veth peer name v1",
	} {
		ns.Run("ip", strings.Fields(cmd)...)
	}
	before := ns.Run("ip", "-d", "link", "show")
	for _, name := range []string{"tap0", "tun0", "d0", "v0", "lo"} {
		if err := ns.Do(func() error { _, err := OpenTap(name); return err }); !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want ErrForeign that names it", name, err)
		}
	}
	for _, name := range []string{"", "1234567890123456", "a/b", "a b", "pcn%d", ".", ".."} {
		if err := ns.Do(func() error { _, err := OpenTap(name); return err }); err == nil {
			t.Errorf("%q: accepted", name)
		}
	}
	if after := ns.Run("ip", "-d", "link", "show"); after != before {
		t.Errorf("devices were changed:\n%s\nbefore:\n%s", after, before)
	}
}

func TestTapIsRemovedEvenAfterClose(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Tap) error
	}{
		{"open", func(tap *Tap) error { return tap.Remove() }},
		{"closed", func(tap *Tap) error { return errors.Join(tap.Close(), tap.Remove()) }},
		{"removed", func(tap *Tap) error { return errors.Join(tap.Remove(), tap.Remove()) }},
	} {
		ns := netns.New(t)
		var tap *Tap
		ns.Must(func() (err error) { tap, err = OpenTap("pcn0"); return err })
		if err := ns.Do(func() error { return c.end(tap) }); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		var exit *exec.ExitError
		if err := ns.Command("ip", "link", "show", "pcn0").Run(); !errors.As(err, &exit) {
			t.Errorf("%s: the device is still there: %v", c.name, err)
		}
		if err := tap.Close(); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", c.name, err)
		}
		if err := tap.SetDown(nil); !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", c.name, err)
		}
	}
}

// Where /sys shows the device, frames stay on the CPU that writes them, whatever somebody set.
func TestTapHandlesFramesOnTheWritersCPU(t *testing.T) {
	netns.NeedRoot(t)
	name := fmt.Sprintf("pcnt%d", os.Getpid())
	tap, err := OpenTap(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tap.Remove(); err != nil {
			t.Error(err)
		}
	}()
	file := filepath.Join("/sys/class/net", name, "queues/rx-0/rps_cpus")
	if err := os.WriteFile(file, []byte("1"), 0); err != nil {
		t.Skipf("set %s: %v", file, err)
	}
	if err := tap.Close(); err != nil {
		t.Fatal(err)
	}
	if tap, err = OpenTap(name); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(file); err != nil || strings.Trim(strings.TrimSpace(string(got)), "0,") != "" {
		t.Errorf("rps_cpus is %s, %v", got, err)
	}
}
