// SPDX-License-Identifier: Apache-2.0

// The helper is tested with itself: ip and /proc check from outside what it promises to other tests.

package netns

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/internal/nsname"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) {
	if os.Getenv("PCN_LEAK") != "" {
		// The child's deliberate leaks do not disappear by waiting.
		leakDeadline = 100 * time.Millisecond
	}
	os.Exit(CheckLeaks(m))
}

func TestTwoHostsReachEachOtherThroughABridge(t *testing.T) {
	for _, c := range []struct {
		name, a, b, target string
		opts               []Option
		ping               PingOptions
	}{
		{"IPv4", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.2", nil, PingOptions{Count: 3, Timeout: time.Second}},
		{"IPv4, jumbo frames", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.2", []Option{WithMTU(9000)}, PingOptions{Size: 8900, DontFragment: true, Timeout: time.Second}},
		{"IPv6", "fd00::1/64", "fd00::2/64", "fd00::2", nil, PingOptions{Timeout: 2 * time.Second}},
		{"GRO, no checksum offload", "10.0.0.1/24", "10.0.0.2/24", "10.0.0.2", []Option{WithGRO(), WithoutTxChecksum()}, Brief},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			lab := NewLab(t)
			h1, _ := lab.Host("h1", c.a, c.opts...), lab.Host("h2", c.b, c.opts...)
			lab.Run("ip", "link", "add", "br0", "mtu", "9000", "type", "bridge")
			for _, dev := range []string{"h1", "h2"} {
				lab.Run("ip", "link", "set", dev, "master", "br0")
			}
			if err := h1.Ping(c.target, Brief); err == nil {
				t.Fatal("ping is answered while the bridge is down")
			}
			lab.Run("ip", "link", "set", "br0", "up")
			Eventually(t, pace.Stretch(15*time.Second), func() error { return h1.Ping(c.target, c.ping) })
		})
	}
}

func TestOptionsSetTheOffloads(t *testing.T) {
	lab := NewLab(t)
	for i, c := range []struct {
		opts []Option
		want map[string]string
	}{
		{nil, map[string]string{"generic-receive-offload": "off", "tx-checksumming": "on"}},
		{[]Option{WithGRO()}, map[string]string{"generic-receive-offload": "on", "tx-checksumming": "on"}},
		{[]Option{WithoutTxChecksum()}, map[string]string{"generic-receive-offload": "off", "tx-checksumming": "off"}},
	} {
		h := lab.Host(fmt.Sprintf("h%d", i), "", c.opts...)
		features := h.Run("ethtool", "-k", Inner)
		for name, want := range c.want {
			if !strings.Contains(features, name+": "+want+"\n") {
				t.Errorf("host %d: %s is not %s:\n%s", i, name, want, features)
			}
		}
	}
}

func TestGatewayIsTheDefaultRoute(t *testing.T) {
	h := NewLab(t).Host("h1", "10.0.0.1/24", WithGateway("10.0.0.254"))
	if out := h.Run("ip", "route", "get", "192.0.2.1"); !strings.Contains(out, "via 10.0.0.254 dev eth0") {
		t.Error(out)
	}
}

func TestOuterEndIsInTheCallingNamespace(t *testing.T) {
	lab := NewLab(t)
	lab.Must(func() error {
		Host(t, "h9", "10.0.0.9/24")
		return nil
	})
	if out := lab.Run("ip", "-o", "link", "show", "h9"); !strings.Contains(out, "h9@") || !strings.Contains(out, "UP") {
		t.Error(out)
	}
}

func TestDoReturnsToTheNamespaceItCameFrom(t *testing.T) {
	own := func() string {
		s, err := os.Readlink("/proc/thread-self/ns/net")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b, home := New(t), New(t), own()
	errInner := errors.New("inner")
	err := a.Do(func() error {
		inA := own()
		err := b.Do(func() error {
			if in := own(); in == inA || in == home {
				t.Errorf("the inner call runs in %s", in)
			}
			return errInner
		})
		if own() != inA {
			t.Error("the inner call did not return to the outer namespace")
		}
		return err
	})
	if !errors.Is(err, errInner) || own() != home {
		t.Errorf("error %v, namespace %s, was %s", err, own(), home)
	}
}

func TestIPv6IsSilentByDefault(t *testing.T) {
	lab := NewLab(t)
	for _, c := range []struct {
		name string
		opts []Option
		want bool
	}{{"off", nil, false}, {"on", []Option{WithIPv6()}, true}} {
		h := lab.Host("h-"+c.name, "", c.opts...)
		got := strings.Contains(h.Run("ip", "-6", "addr", "show", "dev", Inner), "fe80::")
		if got != c.want {
			t.Errorf("IPv6 %s: link-local address %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRawFramesArriveByteForByte(t *testing.T) {
	lab := NewLab(t)
	h := lab.Host("h1", "")
	in, out := OpenRaw(t, h, Inner), OpenRaw(t, lab, "h1")
	head := "ffffffffffff" + "020000000001"
	body := "88b5" + strings.Repeat("a5", 46)
	for _, c := range []struct{ name, frame string }{
		{"untagged", head + body},
		{"tagged", head + "81002064" + body},
		{"service tag", head + "88a80007" + body},
		{"two tags", head + "88a80007" + "8100e064" + body},
		{"priority tag", head + "8100a000" + body},
		{"shortest", head + "88b5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			want, err := hex.DecodeString(c.frame)
			if err != nil {
				t.Fatal(err)
			}
			for _, dir := range []struct {
				name     string
				from, to *Raw
			}{{"to the lab", in, out}, {"to the host", out, in}} {
				if err := dir.from.Send(want); err != nil {
					t.Fatal(err)
				}
				got, err := dir.to.Recv(nil, pace.Stretch(15*time.Second))
				if err != nil || !bytes.Equal(got, want) {
					t.Errorf("%s: %x, %v; want %x", dir.name, got, err, want)
				}
			}
		})
	}
}

func TestRecvFiltersAndGivesUp(t *testing.T) {
	lab := NewLab(t)
	h := lab.Host("h1", "")
	in, out := OpenRaw(t, h, Inner), OpenRaw(t, lab, "h1")
	for i := range byte(3) {
		if err := in.Send(append(make([]byte, 14), i)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := out.Recv(func(f []byte) bool { return f[14] == 2 }, pace.Stretch(15*time.Second))
	if err != nil || got[14] != 2 {
		t.Fatalf("%x, %v; want the third frame", got, err)
	}
	if err := in.Send(make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	_, err = out.Recv(func([]byte) bool { return false }, 20*time.Millisecond)
	if !errors.Is(err, os.ErrDeadlineExceeded) || !strings.Contains(err.Error(), "1 others, the first 0000") {
		t.Errorf("%v, want a deadline that tells of the other frame", err)
	}
	if err := in.Send([]byte{1, 2, 3}); !errors.Is(err, unix.EINVAL) {
		t.Errorf("a frame without a header: %v, want EINVAL", err)
	}
}

// leaky runs one leaking test of this binary in a child and returns the output of CheckLeaks.
func leaky(t *testing.T, what string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestLeak$")
	cmd.Env = append(os.Environ(), "PCN_LEAK="+what)
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Errorf("%s: the child passed:\n%s", what, out)
	}
	return string(out)
}

// TestLeak leaks on purpose, in the child that leaky starts.
func TestLeak(t *testing.T) {
	switch os.Getenv("PCN_LEAK") {
	case "":
		t.Skip("leaks only in the child of TestLeaksAreFound")
	case "descriptor":
		if _, err := unix.Open("/dev/zero", unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			t.Fatal(err)
		}
	case "map":
		m := newMap(t)
		fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil || fd < 0 {
			t.Fatal(err)
		}
		closeObject(t, m)
	case "process":
		if err := exec.Command("sleep", "2").Start(); err != nil {
			t.Fatal(err)
		}
	case "namespace":
		n := New(t)
		f, err := os.Create(filepath.Join(nsname.Dir, n.Name+"-left"))
		if err != nil {
			t.Fatal(err)
		}
		f.Close()
	case "pin":
		// The object outlives its pin because the parent of this child keeps it open.
		m := newMap(t)
		defer closeObject(t, m)
		if err := m.Pin(filepath.Join(Bpffs(t), "m")); err != nil {
			t.Fatal(err)
		}
		fd, err := unix.FcntlInt(uintptr(m.FD()), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil || fd < 0 {
			t.Fatal(err)
		}
	}
}

func closeObject(t *testing.T, c io.Closer) {
	t.Helper()
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

func newMap(t *testing.T) *ebpf.Map {
	t.Helper()
	m, err := ebpf.NewMap(&ebpf.MapSpec{Type: ebpf.Array, KeySize: 4, ValueSize: 4, MaxEntries: 1})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLeaksAreFound(t *testing.T) {
	NeedRoot(t)
	for _, c := range []struct{ what, want string }{
		{"descriptor", ": /dev/zero"},
		{"map", "anon_inode:bpf-map (map_id "},
		{"process", "(sleep)"},
		{"namespace", "leaked: namespace " + Prefix},
		{"pin", "once pinned at "},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			if out := leaky(t, c.what); !strings.Contains(out, c.want) {
				t.Errorf("not told: %q in\n%s", c.want, out)
			}
		})
	}
	t.Cleanup(func() {
		left, _ := filepath.Glob(filepath.Join(nsname.Dir, Prefix+"*-left"))
		for _, name := range left {
			if err := os.Remove(name); err != nil {
				t.Error(err)
			}
		}
	})
}

func TestAttachedProgramsAreTracked(t *testing.T) {
	var id ebpf.ProgramID
	t.Run("lab", func(t *testing.T) {
		lab := NewLab(t)
		lab.Host("h1", "")
		prog, err := ebpf.NewProgram(&ebpf.ProgramSpec{
			Type: ebpf.XDP, License: "GPL", Instructions: asm.Instructions{asm.Mov.Imm(asm.R0, 2), asm.Return()},
		})
		if err != nil {
			t.Fatal(err)
		}
		defer closeObject(t, prog)
		info, err := prog.Info()
		if err != nil {
			t.Fatal(err)
		}
		id, _ = info.ID()
		bpffs := Bpffs(t)
		if err := prog.Pin(filepath.Join(bpffs, "p")); err != nil {
			t.Fatal(err)
		}
		lab.Run("ip", "link", "set", "h1", "xdp", "pinned", filepath.Join(bpffs, "p"))
	})
	if id == 0 {
		t.Skip("needs root: the lab was not made")
	}
	seenMu.Lock()
	where := seen[object{"program", uint32(id)}]
	seenMu.Unlock()
	if where == "" {
		t.Errorf("program %d is not tracked", id)
	}
	Eventually(t, leakDeadline, func() error {
		if (object{"program", uint32(id)}).exists() {
			return fmt.Errorf("program %d is still there", id)
		}
		return nil
	})
}
