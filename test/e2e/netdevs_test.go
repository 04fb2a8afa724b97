// SPDX-License-Identifier: Apache-2.0

// Netdevs change under a running bridge: the traffic, the port's status and the log, as the table in the operator's
// guide promises.

package e2e

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
)

// port is a port in the API.
type port struct {
	Status string
	Reason string `json:"status-reason"`
}

// Port reads a port of a bridge.
func (m *machine) Port(bridge, name string) (p port) {
	m.t.Helper()
	m.Get("/simplebridge/"+bridge+"/ports/"+name, &p)
	return p
}

// becomes waits until a port has a status and a reason that contains a text; "" waits for no reason.
func (m *machine) becomes(bridge, name, status, reason string) {
	m.t.Helper()
	netns.Eventually(m.t, patience, func() error {
		p := m.Port(bridge, name)
		if p.Status != status || (reason == "") != (p.Reason == "") || !strings.Contains(p.Reason, reason) {
			return fmt.Errorf("port %s of %s is %s, %q, want %s, %q", name, bridge, p.Status, p.Reason, status, reason)
		}
		return nil
	})
}

// pair is a bridge between two hosts: br1's p1 is at veth1, p2 at veth2.
func pair(t *testing.T, kind string) (d *daemon, a, z *netns.Node) {
	d = start(t)
	a, z = d.lab.Host("veth1", "10.0.0.1/24"), d.lab.Host("veth2", "10.0.0.2/24")
	d.Do("simplebridge add br1 type=" + kind)
	d.Do("br1 ports add p1 peer=veth1")
	d.Do("br1 ports add p2 peer=veth2")
	reaches(t, a, "10.0.0.2")
	return d, a, z
}

// happening is an event of a port's netdev, and its reverse.
type happening struct {
	name         string
	happen, undo func(d *daemon, z *netns.Node)
	status       string
	reason       string // "" for none
	passes       bool   // meanwhile
	lines        int    // of the log, about the port
}

// ip runs ip with the words of each line, in the lab or in a host.
func ip(in interface {
	Run(string, ...string) string
}, lines ...string) {
	for _, line := range lines {
		in.Run("ip", strings.Fields(line)...)
	}
}

// rename renames a netdev that is up. Before Linux 6.2 it has to be down for that.
func rename(d *daemon, from, to string) {
	if d.lab.Command("ip", "link", "set", "dev", from, "name", to).Run() != nil {
		ip(d.lab, "link set dev "+from+" down", "link set dev "+from+" name "+to, "link set dev "+to+" up")
	}
}

var happenings = []happening{
	{"down", func(d *daemon, _ *netns.Node) { ip(d.lab, "link set dev veth2 down") },
		func(d *daemon, _ *netns.Node) { ip(d.lab, "link set dev veth2 up") },
		"DOWN", "veth2 is down: ip link set veth2 up", false, 1},
	{"renamed", func(d *daemon, _ *netns.Node) { rename(d, "veth2", "other2") },
		func(d *daemon, _ *netns.Node) { rename(d, "other2", "veth2") },
		"DOWN", "it was renamed to other2", false, 1},
	{"in another namespace", func(d *daemon, z *netns.Node) { ip(d.lab, "link set dev veth2 netns "+z.Name) },
		func(d *daemon, z *netns.Node) {
			ip(z, "link set dev veth2 netns "+d.lab.Name)
			ip(d.lab, "link set dev veth2 up")
		},
		"DOWN", "it was deleted or moved to another namespace", false, 0},
	{"of another address", func(d *daemon, _ *netns.Node) { ip(d.lab, "link set dev veth2 address 02:00:00:00:77:77") },
		func(d *daemon, _ *netns.Node) { ip(d.lab, "link set dev veth2 address 02:00:00:00:77:78") },
		"UP", "", true, 0},
	{"with its other end down", func(_ *daemon, z *netns.Node) { ip(z, "link set dev eth0 down") },
		func(_ *daemon, z *netns.Node) { ip(z, "link set dev eth0 up") },
		"UP", "set", false, 0},
	{"with an other end that does not poll any more", func(_ *daemon, z *netns.Node) {
		z.Run("ethtool", "-K", "eth0", "gro", "off")
		ip(z, "link set dev eth0 down", "link set dev eth0 up")
	}, func(*daemon, *netns.Node) {}, "UP", "", true, 0},
}

func TestWhatHappensToNetdevs(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for _, h := range happenings {
			t.Run(kind+", "+h.name, func(t *testing.T) {
				t.Parallel()
				d, a, z := pair(t, kind)
				h.happen(d, z)
				d.becomes("br1", "p2", h.status, h.reason)
				if h.passes {
					reaches(t, a, "10.0.0.2")
				} else if a.Ping("10.0.0.2", netns.Brief) == nil {
					t.Error("packets pass all the same")
				}
				h.undo(d, z)
				d.becomes("br1", "p2", "UP", "")
				reaches(t, a, "10.0.0.2")
				downFirst := h.name == "renamed" && !need.Linux(t, 6, 2) // the log also reports that
				if got := strings.Count(d.out.String(), "a port is down"); h.lines > 0 && got != h.lines && !downFirst {
					t.Errorf("%d lines say that the port is down, want %d:\n%s", got, h.lines, d.out)
				}
				d.Alive()
			})
		}
	}
}

// TestMTUChangesAcrossTheLimitOfOneBuffer: frames of 8 KB pass while the MTU allows it, on each hook. If a kernel
// cannot redirect them, the port says so.
func TestMTUChangesAcrossTheLimitOfOneBuffer(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d, a, z := pair(t, kind)
			large := netns.PingOptions{Size: 8000, DontFragment: true, Timeout: time.Second}
			if a.Ping("10.0.0.2", large) == nil {
				t.Fatal("8 KB pass before: the test proves nothing")
			}
			mtu := func(n int) {
				t.Helper()
				for _, dev := range []string{"veth1", "veth2"} {
					ip(d.lab, fmt.Sprintf("link set dev %s mtu %d", dev, n))
				}
				for _, h := range []*netns.Node{a, z} {
					ip(h, fmt.Sprintf("link set dev eth0 mtu %d", n))
				}
			}
			mtu(9000)
			if bpftest.LongestMTU(t, cube.Type(kind)) < 9000 {
				d.becomes("br1", "p2", "UP", "its MTU is 9000")
				reaches(t, a, "10.0.0.2") // short frames pass
			} else {
				d.becomes("br1", "p2", "UP", "")
				reaches(t, a, "10.0.0.2", large)
			}
			mtu(1500)
			d.becomes("br1", "p2", "UP", "")
			reaches(t, a, "10.0.0.2")
		})
	}
}

// peerKind is a kind of netdev as the peer of a port.
type peerKind struct {
	name string
	// make creates dev0, with an address 10.0.0.2 behind it if it can be a peer.
	make func(t *testing.T, d *daemon)
	// refused is the error by type of cube; other types are accepted.
	refused map[string]string
	reason  string
}

const noNative = "does not support XDP_DRV; use type XDP_SKB or TC"

var peerKinds = []peerKind{
	{name: "veth", make: func(_ *testing.T, d *daemon) { d.lab.Host("dev0", "10.0.0.2/24") }},
	{name: "tun", make: func(_ *testing.T, d *daemon) { ip(d.lab, "tuntap add dev0 mode tun", "link set dev dev0 up") },
		refused: everyType("is a tun device, which has no Ethernet frames: use a TAP")},
	{name: "loopback", make: func(_ *testing.T, d *daemon) {
		ip(d.lab, "link set dev lo down", "link set dev lo name dev0", "link set dev dev0 up")
	},
		refused: everyType("returns everything sent to it")},
	{name: "ifb", make: func(_ *testing.T, d *daemon) { ip(d.lab, "link add dev0 type ifb", "link set dev dev0 up") },
		refused: everyType("receives packets only from tc mirred")},
	{name: "vxlan", make: func(_ *testing.T, d *daemon) {
		far := d.lab.Host("under0", "192.168.9.2/24")
		ip(d.lab, "addr add 192.168.9.1/24 dev under0",
			"link add dev0 type vxlan id 5 local 192.168.9.1 remote 192.168.9.2 dstport 4789", "link set dev dev0 up")
		ip(far, "link add vx type vxlan id 5 local 192.168.9.2 remote 192.168.9.1 dstport 4789",
			"addr add 10.0.0.2/24 dev vx", "link set dev vx up")
	}, refused: map[string]string{"XDP_DRV": noNative}},
	{name: "macvlan of mode passthru", make: func(_ *testing.T, d *daemon) {
		d.lab.Host("under0", "10.0.0.2/24")
		ip(d.lab, "link add dev0 link under0 type macvlan mode passthru", "link set dev dev0 up")
	}, refused: map[string]string{"XDP_DRV": noNative}},
	{name: "macvlan of mode bridge", make: func(_ *testing.T, d *daemon) {
		d.lab.Host("under0", "")
		ip(d.lab, "link add dev0 link under0 type macvlan mode bridge", "link set dev dev0 up")
	}, refused: map[string]string{"XDP_DRV": noNative}, reason: "a bridge needs a macvlan of mode passthru"},
	{name: "Linux bridge", make: func(_ *testing.T, d *daemon) {
		d.lab.Host("under0", "10.0.0.2/24")
		ip(d.lab, "link add dev0 type bridge", "link set dev under0 master dev0", "link set dev dev0 up")
	}, refused: map[string]string{"XDP_DRV": noNative}},
	{name: "TAP that nobody has open", make: func(_ *testing.T, d *daemon) {
		ip(d.lab, "tuntap add dev0 mode tap", "link set dev dev0 up")
	}, reason: "nothing is attached to its other end"},
}

func everyType(text string) map[string]string {
	all := map[string]string{}
	for _, kind := range types {
		all[kind] = text
	}
	return all
}

func TestKindsOfNetdevsAsPeers(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for _, p := range peerKinds {
			t.Run(kind+", "+p.name, func(t *testing.T) {
				t.Parallel()
				d := start(t)
				a := d.lab.Host("veth1", "10.0.0.1/24")
				p.make(t, d)
				d.Do("simplebridge add br1 type=" + kind)
				d.Do("br1 ports add p1 peer=veth1")
				d.Do("br1 ports add p2")
				refused := p.refused[kind]
				r := d.CLI("connect", "br1:p2", "dev0")
				if (r.code == 0) != (refused == "") || !strings.Contains(r.stderr, refused) {
					t.Fatalf("%s\nwant %q", r, refused)
				}
				if refused != "" {
					if got := d.Port("br1", "p2"); got.Status != "DOWN" {
						t.Errorf("the refused port is %+v", got)
					}
					return
				}
				d.becomes("br1", "p2", "UP", p.reason)
				if p.reason == "" {
					reaches(t, a, "10.0.0.2")
				}
			})
		}
	}
}

// mirror copies the frames that leave by one device of the lab to another, as tc mirred does if a kernel has it.
func mirror(t *testing.T, lab *netns.Lab, from, to string) {
	t.Helper()
	lab.Must(func() error {
		src, err := net.InterfaceByName(from)
		if err != nil {
			return err
		}
		dst, err := net.InterfaceByName(to)
		if err != nil {
			return err
		}
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
			asm.Mov.Imm(asm.R2, int32(dst.Index)), asm.Mov.Imm(asm.R3, 0), asm.FnCloneRedirect.Call(),
			asm.Mov.Imm(asm.R0, -1), asm.Return(),
		}})
		if err != nil {
			return err
		}
		t.Cleanup(func() { prog.Close() })
		return netns.AttachTC(t, src.Index, prog, ebpf.AttachTCXEgress)
	})
}

// TestTransparentCubesOnDevicesThatCannotBePeers: on the loopback in both directions, on an ifb for frames sent to it,
// on egress.
func TestTransparentCubesOnDevicesThatCannotBePeers(t *testing.T) {
	t.Parallel()
	d, a, _ := pair(t, "TC")
	ip(d.lab, "link set dev lo up", "link add ifb9 type ifb", "link set dev ifb9 up", "addr add 10.0.9.1/24 dev lo")
	for _, line := range []string{"add th1", "add th2"} {
		d.Do("transparenthelloworld " + line)
	}
	d.Do("attach th1 lo")
	d.Do("attach th2 ifb9")
	ping := func() result { return run(t, d.lab.Command("ping", "-n", "-q", "-c", "1", "-W", "10", "10.0.9.1"), "") }
	if r := ping(); r.code != 0 {
		t.Errorf("through a cube on the loopback: %s", r)
	}
	d.Do("th1 set ingress-action=DROP")
	if r := ping(); r.code == 0 {
		t.Errorf("a cube on the loopback drops, and it answers: %s", r)
	}
	if d.Stats("th1").Fate(t, "ingress-drop") == 0 {
		t.Error("the cube on the loopback counts no drop")
	}
	mirror(t, d.lab, "veth1", "ifb9")
	d.Do("th2 set egress-action=DROP")
	reaches(t, a, "10.0.0.2")
	netns.Eventually(t, patience, func() error {
		if d.Stats("th2").Fate(t, "egress-drop") == 0 {
			return errors.New("the cube on the ifb sees nothing of what is mirrored to it")
		}
		return nil
	})
}

// TestADeviceWithoutNativeXDPTakesTheName: it is skipped, logged once, and nothing else is affected.
func TestADeviceWithoutNativeXDPTakesTheName(t *testing.T) {
	t.Parallel()
	d, a, _ := pair(t, "XDP_DRV")
	d.lab.Host("veth3", "10.0.0.3/24")
	d.Do("br1 ports add p3 peer=veth3")
	ip(d.lab, "link del veth2")
	d.becomes("br1", "p2", "DOWN", "netdev veth2 no longer exists")
	ip(d.lab, "link add veth2 type bridge", "link set dev veth2 up")
	d.becomes("br1", "p2", "DOWN", noNative)
	reaches(t, a, "10.0.0.3")
	d.Do("simplebridge add br2 type=XDP_DRV")
	ip(d.lab, "link set dev veth2 mtu 1400") // an event more, and the same trouble
	d.becomes("br1", "p2", "DOWN", noNative)
	netns.Eventually(t, patience, func() error {
		if n := strings.Count(d.out.String(), "a netdev cannot be used"); n < 1 {
			return errors.New("the log does not say it")
		}
		return nil
	})
	ip(d.lab, "link del veth2")
	d.becomes("br1", "p2", "DOWN", "netdev veth2 no longer exists")
	d.lab.Host("veth2", "10.0.0.4/24")
	d.becomes("br1", "p2", "UP", "")
	reaches(t, a, "10.0.0.4")
}

// TestTimedTwoHundredNetdevsGoAndComeTogether: a burst is few changes.
func TestTimedTwoHundredNetdevsGoAndComeTogether(t *testing.T) {
	const n = 200
	for _, kind := range types[:2] {
		t.Run(kind, func(t *testing.T) {
			d, a, _ := pair(t, kind)
			batch := func(format string) {
				t.Helper()
				var lines strings.Builder
				for i := range n {
					lines.WriteString(strings.ReplaceAll(format, "#", fmt.Sprint(i)))
				}
				cmd := d.lab.Command("ip", "-batch", "-")
				if r := run(t, cmd, lines.String()); r.code != 0 {
					t.Fatal(r)
				}
			}
			const make = "link add d# group 7 type veth peer name e#\nlink set dev d# up\nlink set dev e# up\n"
			batch(make)
			var ports []string
			for i := range n {
				ports = append(ports, fmt.Sprintf(`{"name":"d%d","peer":"d%d"}`, i, i))
			}
			d.Do("simplebridge add br2 type=" + kind)
			took := func(what string, limit time.Duration, fn func()) {
				t.Helper()
				start := time.Now()
				fn()
				took := time.Since(start)
				t.Logf("%s: %s", what, took.Round(time.Millisecond))
				if took > limit {
					t.Errorf("%s took %s, more than %s", what, took, limit)
				}
			}
			took("200 ports", 10*time.Second, func() {
				d.Must(http.StatusCreated, "POST", "/simplebridge/br2/ports", "["+strings.Join(ports, ",")+"]")
			})
			all := func(status string) {
				netns.Eventually(t, patience, func() error {
					var list []port
					d.Get("/simplebridge/br2/ports", &list)
					for i, p := range list {
						if p.Status != status {
							return fmt.Errorf("port %d is %+v", i, p)
						}
					}
					return nil
				})
			}
			all("UP")
			d.lab.Run("ip", "link", "del", "group", "7") // one by one, the kernel waits for each
			took("to know that 200 netdevs went", 10*time.Second, func() { all("DOWN") })
			reaches(t, a, "10.0.0.2")
			batch(make)
			took("to know that 200 netdevs came", 10*time.Second, func() { all("UP") })
			reaches(t, a, "10.0.0.2")
		})
	}
}
