// SPDX-License-Identifier: Apache-2.0

// Transparent cubes between the netdevs and the host's stack. The stack of these tests is a Linux bridge: what it forwards
// has passed them on the way in and on the way out.

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	ebpflink "github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// atHost are the settings of cubes at the host's stack.
var atHost = []setting{
	settings[0], settings[1], settings[2], settings[3], settings[4], settings[6], settings[7],
	{typ: cube.TypeTC, mode: ModeInline, clsact: true, old: true}, {typ: cube.TypeXDPDRV, mode: ModeInline, clsact: true},
}

// bridged makes hosts whose netdevs are in a Linux bridge.
func (b *bench) bridged(names ...string) []*netns.Node {
	b.t.Helper()
	var out []*netns.Node
	for _, name := range names {
		out = append(out, b.lab.Host(name, ""))
		b.lab.Run("ip", "link", "set", "dev", name, "master", "bridge")
	}
	return out
}

// stack puts cubes at the host's stack, on some netdevs.
func (b *bench) stack(cubes []CubeID, netdevs ...string) {
	b.t.Helper()
	b.g.Host = &Host{Tcubes: cubes}
	for _, name := range netdevs {
		b.must(func() error {
			index, err := ifindex(name)
			b.g.Host.Netdevs = append(b.g.Host.Netdevs, HostNetdev{Index: index, Name: name})
			return err
		})
	}
}

// attached returns the programs at the hooks of a netdev: on the way in, and out.
func (b *bench) attached(name string) string {
	b.t.Helper()
	var all [2][]ebpf.ProgramID
	b.must(func() error {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		for i, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			if all[i], err = netns.TCPrograms(dev, at); err != nil {
				return err
			}
		}
		return nil
	})
	return fmt.Sprint(all)
}

func newBridge(b *bench) {
	b.t.Helper()
	b.lab.Run("ip", "link", "add", "name", "bridge", "type", "bridge", "forward_delay", "0")
	b.lab.Run("ip", "link", "set", "dev", "bridge", "up")
}

func TestCubesAtTheHostsStackAreNextToIt(t *testing.T) {
	in(t, atHost, func(t *testing.T, b *bench) {
		newBridge(b)
		hosts := b.bridged("a", "z")
		host, onA, onZ := b.gates("ab"), b.gates("xy"), b.gates("12")
		check := func(when, want string) {
			t.Helper()
			if got := marks(b.passes(hosts[0], hosts[1], frame(""))); got != want {
				t.Errorf("%s: %q, want %q", when, got, want)
			}
		}
		b.commit()
		check("before", "")
		b.stack(host, "a", "z")
		b.commit()
		check("cubes at the host only", "abba")
		b.netdev("a").Tcubes, b.netdev("z").Tcubes = onA, onZ
		b.commit()
		check("netdevs get cubes, too", "xyabba21")
		b.restart()
		check("a restart", "xyabba21")
		b.g.Host = nil
		b.commit()
		check("none at the host", "xy21")
		b.stack(host[:1], "a")
		b.commit()
		check("one, on one netdev, where there are others", "xya21")
		b.g.Netdevs["a"].Tcubes, b.g.Netdevs["z"].Tcubes = nil, nil
		b.stack(host, "a", "z")
		b.commit()
		check("all cubes of netdevs leave", "abba")
		b.g.Host = nil
		b.commit()
		for _, name := range []string{"a", "z"} {
			if got := b.attached(name); got != "[[] []]" {
				t.Errorf("programs that stay on %s: %s", name, got)
			}
		}
	})
}

// TestNetdevsComeAndGoAtTheHostsStack: another netdev needs no other program.
func TestNetdevsComeAndGoAtTheHostsStack(t *testing.T) {
	in(t, atHost, func(t *testing.T, b *bench) {
		newBridge(b)
		hosts := b.bridged("a", "z")
		host := b.gates("ab")
		b.stack(host, "a")
		b.commit()
		if got := marks(b.passes(hosts[0], hosts[1], frame(""))); got != "ab" {
			t.Errorf("from a netdev of theirs to another one: %q, want ab", got)
		}
		was := b.gen(b.g.Cubes[host[0]])
		b.stack(host, "a", "z")
		b.commit()
		if got := marks(b.passes(hosts[0], hosts[1], frame(""))); got != "abba" {
			t.Errorf("from and to netdevs of theirs: %q, want abba", got)
		}
		if b.gen(b.g.Cubes[host[0]]) != was {
			t.Error("another netdev has changed the programs")
		}
		drops := b.g.Cubes[host[1]]
		drops.Constants = map[string]any{"letter": uint32('b'), "what_in": uint32(1)}
		b.commit()
		b.send(hosts[0], frame(""))
		b.eventually(drops, "unspecified", 1)
	})
}

// TestNewPacketsAtTheHostsStackNameTheirNetdev: there is none that follows from where the cube is.
func TestNewPacketsAtTheHostsStackNameTheirNetdev(t *testing.T) {
	in(t, atHost[:1], func(t *testing.T, b *bench) {
		newBridge(b)
		b.bridged("a")
		host := b.gates("a")
		b.stack(host, "a")
		b.commit()
		if _, _, err := b.plane.WayDown(host[0], true, &cube.PacketOut{}); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("a packet without a netdev: %v, want %v", err, cube.ErrInvalid)
		}
		named := cube.PacketOut{Trip: cube.Trip{Netdev: b.g.Host.Netdevs[0].Index}, Direction: cube.Egress}
		if typ, _, err := b.plane.WayDown(host[0], true, &named); typ != cube.TypeTC || err != nil {
			t.Errorf("a packet with a netdev: %s, %v", typ, err)
		}
	})
}

// TestGenericXDPIsNotAtTheHostsStack: it runs where TC does, and costs more.
func TestGenericXDPIsNotAtTheHostsStack(t *testing.T) {
	in(t, settings[5:6], func(t *testing.T, b *bench) {
		b.stack(b.gates("a"))
		b.must(func() error {
			if err := b.tryCommit(); !errors.Is(err, cube.ErrUnsupported) {
				t.Errorf("a cube of type XDP_SKB at the host's stack: %v, want %v", err, cube.ErrUnsupported)
			}
			return nil
		})
	})
}

// TestAnswersAtTheHostsStackLeaveByTheirNetdev, whichever of all that is.
func TestAnswersAtTheHostsStackLeaveByTheirNetdev(t *testing.T) {
	in(t, atHost, func(t *testing.T, b *bench) {
		newBridge(b)
		hosts := b.bridged("a", "z")
		g, echoer := b.gates("12"), b.cube("echoer", 0, map[string]any{"letter": uint32('e')})
		b.stack([]CubeID{g[0], echoer.ID, g[1]}, "a", "z")
		b.commit()
		for _, host := range hosts {
			if got := marks(b.passes(host, host, frame(""))); got != "1eE1" {
				t.Errorf("from %s: %q, want 1eE1", host.Outer, got)
			}
		}
	})
}

// hooks names the hooks of a netdev that have programs.
func (b *bench) hooks(name string) string {
	b.t.Helper()
	var out []string
	b.must(func() error {
		dev, err := netlink.LinkByName(name)
		if err != nil {
			return err
		}
		if x := dev.Attrs().Xdp; x != nil && x.Attached {
			out = append(out, "XDP")
		}
		for _, at := range []ebpf.AttachType{ebpf.AttachTCXIngress, ebpf.AttachTCXEgress} {
			programs, err := netns.TCPrograms(dev, at)
			if err != nil {
				return err
			}
			if len(programs) > 0 {
				out = append(out, at.String())
			}
		}
		return nil
	})
	return strings.Join(out, " ")
}

// TestCubesAtTheHostsStackRunAtXDPWhereTheyCan: not on a netdev whose driver has none, nor where another tool has a program
// or the netdev has cubes of its own. There they run at TC, and nowhere twice.
func TestCubesAtTheHostsStackRunAtXDPWhereTheyCan(t *testing.T) {
	in(t, []setting{settings[4]}, func(t *testing.T, b *bench) {
		newBridge(b)
		hosts := b.bridged("a", "z")
		host, onA := b.gates("ab"), b.gates("x")
		check := func(when, marked, onA, onZ string) {
			t.Helper()
			if got := marks(b.passes(hosts[0], hosts[1], frame(""))); got != marked {
				t.Errorf("%s: %q, want %q", when, got, marked)
			}
			if got := b.hooks("a"); got != onA {
				t.Errorf("%s, a: programs at %s, want %s", when, got, onA)
			}
			if got := b.hooks("z"); got != onZ {
				t.Errorf("%s, z: programs at %s, want %s", when, got, onZ)
			}
		}
		const atXDP, atTC, atBoth = "XDP TCXEgress", "TCXIngress TCXEgress", "XDP TCXIngress TCXEgress"
		var leave func() error
		b.must(func() (err error) {
			index, err := ifindex("a")
			if err == nil {
				leave, err = occupyXDP(ebpflink.XDPDriverMode)(b, index)
			}
			return err
		})
		b.stack(host, "a", "z", "bridge")
		b.commit()
		check("another tool has a program", "abba", atBoth, atXDP)
		if got := b.hooks("bridge"); got != atTC {
			t.Errorf("a bridge: programs at %s, want %s", got, atTC)
		}
		b.must(leave)
		b.stack(host, "a", "z")
		b.commit()
		check("it has left", "abba", atXDP, atXDP)
		b.netdev("a").Tcubes = onA
		b.commit()
		check("the netdev gets a cube", "xabba", atBoth, atXDP)
		b.restart()
		check("a restart", "xabba", atBoth, atXDP)
		b.g.Netdevs["a"].Tcubes = nil
		b.commit()
		check("and loses it", "abba", atXDP, atXDP)
		b.g.Host = nil
		b.commit()
		for _, name := range []string{"a", "z", "bridge"} {
			if got := b.hooks(name); got != "" {
				t.Errorf("%s: programs stay at %s", name, got)
			}
		}
	})
}
