// SPDX-License-Identifier: Apache-2.0

package router

// The same routes, neighbours and packets through a Linux router and through ours: what comes out is compared. Left out
// is what is otherwise on purpose: addresses in 0/8 and class E, and link-local ones, which Linux forwards.

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// numberOf is the id of a packet, by which the test knows it, or of the one that an error is about.
func numberOf(f []byte) (number int, ok bool) {
	if len(f) < 42 || binary.BigEndian.Uint16(f[12:]) != 0x0800 || f[23] == 2 {
		return 0, false
	}
	if at := 14 + int(f[14]&15)*4; f[23] == 1 && f[at] != 8 && len(f) > at+14 {
		return int(binary.BigEndian.Uint16(f[at+12:])), true
	}
	return int(binary.BigEndian.Uint16(f[18:])), true
}

// side is one of the two routers: the wires of its hosts, and what they got, by number of packet and host.
type side struct {
	wires []*netns.Raw
	got   map[string][]string
}

func (s *side) collect(t *testing.T, within time.Duration) {
	t.Helper()
	for host, w := range s.wires {
		for {
			frame, err := w.Recv(func(f []byte) bool { _, ok := numberOf(f); return ok }, within)
			if err != nil {
				break
			}
			number, _ := numberOf(frame)
			key := fmt.Sprintf("%d at host %d", number, host+1)
			s.got[key] = append(s.got[key], comparable4(frame))
		}
	}
}

// comparable4 is a frame without what two routers may well do differently: padding, and in packets of their own the id,
// the TTL, the class and how much of the packet is quoted.
func comparable4(frame []byte) string {
	f := slices.Clone(frame)
	if binary.BigEndian.Uint16(f[12:]) == 0x86dd {
		return fmt.Sprintf("%x", f[:min(len(f), 54+int(binary.BigEndian.Uint16(f[18:])))])
	}
	f = f[:min(len(f), 14+int(binary.BigEndian.Uint16(f[16:])))]
	h := 14 + int(f[14]&15)*4
	if f[23] == 1 && slices.Contains([]byte{0, 3, 11, 12}, f[h]) {
		f[15], f[18], f[19], f[20], f[21], f[22], f[24], f[25], f[16], f[17] = 0, 0, 0, 0, 0, 0, 0, 0, 0, 0
		f[h+2], f[h+3] = 0, 0
		f = f[:min(len(f), h+8+28)]
	}
	return fmt.Sprintf("%x", f)
}

// linuxBeside makes the kernel of a namespace route as threePorts says.
func linuxBeside(t *testing.T, entries map[netip.Prefix]string) *side {
	t.Helper()
	lab := netns.NewLab(t)
	s := &side{got: map[string][]string{}}
	var hosts []*netns.Node
	for i := range 3 {
		hosts = append(hosts, lab.Host(fmt.Sprintf("veth%d", i+1), "", netns.WithGRO(), netns.WithoutTxChecksum()))
	}
	for _, set := range []string{"net.ipv4.ip_forward=1", "net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0", "net.ipv4.icmp_ratelimit=0",
		"net.ipv4.icmp_ratemask=0", "net.ipv4.conf.all.send_redirects=0", "net.ipv4.conf.default.send_redirects=0"} {
		lab.Run("sysctl", "-qw", set)
	}
	for i, p := range []struct{ mac, host string }{{mac1, host1}, {mac2, host2}, {mac3, host3}} {
		dev, n := fmt.Sprintf("veth%d", i+1), i+1
		lab.Run("sysctl", "-qw", "net.ipv4.conf."+dev+".rp_filter=0", "net.ipv4.conf."+dev+".send_redirects=0")
		lab.Run("ip", "link", "set", dev, "address", p.mac)
		lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", n), "dev", dev)
		lab.Run("ip", "neigh", "replace", fmt.Sprintf("10.0.%d.2", n), "lladdr", p.host, "dev", dev, "nud", "permanent")
	}
	lab.Run("ip", "link", "set", "veth2", "mtu", "1400")
	for p, hop := range entries {
		if netip.MustParseAddr("0.0.0.0").Compare(p.Addr()) == 0 {
			continue
		}
		if strings.Contains(hop, ".") {
			lab.Run("ip", "route", "add", p.String(), "via", hop)
		} else {
			lab.Run("ip", "route", "add", hop, p.String())
		}
	}
	for _, h := range hosts {
		s.wires = append(s.wires, netns.OpenRaw(t, h, netns.Inner))
	}
	return s
}

// anyPacket is one of those that a router meets, good or bad.
func anyPacket(rnd *rand.Rand, number int, to netip.Addr) []byte {
	opts := pkt.IPv4Options{TTL: []uint8{64, 64, 64, 255, 2, 1 + 2*uint8(min(number%4, 1))}[rnd.IntN(6)], TOS: uint8(rnd.IntN(256)), ID: uint16(number), DontFragment: rnd.IntN(2) == 0}
	from := "10.0.1.2" // whom both know, for the errors
	switch rnd.IntN(12) {
	case 0:
		from = []string{"127.0.0.1", "224.0.0.1", "255.255.255.255", "10.0.3.1", "10.0.1.1"}[rnd.IntN(5)]
	case 1:
		from = "99.1.2.3"
	}
	if rnd.IntN(10) == 0 {
		opts.MoreFragments, opts.Offset, opts.DontFragment = rnd.IntN(2) == 0, uint16(rnd.IntN(3)), false
	}
	size := 10 + rnd.IntN(80)
	if rnd.IntN(12) == 0 && opts.DontFragment {
		size = []int{1372, 1373, 1400}[rnd.IntN(3)] // 1400 and 1401 bytes of IP
	}
	f := pkt.Eth(host1, mac1).IPv4(from, to.String(), opts)
	frame := f.UDP(uint16(rnd.Uint32()), 9).Payload(size).Bytes()
	switch rnd.IntN(14) {
	case 0:
		frame[24] ^= 0x10
	case 1:
		frame[16+rnd.IntN(2)] ^= byte(1 << rnd.IntN(8))
		checksum(frame[14:34])
	case 2:
		frame = append(frame, make([]byte, rnd.IntN(20))...) // padding
	}
	return frame
}

func leadsSomewhere(entries map[netip.Prefix]string, a netip.Addr) bool {
	for p := range entries {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

func TestLinuxForwardsTheSame(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			rnd := rand.New(rand.NewPCG(seed, 0))
			entries := map[netip.Prefix]string{}
			for len(entries) < 60 {
				p := randomPrefix(rnd)
				if p.Bits() > 8 && (p.Addr().As4()[0] == 11 || p.Addr().As4()[1] == 2) { // beside the connected ones
					entries[p] = []string{"10.0.2.2", "10.0.3.2", "blackhole"}[rnd.IntN(3)]
				}
			}
			linux := linuxBeside(t, entries)
			l := bpftest.New(t, bpftest.Options{Type: typ, Host: []netns.Option{netns.WithGRO(), netns.WithoutTxChecksum()}})
			l.Create("router", "r1", threePorts)
			var list []string
			for p, hop := range entries {
				list = append(list, fmt.Sprintf(`{"network":"%s","nexthop":"%s"}`, p, hop))
			}
			l.Set("PUT", "r1 route", "["+strings.Join(list, ",")+"]")
			ours := &side{got: map[string][]string{}}
			for _, w := range l.Wires() {
				ours.wires = append(ours.wires, w.Raw)
			}
			var frames [][]byte
			nowhere := 0 // both limit how often they say so
			for p := range entries {
				for _, a := range boundary(p) {
					if netip.MustParsePrefix("10.0.0.0/16").Contains(a) || a.As4()[0] != 10 && a.As4()[0] != 11 {
						continue
					}
					if !leadsSomewhere(entries, a) {
						if nowhere++; nowhere > 4 {
							continue
						}
					}
					frames = append(frames, anyPacket(rnd, len(frames), a))
				}
			}
			for _, a := range []string{"10.0.2.2", "10.0.3.2", "10.0.2.255", "224.0.0.5", "239.1.1.1", "255.255.255.255", "127.0.0.1", "0.0.0.0"} {
				frames = append(frames, anyPacket(rnd, len(frames), netip.MustParseAddr(a)))
			}
			compare(t, linux, ours, frames)
		})
	}
}

// compare sends the frames through both and waits until ours has done all that Linux did.
func compare(t *testing.T, linux, ours *side, frames [][]byte) {
	t.Helper()
	for _, f := range frames {
		for _, s := range []*side{linux, ours} {
			if err := s.wires[0].Send(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	var last string
	for range 10 { // Linux is done within the first rounds; our slow path may take longer
		linux.collect(t, 100*time.Millisecond)
		ours.collect(t, 300*time.Millisecond)
		if last = difference(linux.got, ours.got, frames); last == "" {
			t.Logf("%d packets, %d of which came out", len(frames), len(linux.got))
			return
		}
	}
	t.Error(last)
}

func difference(linux, ours map[string][]string, frames [][]byte) string {
	var out []string
	keys := map[string]bool{}
	for k := range linux {
		keys[k] = true
	}
	for k := range ours {
		keys[k] = true
	}
	for k := range keys {
		if !slices.Equal(linux[k], ours[k]) {
			var n int
			_, _ = fmt.Sscanf(k, "%d", &n)
			out = append(out, fmt.Sprintf("packet %s\n  %x:\n  Linux %v\n  ours  %v", k, frames[n], linux[k], ours[k]))
		}
	}
	slices.Sort(out)
	return strings.Join(out[:min(len(out), 5)], "\n")
}
