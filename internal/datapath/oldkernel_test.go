// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/netdevs"
	"github.com/polycube/polycube/test/netns"
)

// old are the settings of a kernel that lacks all optional features.
var old = []setting{
	{typ: cube.TypeTC, mode: ModeCall, old: true, clsact: true},
	{typ: cube.TypeTC, mode: ModeInline, old: true},
	{typ: cube.TypeXDPDRV, mode: ModeCall, old: true},
	{typ: cube.TypeXDPDRV, mode: ModeInline, old: true},
}

// TestOldKernelsForwardAndFlood: programs for an old kernel do the same as the others.
func TestOldKernelsForwardAndFlood(t *testing.T) {
	in(t, old, func(t *testing.T, b *bench) {
		one, two := b.cube("probe", 2, map[string]any{"what": uint32(6)}), b.cube("twoway", 2, nil)
		b.link(one, 1, two, 0)
		a, z := b.host("a", "", one, 0), b.host("z", "", two, 1)
		flood := b.cube("probe", 3, map[string]any{"what": uint32(2)})
		hosts := []*netns.Node{b.host("h0", "", flood, 0), b.host("h1", "", flood, 1), b.host("h2", "", flood, 2)}
		b.commit()
		want := frame("through both")
		copy(want[14:], "io")
		if got := b.passes(a, z, frame("through both")); !bytes.Equal(got, want) {
			t.Errorf("behind both cubes arrives % x, want % x", got, want)
		}
		ls := b.listeners(hosts[1:]...)
		b.send(hosts[0], frame("flooded"))
		b.receives(ls[0], "h1", frame("flooded"))
		b.receives(ls[1], "h2", frame("flooded"))
		b.eventually(flood, "flood", 1)
	})
}

// setMTU sets the MTU of a host's netdev and of its end here.
func (b *bench) setMTU(h *netns.Node, dev string, mtu int) {
	b.t.Helper()
	set := func(name string) error {
		l, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		return netlink.LinkSetMTU(l, mtu)
	}
	b.must(func() error { return errors.Join(h.Do(func() error { return set(netns.Inner) }), set(dev)) })
	b.g.Netdevs[dev].MTU = mtu
}

// TestFramesThatAnOldKernelCannotRedirect: the kernel accepts the verdict and loses the frame. So a port whose MTU
// needs several buffers is refused, and if the MTU grows later, long frames are dropped with a reason, and the port
// reports it.
func TestFramesThatAnOldKernelCannotRedirect(t *testing.T) {
	in(t, []setting{old[2], old[3]}, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a := b.host("a", "", c, 0)
		b.commit()
		z := b.jumboHost("z", c, 1)
		err := b.lab.Do(b.tryCommit)
		if !errors.Is(err, cube.ErrUnsupported) {
			t.Fatalf("a port with an MTU of 9000: %v, want %v", err, cube.ErrUnsupported)
		}
		for _, word := range []string{"z", "9000", fmt.Sprint(netdevs.OneBuffer()), "TC", "6.3"} {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%q does not say %q", err, word)
			}
		}
		b.setMTU(z, "z", 1500)
		b.commit()
		if got := b.passes(a, z, large(1514)); !bytes.Equal(got, large(1514)) {
			t.Errorf("%d bytes arrive of 1514, or others", len(got))
		}

		b.setMTU(z, "z", 9000)
		b.setMTU(a, "a", 9000)
		b.commit()
		if note := b.plane.NetdevNote(b.g.Netdevs["a"].Index); !strings.Contains(note, "MTU is 9000") {
			t.Errorf("the note of a is %q", note)
		}
		b.send(a, large(9014))
		b.eventually(c, "too-long", 1)
		if got := b.counters(c, 1); got.TxPackets != 1 {
			t.Errorf("%d packets are counted as sent, want the one that was", got.TxPackets)
		}
		if got := b.passes(a, z, large(1514)); !bytes.Equal(got, large(1514)) {
			t.Errorf("%d bytes arrive of 1514, or others", len(got))
		}
		b.setMTU(z, "z", 1500)
		b.setMTU(a, "a", 1500)
		b.commit()
		if note := b.plane.NetdevNote(b.g.Netdevs["a"].Index); note != "" {
			t.Errorf("the note stays: %q", note)
		}
	})
}

// TestLongFramesElsewhere: TC has no such limit.
func TestLongFramesElsewhere(t *testing.T) {
	in(t, old[:2], func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, z := b.jumboHost("a", c, 0), b.jumboHost("z", c, 1)
		b.commit()
		if got := b.passes(a, z, large(9014)); !bytes.Equal(got, large(9014)) {
			t.Errorf("%d bytes arrive of 9014, or others", len(got))
		}
	})
}
