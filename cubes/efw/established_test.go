// SPDX-License-Identifier: Apache-2.0

package efw_test

// Packets of connections that the host tracks: what becomes of them, of the rules' counters and of the host's table of connections
// is the same with and without the cube.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// What the kernel knows of a connection: bits of enum ip_conntrack_status.
const (
	seenReply = 2
	assured   = 4
	confirmed = 8
)

// connection is an entry of the host's table.
type connection struct {
	from, to netip.AddrPort
	protocol uint8
	status   uint32
	timeout  uint32 // s
}

// tuple returns a connection's identity as an attribute.
func (c *connection) tuple(kind int, from, to netip.AddrPort) *nl.RtAttr {
	port := func(p uint16) []byte { return binary.BigEndian.AppendUint16(nil, p) }
	source, destination := nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST
	if from.Addr().Is6() {
		source, destination = nl.CTA_IP_V6_SRC, nl.CTA_IP_V6_DST
	}
	out := nl.NewRtAttr(unix.NLA_F_NESTED|kind, nil)
	ip := out.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	ip.AddRtAttr(source, from.Addr().AsSlice())
	ip.AddRtAttr(destination, to.Addr().AsSlice())
	l4 := out.AddRtAttr(unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	l4.AddRtAttr(nl.CTA_PROTO_NUM, []byte{c.protocol})
	l4.AddRtAttr(nl.CTA_PROTO_SRC_PORT, port(from.Port()))
	l4.AddRtAttr(nl.CTA_PROTO_DST_PORT, port(to.Port()))
	return out
}

// track adds entries to the host's table.
func (r *router) track(list ...connection) {
	r.t.Helper()
	r.Must(func() error {
		for _, c := range list {
			req := nl.NewNetlinkRequest(int(netlink.ConntrackTable)<<8|nl.IPCTNL_MSG_CT_NEW, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_ACK)
			family := uint8(unix.AF_INET)
			if c.from.Addr().Is6() {
				family = unix.AF_INET6
			}
			req.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
			req.AddData(c.tuple(nl.CTA_TUPLE_ORIG, c.from, c.to))
			req.AddData(c.tuple(nl.CTA_TUPLE_REPLY, c.to, c.from))
			req.AddData(nl.NewRtAttr(nl.CTA_STATUS, binary.BigEndian.AppendUint32(nil, c.status|confirmed)))
			req.AddData(nl.NewRtAttr(nl.CTA_TIMEOUT, binary.BigEndian.AppendUint32(nil, c.timeout)))
			if _, err := req.Execute(unix.NETLINK_NETFILTER, 0); err != nil {
				return fmt.Errorf("track %s to %s: %w", c.from, c.to, err)
			}
		}
		return nil
	})
}

// tracked returns how long the host keeps its connections of TCP and UDP, in seconds.
func (r *router) tracked() map[string]int {
	r.t.Helper()
	out := map[string]int{}
	r.Must(func() error {
		for _, family := range []netlink.InetFamily{unix.AF_INET, unix.AF_INET6} {
			all, err := netlink.ConntrackTableList(netlink.ConntrackTable, family)
			if err != nil {
				return err
			}
			for _, f := range all {
				if p := f.Forward.Protocol; p == unix.IPPROTO_TCP || p == unix.IPPROTO_UDP {
					out[fmt.Sprint(p, " ", f.Forward.SrcIP, " ", f.Forward.SrcPort, " ", f.Forward.DstIP, " ", f.Forward.DstPort)] = int(f.TimeOut)
				}
			}
		}
		return nil
	})
	return out
}

// forget deletes an entry of the host's table.
func (r *router) forget(c connection) {
	r.t.Helper()
	filter := &netlink.ConntrackFilter{}
	for _, err := range []error{
		filter.AddProtocol(c.protocol), filter.AddIP(netlink.ConntrackOrigSrcIP, c.from.Addr().AsSlice()),
		filter.AddPort(netlink.ConntrackOrigSrcPort, c.from.Port()), filter.AddPort(netlink.ConntrackOrigDstPort, c.to.Port()),
	} {
		if err != nil {
			r.t.Fatal(err)
		}
	}
	family := netlink.InetFamily(unix.AF_INET)
	if c.from.Addr().Is6() {
		family = unix.AF_INET6
	}
	r.Must(func() error {
		_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, family, filter)
		return err
	})
}

// conversations are random rules and packets of connections.
type conversations struct{ rules }

// stateful returns a random rule set with rules about the state of connections.
func (g conversations) stateful() string {
	var more strings.Builder
	if g.IntN(2) == 0 { // as most hosts have
		more.WriteString("-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n")
	}
	for range 1 + g.IntN(3) {
		fmt.Fprintf(&more, "-A %s %s -m conntrack %s --ctstate %s -j %s\n", pick(g.Rand, "FORWARD", "FORWARD", "INPUT", "a"), pick(g.Rand, "", "", "-p udp", "-p tcp", "-i veth1"),
			pick(g.Rand, "", "", "!"), pick(g.Rand, "RELATED,ESTABLISHED", "RELATED,ESTABLISHED", "ESTABLISHED", "NEW", "NEW,ESTABLISHED", "INVALID", "INVALID,NEW"),
			pick(g.Rand, "ACCEPT", "ACCEPT", "DROP", "RETURN", "LOG"))
	}
	const behind = "-A INPUT -i lo -j ACCEPT\n"
	return strings.Replace(strings.ReplaceAll(g.text(), "-A FORWARD -m conntrack", "-A b -m conntrack"), behind, behind+more.String(), 1)
}

// connections returns random entries: some were opened by the client, some by the server.
func (g conversations) connections() (out []connection) {
	one, other := netip.MustParseAddr(client), netip.MustParseAddr(server)
	if g.v6 {
		one, other = netip.MustParseAddr(client6), netip.MustParseAddr(server6)
	}
	for _, ports := range g.Perm(36)[:14] {
		c := connection{
			from: netip.AddrPortFrom(one, uint16(80+ports%6)), to: netip.AddrPortFrom(other, uint16(80+ports/6)), protocol: unix.IPPROTO_UDP,
			status: pick[uint32](g.Rand, seenReply|assured, seenReply|assured, seenReply|assured, seenReply|assured, seenReply, 0), timeout: 1000,
		}
		if g.IntN(3) == 0 {
			c.from, c.to = c.to, c.from
		}
		out = append(out, c)
	}
	return out
}

// packet returns a packet that the client sends, most of them of connections.
func (g conversations) packet(from, to string, all []connection) []byte {
	if g.IntN(4) == 0 {
		return g.frame(from, to)
	}
	c := all[g.IntN(len(all))]
	sport, dport := c.from.Port(), c.to.Port()
	if c.from.Addr() == netip.MustParseAddr(server) || c.from.Addr() == netip.MustParseAddr(server6) {
		sport, dport = dport, sport
	}
	f, l4 := pkt.Eth(from, to), 34
	if g.v6 {
		f, l4 = f.IPv6(client6, server6), 54
	} else {
		f = f.IPv4(client, server)
	}
	frame := f.UDP(sport, dport).Payload(pick(g.Rand, 0, g.IntN(40), 400+g.IntN(200), 1000+g.IntN(452))).Bytes()
	switch g.IntN(16) {
	case 0:
		frame[l4+7] ^= 1 // a wrong checksum
	case 1:
		frame[l4+6], frame[l4+7] = 0, 0 // none
	case 2:
		frame[l4+5] += 4 // longer than the packet
	case 3:
		frame[len(frame)-1] ^= 1
	}
	return frame
}

func TestTheHostTracksConnectionsAsWithoutTheCube(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			seed := repeat.Seed(t)
			r := newRouter(t, typ, toServers)
			r.pin()
			g := conversations{rules{Rand: rand.New(rand.NewPCG(seed, uint64(len(typ)+10)))}}
			sets, frames := 3, 60
			if os.Getenv("POLYCUBE_SOAK") != "" {
				sets = 300
			}
			accepted := uint64(0)
			for n := 0; n < sets || accepted == 0 && n < 5*sets; n++ {
				g.v6, g.program = g.IntN(4) == 0, pick(g.Rand, "iptables-legacy", "iptables-nft")
				r.converse(g, frames)
				for _, l := range r.report() {
					if l.Hook == "FORWARD" && (strings.Contains(l.Text, "-j ACCEPT") || l.Text == "policy ACCEPT") {
						accepted += l.Packets
					}
				}
			}
			t.Logf("%d packets were accepted in the fast path", accepted)
			if accepted == 0 {
				t.Error("the fast path accepted no packet: the comparison says nothing")
			}
		})
	}
}

// converse compares what becomes of packets of connections with and without the cube. Half of the connections are deleted in between.
func (r *router) converse(g conversations, frames int) {
	r.t.Helper()
	program, other := g.program, map[string]string{"iptables-legacy": "iptables-nft", "iptables-nft": "iptables-legacy"}[g.program]
	if g.v6 {
		program, other = "ip6"+program[2:], "ip6"+other[2:]
	}
	text, all := g.stateful(), g.connections()
	from, to := r.mac()
	var list [2][][]byte
	for i := range list {
		for range frames {
			list[i] = append(list[i], g.packet(from, to, all))
		}
	}
	run := func(offload string) (sent, map[string]int) {
		r.Set("PATCH", "f offload", offload)
		r.reset(program, other, text)
		r.track(all...)
		if offload == "true" {
			r.settled()
		}
		first := r.send(list[0])
		for _, c := range all[:len(all)/2] {
			r.forget(c)
		}
		out := r.send(list[1])
		out.left = slices.Concat(first.left, out.left)
		return out, r.tracked()
	}
	why := ""
	for range 3 { // the host sends packets of its own at times of its own
		without, table := run("false")
		with, kept := run("true")
		if strings.Contains(text, "MASQUERADE") {
			withoutPorts(with.left)
			withoutPorts(without.left)
		}
		if why = difference(with, without, g.v6); why == "" {
			why = otherwise(kept, table)
		}
		if why == "" {
			return
		}
		r.t.Logf("a difference that may be one of times: %s", why)
	}
	r.t.Fatalf("%s:\n%s\n%s\n%v\n%s\n%s", program, text, why, all, r.Read("f report"), r.Read("f environment"))
}

// otherwise says how a table of connections differs from that without the cube.
func otherwise(kept, without map[string]int) string {
	for name, timeout := range without {
		if is, ok := kept[name]; !ok || max(is-timeout, timeout-is) > 10 {
			return fmt.Sprintf("the connection %s is kept for %d s, without the cube for %d s", name, is, timeout)
		}
	}
	for name := range kept {
		if _, ok := without[name]; !ok {
			return fmt.Sprintf("without the cube there is no connection %s", name)
		}
	}
	return ""
}

// TestAConnectionIsKeptByPacketsThatTheStackDoesNotGet: for longer than its timeout, from its first packet on.
func TestAConnectionIsKeptByPacketsThatTheStackDoesNotGet(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			r := newRouter(t, typ, toServers)
			r.Lab.Lab.Run("sysctl", "-qw", "net.netfilter.nf_conntrack_udp_timeout_stream=2", "net.netfilter.nf_conntrack_udp_timeout=30")
			r.changed("ESTABLISHED", func() {
				r.restore("iptables-nft", "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n-A FORWARD -p udp --dport 82 -j ACCEPT\nCOMMIT\n")
			})
			stream := connection{from: netip.MustParseAddrPort(client + ":1000"), to: netip.MustParseAddrPort(server + ":82"), protocol: unix.IPPROTO_UDP, status: seenReply | assured, timeout: 600}
			r.track(stream)
			r.settled()
			from, to := r.mac()
			frame := pkt.Eth(from, to).IPv4(client, server).UDP(1000, 82).Payload(9).Bytes()
			packets, begun, last := uint64(0), time.Now(), time.Now()
			netns.Eventually(t, 2*bpftest.Patience, func() error {
				if time.Now().After(last.Add(time.Second)) { // the machine is busy: it may have expired
					r.Must(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
					r.track(stream)
					begun = time.Now()
				}
				last = time.Now()
				if got, _ := r.judged(frame); got != leaves {
					t.Fatalf("got %+v, want %+v: %s", got, leaves, r.Read("f environment"))
				}
				if n := len(r.tracked()); n != 1 {
					t.Fatalf("the host tracks %d connections, want 1", n)
				}
				packets++
				if time.Since(begun) < 3*time.Second {
					return errors.New("it has not been long enough")
				}
				return nil
			})
			for _, l := range r.report() {
				if l.Family == "IPV4" && l.Chain == "FORWARD" && l.Number == 1 && (l.Offloaded != "PARTLY" || l.Packets != packets) {
					t.Errorf("the rule has counted %+v, want %d packets", l, packets)
				}
			}
			// A deleted connection is a new one, which gets its entry from the stack.
			r.Must(func() error { return netlink.ConntrackTableFlush(netlink.ConntrackTable) })
			if got, _ := r.judged(frame); got != passes {
				t.Errorf("without its entry: got %+v, want %+v", got, passes)
			}
			r.track(stream)
			if got, _ := r.judged(frame); got != leaves {
				t.Errorf("with its entry: got %+v, want %+v", got, leaves)
			}
			netns.Eventually(t, bpftest.Patience, func() error { // no packet keeps it
				if n := len(r.tracked()); n != 0 {
					return fmt.Errorf("the host still tracks %d connections", n)
				}
				return nil
			})
		})
	}
}
