// SPDX-License-Identifier: Apache-2.0

// A chain of two bridges on each hook: frames that enter at one end come out at the other, byte for byte.

package e2e

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"golang.org/x/sys/unix"
)

// types are the hooks that a cube can be on.
var types = []string{"TC", "XDP_SKB", "XDP_DRV"}

// twoBridges joins two bridges of a type by a wire: veth1 and veth2 are on br1, veth3 is on br2. Nodes with other names
// are left alone.
func (m *machine) twoBridges(kind string) {
	m.t.Helper()
	m.Must(201, "POST", "/cubes", fmt.Sprintf(`[
		{"service-name":"simplebridge","name":"br1","type":%[1]q,"ports":[
			{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"up","peer":"br2:up"}]},
		{"service-name":"simplebridge","name":"br2","type":%[1]q,"ports":[
			{"name":"p3","peer":"veth3"},{"name":"up","peer":"br1:up"}]}]`, kind))
}

// threeHosts are wired to the lab by veth1, veth2 and veth3.
func threeHosts(m *machine, prefix string, opts ...netns.Option) [3]*netns.Node {
	m.t.Helper()
	var hosts [3]*netns.Node
	for i := range hosts {
		hosts[i] = m.lab.Host(fmt.Sprintf("veth%d", i+1), fmt.Sprintf(prefix, i+1), opts...)
	}
	return hosts
}

const (
	v4 = "10.0.0.%d/24"
	v6 = "fd00::%d/64"
)

// reaches pings until a reply arrives: the first frames after a program was attached may be lost in the device.
func reaches(t testing.TB, from *netns.Node, ip string, opts ...netns.PingOptions) {
	t.Helper()
	from.Reaches(t, patience, ip, opts...)
}

// onEachHook runs a test with two bridges between three hosts, on each hook in parallel.
func onEachHook(t *testing.T, test func(t *testing.T, kind string, d *daemon, hosts [3]*netns.Node)) {
	t.Parallel()
	for _, kind := range types {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			d := start(t)
			hosts := threeHosts(d.machine, v4)
			d.twoBridges(kind)
			test(t, kind, d, hosts)
		})
	}
}

func TestHostsReachEachOtherThroughTwoBridges(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for version, prefix := range map[string]string{"IPv4": v4, "IPv6": v6} {
			t.Run(kind+", "+version, func(t *testing.T) {
				t.Parallel()
				mtu := bpftest.LongestMTU(t, cube.Type(kind))
				opts := []netns.Option{netns.WithMTU(mtu)}
				if prefix == v6 {
					opts = append(opts, netns.WithIPv6())
				}
				d := start(t)
				hosts := threeHosts(d.machine, prefix, opts...)
				d.twoBridges(kind)
				reaches(t, hosts[0], hosts[2].Addr.Addr().String())
				for name, ping := range map[string]netns.PingOptions{
					"small packets": {Count: 10},
					"fragments":     {Count: 3, Size: 20000},
					"jumbo frames":  {Count: 3, Size: mtu - 100, DontFragment: true},
				} {
					for i, from := range hosts {
						if err := from.Ping(hosts[(i+1)%3].Addr.Addr().String(), ping); err != nil {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			})
		}
	}
}

// ipv4 is a packet of UDP, or a part of one: fragment is the field with flags and offset.
func ipv4(fragment uint16, payload []byte) []byte {
	return pkt.IPv4Header{From: "10.0.0.1", To: "10.0.0.3", Protocol: unix.IPPROTO_UDP, TTL: 64, ID: 0x1234, Fragment: fragment}.Packet(payload)
}

func noise(n int) []byte {
	b := make([]byte, 0, n+8)
	for r := rand.NewPCG(1, uint64(n)); len(b) < n; {
		b = binary.NativeEndian.AppendUint64(b, r.Uint64())
	}
	return b[:n:n]
}

func unhex(s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		panic(err)
	}
	return b
}

// oddFrames are frames that a bridge must not modify, without their two addresses.
func oddFrames(mtu int) map[string][]byte {
	udp := func(n int) []byte { return append(unhex("1000 2000 0000 0000"), noise(n)...) }
	frames := map[string][]byte{
		"untagged":                   append(unhex("88b5"), noise(46)...),
		"tagged":                     append(unhex("8100 2064 0800"), ipv4(0, udp(40))...),
		"priority tag":               append(unhex("8100 a000 88b5"), noise(46)...),
		"service tag":                append(unhex("88a8 0007 88b5"), noise(46)...),
		"two tags":                   append(unhex("88a8 0007 8100 e064 0800"), ipv4(0, udp(40))...),
		"three tags":                 append(unhex("88a8 0007 8100 e064 8100 0001 88b5"), noise(46)...),
		"fragment, the first":        append(unhex("0800"), ipv4(0x2000, udp(1000))...),
		"fragment, the middle":       append(unhex("0800"), ipv4(0x2000|126, noise(1008))...),
		"fragment, the last":         append(unhex("0800"), ipv4(252, noise(33))...),
		"IPv4 header cut short":      unhex("0800 4500 0054 1234"),
		"IPv4 with a wrong checksum": append(unhex("0800 4500 0020 1234 0000 4011 dead 0a000001 0a000003"), udp(4)...),
		"IPv4 longer than the frame": append(unhex("0800 4500 0fff 1234 0000 4011 0000 0a000001 0a000003"), udp(4)...),
		"IPv6 header cut short":      unhex("86dd 6000 0000 0008"),
		"IPv6 fragment":              append(unhex("86dd 6000 0000 0010 2c40"+strings.Repeat("fd", 32)+"1100 0001 0000 0001"), noise(8)...),
		"802.3 length, no EtherType": append(unhex("0026 4242 03"), noise(35)...),
		"length of nothing":          append(unhex("0000"), noise(46)...),
		"the largest":                append(unhex("88b5"), noise(mtu)...),
		"the largest with a tag":     append(unhex("8100 0fff 88b5"), noise(mtu)...),
	}
	for n := 14; n <= 60; n++ {
		frames[fmt.Sprintf("%d bytes", n)] = append(unhex("88b5"), noise(n-14)...)
	}
	return frames
}

func TestFramesOfEveryKindArriveUnharmed(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for _, mtu := range []int{1500, bpftest.LongestMTU(t, cube.Type(kind))} {
			t.Run(fmt.Sprintf("%s, MTU %d", kind, mtu), func(t *testing.T) {
				t.Parallel()
				d := start(t)
				hosts := threeHosts(d.machine, v4, netns.WithMTU(mtu))
				d.twoBridges(kind)
				reaches(t, hosts[0], "10.0.0.3")
				in, out := netns.OpenRaw(t, hosts[0], netns.Inner), netns.OpenRaw(t, hosts[2], netns.Inner)
				aside := netns.OpenRaw(t, hosts[1], netns.Inner)
				frames := oddFrames(mtu)
				for _, to := range []struct {
					name    string
					dst     net.HardwareAddr
					flooded bool
				}{
					{"learned", hosts[2].MAC, false},
					{"unknown", net.HardwareAddr{2, 0, 0, 0, 0, 0x99}, true},
					{"broadcast", net.HardwareAddr{255, 255, 255, 255, 255, 255}, true},
				} {
					for name, rest := range frames {
						frame := slices.Concat([]byte(to.dst), []byte(hosts[0].MAC), rest)
						if err := in.Send(frame); err != nil {
							t.Fatalf("%s, %s: %v", to.name, name, err)
						}
						sameFrame(t, out, to.name+" address, "+name, frame)
						if to.flooded {
							sameFrame(t, aside, to.name+" address, the other copy, "+name, frame)
						}
					}
				}
				if f, err := aside.Recv(func(f []byte) bool { return bytes.HasPrefix(f, hosts[2].MAC) }, 0); err == nil {
					t.Errorf("a frame to a learned address was flooded: %x", f[:14])
				}
			})
		}
	}
}

// sameFrame receives the next frame with the addresses of want and compares it. It passes over the ARP messages with which
// a host checks its neighbour from time to time.
func sameFrame(t *testing.T, r *netns.Raw, what string, want []byte) {
	t.Helper()
	arp := []byte{0x08, 0x06}
	got, err := r.Recv(func(f []byte) bool {
		return bytes.HasPrefix(f, want[:12]) && !bytes.HasPrefix(f[12:], arp)
	}, patience)
	if err != nil {
		t.Errorf("%s: %v", what, err)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s, %d bytes: got %d bytes\n%x\nwant\n%x", what, len(want), len(got), got[:min(len(got), 80)], want[:min(len(want), 80)])
	}
}

func TestTCPArrivesIntact(t *testing.T) {
	t.Parallel()
	for _, kind := range types {
		for _, mtu := range []int{1500, bpftest.LongestMTU(t, cube.Type(kind))} {
			t.Run(fmt.Sprintf("%s, MTU %d", kind, mtu), func(t *testing.T) {
				t.Parallel()
				d := start(t)
				hosts := threeHosts(d.machine, v4, netns.WithMTU(mtu))
				d.twoBridges(kind)
				reaches(t, hosts[0], "10.0.0.3")
				transfer(t, hosts[0], hosts[2], 16<<20)
			})
		}
	}
}

// transfer sends bytes over TCP and compares those that arrive; it returns the time.
func transfer(t testing.TB, from, to *netns.Node, size int) time.Duration {
	t.Helper()
	address := net.JoinHostPort(to.Addr.Addr().String(), "5001")
	var listener net.Listener
	err := to.Do(func() (err error) {
		listener, err = net.Listen("tcp", address)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	type received struct {
		sum [sha256.Size]byte
		err error
	}
	result := make(chan received, 1)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			result <- received{err: err}
			return
		}
		defer conn.Close()
		err = conn.SetDeadline(time.Now().Add(patience))
		h := sha256.New()
		if err == nil {
			_, err = io.Copy(h, conn)
		}
		result <- received{[sha256.Size]byte(h.Sum(nil)), err}
	}()
	data := noise(size)
	begin := time.Now()
	var conn net.Conn
	// The dialler creates the socket on this thread, because the address needs no look-up.
	err = from.Do(func() (err error) {
		conn, err = (&net.Dialer{Timeout: patience}).Dial("tcp", address)
		return err
	})
	if err != nil {
		t.Fatalf("TCP from %s to %s: %v", from.Outer, to.Outer, err)
	}
	if err = conn.SetDeadline(time.Now().Add(patience)); err == nil {
		_, err = conn.Write(data)
	}
	if closeErr := conn.Close(); err == nil {
		err = closeErr
	}
	got := <-result
	took := time.Since(begin)
	if err != nil || got.err != nil {
		t.Fatalf("TCP transfer after %v: sender %v, receiver %v", took, err, got.err)
	}
	if got.sum != sha256.Sum256(data) {
		t.Fatalf("TCP transfer: %d bytes arrive changed", size)
	}
	return took
}
