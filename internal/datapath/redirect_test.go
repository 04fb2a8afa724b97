// SPDX-License-Identifier: Apache-2.0

package datapath

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/internal/datapath/link"
	"github.com/polycube/polycube/test/netns"
)

// detour makes a transparent cube that redirects incoming packets to output 0, or outgoing ones to output 1.
func (b *bench) detour(letter rune, in, out bool) *Node {
	constants := map[string]any{"letter": uint32(letter)}
	if in {
		constants["in_to"] = uint32(1)
	}
	if out {
		constants["out_to"] = uint32(2)
	}
	return b.cube("detour", 0, constants)
}

// wire makes a host behind a netdev that is not the peer of a port.
func (b *bench) wire(name string) *netns.Node {
	h := b.lab.Host(name, "", netns.WithGRO())
	b.netdev(name)
	return h
}

// loopsEnd waits until a number of packets have exceeded the hop limit.
func (b *bench) loopsEnd(want uint64) {
	b.t.Helper()
	netns.Eventually(b.t, soon, func() error {
		var n uint64
		for _, c := range b.g.Cubes {
			n += b.fate(c, "hop-limit")
		}
		if n != want {
			return fmt.Errorf("%d packets exceeded the hop limit, want %d", n, want)
		}
		return nil
	})
}

// TestOutputsLeadToNetdevs: a cube on a port and one on a netdev, a netdev that is gone and one that is down, an output that is
// not configured and one that cannot be.
func TestOutputsLeadToNetdevs(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		c := b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, z := b.host("a", "", c, 0), b.host("z", "", c, 1)
		alone, out := b.wire("alone"), b.wire("out")
		onPort, onNetdev := b.detour('p', true, true), b.detour('n', true, false)
		c.Ports[0].Tcubes, b.g.Netdevs["alone"].Tcubes = []CubeID{onPort.ID}, []CubeID{onNetdev.ID}
		for _, d := range []*Node{onPort, onNetdev} {
			d.Outputs = []Output{{Number: 0, Netdev: "out"}, {Number: 1, Netdev: "alone"}}
		}
		b.commit()
		if got := marks(b.passes(a, out, frame(""))); got != "p" {
			t.Errorf("from a: %q, want p", got)
		}
		if got := marks(b.passes(alone, out, frame(""))); got != "n" {
			t.Errorf("from alone: %q, want n", got)
		}
		if got := marks(b.passes(z, alone, frame(""))); got != "pn" { // the egress of the cube there
			t.Errorf("from z: %q, want pn", got)
		}
		for d, want := range map[*Node]uint64{onPort: 2, onNetdev: 1} {
			if got := b.fate(d, "redirected"); got != want {
				t.Errorf("%s redirected %d packets, want %d", d.Name, got, want)
			}
		}
		is := *b.g.Netdevs["out"]
		for what, change := range map[string]func(){
			"a netdev that is gone": func() { b.g.Netdevs["out"].Index = 0 },
			"a netdev that is down": func() { b.g.Netdevs["out"].Down = true },
			"no output":             func() { onPort.Outputs = onPort.Outputs[1:] },
			"an output out of range": func() {
				onPort.Constants = map[string]any{"in_to": uint32(link.Outputs + 1)}
			},
		} {
			t.Log(what)
			change()
			b.commit()
			before := b.fate(onPort, "no-output")
			b.send(a, frame(""))
			b.eventually(onPort, "no-output", before+1)
			*b.g.Netdevs["out"], onPort.Constants = is, map[string]any{"letter": uint32('p'), "in_to": uint32(1)}
			onPort.Outputs = []Output{{Number: 0, Netdev: "out"}}
		}
		b.commit()
		if got := marks(b.passes(a, out, frame(""))); got != "p" {
			t.Errorf("from a, afterwards: %q, want p", got)
		}
	})
}

// TestOutputsLeadToPorts: the cube receives the packet there, behind the transparent cubes of the port, in the same and in
// another part of the graph.
func TestOutputsLeadToPorts(t *testing.T) {
	everywhere(t, func(t *testing.T, b *bench) {
		one, two := b.cube("probe", 2, map[string]any{"what": uint32(6)}), b.cube("probe", 2, map[string]any{"what": uint32(6)})
		a, z := b.host("a", "", one, 0), b.host("z", "", one, 1)
		b.host("far", "", two, 0)
		back := b.host("back", "", two, 1)
		d := b.detour('d', true, true)
		one.Ports[0].Tcubes, two.Ports[0].Tcubes, one.Ports[1].Tcubes = []CubeID{d.ID}, b.gates("xy"), b.gates("g")
		d.Outputs = []Output{{Number: 0, Cube: two.ID, Port: 0}, {Number: 1, Cube: one.ID, Port: 1}}
		b.commit()
		if got := marks(b.passes(a, back, frame(""))); got != "dyx" {
			t.Errorf("to another part: %q, want dyx", got)
		}
		if got := b.counters(two, 0).RxPackets; got != 1 {
			t.Errorf("the port received %d packets, want 1", got)
		}
		// From z to the port of a, and back to the port of z as if it had come from there again: once the 15 bytes are
		// full, no more letters.
		b.send(z, frame(""))
		b.loopsEnd(1)
		if got := b.fate(d, "redirected"); got < 2 || got > link.DefaultHops+1 {
			t.Errorf("%d redirects, want one and those of a loop", got)
		}
		delete(b.g.Cubes, two.ID)
		delete(b.g.Netdevs, "far")
		delete(b.g.Netdevs, "back")
		b.commit()
		b.send(a, frame(""))
		b.eventually(d, "no-output", 1)
	})
}

// TestANetdevReceives: at TC, what a netdev receives passes the cubes there on their way in, and then the host's stack.
func TestANetdevReceives(t *testing.T) {
	in(t, []setting{settings[0], settings[1], settings[2]}, func(t *testing.T, b *bench) {
		a := b.wire("a")
		h := b.lab.Host("b", "10.0.0.1/24")
		b.lab.Run("ip", "addr", "add", "10.0.0.254/24", "dev", "b")
		b.netdev("b")
		d := b.detour('\x00', true, false)
		b.g.Netdevs["a"].Tcubes, b.g.Netdevs["b"].Tcubes = []CubeID{d.ID}, b.gates("\x00")
		d.Outputs = []Output{{Number: 0, Netdev: "b", Received: true}}
		b.commit()
		rx := netns.OpenRaw(t, b.lab.Namespace, "b")
		tx := netns.OpenRaw(t, a, netns.Inner)
		f := frame("")
		if err := tx.Send(f); err != nil {
			t.Fatal(err)
		}
		if _, err := rx.Recv(isTest, soon); err != nil {
			t.Errorf("b did not receive it: %v", err)
		}
		gate := b.g.Cubes[b.g.Netdevs["b"].Tcubes[0]]
		b.eventually(gate, "pass", 1)
		if err := h.Ping("10.0.0.254"); err != nil {
			t.Error(err)
		}
	})
}

// TestRedirectsThatNeverEnd: from netdev to netdev, on the way in and on the way out.
func TestRedirectsThatNeverEnd(t *testing.T) {
	in(t, []setting{settings[0], settings[1], settings[2]}, func(t *testing.T, b *bench) {
		h := b.wire("a")
		b.wire("b")
		for name, other := range map[string]string{"a": "b", "b": "a"} {
			d := b.detour(rune(name[0]), true, true)
			b.g.Netdevs[name].Tcubes = []CubeID{d.ID}
			d.Outputs = []Output{{Number: 0, Netdev: other, Received: true}, {Number: 1, Netdev: other}}
		}
		b.commit()
		b.send(h, frame(""))
		b.loopsEnd(1)
		before := b.fate(b.g.Cubes[b.g.Netdevs["a"].Tcubes[0]], "redirected")
		tx := netns.OpenRaw(t, b.lab.Namespace, "a")
		if err := tx.Send(frame("")); err != nil {
			t.Fatal(err)
		}
		b.loopsEnd(2)
		if before == 0 {
			t.Error("the first loop redirected nothing")
		}
	})
}

// TestOnlyTransparentCubesRedirect: the linker refuses a standard cube that does.
func TestOnlyTransparentCubesRedirect(t *testing.T) {
	in(t, settings[:1], func(t *testing.T, b *bench) {
		b.must(func() error {
			return b.plane.CreateCube(Spec{ID: 77, UUID: "std", Name: "std", Service: "detour", Type: b.typ})
		})
		b.g.Cubes[77] = &Node{ID: 77, Name: "std", Type: b.typ, LogLevel: LogInfo, Ports: map[uint16]*Port{0: {Index: 0, Name: "p"}}}
		err := b.lab.Do(b.tryCommit)
		if !errors.Is(err, cube.ErrInvalid) || !strings.Contains(fmt.Sprint(err), "cube std: its programs call pcn_pkt_redirect") {
			t.Errorf("error %v, want a refusal of cube std", err)
		}
	})
}
