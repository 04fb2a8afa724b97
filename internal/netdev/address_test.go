// SPDX-License-Identifier: Apache-2.0

package netdev

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func prefixesOf(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// set changes a device and looks at it.
func set(t *testing.T, lab *netns.Lab, d Settings) (status Status, refused error) {
	t.Helper()
	lab.Must(func() error {
		now, err := StatusOf("a0")
		if err != nil {
			return err
		}
		refused = Put(now.Index, d)
		status, err = StatusOf("a0")
		return err
	})
	return status, refused
}

func wantStatus(t *testing.T, step string, status Status, ours, others []netip.Prefix) {
	t.Helper()
	sorted := func(list []netip.Prefix) []netip.Prefix {
		return slices.SortedFunc(slices.Values(list), netip.Prefix.Compare)
	}
	if !slices.Equal(sorted(status.Ours), sorted(ours)) || !slices.Equal(sorted(status.Addresses), sorted(slices.Concat(ours, others))) {
		t.Errorf("%s: ours are %v of %v, want %v and %v", step, status.Ours, status.Addresses, ours, others)
	}
}

func newDressLab(t *testing.T) *netns.Lab {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	lab.Run("sysctl", "-qw", "net.ipv6.conf.a0.disable_ipv6=0", "net.ipv4.conf.a0.promote_secondaries=0", "net.ipv4.conf.all.promote_secondaries=0")
	lab.Run("ip", "link", "set", "a0", "up")
	lab.Run("ip", "link", "set", "b0", "up")
	return lab
}

// TestADeviceThatWentIsNotFound: by whatever it is asked for, once its index is known.
func TestADeviceThatWentIsNotFound(t *testing.T) {
	lab := netns.NewLab(t)
	const none = 1 << 20
	lab.Must(func() error {
		if _, err := addressesOf(none); !errors.Is(err, ErrNotFound) {
			t.Errorf("its addresses: %v", err)
		}
		if _, err := flapsOf(none); !errors.Is(err, ErrNotFound) {
			t.Errorf("its carrier: %v", err)
		}
		return Put(none, Settings{MAC: net.HardwareAddr{2, 0, 0, 0, 0, 1}, Add: prefixesOf("198.18.7.1/24"), Remove: prefixesOf("198.18.7.2/24")})
	})
}

func TestAddressesThatAreOursAreToldFromOthers(t *testing.T) {
	lab := newDressLab(t)
	lab.Run("ip", "addr", "add", "198.18.7.1/24", "dev", "a0")
	lab.Run("ip", "addr", "add", "198.18.8.1/24", "dev", "a0", "scope", "link")
	lab.Run("ip", "addr", "add", "169.254.3.1/16", "dev", "a0")
	others := prefixesOf("198.18.7.1/24")
	ours := prefixesOf("198.18.1.1/24", "198.18.1.2/24", "2001:db8::1/64")
	status, err := set(t, lab, Settings{Add: append(slices.Clone(ours), others...), MAC: net.HardwareAddr{2, 0, 0, 0, 1, 1}})
	if err != nil || status.MAC.String() != "02:00:00:00:01:01" || !status.Up || status.NoIPv6 {
		t.Errorf("%v, %+v", err, status)
	}
	wantStatus(t, "put", status, ours, others)
	if routes := lab.Run("ip", "route") + lab.Run("ip", "-6", "route"); strings.Contains(routes, "198.18.1.") || strings.Contains(routes, "2001:db8") {
		t.Errorf("a route leads there:\n%s", routes)
	}
	// The operator's address is a secondary one for the kernel, which removes it with ours; it is put back as it was.
	lab.Run("ip", "addr", "add", "198.18.1.77/24", "dev", "a0", "label", "a0:mine")
	others = append(others, prefixesOf("198.18.1.77/24")...)
	status, err = set(t, lab, Settings{Remove: slices.Concat(ours[:2], others)})
	if err != nil {
		t.Error(err)
	}
	wantStatus(t, "taken", status, ours[2:], others)
	if shown := lab.Run("ip", "addr", "show", "dev", "a0"); !strings.Contains(shown, "198.18.1.77/24 scope global a0:mine") {
		t.Errorf("the operator's address is not as it was:\n%s", shown)
	}
}

func TestADeviceIsChangedWholeOrNotAtAll(t *testing.T) {
	lab := newDressLab(t)
	before, err := set(t, lab, Settings{Add: prefixesOf("198.18.1.1/24", "2001:db8::1/64")})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range []Settings{
		{MAC: net.HardwareAddr{1, 0, 0, 0, 1, 1}}, // a group's
		{MAC: net.HardwareAddr{2, 0, 0, 0, 1, 1}, Remove: prefixesOf("198.18.1.1/24"), Add: prefixesOf("198.18.2.1/24", "ff02::1/64")},
		{Remove: prefixesOf("2001:db8::1/64"), Add: prefixesOf("2001:db8:1::1/64", "::/64")},
	} {
		after, err := set(t, lab, d)
		if err == nil {
			t.Errorf("%+v is not refused", d)
		}
		wantStatus(t, "refused", after, before.Ours, nil)
		if after.MAC.String() != before.MAC.String() {
			t.Errorf("the MAC address is %s, was %s", after.MAC, before.MAC)
		}
	}
	lab.Run("sysctl", "-qw", "net.ipv6.conf.a0.disable_ipv6=1")
	if status, _ := set(t, lab, Settings{}); !status.NoIPv6 {
		t.Error("a device without IPv6 is said to have it")
	}
	lab.Run("ip", "link", "set", "b0", "down")
	if status, _ := set(t, lab, Settings{}); status.Flaps == before.Flaps {
		t.Error("a change of the carrier is not counted")
	}
	lab.Run("ip", "link", "del", "a0")
	lab.Must(func() error {
		if err := Put(before.Index, Settings{Add: prefixesOf("198.18.1.1/24"), MAC: before.MAC}); err != nil {
			t.Errorf("a device that is gone: %v", err)
		}
		if _, err := StatusOf("a0"); !errors.Is(err, ErrNotFound) {
			t.Errorf("looking at it: %v, want ErrNotFound", err)
		}
		return nil
	})
}
