// SPDX-License-Identifier: Apache-2.0

// Real redirects: two hosts, and XDP programs that send each other's frames on.

package netdev

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// attach puts a native XDP program on dev of the calling thread's namespace.
func attach(t *testing.T, dev string, insns ...asm.Instruction) error {
	t.Helper()
	iface, err := net.InterfaceByName(dev)
	if err != nil {
		return err
	}
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.XDP, License: "GPL", Instructions: insns})
	if err != nil {
		return fmt.Errorf("load: %w", err)
	}
	defer func() { _ = prog.Close() }() // the link holds it
	l, err := link.AttachXDP(link.XDPOptions{Program: prog, Interface: iface.Index, Flags: link.XDPDriverMode})
	if err != nil {
		return fmt.Errorf("attach to %s: %w", dev, err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return nil
}

// redirect makes everything that arrives on from leave by to.
func redirect(t *testing.T, from, to string) error {
	t.Helper()
	out, err := net.InterfaceByName(to)
	if err != nil {
		return err
	}
	return attach(t, from, asm.Mov.Imm(asm.R1, int32(out.Index)), asm.Mov.Imm(asm.R2, 0), asm.FnRedirect.Call(), asm.Return())
}

// wired is a lab with two hosts and redirects both ways.
func wired(t *testing.T) (lab *netns.Lab, h1, h2 *netns.Node) {
	t.Helper()
	lab = netns.NewLab(t)
	h1, h2 = lab.Host("h1", "10.0.0.1/24"), lab.Host("h2", "10.0.0.2/24")
	lab.Must(func() error { return errors.Join(redirect(t, "h1", "h2"), redirect(t, "h2", "h1")) })
	return lab, h1, h2
}

func ensure(t *testing.T, lab *netns.Lab, name string) Readiness {
	t.Helper()
	var r Readiness
	lab.Must(func() (err error) {
		r, err = EnsureCanReceiveRedirects(name)
		return err
	})
	return r
}

func prepare(t *testing.T, lab *netns.Lab, name string) (changed []string) {
	t.Helper()
	lab.Must(func() (err error) {
		changed, err = PreparePeerForXDP(name)
		return err
	})
	return changed
}

func TestRedirectsAreReceivedOnceEnsured(t *testing.T) {
	lab, h1, _ := wired(t)
	if err := h1.Ping("10.0.0.2", netns.Brief); err == nil {
		t.Fatal("ping is answered before anything was ensured: the test proves nothing")
	}
	for _, name := range []string{"h1", "h2"} {
		if r := ensure(t, lab, name); !r.OK || !r.Changed || !strings.Contains(r.Reason, "GRO") {
			t.Errorf("%s: %+v, want OK by a change", name, r)
		}
	}
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.PingOptions{Count: 3, Timeout: time.Second}) })
	for _, name := range []string{"h1", "h2"} {
		if r := ensure(t, lab, name); !r.OK || r.Changed {
			t.Errorf("%s again: %+v, want OK without a change", name, r)
		}
	}
}

// TestGROSwitchedOnWhileDownIsNotEnough: the other end polls then, and the kernel sends nothing there.
func TestGROSwitchedOnWhileDownIsNotEnough(t *testing.T) {
	lab, h1, h2 := wired(t)
	ensure(t, lab, "h1")
	ensure(t, lab, "h2")
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.Brief) })
	h2.Run("ethtool", "-K", netns.Inner, "gro", "off")
	h2.Run("ip", "link", "set", netns.Inner, "down")
	h2.Run("ethtool", "-K", netns.Inner, "gro", "on")
	h2.Run("ip", "link", "set", netns.Inner, "up")
	if err := h1.Ping("10.0.0.2", netns.Brief); err == nil {
		t.Skip("this kernel takes note of GRO while a device is down")
	}
	if r := ensure(t, lab, "h2"); !r.OK {
		t.Errorf("%+v", r)
	}
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.Brief) })
}

func TestNativeProgramAtTheOtherEndIsEnough(t *testing.T) {
	lab, h1, h2 := wired(t)
	for _, h := range []*netns.Node{h1, h2} {
		h.Must(func() error { return attach(t, netns.Inner, asm.Mov.Imm(asm.R0, 2), asm.Return()) })
		if r := ensure(t, lab, h.Outer); !r.OK || r.Changed || !strings.Contains(r.Reason, "native XDP program") {
			t.Errorf("%s: %+v, want OK because of the program", h.Outer, r)
		}
	}
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.Brief) })
}

// exchange sends text by TCP from h1 to h2 and returns what arrived.
func exchange(h1, h2 *netns.Node, within time.Duration) (string, error) {
	var l net.Listener
	err := h2.Do(func() (err error) {
		l, err = net.Listen("tcp4", "10.0.0.2:0")
		return err
	})
	if err != nil {
		return "", err
	}
	defer l.Close()
	got := make(chan string, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- ""
			return
		}
		defer c.Close()
		b, _ := io.ReadAll(c) // what is missing shows in the comparison
		got <- string(b)
	}()
	err = h1.Do(func() error {
		c, err := (&net.Dialer{Timeout: within}).Dial("tcp4", l.Addr().String())
		if err != nil {
			return err
		}
		defer c.Close()
		_, err = io.WriteString(c, "checksummed")
		return err
	})
	if err != nil {
		return "", err
	}
	return <-got, nil
}

func TestTCPOverXDPNeedsChecksumsFilledIn(t *testing.T) {
	lab, h1, h2 := wired(t)
	ensure(t, lab, "h1")
	ensure(t, lab, "h2")
	netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.Brief) })
	if _, err := exchange(h1, h2, 300*time.Millisecond); err == nil {
		t.Log("this kernel carries unfinished checksums through a redirect")
	}
	all := []string{TxChecksum, "tx-vlan-hw-insert", "tx-vlan-stag-hw-insert"}
	for _, name := range []string{"h1", "h2"} {
		if got := prepare(t, lab, name); !slices.Equal(got, all) {
			t.Errorf("%s: changed %q, want %q", name, got, all)
		}
		if got := prepare(t, lab, name); len(got) != 0 {
			t.Errorf("%s again: changed %q", name, got)
		}
	}
	if got, err := exchange(h1, h2, pace.Stretch(15*time.Second)); err != nil || got != "checksummed" {
		t.Errorf("%q, %v", got, err)
	}
	if out := h1.Run("ethtool", "-k", netns.Inner); !strings.Contains(out, "tx-checksumming: off\n") {
		t.Error(out)
	}
}

// tagBeside makes a host's device put VLAN 100 beside the bytes of every frame that it sends, as a VLAN interface does.
func tagBeside(t *testing.T, h *netns.Node, proto uint16) {
	t.Helper()
	prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{Type: ebpf.SchedCLS, License: "GPL", Instructions: asm.Instructions{
		asm.Mov.Imm(asm.R2, int32(binary.NativeEndian.Uint16([]byte{byte(proto >> 8), byte(proto)}))), asm.Mov.Imm(asm.R3, 100),
		asm.FnSkbVlanPush.Call(), asm.Mov.Imm(asm.R0, -1), asm.Return(),
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer prog.Close() // the link holds it
	h.Must(func() error {
		dev, err := net.InterfaceByName(netns.Inner)
		if err != nil {
			return err
		}
		return netns.AttachTC(t, dev.Index, prog, ebpf.AttachTCXEgress)
	})
}

func TestVLANTagsOverXDPNeedToBeInTheFrame(t *testing.T) {
	for name, proto := range map[string]uint16{"802.1Q": unix.ETH_P_8021Q, "802.1ad": unix.ETH_P_8021AD} {
		t.Run(name, func(t *testing.T) {
			lab, h1, h2 := wired(t)
			ensure(t, lab, "h1")
			ensure(t, lab, "h2")
			netns.Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping("10.0.0.2", netns.Brief) })
			tagBeside(t, h1, proto)
			in, out := netns.OpenRaw(t, h1, netns.Inner), netns.OpenRaw(t, h2, netns.Inner)
			plain := pkt.Eth(h1.MAC.String(), h2.MAC.String()).Data(make([]byte, 46)).Bytes()
			addresses, payload, tagged := plain[:12], plain[12:], pkt.Tagged(plain, uint32(proto)<<16|100)
			// arrives sends a frame and wants it on the other side.
			arrives := func(want []byte) {
				t.Helper()
				if err := in.Send(plain); err != nil {
					t.Fatal(err)
				}
				ours := func(f []byte) bool { return bytes.HasPrefix(f, addresses) && bytes.HasSuffix(f, payload) }
				if got, err := out.Recv(ours, pace.Stretch(15*time.Second)); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("got  %x, %v\nwant %x", got, err, want)
				}
			}
			arrives(slices.Concat(addresses, payload)) // the tag is lost: this is what must not stay so
			for _, end := range []string{"h1", "h2"} {
				prepare(t, lab, end)
			}
			arrives(tagged)
			if out := h1.Run("ethtool", "-k", netns.Inner); !strings.Contains(out, "tx-vlan-offload: off\n") ||
				!strings.Contains(out, "tx-vlan-stag-hw-insert: off\n") || !strings.Contains(out, "rx-vlan-offload: on\n") {
				t.Error(out)
			}
			if out := lab.Run("ethtool", "-k", "h1"); !strings.Contains(out, "tx-vlan-offload: on\n") {
				t.Error("the wrong end was changed:\n" + out)
			}
		})
	}
}

func TestReadinessSaysWhatIsMissing(t *testing.T) {
	lab := netns.NewLab(t)
	h := lab.Host("h1", "")
	h.Run("ip", "link", "set", netns.Inner, "down")
	if r := ensure(t, lab, "h1"); r.OK || r.Changed || !strings.Contains(r.Reason, "eth0, is down: set it up") {
		t.Errorf("other end down: %+v", r)
	}
	h.Run("ip", "link", "set", netns.Inner, "up")
	if r := ensure(t, lab, "h1"); !r.OK || !r.Changed {
		t.Errorf("other end up: %+v", r)
	}
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	lab.Run("ip", "link", "set", "b0", "up")
	if r := ensure(t, lab, "a0"); !r.OK || !r.Changed {
		t.Errorf("other end in the same namespace: %+v", r)
	}
	if out := lab.Run("ethtool", "-k", "b0"); !strings.Contains(out, "generic-receive-offload: on\n") {
		t.Error(out)
	}
	if out := lab.Run("ethtool", "-k", "a0"); !strings.Contains(out, "generic-receive-offload: off\n") {
		t.Error("the wrong end was changed:\n" + out)
	}
	lab.Run("ip", "link", "add", "br0", "type", "bridge")
	lab.Run("ip", "tuntap", "add", "tap0", "mode", "tap")
	for name, kind := range map[string]string{"br0": "bridge", "lo": "loopback", "tap0": "tap"} {
		if r := ensure(t, lab, name); r.OK != (name == "tap0") || r.Changed || !strings.Contains(r.Reason, kind) {
			t.Errorf("%s: %+v, want OK for a TAP alone, and a word about a %s", name, r, kind)
		}
	}
}

// TestDeafKindsAreThoseOfTheKernel: where the kernel tells what takes redirected frames, it says the same as the list that
// stands in for it on others. Kinds that this kernel does not make are left out.
func TestDeafKindsAreThoseOfTheKernel(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "under", "type", "veth", "peer", "name", "peer")
	made := 0
	for _, c := range [][]string{
		{"bridge"}, {"geneve", "id", "1", "remote", "10.0.0.1"}, {"gretap", "remote", "10.0.0.1"}, {"ifb"},
		{"macvlan"}, {"macvtap"}, {"vlan", "id", "7"}, {"vxlan", "id", "1", "dstport", "4789"}, {"dummy"}, {"bond"},
	} {
		words := []string{"link", "add", "dev0"}
		if slices.Contains([]string{"macvlan", "macvtap", "vlan"}, c[0]) {
			words = append(words, "link", "under")
		}
		if lab.Command("ip", slices.Concat(words, []string{"type"}, c)...).Run() != nil {
			continue
		}
		made++
		var takes bool
		err := lab.Do(func() error {
			l, err := netlink.LinkByName("dev0")
			if err == nil {
				takes, err = takesRedirects(l.Attrs().Index)
			}
			return err
		})
		if errors.Is(err, errNoFeatures) {
			t.Skip(err)
		}
		if err != nil || takes == slices.Contains(noRedirectKinds, c[0]) {
			t.Errorf("%v, a %s takes redirected frames: %v, the list says %v", err, c[0], takes, !takes)
		}
		lab.Run("ip", "link", "del", "dev0")
	}
	if made == 0 {
		t.Error("no device could be made: the test proves nothing")
	}
}

// TestNamespaceWithoutANameIsFoundByItsProcess: the other end is moved to a namespace that only a process holds.
func TestNamespaceWithoutANameIsFoundByItsProcess(t *testing.T) {
	lab := netns.NewLab(t)
	lab.Run("ip", "link", "add", "a0", "type", "veth", "peer", "name", "b0")
	sleeper := exec.CommandContext(t.Context(), "sleep", "60")
	sleeper.SysProcAttr = &unix.SysProcAttr{Cloneflags: unix.CLONE_NEWNET}
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sleeper.Wait() }) // killed by the context
	pid := fmt.Sprint(sleeper.Process.Pid)
	lab.Run("ip", "link", "set", "b0", "netns", pid)
	inside := func(args ...string) string {
		out, err := exec.Command("nsenter", append([]string{"-t", pid, "-n", "--"}, args...)...).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	inside("ip", "link", "set", "b0", "up")
	if r := ensure(t, lab, "a0"); !r.OK || !r.Changed {
		t.Errorf("%+v, want OK by a change", r)
	}
	if out := inside("ethtool", "-k", "b0"); !strings.Contains(out, "generic-receive-offload: on\n") {
		t.Error(out)
	}
}

func TestUnreachableNamespaceIsReportedWithTheRemedy(t *testing.T) {
	lab := netns.NewLab(t)
	h := lab.Host("h1", "")
	patterns := namespaceFiles
	namespaceFiles = []string{"/run/netns/" + lab.Name, "/dev/null", "/nowhere/*"}
	defer func() { namespaceFiles = patterns }()
	if r := ensure(t, lab, "h1"); r.OK || r.Changed || !strings.Contains(r.Reason, "ethtool -K DEVICE gro on") {
		t.Errorf("%+v, want the remedy", r)
	}
	if out := h.Run("ethtool", "-k", netns.Inner); !strings.Contains(out, "generic-receive-offload: off\n") {
		t.Error(out)
	}
	lab.Must(func() error {
		if changed, err := PreparePeerForXDP("h1"); !errors.Is(err, errUnreachable) || len(changed) != 0 {
			t.Errorf("PreparePeerForXDP: %q, %v, want errUnreachable", changed, err)
		}
		return nil
	})
}

// TestDriversThatAcceptFramesWithAProgram: by the features that drivers report.
func TestDriversThatAcceptFramesWithAProgram(t *testing.T) {
	const basic, redirect, xmit = actBasic, actRedirect, actNdoXmit
	for _, c := range []struct {
		what            string
		can             uint64
		mode            string
		ok, withProgram bool
	}{
		{"one that always does", basic | redirect | xmit, "", true, false},
		{"virtio without a program", basic | redirect, "", false, true},
		{"virtio with a generic program", basic | redirect, "generic", false, true},
		{"virtio with one", basic | redirect | xmit, "native", true, false},
		{"one that has a program and does not", basic | redirect, "native", false, false},
		{"one without native XDP", 0, "", false, false},
		{"one that only drops at XDP", basic, "", false, false},
	} {
		r := otherReadiness(Info{Name: "eth0", Kind: "physical", XDPMode: c.mode}, c.can)
		if r.OK != c.ok || r.WithProgram != c.withProgram || !strings.HasPrefix(r.Reason, "eth0 is a physical device, which ") {
			t.Errorf("%s: %+v, want OK %v, with a program %v", c.what, r, c.ok, c.withProgram)
		}
	}
}
