// SPDX-License-Identifier: Apache-2.0

package lbrp

// What clients on the wire get from services without servers.

import (
	"encoding/binary"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

const noServers = `{` + twoPorts + `,"service":[{"vip":"10.0.0.100","vport":80,"proto":"ALL"},{"vip":"2001:db8::100","vport":80,"proto":"ALL"}]}`

// reset is the segment that refuses a connection: of a window of 0, with RST and ACK.
func reset(from, to string, sport, dport uint16, acknowledged uint32) []byte {
	segment := pkt.TCPSegment(from, to, sport, dport, 0x14, nil)
	binary.BigEndian.PutUint32(segment[8:], acknowledged)
	binary.BigEndian.PutUint16(segment[16:], 0)
	binary.BigEndian.PutUint16(segment[16:], ^pkt.Sum(pkt.PseudoHeader(from, to, pkt.ProtoTCP, len(segment)), segment))
	return segment
}

func TestClientsOnTheWireAreRefused(t *testing.T) {
	eachLive(t, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", noServers)
		const client, vip, client6, vip6 = "10.0.1.2", "10.0.0.100", "2001:db8:1::2", "2001:db8::100"
		wire := l.Wires()[0]
		four := func(h pkt.IPv4Header, payload []byte) []byte {
			h.From, h.To, h.TTL = vip, client, 64
			return fromServer().IP(h.Packet(payload)).Bytes()
		}
		six := func(next byte, payload []byte) []byte {
			return fromServer().IP(pkt.IPv6Header{From: vip6, To: client6, Next: next, HopLimit: 64}.Packet(payload)).Bytes()
		}
		start := pkt.TCPFlags{SYN: true, Seq: 0xfffffff0}
		wire.Puts(fromClient().IPv4(client, vip).TCP(4000, 80, start).Bytes())
		wire.Gets(four(pkt.IPv4Header{Protocol: pkt.ProtoTCP, Fragment: 0x4000}, reset(vip, client, 80, 4000, start.Seq+1)))
		wire.Puts(fromClient().IPv6(client6, vip6).TCP(4000, 80, start).Bytes())
		wire.Gets(six(pkt.ProtoTCP, reset(vip6, client6, 80, 4000, start.Seq+1)))

		// The whole packet is quoted, unless the error would be too long.
		var errors uint16
		for _, n := range []int{0, 3, 548 - 28, 548 - 27, 900} {
			errors++
			asked := fromClient().IPv4(client, vip).UDP(4000, 80).Payload(n).Bytes()
			wire.Puts(asked)
			quoted := asked[14:min(len(asked), 14+548)]
			wire.Gets(four(pkt.IPv4Header{Protocol: pkt.ProtoICMP, TOS: 0xc0, ID: errors}, pkt.ICMPMessage(3, 3, 0, quoted)))
		}
		for _, n := range []int{0, 3, 1232 - 48, 1232 - 47, 1400} {
			errors++
			asked := fromClient().IPv6(client6, vip6).UDP(4000, 80).Payload(n).Bytes()
			wire.Puts(asked)
			quoted := asked[14:min(len(asked), 14+1232)]
			wire.Gets(six(pkt.ProtoICMPv6, pkt.ICMPv6Message(vip6, client6, 1, 4, 0, quoted)))
		}
		errors++
		asked := fromClient().IPv4(client, vip).Echo(7, 1).Payload(9).Bytes()
		wire.Puts(asked)
		wire.Gets(four(pkt.IPv4Header{Protocol: pkt.ProtoICMP, TOS: 0xc0, ID: errors}, pkt.ICMPMessage(3, 1, 0, asked[14:])))
	})
}

// TestClientsOfTheKernelAreRefused: a kernel checks checksums and quoted packets before it tells a client.
func TestClientsOfTheKernelAreRefused(t *testing.T) {
	eachLive(t, func(t *testing.T, l *bpftest.Lab) {
		l.Create("lbrp", "lb", noServers)
		host := l.Hosts[0]
		for vip, own := range map[string]string{"10.0.0.100": "10.0.1.2/24", "2001:db8::100": "2001:db8:1::2/64"} {
			flags := []string{}
			if strings.Contains(vip, ":") {
				flags = append(flags, "nodad")
			}
			host.Run("ip", append([]string{"address", "add", own, "dev", netns.Inner}, flags...)...)
			host.Run("ip", "route", "add", vip, "dev", netns.Inner)
			host.Run("ip", "neigh", "replace", vip, "lladdr", routerMAC, "dev", netns.Inner)
			at := net.JoinHostPort(vip, "80")
			host.Must(func() error {
				c, err := net.DialTimeout("tcp", at, bpftest.Patience)
				if err == nil {
					_ = c.Close() // it should not have been opened
				}
				if !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("TCP to %s: %v, want it refused", at, err)
				}
				u, err := net.Dial("udp", at)
				if err != nil {
					return err
				}
				_, err = u.Write([]byte("question"))
				if err == nil {
					err = u.SetReadDeadline(time.Now().Add(bpftest.Patience))
				}
				if err == nil {
					_, err = u.Read(make([]byte, 100))
				}
				if !errors.Is(err, unix.ECONNREFUSED) {
					t.Errorf("UDP to %s: %v, want it refused", at, err)
				}
				return u.Close()
			})
		}
	})
}
