// SPDX-License-Identifier: Apache-2.0

// What a redirected packet passes on its way, and what its netdev needs.

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/netns"
)

// onEgress attaches a TC program to the egress of a netdev that counts packets with the type of test frames, and returns a
// function that reads the number.
func (b *bench) onEgress(ifindex int) func() uint32 {
	b.t.Helper()
	count, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = count.Close() })
	const protocol = 16 // of struct __sk_buff, in network byte order
	value := asm.LoadMapValue(asm.R1, 0, 0)
	if err := value.AssociateMap(count); err != nil {
		b.t.Fatal(err)
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.LoadMem(asm.R2, asm.R1, protocol, asm.Word),
		asm.JNE.Imm(asm.R2, 0xb588, "pass"),
		value, asm.Mov.Imm(asm.R2, 1), asm.StoreXAdd(asm.R1, asm.R2, asm.Word),
		asm.Mov.Imm(asm.R0, -1).WithSymbol("pass"), asm.Return(),
	}})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { _ = prog.Close() })
	b.must(func() error {
		qdisc := &netlink.Clsact{QdiscAttrs: netlink.QdiscAttrs{
			LinkIndex: ifindex, Handle: netlink.MakeHandle(0xffff, 0), Parent: netlink.HANDLE_CLSACT,
		}}
		if err := netlink.QdiscAdd(qdisc); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return netlink.FilterReplace(&netlink.BpfFilter{
			FilterAttrs: netlink.FilterAttrs{
				LinkIndex: ifindex, Parent: netlink.HANDLE_MIN_EGRESS, Handle: 77, Protocol: unix.ETH_P_ALL, Priority: 77,
			},
			Fd: prog.FD(), Name: "counter", DirectAction: true,
		})
	})
	return func() (n uint32) {
		if err := count.Lookup(uint32(0), &n); err != nil {
			b.t.Error(err)
		}
		return n
	}
}

// TestOnlyRedirectsAtTCPassTheEgressOfTheNetdev: other programs there, too.
func TestOnlyRedirectsAtTCPassTheEgressOfTheNetdev(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		a, out := b.wire("a"), b.wire("out")
		d := b.detour('d', true, false)
		b.g.Netdevs["a"].Tcubes, d.Outputs = []CubeID{d.ID}, []Output{{Netdev: "out"}}
		b.commit()
		passed := b.onEgress(b.g.Netdevs["out"].Index)
		b.passes(a, out, frame(""))
		if got, want := passed() == 1, b.typ == cube.TypeTC; got != want {
			t.Errorf("passed the egress of the netdev: %v, want %v", got, want)
		}
	})
}

// TestNamespacesOfRedirects: while nobody follows a netdev that was moved to another namespace, a packet that it receives is
// redirected to the netdev of the namespace where that was configured at XDP, and at TC to what has its index where the
// packet is.
func TestNamespacesOfRedirects(t *testing.T) {
	in(t, []setting{settings[1], settings[4]}, func(t *testing.T, b *bench) {
		for i := range 3 {
			b.wire(fmt.Sprint("x", i)) // so that the index of a is free in the other namespace
		}
		a, out := b.wire("a"), b.wire("out")
		d := b.detour('d', true, false)
		b.g.Netdevs["a"].Tcubes, d.Outputs = []CubeID{d.ID}, []Output{{Netdev: "out"}}
		b.commit()
		elsewhere := netns.New(t)
		elsewhere.Must(func() error {
			attrs := netlink.NewLinkAttrs()
			attrs.Name, attrs.Index = "decoy", b.g.Netdevs["out"].Index
			return netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: "end"})
		})
		b.must(func() error {
			dev, err := netlink.LinkByName("a")
			if err != nil {
				return err
			}
			return netlink.LinkSetNsFd(dev, elsewhere.Fd())
		})
		elsewhere.Run("ip", "link", "set", "decoy", "up")
		elsewhere.Run("ip", "link", "set", "end", "up")
		elsewhere.Run("ip", "link", "set", "dev", "a", "up")
		here, there := netns.OpenRaw(t, out, netns.Inner), netns.OpenRaw(t, elsewhere, "end")
		wanted, other := here, there
		if b.typ == cube.TypeTC {
			wanted, other = there, here
		}
		netns.Eventually(t, soon, func() error { // the carrier of the ends comes with a delay
			b.send(a, frame(""))
			_, err := wanted.Recv(isTest, soon/100)
			return err
		})
		if _, err := other.Recv(isTest, 0); err == nil {
			t.Error("it was also redirected to the other namespace")
		}
	})
}

// TestOutputsOfNativeXDPArePrepared: GRO is switched on where frames would be lost without it, and off again when no packets
// are redirected there any more, also by the next daemon.
func TestOutputsOfNativeXDPArePrepared(t *testing.T) {
	in(t, []setting{settings[1], settings[4], settings[5]}, func(t *testing.T, b *bench) {
		a := b.wire("a")
		out := b.lab.Host("out", "")
		b.netdev("out")
		gro := func(step string, want bool) {
			t.Helper()
			if got := strings.Contains(out.Run("ethtool", "-k", netns.Inner), "generic-receive-offload: on"); got != want {
				t.Errorf("%s: GRO is on: %v, want %v", step, got, want)
			}
		}
		native := b.typ == cube.TypeXDPDRV
		gro("before", false)
		d := b.detour('d', true, false)
		b.g.Netdevs["a"].Tcubes, d.Outputs = []CubeID{d.ID}, []Output{{Netdev: "out"}}
		b.commit()
		gro("configured", native)
		if got := marks(b.passes(a, out, frame(""))); got != "d" {
			t.Errorf("%q arrives, want d", got)
		}
		d.Outputs = nil
		b.commit()
		gro("without outputs", false)
		d.Outputs = []Output{{Netdev: "out"}}
		b.commit()
		b.close()
		b.open()
		gro("after a restart", native)
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: d.ID, UUID: d.Name, Name: d.Name, Service: "detour", Type: b.typ, Transparent: true})
		})
		b.commit()
		gro("after the first change", native)
		if got := marks(b.passes(a, out, frame(""))); got != "d" {
			t.Errorf("%q arrives after a restart, want d", got)
		}
		// With a program on it, and without it again.
		gate := b.gates("g")
		b.g.Netdevs["out"].Tcubes = gate
		b.commit()
		b.g.Netdevs["out"].Tcubes = nil
		b.commit()
		gro("after a cube was there", native)
		if note := b.plane.NetdevNote(b.g.Netdevs["out"].Index); note != "" {
			t.Errorf("note: %s", note)
		}
		out.Run("ip", "link", "set", netns.Inner, "down")
		b.g.Netdevs["out"].Carrier = true // it has changed
		b.commit()
		if note := b.plane.NetdevNote(b.g.Netdevs["out"].Index); strings.Contains(note, "is down: set it up") != native {
			t.Errorf("note about the other end that is down: %q", note)
		}
		b.must(b.plane.Cleanup)
		b.plane = nil
		gro("cleaned up", false)
		b.open()
	})
}

// TestOutputsOutliveTheDaemon: packets are redirected while none runs.
func TestOutputsOutliveTheDaemon(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		a, out := b.wire("a"), b.wire("out")
		d := b.detour('d', true, false)
		b.g.Netdevs["a"].Tcubes, d.Outputs = []CubeID{d.ID}, []Output{{Netdev: "out"}}
		b.commit()
		for _, step := range []struct {
			what string
			do   func()
		}{
			{"without a daemon", b.close}, {"with the next one", b.open},
			{"after its first change", func() {
				b.must(func() error {
					return b.plane.CreateCube(Spec{ID: d.ID, UUID: d.Name, Name: d.Name, Service: "detour", Type: b.typ, Transparent: true})
				})
				b.commit()
			}},
		} {
			step.do()
			if got := marks(b.passes(a, out, frame(""))); got != "d" {
				t.Errorf("%s: %q arrives, want d", step.what, got)
			}
		}
	})
}

// TestAlikeCubesHaveTheirOwnOutputs: many cubes run the same programs, which find the outputs of each by its number.
func TestAlikeCubesHaveTheirOwnOutputs(t *testing.T) {
	in(t, inlined, func(t *testing.T, b *bench) {
		bridge := b.cube("probe", 9, map[string]any{"what": uint32(6)})
		var hosts, outs []*netns.Node
		for i := range 9 { // set apart from 8 on
			d := b.detour(rune('1'+i), true, false)
			hosts = append(hosts, b.host(fmt.Sprint("h", i), "", bridge, uint16(i)))
			outs = append(outs, b.wire(fmt.Sprint("o", i)))
			bridge.Ports[uint16(i)].Tcubes = []CubeID{d.ID}
			d.Outputs = []Output{{Netdev: fmt.Sprint("o", i)}}
		}
		b.commit()
		for i, h := range hosts {
			if got := marks(b.passes(h, outs[i], frame(""))); got != fmt.Sprint(i+1) {
				t.Errorf("cube %d: %q arrives at its output", i, got)
			}
		}
	})
}

// TestAnInjectedPacketFollowsRedirects: into another part of the graph, and out through the cubes on a netdev at XDP.
func TestAnInjectedPacketFollowsRedirects(t *testing.T) {
	in(t, hooksAndModes, func(t *testing.T, b *bench) {
		d, to := b.detour('d', true, false), b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.wire("alone")
		b.host("c", "", to, 0)
		b.host("e", "", to, 1)
		b.g.Netdevs["alone"].Tcubes, b.g.Netdevs["e"].Tcubes = []CubeID{d.ID}, b.gates("g")
		last := "probe2 leaves by e"
		if b.typ != cube.TypeTC {
			last = "gate3:0 out pass; gate3 leaves by e"
		}
		for _, tt := range []struct {
			outputs []Output
			want    string
		}{
			{[]Output{{Cube: to.ID}}, "detour1:0 in redirect 0; probe2:0 in send 1; " + last},
			{[]Output{{Netdev: "c"}}, "detour1:0 in redirect 0; detour1 leaves by c"},
			{nil, "detour1:0 in redirect 0; detour1 no-output"},
		} {
			d.Outputs = tt.outputs
			b.commit()
			if got := b.injects(Injection{Cube: d.ID, Frame: frame("there")}); got != tt.want {
				t.Errorf("outputs %+v:\n%s, want\n%s", tt.outputs, got, tt.want)
			}
		}
	})
}
