// SPDX-License-Identifier: Apache-2.0

package router

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// hostRouter creates a host that routes between two others by its kernel, with a cube on its netdevs.
func hostRouter(t *testing.T, o bpftest.Options) *bpftest.Lab {
	t.Helper()
	o.Hosts, o.Follow, o.Host = 2, true, []netns.Option{netns.WithIPv6()}
	l := bpftest.New(t, o)
	for i, h := range l.Hosts {
		dev := fmt.Sprintf("veth%d", i+1)
		h.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.2/24", i+1), "dev", "eth0")
		h.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::2/64", i+1), "dev", "eth0", "nodad")
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("10.0.%d.1", i+1))
		h.Run("ip", "route", "add", "default", "via", fmt.Sprintf("2001:db8:%d::1", i+1))
		l.Lab.Run("sysctl", "-qw", "net.ipv6.conf."+dev+".disable_ipv6=0")
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i+1), "dev", dev)
		l.Lab.Run("ip", "addr", "add", fmt.Sprintf("2001:db8:%d::1/64", i+1), "dev", dev, "nodad")
	}
	l.Lab.Run("sysctl", "-qw", "net.ipv4.ip_forward=1", "net.ipv6.conf.all.forwarding=1")
	return l
}

func TestHostsRoutesDecide(t *testing.T) {
	for _, typ := range types {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := hostRouter(t, bpftest.Options{Type: typ})
			l.Create("router", "r", `{"fib":"host","ports":[{"name":"left","peer":"veth1"},{"name":"right","peer":"veth2"}]}`)
			one := l.Hosts[0]
			l.Hosts[1].Run("ip", "addr", "add", "192.0.2.1/32", "dev", "lo")
			l.Lab.Run("ip", "route", "add", "192.0.2.0/24", "via", "10.0.2.2")
			l.Lab.Run("ip", "route", "add", "prohibit", "198.51.100.0/24")
			for _, there := range []string{"10.0.2.2", "2001:db8:2::2"} { // the kernel may need seconds to resolve, and give up
				netns.Eventually(t, patience, func() error {
					if got := says(one, "ping", "-n", "-c", "1", "-W", "2", there); !strings.Contains(got, "1 received") {
						return fmt.Errorf("%s", got)
					}
					return nil
				})
			}
			for _, there := range []string{"10.0.2.2", "2001:db8:2::2", "192.0.2.1"} {
				before := l.Counters("r", "right").TxPackets
				if err := one.Ping(there, netns.PingOptions{Count: 5}); err != nil {
					t.Error(err)
				}
				if n := l.Counters("r", "right").TxPackets - before; n < 5 {
					t.Errorf("of 5 packets to %s, the cube has forwarded %d: %v", there, n, l.Fates("r"))
				}
			}
			for _, tt := range []struct{ command, want string }{
				{"ping -n -c 1 -W 20 -t 1 10.0.2.2", "Time to live exceeded"},
				{"ping -n -c 1 -W 20 -t 1 2001:db8:2::2", "Hop limit"},
				{"ping -n -c 1 -W 20 198.51.100.1", "Packet filtered"},
				{"ping -n -c 1 -W 20 203.0.113.1", "Destination Net Unreachable"},
				{"ping -n -c 1 -W 20 -s 3000 10.0.2.2", "1 received"},
				{"ping -n -c 1 -W 20 10.0.1.1", "1 received"},
			} {
				words := strings.Fields(tt.command)
				if got := says(one, words[0], words[1:]...); !strings.Contains(got, tt.want) {
					t.Errorf("%s says\n%s\nwant %q", tt.command, got, tt.want)
				}
			}
			l.Lab.Run("ip", "link", "set", "veth2", "down")
			l.Lab.Run("ip", "link", "set", "veth2", "up")
			l.Lab.Run("ip", "addr", "replace", "10.0.2.1/24", "dev", "veth2")
			netns.Eventually(t, patience, func() error {
				if got := says(one, "ping", "-n", "-c", "1", "-W", "1", "10.0.2.2"); !strings.Contains(got, "1 received") {
					return fmt.Errorf("after a flap: %s", got)
				}
				return nil
			})
			l.Set("PATCH", "r fib", `"own"`)
			if got := says(one, "ping", "-n", "-c", "1", "-W", "1", "10.0.2.2"); strings.Contains(got, "1 received") {
				t.Error("a router without addresses forwards by its own routes")
			}
		})
	}
}

// TestSuperframesFitTheNextNetdev: one whose segments do is forwarded whole, another one is for the stack, which tells the sender.
func TestSuperframesFitTheNextNetdev(t *testing.T) {
	t.Parallel()
	l := hostRouter(t, bpftest.Options{Type: cube.TypeTC})
	l.Create("router", "r", `{"fib":"host","ports":[{"name":"left","peer":"veth1"},{"name":"right","peer":"veth2"}]}`)
	l.Lab.Run("ip", "link", "set", "veth2", "mtu", "1300")
	one := l.Hosts[0]
	one.Reaches(t, patience, "10.0.2.2")
	one.Reaches(t, patience, "2001:db8:2::2")
	segments := func(size int) map[string][]byte {
		v4 := pkt.IPv4Header{From: "10.0.1.2", To: "10.0.2.2", Protocol: pkt.ProtoTCP, TTL: 64}
		v6 := pkt.IPv6Header{From: "2001:db8:1::2", To: "2001:db8:2::2", Next: pkt.ProtoTCP, HopLimit: 64}
		frame := func(packet []byte) []byte { return pkt.Eth(one.MAC.String(), one.OuterMAC.String()).IP(packet).Bytes() }
		return map[string][]byte{
			"IPv4": frame(v4.Packet(pkt.TCPSegment(v4.From, v4.To, 4000, 9, 0x10, make([]byte, size)))),
			"IPv6": frame(v6.Packet(pkt.TCPSegment(v6.From, v6.To, 4000, 9, 0x10, make([]byte, size)))),
		}
	}
	long, short := segments(4000), segments(100)
	for name := range long {
		for _, size := range []int{1200, 1270, 1400} {
			want := uint64(len(short[name]))
			if size == 1200 { // and headers of 40 or 60 bytes
				want += uint64(len(long[name]))
			}
			before := l.Counters("r", "right").TxBytes
			// When the last one has arrived, the first one has been dealt with.
			for _, err := range []error{bpftest.SendSuperframe(one, long[name], size), bpftest.SendSplit(one, short[name], len(short[name]))} {
				if err != nil {
					t.Fatal(err)
				}
			}
			netns.Eventually(t, patience, func() error {
				if got := l.Counters("r", "right").TxBytes - before; got != want {
					return fmt.Errorf("%s in segments of %d bytes: the cube forwards %d bytes, want %d", name, size, got, want)
				}
				return nil
			})
		}
	}
}
