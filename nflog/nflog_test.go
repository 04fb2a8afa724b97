// SPDX-License-Identifier: Apache-2.0

package nflog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/vishvananda/netlink/nl"
	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// patience is how long a packet may take that is not lost.
var patience = pace.Stretch(10 * time.Second)

// heard is what a listener received, by attribute.
type heard struct {
	family byte
	group  uint16
	values map[uint16][]byte
}

// group is a program that listens.
type group struct {
	t      *testing.T
	number uint16
	socket *nl.NetlinkSocket
}

// listen begins to listen in a namespace, in a mode, to so many bytes of each packet.
func listen(t *testing.T, in *netns.Namespace, number uint16, mode byte, size uint32) *group {
	t.Helper()
	g := &group{t: t, number: number}
	in.Must(func() (err error) {
		g.socket, err = nl.Subscribe(unix.NETLINK_NETFILTER)
		return err
	})
	t.Cleanup(g.socket.Close)
	g.configure(1, []byte{1})                                                 // NFULA_CFG_CMD: bind
	g.configure(2, append(binary.BigEndian.AppendUint32(nil, size), mode, 0)) // NFULA_CFG_MODE
	if err := g.socket.SetReceiveTimeout(&unix.Timeval{Usec: 50_000}); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *group) configure(kind int, value []byte) {
	g.t.Helper()
	r := nl.NewNetlinkRequest(subsystem<<8|1, unix.NLM_F_ACK) // NFULNL_MSG_CONFIG
	r.AddData(&nl.Nfgenmsg{ResId: nl.Swap16(g.number)})
	r.AddData(nl.NewRtAttr(kind, value))
	if err := g.socket.Send(r); err != nil {
		g.t.Fatal(err)
	}
	answers, _, err := g.socket.Receive()
	if err != nil || len(answers) != 1 || !bytes.Equal(answers[0].Data[:4], make([]byte, 4)) {
		g.t.Fatalf("configure the listener: %v, %v", answers, err)
	}
}

// next returns the next packet of the group, within a time.
func (g *group) next(within time.Duration) (h heard, err error) {
	for end := time.Now().Add(within); time.Now().Before(end); {
		var all []syscall.NetlinkMessage
		all, _, err = g.socket.Receive()
		if errors.Is(err, unix.EAGAIN) {
			continue
		}
		if err != nil {
			return h, err
		}
		for _, m := range all {
			if m.Header.Type != subsystem<<8 {
				continue
			}
			h = heard{m.Data[0], binary.BigEndian.Uint16(m.Data[2:]), map[uint16][]byte{}}
			attrs, err := nl.ParseRouteAttr(m.Data[4:])
			for _, a := range attrs {
				h.values[a.Attr.Type] = a.Value
			}
			return h, err
		}
	}
	return h, fmt.Errorf("no packet: %w", unix.ETIMEDOUT)
}

// TestMessagesAreThoseOfTheKernel compares them, value by value, with those for a rule of iptables.
func TestMessagesAreThoseOfTheKernel(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	const timestamp = 3 // NFULA_TIMESTAMP
	for _, c := range []struct {
		from, to, program string
		echo              []string
	}{
		{"10.9.0.1/24", "10.9.0.2/24", "iptables", []string{"-p", "icmp", "--icmp-type"}},
		{"2001:db8::1/64", "2001:db8::2/64", "ip6tables", []string{"-p", "icmpv6", "--icmpv6-type"}},
	} {
		l := netns.NewLab(t, netns.WithIPv6())
		host := l.Host("veth1", c.to, netns.WithIPv6())
		l.Run("ip", "addr", "add", c.from, "dev", "veth1", "nodad")
		l.Run(c.program, slices.Concat([]string{"-A", "INPUT"}, c.echo, strings.Fields("echo-request -j NFLOG --nflog-group 7 --nflog-prefix in:"))...)
		l.Run(c.program, slices.Concat([]string{"-A", "OUTPUT"}, c.echo, strings.Fields("echo-reply -j NFLOG --nflog-group 8"))...)
		address := c.from[:len(c.from)-3]
		arrived, sent := listen(t, l.Namespace, 7, copyPacket, 0xffff), listen(t, l.Namespace, 8, copyPacket, 0xffff)
		if err := host.Ping(address); err != nil {
			t.Fatal(err)
		}
		var s Sender
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		for g, hook := range map[*group]Hook{arrived: LocalIn, sent: LocalOut} {
			kernels, err := g.next(5 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			for err == nil { // the other packets of the kernel
				_, err = g.next(200 * time.Millisecond)
			}
			delete(kernels.values, timestamp)
			p := Packet{Group: g.number, Hook: hook, Size: math.MaxUint32, Prefix: string(bytes.TrimRight(kernels.values[attrPrefix], "\x00"))}
			header := kernels.values[attrHardwareHeader]
			if hook == LocalOut {
				header = append(make([]byte, macLen), kernels.values[attrPacketHeader][:2]...)
				p.Out = int(binary.BigEndian.Uint32(kernels.values[attrOut]))
			} else {
				p.In = int(binary.BigEndian.Uint32(kernels.values[attrIn]))
			}
			p.Frame = slices.Concat(header, kernels.values[attrPayload])
			l.Must(func() error { return s.Send(p) })
			ours, err := g.next(5 * time.Second)
			if err != nil {
				t.Fatal(err)
			}
			if ours.family != kernels.family || ours.group != kernels.group || len(ours.values) != len(kernels.values) {
				t.Errorf("%s, hook %d: %v, the kernel sends %v", c.program, hook, ours, kernels)
			}
			for kind, want := range kernels.values {
				if got := ours.values[kind]; !bytes.Equal(got, want) {
					t.Errorf("%s, hook %d, attribute %d: %x, the kernel sends %x", c.program, hook, kind, got, want)
				}
			}
		}
	}
}

// TestListenersChoose how much of packets they get, come, and go.
func TestListenersChoose(t *testing.T) {
	netns.NeedRoot(t)
	t.Parallel()
	l := netns.NewLab(t)
	frame := append(make([]byte, macLen), 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 47, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2)
	var s Sender
	send := func(number uint16, size uint32) {
		l.Must(func() error { return s.Send(Packet{Group: number, Frame: frame, Size: size, In: 1}) })
	}
	send(1, math.MaxUint32) // nobody listens
	parts, all := listen(t, l.Namespace, 1, copyPacket, 12), listen(t, l.Namespace, 3, copyPacket, 0xffff)
	metadata := listen(t, l.Namespace, 2, 1, 0)
	netns.Eventually(t, patience, func() error { // who listens is not read for each packet
		send(1, math.MaxUint32)
		_, err := parts.next(50 * time.Millisecond)
		return err
	})
	for _, c := range []struct {
		from *group
		size uint32
		want int
	}{{parts, math.MaxUint32, 12}, {parts, 8, 8}, {all, math.MaxUint32, 20}, {all, 16, 16}, {all, 0, 0}, {metadata, 1000, 0}} {
		send(c.from.number, c.size)
		got, err := c.from.next(5 * time.Second)
		if err != nil || len(got.values[attrPayload]) != c.want {
			t.Errorf("group %d, size %d: %v, %v", c.from.number, c.size, got, err)
		}
		if _, there := got.values[attrPayload]; there != (c.want > 0) {
			t.Errorf("group %d has a payload: %t", c.from.number, there)
		}
	}
	l.Must(func() error { return s.Send(Packet{Group: 3, Frame: []byte("no packet of IP, but a frame")}) })
	all.socket.Close()
	send(3, 0)
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
