// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	"testing"

	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// jumboHost is a host behind a port with an MTU of 9000.
func (b *bench) jumboHost(name string, n *Node, p uint16) *netns.Node {
	b.t.Helper()
	h := b.lab.Host(name, "", netns.WithGRO(), netns.WithMTU(9000))
	b.netdev(name)
	n.Ports[p].Peer = Peer{Netdev: name}
	return h
}

// needLongRedirects skips a test at native XDP on a kernel that cannot redirect long frames.
// TestFramesThatAnOldKernelCannotRedirect tests what happens to them there.
func (b *bench) needLongRedirects() {
	if b.typ == cube.TypeXDPDRV && !b.plane.kernel.RedirectFrags {
		b.t.Skip("this kernel does not redirect XDP frames that lie in several buffers")
	}
}

// large is a test frame of so many bytes, each different from its neighbours.
func large(size int) []byte {
	f := make([]byte, size)
	for i := range f {
		f[i] = byte(i*7 + i>>8)
	}
	copy(f, frame("")[:40])
	return f
}

func TestJumboFramesPassWhole(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		b.needLongRedirects()
		one := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		two := b.cube("twoway", 2, nil)
		b.link(one, 1, two, 0)
		a, z := b.jumboHost("a", one, 0), b.jumboHost("z", two, 1)
		b.commit()
		var bytesIn uint64
		for _, size := range []int{60, 1514, 3500, 4096, 9014} {
			f := large(size)
			want := bytes.Clone(f)
			copy(want[14:], "io")
			if got := b.passes(a, z, f); !bytes.Equal(got, want) {
				t.Errorf("%d bytes: %d arrive, or others", size, len(got))
			}
			bytesIn += uint64(size)
		}
		if got := b.counters(one, 0); got.RxBytes != bytesIn || got.RxPackets != 5 {
			t.Errorf("%+v, want 5 packets of %d bytes", got, bytesIn)
		}
		if got := b.counters(two, 1); got.TxBytes != bytesIn {
			t.Errorf("%+v, want %d bytes", got, bytesIn)
		}
	})
}

func TestAJumboNetdevThatComesLaterRelinks(t *testing.T) {
	in(t, []setting{settings[3], settings[4]}, func(t *testing.T, b *bench) {
		b.needLongRedirects()
		c := b.cube("probe", 3, map[string]any{"what": uint32(6)})
		a := b.host("a", "", c, 0)
		b.commit()
		gen := b.plane.parts[0].gen
		z := b.jumboHost("z", c, 1)
		b.must(func() error {
			l, err := netlink.LinkByName("a")
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(l, 9000)
		})
		if err := a.Do(func() error {
			l, err := netlink.LinkByName(netns.Inner)
			if err != nil {
				return err
			}
			return netlink.LinkSetMTU(l, 9000)
		}); err != nil {
			t.Fatal(err)
		}
		b.commit()
		if b.plane.parts[0].gen == gen {
			t.Error("frames may lie in several buffers now, but the programs are the same")
		}
		if got := b.passes(a, z, large(9014)); !bytes.Equal(got, large(9014)) {
			t.Errorf("%d bytes arrive of 9014, or others", len(got))
		}
		if got := b.counters(c, 1); got.TxBytes != 9014 {
			t.Errorf("%+v, want 9014 bytes sent", got)
		}
	})
}
