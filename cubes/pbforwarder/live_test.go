// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// TestFramesOnTheWire sends frames as a driver sees them: with a tag that the kernel moves from the packet data to the
// skb at TC.
func TestFramesOnTheWire(t *testing.T) {
	const rules = `{"id":1,"vlan":10,"l4_proto":"UDP","dst_port":53,"action":"FORWARD","out_port":"p2"},
		{"id":2,"vlan":20,"action":"FORWARD","out_port":"p3"},{"id":3,"vlan":30,"action":"DROP"},
		{"id":4,"l4_proto":132,"dst_port":"3000-3999","action":"FORWARD","out_port":"p2"},
		{"id":5,"dst_ip":"2001:db8:1::/48","action":"FORWARD","out_port":"p3"},
		{"id":6,"src_ip":"10.0.0.1","dst_port":53,"action":"FORWARD","out_port":"p3"},
		{"id":7,"src_ip":"10.0.0.1","action":"FORWARD","out_port":"p2"}`
	sctp := pkt.Eth(one, two).IPv4("10.0.0.7", "10.0.1.2").Data([]byte{0x04, 0xd2, 0x0b, 0xb8, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 4}).Bytes()
	sctp[14+9] = 132
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPSKB, cube.TypeXDPDRV} {
		t.Run(strings.ToLower(string(typ)), func(t *testing.T) {
			t.Parallel()
			l := bpftest.New(t, bpftest.Options{Type: typ})
			l.Create("pbforwarder", "f", withRules(rules))
			wires := l.Wires()
			for _, tt := range []struct {
				name  string
				frame []byte
				to    int // wire, 0: none
			}{
				{"a tagged datagram", tagged4, 1},
				{"two tags: the outer one counts", double4, 2},
				{"a tag of a rule that drops", pkt.Eth(one, two).VLAN(30).IPv4("10.0.0.1", "10.0.1.2").UDP(1, 53).Payload(30).Bytes(), 0},
				{"SCTP", sctp, 1},
				{"IPv6", udp6, 2},
				{"the first fragment", first4, 2},
				{"a later fragment has no ports", later4, 1},
				{"nor has a ping", ping4, 1},
				{"nothing matches", pkt.Eth(one, two).IPv4("10.0.0.2", "10.0.1.2").UDP(1, 53).Payload(30).Bytes(), 0},
			} {
				wires[0].Puts(tt.frame)
				if tt.to != 0 {
					wires[tt.to].Gets(tt.frame)
					continue
				}
				wires[0].Puts(ping4) // is sent later, and arrives
				wires[1].Gets(ping4)
				if wires[1].Got(tt.frame) || wires[2].Got(tt.frame) {
					t.Errorf("%s: it went through", tt.name)
				}
			}
		})
	}
}

// TestHostsTalkAsTheRulesSay has two hosts with their own TCP, ICMP and ARP.
func TestHostsTalkAsTheRulesSay(t *testing.T) {
	const rules = `{"id":1,"l4_proto":"TCP","dst_port":5001,"out_port":"p2","action":"FORWARD"},
		{"id":2,"l4_proto":"TCP","src_port":5001,"out_port":"p1","action":"FORWARD"},
		{"id":3,"src_ip":"0.0.0.0/0","action":"DROP"},
		{"id":4,"in_port":"p1","out_port":"p2","action":"FORWARD"},{"id":5,"in_port":"p2","out_port":"p1","action":"FORWARD"}`
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "f", withRules(rules))
	for i, h := range l.Hosts[:2] {
		h.Run("ip", "addr", "add", fmt.Sprintf("10.0.0.%d/24", i+1), "dev", netns.Inner)
	}
	server := l.Hosts[1].Command("python3", "-c", `
import socket
s = socket.create_server(("10.0.0.2", 5001))
print("ready", flush=True)
c, _ = s.accept()
n = 0
while b := c.recv(65536): n += len(b)
c.sendall(str(n).encode())
c.close()`)
	out, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	got := l.Hosts[0].Run("python3", "-c", `
import socket
c = socket.create_connection(("10.0.0.2", 5001), 20)
c.sendall(b"x" * 5000000)
c.shutdown(socket.SHUT_WR)
print(c.recv(100).decode())`)
	if strings.TrimSpace(got) != "5000000" {
		t.Errorf("the server has %s bytes, want 5000000", got)
	}
	if err := server.Wait(); err != nil {
		t.Error(err)
	}
	if err := l.Hosts[0].Command("ping", "-c", "1", "-W", "1", "10.0.0.2").Run(); err == nil {
		t.Error("a ping goes through, though a rule drops it")
	}
	l.Set("DELETE", "f rules 3", "")
	l.Hosts[0].Run("ping", "-c", "1", "-W", "15", "10.0.0.2")
	for i, counts := range read(t, l) {
		if strings.Contains(counts, ":0/") {
			t.Errorf("rule %d of those that are left has not counted: %s", i, counts)
		}
	}
}
