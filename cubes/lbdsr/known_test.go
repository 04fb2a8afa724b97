// SPDX-License-Identifier: Apache-2.0

package lbdsr

// Packets of known flows, whose service is found by the number in the pin, must end as if it had been searched for.

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/balance"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

func TestEntriesOfKnownServices(t *testing.T) {
	vip := netip.MustParseAddr("10.0.0.100")
	what := func(bytes ...byte) uint64 {
		return binary.NativeEndian.Uint64(append(bytes, make([]byte, 8-len(bytes))...))
	}
	for _, tt := range []struct {
		id   ServiceID
		by   balance.By
		want uint64
	}{
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.TCP}, balance.ByFlow, what(0x12, 0x34, 6, 0, 9)},
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.UDP}, balance.ByFlow, what(0x12, 0x34, 17, 0, 9)},
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.All}, balance.ByFlow, what(0x12, 0x34, 6, 17, 9)},
		{ServiceID{VIP: vip, Port: 0, Proto: balance.All}, balance.ByFlow, 0}, // another service may have the port
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.SCTP}, balance.ByFlow, 0},
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.TCP}, balance.BySource, 0},
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.TCP}, balance.ByHosts, 0},
		{ServiceID{VIP: vip, Port: 0x1234, Proto: balance.UDP}, balance.ByQUIC, 0},
	} {
		want := knownEntry{What: tt.want}
		if tt.want != 0 {
			want.Address = inet.AddressOf(vip)
		}
		if got := knownOf(tt.id, tt.by, 9); got != want {
			t.Errorf("%s by %d: %+v, want %+v", tt.id, tt.by, got, want)
		}
	}
}

func TestAKnownFlowNeedsNoSearchForItsService(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		packet := func(port uint16, flags pkt.TCPFlags) []byte {
			return client().IPv4("10.9.0.1", "10.0.0.100").TCP(port, 80, flags).Bytes()
		}
		for range 3 {
			l.RunBytes("veth1", packet(1000, ack))
		}
		// The search fails from here on.
		m := l.Map("lb", "services")
		key := serviceKeyOf("10.0.0.100", 80, inet.TCP)
		entry, err := m.LookupBytes(key)
		if err != nil || entry == nil {
			t.Fatalf("the service's entry: % x, %v", entry, err)
		}
		if err := m.Delete(key); err != nil {
			t.Fatal(err)
		}
		got, frame := l.RunBytes("veth1", packet(1000, ack))
		mustBe(t, "a known flow", got, frame, sent, toServer(packet(1000, ack), server1))
		got, _ = l.RunBytes("veth1", packet(1001, ack))
		mustBe(t, "a new flow", got, nil, dropped("no-service"), nil)
		for _, other := range [][]byte{
			client().IPv4("10.9.0.1", "10.0.0.101").TCP(1000, 80, ack).Bytes(),
			client().IPv4("10.9.0.1", "10.0.0.100").UDP(1000, 80).Payload(20).Bytes(),
			client().IPv4("10.9.0.2", "10.0.0.100").TCP(1000, 80, ack).Bytes(),
		} {
			before := l.Read("lb service 10.0.0.100 80 TCP packets")
			l.RunBytes("veth1", other)
			if after := l.Read("lb service 10.0.0.100 80 TCP packets"); after != before {
				t.Errorf("% x is counted for the service of another flow", other)
			}
		}
		if n := l.Read("lb service 10.0.0.100 80 TCP packets"); n != "4" {
			t.Errorf("%s packets of the service are counted, want 4", n)
		}
		if err := m.Put(key, entry); err != nil {
			t.Fatal(err)
		}
	})
}

// serviceKeyOf is struct pcn_service_key.
func serviceKeyOf(vip string, port uint16, protocol inet.Protocol) []byte {
	a := inet.AddressOf(netip.MustParseAddr(vip))
	key, _ := binary.Append(nil, binary.NativeEndian, a)
	return append(key, byte(port>>8), byte(port), byte(protocol), 0)
}

func TestKnownFlowsFollowTheirService(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbdsr", "lb", services)
		check := func(what, vip, to string) {
			t.Helper()
			frame := client().IPv4("10.9.0.1", vip).TCP(1000, 80, ack).Bytes()
			for i := range 3 { // verdict and bytes alone: the cube announces addresses meanwhile
				got, is := l.RunBytes("veth1", frame)
				if to == "" {
					if got.Fate != "lb no-service" {
						t.Errorf("%s, packet %d: %+v, want no service", what, i, got)
					}
					continue
				}
				if want := toServer(frame, to); got.Verdict != "send" || string(is) != string(want) {
					t.Errorf("%s, packet %d: %+v, the frame is\n% x, want\n% x", what, i, got, is, want)
				}
			}
		}
		one := func(server string) string { return `{"server":[{"address":"` + server + `"}]}` }
		check("a service", "10.0.0.100", server1)
		l.Set("DELETE", "lb service 10.0.0.100 80 TCP", "")
		check("it was removed", "10.0.0.100", "")
		l.Set("POST", "lb service 10.0.0.100 80 TCP", one(server2))
		check("it is there again, with another server", "10.0.0.100", server2)
		l.Restart(nil)
		check("after a restart", "10.0.0.100", server2)

		check("a service of all ports", "10.0.0.101", server3)
		l.Set("POST", "lb service 10.0.0.101 80 ALL", one(server1))
		check("its port has a service", "10.0.0.101", server1)
		l.Set("DELETE", "lb service 10.0.0.101 80 ALL", "")
		check("the port has none again", "10.0.0.101", server3)

		l.Set("PATCH", "lb service 10.0.0.100 80 TCP select", `"SOURCE"`)
		check("by source", "10.0.0.100", server2)
		l.Set("PATCH", "lb service 10.0.0.100 80 TCP select", `"FLOW"`)
		check("by flow again", "10.0.0.100", server2)
		if n := l.Read("lb service 10.0.0.100 80 TCP packets"); n != "12" { // from its second beginning on
			t.Errorf("%s packets of the service are counted, want 12", n)
		}
	})
}
