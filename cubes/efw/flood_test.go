// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
)

// TestEstablishedFlowsContinueDuringAFlood: new flows from random sources meet rules about states, while the host adds rules. Each packet is
// judged as the rules say, by the stack or in front of it, and counted once.
func TestEstablishedFlowsContinueDuringAFlood(t *testing.T) {
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB} {
		t.Run(string(typ), func(t *testing.T) {
			r := newRouter(t, typ, toServers)
			r.pin()
			r.changed("ESTABLISHED", func() {
				r.restore("iptables-nft", "*filter\n:INPUT ACCEPT [0:0]\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n"+
					"-A FORWARD -p udp -m udp --dport 83 -m conntrack --ctstate NEW -j ACCEPT\nCOMMIT\n")
			})
			r.track(connection{from: netip.MustParseAddrPort(client + ":1000"), to: netip.MustParseAddrPort(server + ":82"), protocol: unix.IPPROTO_UDP, status: seenReply | assured, timeout: 600})
			r.settled()
			from, to := r.mac()
			random := rand.New(rand.NewPCG(repeat.Seed(t), 0))
			const rounds, each, syns = 8, 20, 160
			for round := range rounds {
				var frames [][]byte
				for n := range each {
					frames = append(frames, pkt.Eth(from, to).IPv4(client, server).UDP(1000, 82).Payload(9).Bytes())
					frames = append(frames, pkt.Eth(from, to).IPv4(client, server).UDP(uint16(2000+round*each+n), 83).Payload(9).Bytes())
					for range syns / each {
						source := netip.AddrFrom4([4]byte{198, 18, byte(random.IntN(256)), byte(1 + random.IntN(254))}).String()
						frames = append(frames, pkt.Eth(from, to).IPv4(source, server).TCP(uint16(1024+random.IntN(60000)), 82, pkt.TCPFlags{SYN: true}).Bytes())
					}
				}
				if round%2 == 1 { // half of the rounds begin while the gate is closed
					r.Lab.Lab.Run("iptables-nft", "-A", "FORWARD", "-p", "udp", "--dport", strconv.Itoa(9000+round), "-j", "DROP")
				} else {
					r.settled()
				}
				left := r.through(frames)
				if got := byPort(left); got[82] != each || got[83] != each {
					t.Errorf("round %d: %d packets of the established flow and %d of new ones have left, want %d of each", round, got[82], got[83], each)
				}
				for _, f := range left {
					if len(f) > 38 && f[12] == 8 && f[13] == 0 && f[23] == unix.IPPROTO_TCP {
						t.Fatalf("round %d: a SYN has left: %x", round, f)
					}
				}
			}
			r.settled()
			if got, want := r.Read("f chain IPV4 FORWARD 0 packets"), fmt.Sprint(rounds*syns); got != want {
				t.Errorf("the policy has dropped %s packets, want %s", got, want)
			}
			for _, l := range r.report() {
				if l.Family == "IPV4" && l.Hook == "FORWARD" && strings.HasPrefix(l.Text, "policy") && (l.Offloaded == "NO" || l.Packets < rounds*syns/2) {
					t.Errorf("of %d SYNs, the fast path has dropped only those of %+v", rounds*syns, l)
				}
			}
			if n := len(r.tracked()); n != 1+rounds*each {
				t.Errorf("the host tracks %d connections, want %d", n, 1+rounds*each)
			}
		})
	}
}
