// SPDX-License-Identifier: Apache-2.0

package efw_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/need"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const rulesForVLAN = `*filter
:INPUT ACCEPT [0:0]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
-A FORWARD -o vlan7 -p udp --dport 1000:1999 -j ACCEPT
-A FORWARD -o veth2 -p udp --dport 2000:2999 -j ACCEPT
COMMIT
`

// TestAcceptedPacketsLeaveByVLANNetdevs: with the bytes that the stack sends, by rules about the VLAN netdev, and past nothing that is
// on it. At XDP, the output is the netdev below.
func TestAcceptedPacketsLeaveByVLANNetdevs(t *testing.T) {
	need.Features(t, need.VLAN)
	needIptables(t)
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			r := newRouter(t, typ, toServers)
			run := func(line string) { r.Lab.Lab.Run("ip", strings.Fields(line)...) }
			run("link add link veth2 name vlan7 type vlan id 7")
			r.Lab.Lab.Run("sysctl", "-qw", "net.ipv4.conf.vlan7.rp_filter=0")
			run("link set vlan7 up")
			run("addr add 10.0.7.1/24 dev vlan7")
			run("neigh replace 10.0.7.2 lladdr " + r.Hosts[1].MAC.String() + " dev vlan7")
			r.changed("-o vlan7", func() { r.restore("iptables-nft", rulesForVLAN) })
			from, to := r.mac()
			data := []byte("<a packet for the VLAN netdev>")
			frame := func(port uint16) []byte {
				return pkt.Eth(from, to).IPv4(client, "10.0.7.2").UDP(1, port).Data(data).Bytes()
			}
			sent := func() []byte {
				t.Helper()
				if err := r.wires[0].Send(frame(1082)); err != nil {
					t.Fatal(err)
				}
				got, err := r.wires[1].Recv(func(b []byte) bool { return bytes.Contains(b, data) }, bpftest.Patience)
				if err != nil {
					t.Fatal(err)
				}
				return got
			}
			netns.Eventually(t, bpftest.Patience, func() error { // the VLAN netdev is told of
				if got, _ := r.judged(frame(1082)); got != leaves {
					return fmt.Errorf("%+v, want %+v", got, leaves)
				}
				return nil
			})
			if got, _ := r.judged(frame(2082)); got != byEnd {
				t.Errorf("accepted for the netdev below: %+v, want %+v", got, byEnd)
			}
			before := r.Fates("f")["redirected"]
			fast := sent()
			if r.Fates("f")["redirected"] == before {
				t.Error("the packet was not redirected")
			}
			r.Set("PATCH", "f offload", "false")
			if slow := sent(); !bytes.Equal(fast, slow) || fmt.Sprintf("%x", slow[12:16]) != "81000007" {
				t.Errorf("the fast path sends\n%x, the stack\n%x", fast, slow)
			}
			r.Set("PATCH", "f offload", "true")
			r.open()
			r.Lab.Lab.Run("tc", "qdisc", "add", "dev", "vlan7", "root", "tbf", "rate", "1gbit", "burst", "1mb", "latency", "10ms")
			if typ == cube.TypeTC {
				return // packets pass it
			}
			netns.Eventually(t, bpftest.Patience, func() error {
				for _, l := range r.report() {
					if strings.Contains(l.Text, "-o vlan7") && l.Offloaded == "NO" && strings.Contains(l.Reason, "qdisc tbf on vlan7") {
						return nil
					}
				}
				return fmt.Errorf("no reason has the qdisc: %s", r.Read("f report"))
			})
			r.settled()
			if got, _ := r.judged(frame(1082)); got != passes {
				t.Errorf("with a qdisc on the VLAN netdev: %+v, want %+v", got, passes)
			}
		})
	}
}
