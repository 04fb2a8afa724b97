// SPDX-License-Identifier: Apache-2.0

package conntrack

// A Linux router with nf_conntrack: packets are sent through it, and the class, state and timeout of their connection
// are read after each.

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// kernel is the router and the wires of the hosts on its two sides.
type kernel struct {
	lab   *netns.Lab
	wire  [2]*netns.Raw
	hosts []*netns.Node
	table *netlink.Handle
	sent  uint32
}

// addresses of the two sides of connections: no host has them, so nothing answers by itself.
var addresses = [2]string{"10.0.0.50", "10.0.1.50"}

// kernelTimeouts are so far from each other that a remaining time identifies the timeout.
var kernelTimeouts = Timeouts{
	UDP: 1000 * time.Second, UDPStream: 2000 * time.Second, ICMP: 3000 * time.Second, Other: 4000 * time.Second,
	TCPSynSent: 5000 * time.Second, TCPSynRecv: 6000 * time.Second, TCPEstablished: 30000 * time.Second,
	TCPFinWait: 7000 * time.Second, TCPCloseWait: 8000 * time.Second, TCPLastAck: 9000 * time.Second,
	TCPTimeWait: 10000 * time.Second, TCPClose: 11000 * time.Second, TCPUnacknowledged: 20000 * time.Second, TCPMaxRetrans: 21000 * time.Second,
}

// sysctls are the names of the timeouts.
var sysctls = map[Timeout]string{
	UDP: "udp_timeout", UDPStream: "udp_timeout_stream", ICMP: "icmp_timeout", Other: "generic_timeout", TCPSynSent: "tcp_timeout_syn_sent",
	TCPSynRecv: "tcp_timeout_syn_recv", TCPEstablished: "tcp_timeout_established", TCPFinWait: "tcp_timeout_fin_wait",
	TCPCloseWait: "tcp_timeout_close_wait", TCPLastAck: "tcp_timeout_last_ack", TCPTimeWait: "tcp_timeout_time_wait",
	TCPClose: "tcp_timeout_close", TCPUnacknowledged: "tcp_timeout_unacknowledged", TCPMaxRetrans: "tcp_timeout_max_retrans",
}

// newKernel creates the router. It writes the class of each packet into the DSCP field.
func newKernel(t *testing.T, o Options) *kernel {
	netns.NeedRoot(t)
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip("nftables is not installed: there is nothing to compare with")
	}
	k := &kernel{lab: netns.NewLab(t)}
	for i := range 2 {
		dev := fmt.Sprintf("veth%d", i)
		h := k.lab.Host(dev, "")
		k.hosts = append(k.hosts, h)
		k.lab.Run("ip", "addr", "add", fmt.Sprintf("10.0.%d.1/24", i), "dev", dev)
		k.lab.Run("ip", "neigh", "replace", addresses[i], "lladdr", h.MAC.String(), "dev", dev)
		k.wire[i] = netns.OpenRaw(t, h, netns.Inner)
	}
	cmd := k.lab.Command("nft", "-f", "-")
	cmd.Stdin = strings.NewReader(`table ip t {
		chain c {
			type filter hook forward priority 0;
			ct state new ip dscp set 1
			ct state established ip dscp set 2
			ct state related ip dscp set 3
			ct state invalid ip dscp set 4
		}
	}`)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("nftables cannot track connections on this machine: %v: %s", err, out)
	}
	settings := []string{"-qw", "net.ipv4.ip_forward=1", fmt.Sprintf("net.netfilter.nf_conntrack_tcp_max_retrans=%d", o.MaxRetrans)}
	for name, on := range map[string]bool{"tcp_be_liberal": o.Liberal, "tcp_loose": o.PickUp} {
		settings = append(settings, fmt.Sprintf("net.netfilter.nf_conntrack_%s=%d", name, map[bool]int{true: 1}[on]))
	}
	for timeout, name := range sysctls {
		settings = append(settings, fmt.Sprintf("net.netfilter.nf_conntrack_%s=%d", name, kernelTimeouts[timeout]/time.Second))
	}
	k.lab.Run("sysctl", settings...)
	k.lab.Must(func() (err error) {
		k.table, err = netlink.NewHandle(unix.NETLINK_NETFILTER)
		return err
	})
	t.Cleanup(k.table.Close)
	return k
}

// tcp is the bytes of a TCP segment.
func tcp(p Segment, ports [2]uint16) []byte {
	b := binary.BigEndian.AppendUint16(binary.BigEndian.AppendUint16(nil, ports[0]), ports[1])
	b = binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(b, p.Seq), p.Ack)
	b = append(b, 5<<4, byte(p.Flags))
	b = binary.BigEndian.AppendUint16(b, p.Window)
	b = append(b, 0, 0, 0, 0)
	if p.Scale != NoScale {
		b[12] = 6 << 4
		b = append(b, 3, 3, p.Scale, 1)
	}
	return append(b, make([]byte, p.Length)...)
}

// pass sends an IP payload from one side to the other, and returns the class.
func (k *kernel) pass(from uint8, protocol byte, payload []byte) (Class, error) {
	h := k.hosts[from]
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
	if err := k.wire[from].Send(pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(packet).Bytes()); err != nil {
		return 0, err
	}
	got, err := k.wire[1-from].Recv(func(b []byte) bool {
		return len(b) > 34 && b[12] == 8 && b[13] == 0 && binary.BigEndian.Uint16(b[18:]) == uint16(k.sent)
	}, pace.Stretch(10*time.Second))
	if err != nil {
		return 0, fmt.Errorf("nothing comes out: %w", err)
	}
	return map[byte]Class{1: New, 2: Established, 3: Related, 4: Invalid}[got[15]>>2], nil
}

// attributes of ctnetlink, from <linux/netfilter/nfnetlink_conntrack.h>.
const (
	ctaProtoNumber, ctaProtoSource, ctaProtoDestination = 1, 2, 3
	ctaICMPID, ctaICMPType, ctaICMPCode                 = 4, 5, 6
)

// flow is a connection as its first packet was sent.
type flow struct {
	protocol byte
	from     uint8
	ports    [2]uint16 // of the packet; for ICMP the id
}

// attribute is nested in those around it.
func attribute(parent *nl.RtAttr, kind int, value []byte) *nl.RtAttr {
	a := nl.NewRtAttr(kind, value)
	if parent != nil {
		parent.AddChild(a)
	}
	return a
}

// tracked is the state of a connection, and the remaining time; None if there is none.
func (k *kernel) tracked(f flow) (Phase, time.Duration, error) {
	tuple := attribute(nil, unix.NLA_F_NESTED|nl.CTA_TUPLE_ORIG, nil)
	ip := attribute(tuple, unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	for i, side := range []uint8{f.from, 1 - f.from} {
		attribute(ip, []int{nl.CTA_IP_V4_SRC, nl.CTA_IP_V4_DST}[i], netip.MustParseAddr(addresses[side]).AsSlice())
	}
	proto := attribute(tuple, unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	attribute(proto, ctaProtoNumber, []byte{f.protocol})
	if f.protocol == pkt.ProtoICMP {
		attribute(proto, ctaICMPID, nl.BEUint16Attr(f.ports[0]))
		attribute(proto, ctaICMPType, []byte{8})
		attribute(proto, ctaICMPCode, []byte{0})
	} else {
		attribute(proto, ctaProtoSource, nl.BEUint16Attr(f.ports[0]))
		attribute(proto, ctaProtoDestination, nl.BEUint16Attr(f.ports[1]))
	}
	var answers [][]byte
	err := k.lab.Do(func() (err error) {
		r := nl.NewNetlinkRequest(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK)
		r.AddData(&nl.Nfgenmsg{NfgenFamily: unix.AF_INET, Version: nl.NFNETLINK_V0})
		r.AddData(tuple)
		answers, err = r.Execute(unix.NETLINK_NETFILTER, 0)
		return err
	})
	if errors.Is(err, unix.ENOENT) {
		return None, 0, nil
	}
	if err != nil || len(answers) != 1 {
		return None, 0, fmt.Errorf("look for the connection: %d answers, %w", len(answers), err)
	}
	return state(answers[0][nl.SizeofNfgenmsg:])
}

// state reads an answer.
func state(answer []byte) (Phase, time.Duration, error) {
	phase, left := Unreplied, time.Duration(0)
	attributes, err := nl.ParseRouteAttr(answer)
	if err != nil {
		return None, 0, err
	}
	for _, a := range attributes {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case nl.CTA_STATUS:
			if binary.BigEndian.Uint32(a.Value)&2 != 0 && phase == Unreplied { // IPS_SEEN_REPLY
				phase = Replied
			}
		case nl.CTA_TIMEOUT:
			left = time.Duration(binary.BigEndian.Uint32(a.Value)) * time.Second
		case nl.CTA_PROTOINFO:
			// In it CTA_PROTOINFO_TCP, and there first the state.
			if tcp := a.Value[4:]; len(tcp) > 4 && binary.NativeEndian.Uint16(tcp[2:]) == nl.CTA_PROTOINFO_TCP_STATE {
				phase = []Phase{None, SynSent, SynRecv, Open, FinWait, CloseWait, LastAck, TimeWait, Closed, SynSent2}[tcp[4]]
			}
		}
	}
	return phase, left, nil
}

// forget ends all connections.
func (k *kernel) forget() error { return k.table.ConntrackTableFlush(netlink.ConntrackTable) }
