// SPDX-License-Identifier: Apache-2.0

// Netdevs on which another program is attached, netdevs that were deleted and replaced, and what stays on netdevs that
// leave the graph.

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// stranger is a program that passes every packet.
func (b *bench) stranger(typ ebpf.ProgramType, verdict int32) *ebpf.Program {
	b.t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
		Name: "stranger", Type: typ, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, verdict), asm.Return()},
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = prog.Close() })
	return prog
}

// occupied are ways in which others attach programs to a netdev; each returns a function that detaches the program.
var occupied = []struct {
	name   string
	types  []cube.Type
	occupy func(b *bench, ifindex int) (leave func() error, err error)
	says   string
}{
	{"tcx", []cube.Type{cube.TypeTC}, func(b *bench, ifindex int) (func() error, error) {
		l, err := ebpflink.AttachTCX(ebpflink.TCXOptions{
			Interface: ifindex, Program: b.stranger(ebpf.SchedCLS, -1), Attach: ebpf.AttachTCXIngress,
		})
		if errors.Is(err, ebpf.ErrNotSupported) {
			b.t.Skip("this kernel has no tcx")
		}
		if err != nil {
			return nil, err
		}
		return take(l), nil
	}, "stranger; see `bpftool net show dev a`"},
	{"filter", []cube.Type{cube.TypeTC}, func(b *bench, ifindex int) (func() error, error) {
		qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		}}
		filter := &netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: ifindex, Parent: netlink.HANDLE_MIN_INGRESS, Handle: 1, Protocol: unix.ETH_P_ALL, Priority: 49152,
			},
			Fd: b.stranger(ebpf.SchedCLS, 0).FD(), Name: "stranger", DirectAction: true,
		}
		if err := errors.Join(netlink.QdiscAdd(qdisc), netlink.FilterReplace(filter)); err != nil {
			return nil, err
		}
		return func() error { return netlink.FilterDel(filter) }, nil
	}, "tc filter del dev a ingress"},
	{"native XDP", []cube.Type{cube.TypeXDPDRV, cube.TypeXDPSKB}, occupyXDP(ebpflink.XDPDriverMode), "see `ip link show a`"},
	{"generic XDP", []cube.Type{cube.TypeXDPDRV, cube.TypeXDPSKB}, occupyXDP(ebpflink.XDPGenericMode), "see `ip link show a`"},
	{"XDP without a link", []cube.Type{cube.TypeXDPDRV}, func(b *bench, ifindex int) (func() error, error) {
		l, err := netlink.LinkByIndex(ifindex)
		if err != nil {
			return nil, err
		}
		err = netlink.LinkSetXdpFdWithFlags(l, b.stranger(ebpf.XDP, 2).FD(), unix.XDP_FLAGS_DRV_MODE)
		return func() error { return netlink.LinkSetXdpFdWithFlags(l, -1, unix.XDP_FLAGS_DRV_MODE) }, err
	}, "see `ip link show a`"},
}

func occupyXDP(mode ebpflink.XDPAttachFlags) func(*bench, int) (func() error, error) {
	return func(b *bench, ifindex int) (func() error, error) {
		l, err := ebpflink.AttachXDP(ebpflink.XDPOptions{Interface: ifindex, Program: b.stranger(ebpf.XDP, 2), Flags: mode})
		if err != nil {
			return nil, err
		}
		return take(l), nil
	}
}

// take detaches the program of a link at once; closing it alone would wait for holders of a copy of the descriptor,
// such as a process that is being started.
func take(l ebpflink.Link) func() error {
	return func() error { return errors.Join(l.Detach(), l.Close()) }
}

func TestANetdevOfSomebodyElseIsRefusedAndLeftAlone(t *testing.T) {
	for _, o := range occupied {
		for _, typ := range o.types {
			t.Run(fmt.Sprintf("%s, cube %s", o.name, typ), func(t *testing.T) {
				netns.NeedRoot(t)
				t.Parallel()
				b := newBench(t, setting{typ: typ, mode: ModeCall})
				c := b.cube("probe", 2, map[string]any{"what": uint32(2)})
				z := b.host("z", "", c, 1)
				b.commit()
				a := b.host("a", "", c, 0)
				offloads := func() string { return a.Run("ethtool", "-k", netns.Inner) }
				var leave func() error
				b.must(func() (err error) {
					leave, err = o.occupy(b, b.g.Netdevs["a"].Index)
					return err
				})
				before := offloads() // a native program sets some of these itself
				err := b.lab.Do(b.tryCommit)
				if !errors.Is(err, cube.ErrInUse) || !strings.Contains(err.Error(), o.says) || !strings.Contains(err.Error(), " first") {
					t.Fatalf("%v, want ErrInUse with %q", err, o.says)
				}
				if after := offloads(); after != before {
					t.Errorf("the refused netdev's other end has\n%s\nbefore\n%s", after, before)
				}
				b.must(func() error {
					if l, err := netlink.LinkByName("a"); err != nil || l.Attrs().RawFlags&unix.IFF_PROMISC != 0 {
						return fmt.Errorf("the refused netdev is promiscuous (%w)", err)
					}
					return nil
				})
				b.must(leave)
				b.commit()
				b.passes(z, a, frame("to a"))
			})
		}
	}
}

func TestOffloadsAreSwitchedBackWhenANetdevLeaves(t *testing.T) {
	leave := func(b *bench, c *Node) {
		c.Ports[0].Peer = Peer{}
		delete(b.g.Netdevs, "a")
		b.commit()
	}
	for _, how := range []struct {
		name  string
		leave func(*bench, *Node)
	}{
		{"its port goes", leave},
		{"its port goes after a restart", func(b *bench, c *Node) {
			b.restart()
			leave(b, c)
		}},
		{"its port went while no daemon ran", func(b *bench, c *Node) {
			c.Ports[0].Peer = Peer{}
			delete(b.g.Netdevs, "a")
			b.restart()
		}},
		{"everything is cleaned up", func(b *bench, _ *Node) {
			b.must(b.plane.Cleanup)
			b.plane = nil
		}},
	} {
		for _, s := range []setting{settings[3], settings[5]} {
			t.Run(fmt.Sprintf("%s, %s", how.name, s), func(t *testing.T) {
				netns.NeedRoot(t)
				t.Parallel()
				b := newBench(t, s)
				c := b.cube("probe", 1, nil)
				a := b.lab.Host("a", "")
				b.netdev("a")
				before := a.Run("ethtool", "-k", netns.Inner)
				c.Ports[0].Peer = Peer{Netdev: "a"}
				b.commit()
				now := a.Run("ethtool", "-k", netns.Inner)
				if polls := strings.Contains(now, "generic-receive-offload: on"); now == before || polls != (s.typ == cube.TypeXDPDRV) {
					t.Fatalf("nothing was prepared: the test proves nothing\n%s", now)
				}
				how.leave(b, c)
				if after := a.Run("ethtool", "-k", netns.Inner); after != before {
					t.Errorf("the other end has\n%s\nbefore\n%s", after, before)
				}
			})
		}
	}
}

// restart simulates a daemon that ends and another one that opens its state and commits the same graph.
func (b *bench) restart() {
	b.t.Helper()
	b.close()
	b.open()
	for _, n := range b.g.Cubes {
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: n.ID, UUID: n.Name, Name: n.Name, Service: strings.TrimRight(n.Name, "0123456789"),
				Type: n.Type, Transparent: n.Ports == nil})
		})
	}
	b.commit()
}

// TestANetdevReplacedWhileNoDaemonRanIsAttached: the program is on a netdev that was moved to another namespace, and a
// new netdev has its index here.
func TestANetdevReplacedWhileNoDaemonRanIsAttached(t *testing.T) {
	in(t, []setting{settings[0], settings[2], settings[3]}, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(2)})
		b.host("a", "", c, 0)
		z := b.host("z", "", c, 1)
		b.commit()
		index := b.g.Netdevs["a"].Index
		b.close()
		away := netns.New(t)
		b.lab.Run("ip", "link", "set", "dev", "a", "netns", away.Name)
		b.lab.Run("ip", "link", "add", "name", "b", "index", fmt.Sprint(index), "type", "veth", "peer", "name", "b1")
		b.lab.Run("ip", "link", "set", "dev", "b", "up")
		b.lab.Run("ip", "link", "set", "b1", "up")
		delete(b.g.Netdevs, "a")
		if d := b.netdev("b"); d.Index != index {
			t.Fatalf("the new netdev has index %d, want that of the old one, %d", d.Index, index)
		}
		c.Ports[0].Peer = Peer{Netdev: "b"}
		b.open()
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: c.ID, UUID: c.Name, Name: c.Name, Service: "probe", Type: b.typ})
		})
		b.commit()
		b.eventuallyFlooded(c, z)
	})
}

// eventuallyFlooded sends frames from the other end of the new netdev until a host gets one.
func (b *bench) eventuallyFlooded(c *Node, to *netns.Node) {
	b.t.Helper()
	rx := netns.OpenRaw(b.t, to, netns.Inner)
	tx := netns.OpenRaw(b.t, &netns.Node{Namespace: b.lab.Namespace}, "b1")
	if err := tx.Send(frame("by the new one")); err != nil {
		b.t.Fatal(err)
	}
	if _, err := rx.Recv(isTest, soon); err != nil {
		b.t.Fatalf("a frame by the new netdev: %v; cube %d counts %d floods", err, c.ID, b.fate(c, "flood"))
	}
}

// TestNetdevsThatAreDownAreNotSentTo counts the packets that would leave through them.
func TestNetdevsThatAreDownAreNotSentTo(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("probe", 3, map[string]any{"what": uint32(2)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		b.host("d", "", c, 2)
		b.g.Netdevs["d"].Down = true
		b.commit()
		b.passes(a, z, frame("x"))
		if n := b.counters(c, 2).TxPackets; n != 0 {
			t.Errorf("%d packets count as sent by a netdev that is down", n)
		}
		b.g.Netdevs["z"].Down = true
		b.commit()
		if err := netns.OpenRaw(t, a, netns.Inner).Send(frame("y")); err != nil {
			t.Fatal(err)
		}
		b.eventually(c, "no-peer", 1)
		b.g.Netdevs["z"].Down = false
		b.commit()
		b.passes(a, z, frame("z"))
	})
}

// TestANetdevThatIsGoneDoesNotStandInTheWay: the event about a deletion may come late.
func TestANetdevThatIsGoneDoesNotStandInTheWay(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		c := b.cube("probe", 4, map[string]any{"what": uint32(2)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		b.host("gone", "", c, 2)
		b.commit()
		b.lab.Run("ip", "link", "del", "gone")
		y := b.host("y", "", c, 3)
		b.commit()
		b.passes(a, z, frame("x"))
		b.passes(z, y, frame("y"))
		c.Ports[2].Peer = Peer{}
		delete(b.g.Netdevs, "gone")
		b.commit()
		b.passes(y, a, frame("z"))
	})
}

// TestARestartWithAnotherTypeOfXDPAttachesAnew: a daemon that is killed after changing the netdevs and before writing
// the store restarts with the previous configuration. Frames that native XDP sends to a netdev without NAPI at its
// other end are lost.
func TestARestartWithAnotherTypeOfXDPAttachesAnew(t *testing.T) {
	in(t, []setting{settings[4], settings[5]}, func(t *testing.T, b *bench) {
		other := map[cube.Type]cube.Type{cube.TypeXDPDRV: cube.TypeXDPSKB, cube.TypeXDPSKB: cube.TypeXDPDRV}[b.typ]
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		var hosts []*netns.Node
		for i, name := range []string{"a", "z"} {
			hosts = append(hosts, b.lab.Host(name, ""))
			b.netdev(name)
			c.Ports[uint16(i)].Peer = Peer{Netdev: name}
		}
		b.commit()
		b.passes(hosts[0], hosts[1], frame("before"))
		c.Type = other
		b.restart()
		b.passes(hosts[0], hosts[1], frame("there"))
		b.passes(hosts[1], hosts[0], frame("and back"))
		for _, name := range []string{"a", "z"} {
			generic := strings.Contains(b.lab.Run("ip", "link", "show", "dev", name), "xdpgeneric")
			if generic != (other == cube.TypeXDPSKB) {
				t.Errorf("%s has generic XDP: %t, but the cube is of type %s", name, generic, other)
			}
		}
	})
}
