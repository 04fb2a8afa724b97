// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/abi"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

var (
	//go:embed testdata/resident.tc.o
	residentTC []byte
	//go:embed testdata/resident.xdp.o
	residentXDP []byte
)

// resident makes a cube with a namespace: its ports lead to hosts a and z, and the interfaces of the namespace are in
// na and nz.
func (b *bench) resident(constants map[string]any, span bool) (c *Node, a, z, na, nz *netns.Node) {
	b.t.Helper()
	b.must(func() error {
		return b.plane.CheckObject("resident", map[cube.Hook][]byte{cube.TC: residentTC, cube.XDP: residentXDP})
	})
	c = b.cube("resident", 2, constants)
	a, z = b.host("a", "", c, 0), b.host("z", "", c, 1)
	na, nz = b.lab.Host("na", "10.0.0.9/24"), b.lab.Host("nz", "")
	b.shadow(c, span, na, nz)
	b.commit()
	return c, a, z, na, nz
}

// shadow gives a cube a namespace in which nodes represent the interfaces of its first ports.
func (b *bench) shadow(c *Node, span bool, nodes ...*netns.Node) {
	b.t.Helper()
	c.Shadow = &Shadow{Span: span, Ends: map[uint16]int{}}
	for index, n := range nodes {
		b.must(func() error {
			i, err := ifindex(n.Outer)
			c.Shadow.Ends[uint16(index)] = i
			return err
		})
		if err := n.Do(func() error {
			i, err := ifindex(netns.Inner)
			if err != nil {
				return err
			}
			return b.plane.AttachSpanEnd(i)
		}); err != nil {
			b.t.Fatal(err)
		}
	}
}

var tcModes = []setting{
	{typ: cube.TypeTC, mode: ModeCall}, {typ: cube.TypeTC, mode: ModeInline}, {typ: cube.TypeTC, mode: ModeInline, clsact: true},
	{typ: cube.TypeTC, mode: ModeInline, cut: 1},
}

func TestNamespaceGetsWhatTheProgramGivesItAndSendsByThePort(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		c, a, z, na, nz := b.resident(map[string]any{"what": uint32(1)}, false)
		there := frame("to the namespace")
		if got := b.passes(a, na, there); !bytes.Equal(got, there) {
			t.Errorf("the namespace got % x, want % x", got, there)
		}
		b.passes(z, nz, frame("by the other port"))
		if got := b.fate(c, "namespace"); got != 2 {
			t.Errorf("%d packets given to the namespace, want 2", got)
		}
		b.packets(c, 0, 1, 0)
		sent := frame("from the namespace")
		want := bytes.Clone(sent)
		want[14] = 'o' // the egress program has processed it
		if got := b.passes(nz, z, sent); !bytes.Equal(got, want) {
			t.Errorf("the peer got % x, want % x", got, want)
		}
		b.packets(c, 1, 1, 1)
		b.passes(na, a, frame("by the first port"))
		b.packets(c, 0, 1, 1)
	})
}

func TestWhatANamespaceSendsPassesThePortsTransparentCubesAndItsPeer(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		c, _, _, _, nz := b.resident(map[string]any{"what": uint32(1)}, false)
		far := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		b.link(c, 1, far, 0)
		c.Ports[1].Tcubes = b.gates("g")
		y := b.host("y", "", far, 1)
		b.commit()
		if got := marks(b.passes(nz, y, frame(""))); got != "og" {
			t.Errorf("it arrives as %q, want og: egress program, then gate", got)
		}
		b.packets(far, 0, 1, 0)
		if got := marks(b.passes(y, nz, frame(""))); got != "g" {
			t.Errorf("from the peer it arrives as %q, want g", got)
		}
	})
}

func TestVerdictsThatEndInANamespace(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		c, a, _, na, nz := b.resident(nil, false)
		set := func(constants map[string]any) {
			c.Constants = constants
			b.commit()
		}
		set(map[string]any{"what": uint32(2)})
		b.passes(a, na, frame("passed to the stack of the cube"))
		set(map[string]any{"what": uint32(5)})
		b.passes(a, nz, frame("by another port than it came in"))
		set(map[string]any{"what": uint32(0), "out": uint32(1)})
		b.passes(a, nz, frame("from the egress program"))
		if got := b.fate(c, "namespace") + b.fate(c, "pass"); got != 3 {
			t.Errorf("%d packets given to the namespace, want 3", got)
		}
		set(map[string]any{"what": uint32(4)})
		b.stops(a, c, "bad-port")
		delete(c.Shadow.Ends, 0)
		set(map[string]any{"what": uint32(6)})
		b.stops(a, c, "no-peer")
		c.Shadow = nil
		b.commit()
		before := b.fate(c, "no-peer")
		b.send(a, frame("there is no namespace"))
		b.eventually(c, "no-peer", before+1)
	})
}

func TestProgramsKnowWhetherTheirCubeHasANamespace(t *testing.T) {
	in(t, tcModes[:2], func(t *testing.T, b *bench) {
		c, a, z, na, _ := b.resident(map[string]any{"what": uint32(1)}, false)
		b.passes(a, na, frame("SHADOW"))
		c.Shadow = nil
		b.commit()
		b.passes(a, z, frame("no SHADOW"))
	})
}

func TestSpanShowsTheNamespaceWhatPortsReceiveAndSend(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		b.withHelpers()
		c, a, z, na, nz := b.resident(map[string]any{"what": uint32(0)}, true)
		for _, what := range []uint32{0, 3, 7} { // to a selected port, to all, to a constant one
			c.Constants = map[string]any{"what": what}
			b.commit()
			ls := b.listeners(na, nz, z)
			f := frame(fmt.Sprint("what ", what))
			sent := bytes.Clone(f)
			sent[14] = 'o'
			b.send(a, f)
			b.receives(ls[0], "the namespace, by the port that received it,", f)
			b.receives(ls[1], "the namespace, by the port that sends it,", sent)
			b.receives(ls[2], "the peer", sent)
		}
		ls := b.listeners(nz, z)
		f := frame("the namespace knows what it sends")
		sent := bytes.Clone(f)
		sent[14] = 'o'
		b.send(nz, f)
		b.receives(ls[1], "the peer", sent)
		if back, err := ls[0].Recv(isTest, 0); err == nil {
			t.Errorf("the namespace got back what it sent: % x", back)
		}
		if got := b.fate(c, "namespace") + b.fate(c, "copy-failed"); got != 0 {
			t.Errorf("%d copies were counted as originals or failed", got)
		}
	})
}

func TestSpanIsTheCubesAlone(t *testing.T) {
	in(t, tcModes[:2], func(t *testing.T, b *bench) {
		c, a, z, na, _ := b.resident(nil, true)
		quiet := b.generation().Instructions
		c.Shadow.Span = false
		b.commit()
		if now := b.generation().Instructions; now >= quiet {
			t.Errorf("%d instructions without span, %d with it", now, quiet)
		}
		r := netns.OpenRaw(t, na, netns.Inner)
		b.passes(a, z, frame("unseen"))
		if got, err := r.Recv(isTest, 0); err == nil {
			t.Errorf("a copy without span: % x", got)
		}
	})
}

// TestCopiesStopBeforeTheStack sends an IP packet as a copy, and then one that is passed to the namespace: its stack
// counts only the second.
func TestCopiesStopBeforeTheStack(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		c, a, _, na, _ := b.resident(map[string]any{"what": uint32(0)}, true)
		f := ipFrame(na.MAC)
		ls := b.listeners(na)
		b.send(a, f)
		if _, err := ls[0].Recv(isIP, soon); err != nil {
			t.Fatalf("the copy: %v", err)
		}
		c.Constants = map[string]any{"what": uint32(6)}
		b.commit()
		b.send(a, f)
		netns.Eventually(t, soon, func() error {
			if n := received(t, na); n != 1 {
				return fmt.Errorf("the stack has received %s packets, want 1", fmt.Sprint(n))
			}
			return nil
		})
	})
}

// ipFrame is an IP packet that nothing answers: its checksum is wrong.
func ipFrame(to []byte) []byte {
	f := pkt.Eth("02:aa:00:00:00:01", net.HardwareAddr(to).String()).IPv4("10.0.0.1", "10.0.0.9").Data(make([]byte, 26)).Bytes()
	f[24], f[25] = 0x66, 0xb4
	return f
}

func isIP(f []byte) bool { return len(f) > 24 && f[12] == 8 && f[13] == 0 && f[23] == 253 }

// received is how many IP packets a host's stack has received.
func received(t *testing.T, n *netns.Node) (count int) {
	t.Helper()
	err := n.Do(func() error {
		text, err := os.ReadFile("/proc/thread-self/net/snmp")
		if err != nil {
			return err
		}
		lines := strings.Split(string(text), "\n")
		_, err = fmt.Sscan(strings.Fields(lines[1])[3], &count)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return count
}

func TestANamespaceSurvivesADaemonThatStops(t *testing.T) {
	in(t, tcModes, func(t *testing.T, b *bench) {
		c, a, z, na, nz := b.resident(map[string]any{"what": uint32(1)}, false)
		b.close()
		b.passes(a, na, frame("without a daemon"))
		b.passes(nz, z, frame("back, without a daemon"))
		b.open()
		b.must(func() error {
			err := b.plane.CheckObject("resident", map[cube.Hook][]byte{cube.TC: residentTC})
			return errors.Join(err, b.plane.CreateCube(Spec{ID: c.ID, UUID: c.Name, Name: c.Name, Service: "resident", Type: c.Type}))
		})
		b.commit()
		b.passes(a, na, frame("again with one"))
		b.passes(nz, z, frame("back, with one"))
		delete(b.g.Cubes, c.ID)
		b.g.Netdevs = map[string]*Netdev{}
		b.commit()
		if n := len(b.plane.tables.InUse().Shadows) + len(b.plane.tables.InUse().Entries) + b.plane.netdevs.Count(); n != 0 {
			t.Errorf("%d rows and attachments of a deleted cube", n)
		}
		var key, value uint32
		if b.plane.fw.Maps[abi.MapShadows].Iterate().Next(&key, &value) {
			t.Errorf("row %d of a deleted cube", key)
		}
	})
}

func TestXDPCubesHaveNoNamespace(t *testing.T) {
	in(t, settings[3:4], func(t *testing.T, b *bench) {
		c := b.cube("probe", 1, nil)
		c.Shadow = &Shadow{}
		if err := b.inLab(b.tryCommit); !errors.Is(err, cube.ErrUnsupported) {
			t.Errorf("an XDP cube with a namespace: %v, want %v", err, cube.ErrUnsupported)
		}
		c.Shadow = nil
	})
}
