// SPDX-License-Identifier: Apache-2.0

// A VLAN tag is usually not in the data of a frame but in the skb, because devices with offloads and VLAN interfaces
// put it there. A packet socket cannot send such a frame; a small program on the host's device can.

package e2e

import (
	"net"
	"slices"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
)

// pushTag makes a host's device put a tag into the skb of every frame that it sends.
func pushTag(t *testing.T, h *netns.Node, proto, tci uint16) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(proto>>8|proto<<8)), // a number in network order, on a little-endian machine
		asm.Mov.Imm(asm.R3, int32(tci)),
		asm.FnSkbVlanPush.Call(),
		asm.Mov.Imm(asm.R0, -1),
		asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { prog.Close() })
	h.Must(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return err
		}
		return netns.AttachTC(t, dev.Index, prog, ebpf.AttachTCXEgress)
	})
}

func TestTagsBesideTheFrameArrive(t *testing.T) {
	onEachHook(t, func(t *testing.T, _ string, d *daemon, hosts [3]*netns.Node) {
		reaches(t, hosts[0], "10.0.0.3")
		in, out := netns.OpenRaw(t, hosts[0], netns.Inner), netns.OpenRaw(t, hosts[2], netns.Inner)
		head := slices.Concat([]byte(hosts[2].MAC), []byte(hosts[0].MAC))
		for _, c := range []struct {
			name  string
			proto uint16
			tci   uint16
			rest  []byte // after the tag
		}{
			{"802.1Q", unix.ETH_P_8021Q, 100, append(unhex("88b5"), noise(46)...)},
			{"802.1ad", unix.ETH_P_8021AD, 7, append(unhex("88b5"), noise(46)...)},
			{"with priority", unix.ETH_P_8021Q, 5<<13 | 100, append(unhex("0800"), ipv4(0, noise(60))...)},
			{"outside a tag in the bytes", unix.ETH_P_8021AD, 7, append(unhex("8100 0064 88b5"), noise(46)...)},
		} {
			t.Run(c.name, func(t *testing.T) {
				pushTag(t, hosts[0], c.proto, c.tci)
				if err := in.Send(slices.Concat(head, c.rest)); err != nil {
					t.Fatal(err)
				}
				tag := []byte{byte(c.proto >> 8), byte(c.proto), byte(c.tci >> 8), byte(c.tci)}
				sameFrame(t, out, c.name, slices.Concat(head, tag, c.rest))
			})
		}
	})
}
