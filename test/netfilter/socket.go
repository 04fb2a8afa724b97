// SPDX-License-Identifier: Apache-2.0

package netfilter

// What the kernel knows of connections and rules, by netlink: a message for each packet, where a program would take
// milliseconds.

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/netns"
)

// Socket asks the kernel about the namespace that it was opened in.
type Socket struct {
	table   *netlink.Handle
	sockets map[int]*nl.SocketHandle
}

// open opens a socket, and closes it when the test ends.
func open(t testing.TB, in netns.Doer) *Socket {
	t.Helper()
	s := &Socket{}
	err := in.Do(func() (err error) {
		if s.table, err = netlink.NewHandle(unix.NETLINK_NETFILTER); err != nil {
			return err
		}
		socket, err := nl.Subscribe(unix.NETLINK_NETFILTER)
		s.sockets = map[int]*nl.SocketHandle{unix.NETLINK_NETFILTER: {Socket: socket}}
		return err
	})
	if err != nil {
		t.Fatalf("netlink socket: %v", err)
	}
	t.Cleanup(func() {
		s.table.Close()
		s.sockets[unix.NETLINK_NETFILTER].Close()
	})
	return s
}

// ask sends a message with attributes, and returns those of the answers.
func (s *Socket) ask(kind, flags int, family uint8, attributes ...*nl.RtAttr) (answers [][]byte, err error) {
	r := nl.NewNetlinkRequest(kind, flags)
	r.Sockets = s.sockets
	r.AddData(&nl.Nfgenmsg{NfgenFamily: family, Version: nl.NFNETLINK_V0})
	for _, a := range attributes {
		r.AddData(a)
	}
	if answers, err = r.Execute(unix.NETLINK_NETFILTER, 0); err != nil {
		return nil, err
	}
	for i, a := range answers {
		answers[i] = a[nl.SizeofNfgenmsg:]
	}
	return answers, nil
}

// attribute is nested in parent.
func attribute(parent *nl.RtAttr, kind int, value []byte) *nl.RtAttr {
	a := nl.NewRtAttr(kind, value)
	if parent != nil {
		parent.AddChild(a)
	}
	return a
}

// Attributes of ctnetlink, from <linux/netfilter/nfnetlink_conntrack.h>.
const (
	ctaProtoNumber, ctaProtoSource, ctaProtoDestination = 1, 2, 3
	ctaICMPID, ctaICMPType, ctaICMPCode                 = 4, 5, 6
)

// Flow is a connection as its first packet was sent. Of ICMP, Ports[0] is the identifier of an echo.
type Flow struct {
	Protocol byte
	Src, Dst netip.Addr
	Ports    [2]uint16
}

const protoICMP = 1

// Tracked returns the state of a connection and the remaining time; None if there is none.
func (s *Socket) Tracked(f Flow) (conntrack.Phase, time.Duration, error) {
	tuple := attribute(nil, unix.NLA_F_NESTED|nl.CTA_TUPLE_ORIG, nil)
	ip := attribute(tuple, unix.NLA_F_NESTED|nl.CTA_TUPLE_IP, nil)
	family, first := uint8(unix.AF_INET), nl.CTA_IP_V4_SRC
	if f.Src.Is6() {
		family, first = unix.AF_INET6, nl.CTA_IP_V6_SRC
	}
	attribute(ip, first, f.Src.AsSlice())
	attribute(ip, first+1, f.Dst.AsSlice())
	proto := attribute(tuple, unix.NLA_F_NESTED|nl.CTA_TUPLE_PROTO, nil)
	attribute(proto, ctaProtoNumber, []byte{f.Protocol})
	if f.Protocol == protoICMP {
		attribute(proto, ctaICMPID, nl.BEUint16Attr(f.Ports[0]))
		attribute(proto, ctaICMPType, []byte{8})
		attribute(proto, ctaICMPCode, []byte{0})
	} else {
		attribute(proto, ctaProtoSource, nl.BEUint16Attr(f.Ports[0]))
		attribute(proto, ctaProtoDestination, nl.BEUint16Attr(f.Ports[1]))
	}
	answers, err := s.ask(unix.NFNL_SUBSYS_CTNETLINK<<8|nl.IPCTNL_MSG_CT_GET, unix.NLM_F_ACK, family, tuple)
	if errors.Is(err, unix.ENOENT) {
		return conntrack.None, 0, nil
	}
	if err != nil || len(answers) != 1 {
		return conntrack.None, 0, fmt.Errorf("look for the connection: %d answers, %w", len(answers), err)
	}
	return state(answers[0])
}

// phases are the states of TCP in the kernel's order.
var phases = []conntrack.Phase{
	conntrack.None, conntrack.SynSent, conntrack.SynRecv, conntrack.Open, conntrack.FinWait, conntrack.CloseWait,
	conntrack.LastAck, conntrack.TimeWait, conntrack.Closed, conntrack.SynSent2,
}

// seenReply is IPS_SEEN_REPLY of <linux/netfilter/nf_conntrack_common.h>.
const seenReply = 2

// state reads an answer.
func state(answer []byte) (conntrack.Phase, time.Duration, error) {
	phase, left := conntrack.Unreplied, time.Duration(0)
	attributes, err := nl.ParseRouteAttr(answer)
	if err != nil {
		return conntrack.None, 0, err
	}
	for _, a := range attributes {
		switch a.Attr.Type &^ unix.NLA_F_NESTED {
		case nl.CTA_STATUS:
			if binary.BigEndian.Uint32(a.Value)&seenReply != 0 && phase == conntrack.Unreplied {
				phase = conntrack.Replied
			}
		case nl.CTA_TIMEOUT:
			left = time.Duration(binary.BigEndian.Uint32(a.Value)) * time.Second
		case nl.CTA_PROTOINFO:
			// In it CTA_PROTOINFO_TCP, and there first the state.
			if tcp := a.Value[4:]; len(tcp) > 4 && binary.NativeEndian.Uint16(tcp[2:]) == nl.CTA_PROTOINFO_TCP_STATE {
				phase = phases[tcp[4]]
			}
		}
	}
	return phase, left, nil
}

// Forget ends all connections.
func (s *Socket) Forget() error {
	return s.table.ConntrackTableFlush(netlink.ConntrackTable)
}

// Constants of nftables, from <linux/netfilter/nf_tables.h>.
const (
	nftMsgGetObj                                      = 19
	nftaObjTable, nftaObjName, nftaObjType, nftaObjIs = 1, 2, 3, 4
	nftObjectCounter                                  = 1
	nftaCounterPackets                                = 2
	nfprotoInet                                       = 1
)

// Counters returns the packets of the named counters of a table of the family inet.
func (s *Socket) Counters(table string) (map[string]uint64, error) {
	answers, err := s.ask(unix.NFNL_SUBSYS_NFTABLES<<8|nftMsgGetObj, unix.NLM_F_DUMP, nfprotoInet,
		attribute(nil, nftaObjTable, nl.ZeroTerminated(table)), attribute(nil, nftaObjType, nl.BEUint32Attr(nftObjectCounter)))
	if err != nil {
		return nil, fmt.Errorf("read the counters: %w", err)
	}
	all := make(map[string]uint64, len(answers))
	for _, answer := range answers {
		attributes, err := nl.ParseRouteAttr(answer)
		if err != nil {
			return nil, fmt.Errorf("read a counter: %w", err)
		}
		name := ""
		for _, a := range attributes {
			switch a.Attr.Type &^ unix.NLA_F_NESTED {
			case nftaObjName:
				name = nl.BytesToString(a.Value)
			case nftaObjIs:
				if all[name], err = packets(a.Value); err != nil {
					return nil, fmt.Errorf("read counter %s: %w", name, err)
				}
			}
		}
	}
	return all, nil
}

// packets reads the value of a counter.
func packets(value []byte) (uint64, error) {
	attributes, err := nl.ParseRouteAttr(value)
	for _, a := range attributes {
		if a.Attr.Type == nftaCounterPackets {
			return binary.BigEndian.Uint64(a.Value), nil
		}
	}
	return 0, errors.Join(err, errors.New("it counts no packets"))
}
