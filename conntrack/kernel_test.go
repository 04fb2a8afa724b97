// SPDX-License-Identifier: Apache-2.0

package conntrack_test

// A Linux router with nf_conntrack: packets are sent through it, and the class, state and timeout of their connection
// are read after each.

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/netfilter"
	"github.com/polycube/polycube/test/pkt"
)

// kernel is the router, and the number of packets sent through it.
type kernel struct {
	*netfilter.Router
	sent uint32
}

// addresses of the two sides of connections: no host has them, so nothing answers by itself.
var addresses = [2]string{"10.0.0.50", "10.0.1.50"}

// kernelTimeouts are so far from each other that a remaining time identifies the timeout.
var kernelTimeouts = conntrack.Timeouts{
	conntrack.UDP: 1000 * time.Second, conntrack.UDPStream: 2000 * time.Second, conntrack.ICMP: 3000 * time.Second, conntrack.Other: 4000 * time.Second,
	conntrack.TCPSynSent: 5000 * time.Second, conntrack.TCPSynRecv: 6000 * time.Second, conntrack.TCPEstablished: 30000 * time.Second,
	conntrack.TCPFinWait: 7000 * time.Second, conntrack.TCPCloseWait: 8000 * time.Second, conntrack.TCPLastAck: 9000 * time.Second,
	conntrack.TCPTimeWait: 10000 * time.Second, conntrack.TCPClose: 11000 * time.Second, conntrack.TCPUnacknowledged: 20000 * time.Second, conntrack.TCPMaxRetrans: 21000 * time.Second,
}

// newKernel creates the router. It writes the class of each packet into the DSCP field.
func newKernel(t *testing.T, o conntrack.Options) *kernel {
	k := &kernel{Router: netfilter.NewRouter(t, o, kernelTimeouts)}
	err := k.Load(`table ip t {
		chain c {
			type filter hook forward priority 0;
			ct state new ip dscp set 1
			ct state established ip dscp set 2
			ct state related ip dscp set 3
			ct state invalid ip dscp set 4
		}
	}`)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// pass sends an IP payload from one side to the other, and returns the class.
func (k *kernel) pass(from uint8, protocol byte, payload []byte) (conntrack.Class, error) {
	h := k.Hosts[from]
	k.sent++
	packet := pkt.IPv4Header{From: addresses[from], To: addresses[1-from], Protocol: protocol, TTL: 64, ID: uint16(k.sent)}.Packet(payload)
	sum := map[byte]int{pkt.ProtoTCP: 16, pkt.ProtoUDP: 6, pkt.ProtoICMP: 2}[protocol]
	if sum > 0 {
		pseudo := append(bytes.Clone(packet[12:20]), 0, protocol, byte(len(payload)>>8), byte(len(payload)))
		if protocol == pkt.ProtoICMP {
			pseudo = nil
		}
		binary.BigEndian.PutUint16(packet[20+sum:], ^pkt.Sum(append(pseudo, packet[20:]...)))
	}
	if err := k.Send(from, pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(packet).Bytes()); err != nil {
		return 0, err
	}
	got, err := k.Receive(1-from, func(b []byte) bool {
		return len(b) > 34 && b[12] == 8 && b[13] == 0 && binary.BigEndian.Uint16(b[18:]) == uint16(k.sent)
	})
	if err != nil {
		return 0, err
	}
	return map[byte]conntrack.Class{1: conntrack.New, 2: conntrack.Established, 3: conntrack.Related, 4: conntrack.Invalid}[got[15]>>2], nil
}

// flow is a connection as its first packet was sent.
type flow struct {
	protocol byte
	from     uint8
	ports    [2]uint16 // of the packet; for ICMP the id
}

// tracked is the state of a connection, and the remaining time; None if there is none.
func (k *kernel) tracked(f flow) (conntrack.Phase, time.Duration, error) {
	return k.Tracked(netfilter.Flow{
		Protocol: f.protocol, Ports: f.ports,
		Src: netip.MustParseAddr(addresses[f.from]), Dst: netip.MustParseAddr(addresses[1-f.from]),
	})
}
