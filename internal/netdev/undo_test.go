// SPDX-License-Identifier: Apache-2.0

// What was changed for XDP is changed back, and what kinds of devices can be used for is told.

package netdev

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

func TestUndoForXDPMakesTheOtherEndAsItWas(t *testing.T) {
	lab := netns.NewLab(t)
	h := lab.Host("h1", "")
	offloads := func() string { return h.Run("ethtool", "-k", netns.Inner) }
	before := offloads()
	changed := prepare(t, lab, "h1")
	if r := ensure(t, lab, "h1"); r.Changed {
		changed = append(changed, GRO)
	}
	if want := append([]string{TxChecksum}, append(slices.Clone(peerTags), GRO)...); !slices.Equal(changed, want) {
		t.Fatalf("changed %q, want %q", changed, want)
	}
	if offloads() == before {
		t.Fatal("nothing was changed: the test proves nothing")
	}
	undo := func() {
		t.Helper()
		lab.Must(func() error { return UndoForXDP("h1", changed) })
		if after := offloads(); after != before {
			t.Errorf("the offloads are\n%s\nbefore\n%s", after, before)
		}
	}
	undo()
	undo() // twice does no harm
}

func TestUndoForXDPOfADeviceThatIsGone(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Must(func() error {
		if err := UndoForXDP("none0", []string{GRO}); !errors.Is(err, ErrNotFound) {
			t.Errorf("%v, want ErrNotFound", err)
		}
		return nil
	})
}

func TestOffloadsOfTheDeviceItselfAreSwitchedBack(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	before := lab.Run("ethtool", "-k", "a0")
	lab.Must(func() error {
		changed, err := switchOff("a0", ownTags)
		if err != nil || len(changed) == 0 {
			t.Fatalf("%q, %v", changed, err)
		}
		return switchOn("a0", append(changed, "no-such-offload"))
	})
	if after := lab.Run("ethtool", "-k", "a0"); after != before {
		t.Errorf("the offloads are\n%s\nbefore\n%s", after, before)
	}
}

func TestKindsAreTold(t *testing.T) {
	lab := netns.NewLab(t)
	for _, line := range []string{
		"link add v0 type veth peer name v1", "link add br0 type bridge", "link add ifb9 type ifb",
		"link add vx0 type vxlan id 5 local 10.0.0.1 remote 10.0.0.2 dstport 4789",
		"link add mv0 link v0 type macvlan mode bridge", "link add mp0 link v1 type macvlan mode passthru",
		"tuntap add tap0 mode tap", "tuntap add tun0 mode tun",
	} {
		lab.Run("ip", strings.Fields(line)...)
	}
	for _, c := range []struct {
		name, kind    string
		bare, ownOnly bool
	}{
		{"lo", "loopback", false, false}, {"v0", "veth", false, false}, {"br0", "bridge", false, false},
		{"ifb9", "ifb", false, false}, {"vx0", "vxlan", false, false}, {"mv0", "macvlan", false, true},
		{"mp0", "macvlan", false, false}, {"tap0", "tap", false, false}, {"tun0", "tun", true, false},
	} {
		lab.Must(func() error {
			info, err := Get(c.name)
			if info.Kind != c.kind || info.NoEthernet != c.bare || info.OwnOnly != c.ownOnly {
				t.Errorf("%+v, want %+v", info, c)
			}
			return err
		})
	}
}
