// SPDX-License-Identifier: Apache-2.0

// What is listed is compared with what ip was told to make.

package netdev

import (
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

func TestHostileNamesAreRefused(t *testing.T) {
	for _, c := range []struct {
		name string
		ok   bool
	}{
		{"eth0", true}, {"a", true}, {"veth-1.100@x", true}, {"123456789012345", true}, {"größe", true}, {"...", true},
		{"", false}, {"1234567890123456", false}, {strings.Repeat("x", 1<<20), false}, {".", false}, {"..", false},
		{"a/b", false}, {"../x", false}, {"a b", false}, {"a\x00b", false}, {"a\n", false}, {"a\tb", false}, {"eth0:1", false}, {"\x7f", false},
	} {
		err := CheckName(c.name)
		if c.ok != (err == nil) || err != nil && !errors.Is(err, ErrInvalidName) {
			t.Errorf("%.20q: %v, want ok %v", c.name, err, c.ok)
		}
		if err != nil && len(err.Error()) > 300 {
			t.Errorf("%.20q: error of %d bytes", c.name, len(err.Error()))
		}
		if c.ok {
			continue
		}
		_, getErr := Get(c.name)
		_, readyErr := EnsureCanReceiveRedirects(c.name)
		_, prepareErr := PreparePeerForXDP(c.name)
		for _, err := range []error{getErr, readyErr, prepareErr} {
			if !errors.Is(err, ErrInvalidName) {
				t.Errorf("%.20q: %v, want ErrInvalidName", c.name, err)
			}
		}
	}
}

func TestMissingDeviceIsNotFound(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "real0", "type", "veth", "peer", "name", "real1")
	lab.Run("ip", "link", "property", "add", "dev", "real0", "altname", "other0")
	for _, name := range []string{"none0", "other0"} {
		for what, fn := range map[string]func() error{
			"Get":                       func() error { _, err := Get(name); return err },
			"EnsureCanReceiveRedirects": func() error { _, err := EnsureCanReceiveRedirects(name); return err },
			"PreparePeerForXDP":         func() error { _, err := PreparePeerForXDP(name); return err },
		} {
			if err := lab.Do(fn); !errors.Is(err, ErrNotFound) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s(%s): %v, want ErrNotFound that names it", what, name, err)
			}
		}
	}
}

func TestListAndGetTellWhatIsThere(t *testing.T) {
	lab := netns.NewLab(t, netns.WithIPv6())
	lab.Host("h1", "10.9.0.2/24")
	for _, cmd := range []string{
		"link add a0 address 02:00:00:00:00:0a mtu 1400 type veth peer name b0",
		"addr add 10.0.0.1/24 dev a0",
		"addr add 10.0.0.9/32 dev a0",
		"addr add fd00::1/64 dev a0",
		"addr add 10.1.0.1 peer 10.1.0.2/32 dev b0",
		"link set a0 up",
		"link add br0 type bridge",
		"tuntap add tap0 mode tap",
		"tuntap add tun0 mode tun",
	} {
		lab.Run("ip", strings.Fields(cmd)...)
	}
	var infos []Info
	// The kernel gives link-local addresses a moment after the carrier, so the two are compared until it has.
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error {
		return lab.Do(func() (err error) {
			if infos, err = List(); err != nil {
				return err
			}
			for _, want := range infos {
				if got, err := Get(want.Name); err != nil || fmt.Sprint(got) != fmt.Sprint(want) {
					return fmt.Errorf("Get(%s): %+v, %w; List says %+v", want.Name, got, err, want)
				}
			}
			return nil
		})
	})
	by := map[string]Info{}
	for _, i := range infos {
		by[i.Name] = i
	}
	a, b := by["a0"], by["b0"]
	if a.MAC.String() != "02:00:00:00:00:0a" || a.MTU != 1400 || !a.Up || a.Carrier || b.Up {
		t.Errorf("a0 is %+v, b0 %+v", a, b)
	}
	if a.PeerIndex != b.Index || b.PeerIndex != a.Index || a.PeerNetnsID != -1 {
		t.Errorf("a0 is %+v, b0 %+v: want each other's peers here", a, b)
	}
	if h1 := by["h1"]; h1.PeerNetnsID < 0 || h1.PeerIndex == 0 || !h1.Carrier || !h1.Up {
		t.Errorf("h1 is %+v: want a peer elsewhere and a carrier", h1)
	}
	want := []netip.Prefix{netip.MustParsePrefix("10.0.0.1/24"), netip.MustParsePrefix("10.0.0.9/32"), netip.MustParsePrefix("fd00::1/64")}
	for _, p := range want {
		if !slices.Contains(a.Addresses, p) {
			t.Errorf("a0 has %v, want %v in it", a.Addresses, p)
		}
	}
	if len(b.Addresses) != 1 || b.Addresses[0].Addr() != netip.MustParseAddr("10.1.0.1") {
		t.Errorf("b0 has %v, want its own side of the link, 10.1.0.1", b.Addresses)
	}
	for name, kind := range map[string]string{"lo": "loopback", "a0": "veth", "br0": "bridge", "tap0": "tap", "tun0": "tun"} {
		if by[name].Kind != kind {
			t.Errorf("%s is of kind %q, want %q", name, by[name].Kind, kind)
		}
	}
}

func TestAListingThatIsDisturbedIsRepeated(t *testing.T) {
	for _, c := range []struct {
		name      string
		disturbed int
		other     error
		want      error
	}{
		{"once", 1, nil, nil},
		{"many times", listTries - 1, nil, nil},
		{"again and again", listTries, nil, netlink.ErrDumpInterrupted},
		{"another error", 0, unix.EPERM, unix.EPERM},
	} {
		calls := 0
		got, err := Listed(func() (int, error) {
			if calls++; calls <= c.disturbed {
				return -1, fmt.Errorf("disturbed: %w", netlink.ErrDumpInterrupted)
			}
			return calls, c.other
		})
		if !errors.Is(err, c.want) || err == nil && got != c.disturbed+1 || calls > listTries {
			t.Errorf("%s: %d, %v after %d calls, want %v", c.name, got, err, calls, c.want)
		}
	}
}

// TestDevicesAreReadWhileOthersComeAndGo: the kernel interrupts a listing when what it lists changes, for a hundredth of
// them where containers are started all the time.
func TestDevicesAreReadWhileOthersComeAndGo(t *testing.T) {
	lab := netns.NewLab(t)
	for i := range 60 {
		lab.Run("ip", "link", "add", fmt.Sprintf("a%d", i), "type", "veth", "peer", "name", fmt.Sprintf("b%d", i))
	}
	stop, done := make(chan struct{}), make(chan error)
	go func() {
		done <- lab.Do(func() error {
			come := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: "come"}, PeerName: "go"}
			for {
				select {
				case <-stop:
					return nil
				default:
				}
				if err := netlink.LinkAdd(come); err != nil {
					return err
				}
				if err := netlink.LinkDel(come); err != nil {
					return err
				}
			}
		})
	}()
	err := lab.Do(func() error {
		for i := range 400 {
			if _, err := Get(fmt.Sprintf("a%d", i%60)); err != nil {
				return err
			}
			if _, err := List(); err != nil {
				return err
			}
		}
		return nil
	})
	close(stop)
	if err := errors.Join(err, <-done); err != nil {
		t.Error(err)
	}
}

// TestVLANNetdevsAreDescribed: those that do nothing but add and remove a tag, and those that do more.
func TestVLANNetdevsAreDescribed(t *testing.T) {
	need.Features(t, need.VLAN)
	lab := netns.NewLab(t)
	other := netns.NewLab(t)
	lab.Run("ip", "link", "add", "below", "type", "veth", "peer", "name", "end")
	lab.Run("ip", "link", "add", "br0", "type", "bridge")
	get := func(name string) (i Info) {
		lab.Must(func() (err error) { i, err = Get(name); return err })
		return i
	}
	below := get("below").Index
	plain := VLAN{Below: below, Protocol: 0x8100, ID: 7, Plain: true}
	not := VLAN{Below: below, Protocol: 0x8100, ID: 7}
	for _, c := range []struct {
		options string
		then    string
		want    VLAN
	}{
		{"id 7", "", plain},
		{"protocol 802.1ad id 4094", "", VLAN{Below: below, Protocol: 0x88a8, ID: 4094, Plain: true}},
		{"id 0", "", VLAN{Below: below, Protocol: 0x8100, Plain: true}},
		{"id 7 gvrp on loose_binding on", "", plain},
		{"id 7 reorder_hdr off", "", not},
		{"id 7 egress-qos-map 0:1", "", not},
		{"id 7 ingress-qos-map 1:1", "", not},
		{"id 7", "link set v master br0", not},
	} {
		lab.Run("ip", strings.Fields("link add link below name v type vlan "+c.options)...)
		if c.then != "" {
			lab.Run("ip", strings.Fields(c.then)...)
		}
		if got := get("v").VLAN; got != c.want {
			t.Errorf("%s %s: %+v, want %+v", c.options, c.then, got, c.want)
		}
		lab.Run("ip", "link", "del", "v")
	}
	if v := get("end").VLAN; v != (VLAN{}) {
		t.Errorf("a veth is %+v", v)
	}
	// Of a netdev whose link below is in another namespace, the index means nothing here.
	lab.Run("ip", "link", "add", "link", "below", "name", "v", "type", "vlan", "id", "7")
	lab.Must(func() error {
		v, err := netlink.LinkByName("v")
		if err != nil {
			return err
		}
		return netlink.LinkSetNsFd(v, other.Fd())
	})
	other.Must(func() error {
		i, err := Get("v")
		if i.VLAN.Below != 0 || i.VLAN.ID != 7 {
			t.Errorf("in another namespace: %+v", i.VLAN)
		}
		return err
	})
}

func TestNetdevsThatTakeFramesAreDescribed(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "below", "type", "veth", "peer", "name", "end")
	lab.Run("ip", "link", "add", "link", "below", "name", "m", "type", "macvlan")
	lab.Must(func() error {
		below, err := Get("below")
		if err != nil {
			return err
		}
		m, err := Get("m")
		if m.Carries != below.Index || below.Carries != 0 {
			t.Errorf("the macvlan takes frames of %d, the veth of %d; want %d and 0", m.Carries, below.Carries, below.Index)
		}
		return err
	})
}
