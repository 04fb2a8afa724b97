// SPDX-License-Identifier: Apache-2.0

package synflood_test

// A machine with a server that the cube protects, packets of its clients, and the answers that they must get.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/cubes/synflood"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// The server, and a client.
const (
	server4, client4 = "10.0.0.1", "10.0.0.2"
	server6, client6 = "fd00::1", "fd00::2"
	port, clientPort = 7000, 40000
)

// Flags of TCP.
const (
	fin, syn, rst, ack = 0x01, 0x02, 0x04, 0x10
)

// services are those of the daemon, where the cubes of this one read the settings of the kernel in the lab: their code runs in
// the namespace of the test.
func services(l *bpftest.Lab) []cube.Service {
	list := slices.Clone(cube.Services())
	for i := range list {
		if strings.Contains(list[i].Model, "module synflood {") {
			list[i].New = func(env cube.Env) (cube.Instance, error) { return synflood.NewIn(l.Do, env) }
		}
	}
	return list
}

// machine is a lab in which the server listens, behind veth1.
type machine struct {
	*bpftest.Lab
	t          testing.TB
	host, here net.HardwareAddr
	listener   net.Listener
}

// sysctl writes settings of the kernel in the lab, below /proc/sys/net.
func sysctl(t testing.TB, in netns.Doer, settings map[string]string) {
	t.Helper()
	err := in.Do(func() error {
		for name, value := range settings {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil {
				return fmt.Errorf("%s=%s: %w", name, value, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// wanted are the settings of the kernel with which everything works.
var wanted = map[string]string{"ipv4/tcp_syncookies": "2", "ipv4/tcp_timestamps": "2", "ipv4/tcp_rmem": "4096 131072 6291456"}

// protect starts the server, with the addresses of the machine on veth1, and creates the cube `s` there.
func protect(t testing.TB, l *bpftest.Lab, body string) *machine {
	t.Helper()
	m := &machine{Lab: l, t: t, host: l.Hosts[0].MAC, here: l.Hosts[0].OuterMAC}
	sysctl(t, l, map[string]string{"ipv6/conf/veth1/disable_ipv6": "0", "ipv6/conf/veth1/accept_dad": "0"})
	l.Lab.Run("ip", "addr", "add", server4+"/24", "dev", "veth1")
	l.Lab.Run("ip", "addr", "add", server6+"/64", "dev", "veth1", "nodad")
	l.Lab.Must(func() (err error) { m.listener, err = net.Listen("tcp", fmt.Sprintf(":%d", port)); return err })
	t.Cleanup(func() { _ = m.listener.Close() })
	sysctl(t, l, wanted)
	l.Create("synflood", "s", body)
	l.Attach("s", "veth1")
	m.knows(server4, server6)
	return m
}

// knows waits until the programs have the addresses.
func (m *machine) knows(texts ...string) {
	m.t.Helper()
	netns.Eventually(m.t, bpftest.Patience, func() error {
		for _, text := range texts {
			var value uint8
			if err := m.Map("s", "addresses").Lookup(netip.MustParseAddr(text).As16(), &value); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
}

// reads waits until a leaf has a value.
func (m *machine) reads(words, want string) {
	m.t.Helper()
	netns.Eventually(m.t, bpftest.Patience, func() error {
		got, err := m.TryRead(words)
		if err == nil && got != want {
			err = fmt.Errorf("%s is %s, want %s", words, got, want)
		}
		return err
	})
}

// counts returns the counters that are not 0.
func (m *machine) counts() map[string]uint64 {
	m.t.Helper()
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(m.Read("s counters")), &all); err != nil {
		m.t.Fatal(err)
	}
	out := map[string]uint64{}
	for name, text := range all {
		var n uint64
		if err := json.Unmarshal(bytes.Trim(text, `"`), &n); err != nil {
			m.t.Fatalf("%s: %v", name, err)
		}
		if n != 0 {
			out[name] = n
		}
	}
	return out
}

// segment is a TCP segment from a client, or the answer.
type segment struct {
	from, to     string
	sport, dport uint16
	seq, acked   uint32
	flags        byte
	window       uint16
	options      []byte
	data         []byte
	ttl          byte
	id, fragment uint16 // of IPv4
}

// fromClient is a segment of the client to the server.
func fromClient(v6 bool, flags byte, options ...byte) segment {
	s := segment{from: client4, to: server4, sport: clientPort, dport: port, seq: 0xfffffffe, flags: flags, window: 64240, options: options, ttl: 63, id: 7}
	if v6 {
		s.from, s.to = client6, server6
	}
	return s
}

// tcp is the segment, padded with the end of options.
func (s segment) tcp() []byte {
	options := append(slices.Clone(s.options), make([]byte, -len(s.options)&3)...)
	b := binary.BigEndian.AppendUint16(nil, s.sport)
	b = binary.BigEndian.AppendUint16(b, s.dport)
	b = binary.BigEndian.AppendUint32(b, s.seq)
	b = binary.BigEndian.AppendUint32(b, s.acked)
	b = append(b, byte(20+len(options))<<2, s.flags)
	b = binary.BigEndian.AppendUint16(b, s.window)
	b = slices.Concat(b, make([]byte, 4), options, s.data)
	binary.BigEndian.PutUint16(b[16:], ^pkt.Sum(pkt.PseudoHeader(s.from, s.to, pkt.ProtoTCP, len(b)), b))
	return b
}

// ip is the packet.
func (s segment) ip() []byte {
	if strings.Contains(s.from, ":") {
		return pkt.IPv6Header{From: s.from, To: s.to, Next: pkt.ProtoTCP, HopLimit: s.ttl}.Packet(s.tcp())
	}
	return pkt.IPv4Header{From: s.from, To: s.to, Protocol: pkt.ProtoTCP, TTL: s.ttl, ID: s.id, Fragment: s.fragment}.Packet(s.tcp())
}

// ethernet is a frame with an IP packet.
func ethernet(to, from net.HardwareAddr, packet []byte) []byte {
	kind := uint16(0x0800)
	if packet[0]>>4 == 6 {
		kind = 0x86dd
	}
	return pkt.EthernetFrame(to, from, kind, packet)
}

// frame is the frame of a client.
func (m *machine) frame(s segment) []byte { return ethernet(m.here, m.host, s.ip()) }

// Options of TCP.
var (
	optMSS    = []byte{2, 4, 5, 0xb4}
	optSACK   = []byte{4, 2}
	optTime   = []byte{8, 10, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 0}
	optScale9 = []byte{1, 3, 3, 9}
)

// usual are the options of a SYN of Linux.
var usual = slices.Concat(optMSS, optSACK, optTime, optScale9)

// offer is what a SYN offers.
type offer struct {
	timestamp []byte // nil: none
	sack      bool
	scale     byte // 15: none
}

// offered reads the options of a SYN, up to one that is malformed.
func offered(options []byte) offer {
	o := offer{scale: 15}
	for len(options) > 0 && options[0] != 0 {
		if options[0] == 1 {
			options = options[1:]
			continue
		}
		if len(options) < 2 || options[1] < 2 || int(options[1]) > len(options) {
			break
		}
		body := options[2:options[1]]
		switch {
		case options[0] == 3 && len(body) == 1:
			o.scale = min(body[0], 14)
		case options[0] == 4 && len(body) == 0:
			o.sack = true
		case options[0] == 8 && len(body) == 8:
			o.timestamp = body[:4]
		}
		options = options[options[1]:]
	}
	if o.timestamp == nil {
		return offer{scale: 15}
	}
	return o
}

// answered is the cube's configuration, as far as answers have it.
type answered struct {
	mss    [2]uint16 // of IPv4, IPv6
	ttl    byte
	scale  byte
	window uint16
	plain  bool // without options other than the MSS
}

var byDefault = answered{mss: [2]uint16{1460, 1440}, ttl: 64, scale: 7, window: 65535}

// now is the kernel's clock for timestamps.
func now(t testing.TB) uint32 {
	t.Helper()
	ns, err := cube.Time()
	if err != nil {
		t.Fatal(err)
	}
	return uint32(ns / uint64(time.Millisecond))
}

// checkAnswer compares a frame with the answer to a SYN. Only the cookie and the time are taken from it; the cookie is
// returned.
func (m *machine) checkAnswer(s segment, got []byte, a answered) (cookie uint32) {
	m.t.Helper()
	l4, family := 34, 0
	if strings.Contains(s.from, ":") {
		l4, family = 54, 1
	}
	if len(got) < l4+24 {
		m.t.Fatalf("the answer is only %x", got)
	}
	cookie = binary.BigEndian.Uint32(got[l4+4:])
	o := offered(s.options)
	if a.plain {
		o = offer{scale: 15}
	}
	options := binary.BigEndian.AppendUint16([]byte{2, 4}, a.mss[family])
	if o.timestamp != nil && len(got) >= l4+36 {
		ts := binary.BigEndian.Uint32(got[l4+28:])
		if behind := now(m.t) - ts; behind > 60_000 {
			m.t.Errorf("the timestamp %d is %d ms behind the clock", ts, int32(behind))
		}
		if low := byte(ts & 63); low != o.scale|byte(btoi(o.sack))<<4 {
			m.t.Errorf("the timestamp has the options %#x, want scale %d and SACK %v", low, o.scale, o.sack)
		}
		first := []byte{1, 1}
		if o.sack {
			first = optSACK
		}
		options = binary.BigEndian.AppendUint32(slices.Concat(options, first, []byte{8, 10}), ts)
		options = append(options, o.timestamp...)
		if o.scale != 15 {
			options = append(options, 1, 3, 3, a.scale)
		}
	}
	want := segment{from: s.to, to: s.from, sport: s.dport, dport: s.sport, seq: cookie, acked: s.seq + 1, flags: syn | ack,
		window: a.window, options: options, ttl: a.ttl, fragment: 0x4000}
	if wanted := ethernet(m.host, m.here, want.ip()); !bytes.Equal(got, wanted) {
		m.t.Errorf("the answer to %x is\n%x, want\n%x", s.ip(), got, wanted)
	}
	return cookie
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Outcomes of a frame.
var (
	sentBack = bpftest.Outcome{Verdict: "send", Fate: "s pass"}
	toStack  = bpftest.Outcome{Verdict: "pass", Fate: "s pass"}
	forged   = bpftest.Outcome{Verdict: "drop", Fate: "s invalid-cookie"}
	overRate = bpftest.Outcome{Verdict: "drop", Fate: "s forward-rate"}
)

// others are packets that the machine sends by itself meanwhile, such as neighbour discovery: they pass the cube on their way
// out.
var others = regexp.MustCompile(`(^|, )s pass( x\d+)?`)

// fate leaves out such packets.
func fate(o bpftest.Outcome) bpftest.Outcome {
	passed := ""
	if o.Verdict != "drop" && others.MatchString(o.Fate) {
		passed = "s pass"
	}
	o.Fate = strings.TrimPrefix(others.ReplaceAllString(o.Fate, ""), ", ") + passed
	return o
}

// answers runs a SYN and checks that it is answered; it returns the cookie.
func (m *machine) answers(what string, s segment, a answered) uint32 {
	m.t.Helper()
	out, got := m.RunBytes("veth1", m.frame(s))
	if fate(out) != sentBack {
		m.t.Fatalf("%s: %+v, want an answer", what, out)
	}
	return m.checkAnswer(s, got, a)
}

// leaves runs a frame and checks what becomes of it, without a change of its bytes.
func (m *machine) leaves(what string, frame []byte, want bpftest.Outcome) {
	m.t.Helper()
	if out := m.Run("veth1", frame); fate(out) != want {
		m.t.Errorf("%s: %+v, want %+v", what, out, want)
	}
}

// tcpInfo are the options of a connection, as bits of TCP_INFO, and its window scales: that of what it receives in the upper
// four bits.
type tcpInfo struct{ options, scales uint8 }

// info reads them.
func info(t testing.TB, c net.Conn) tcpInfo {
	t.Helper()
	raw, err := c.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var is *unix.TCPInfo
	errRaw := raw.Control(func(fd uintptr) { is, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO) })
	if err := errors.Join(errRaw, err); err != nil {
		t.Fatal(err)
	}
	const scales = 6 // the offset of two bit fields, which the type leaves out
	return tcpInfo{is.Options, (*[8]uint8)(unsafe.Pointer(is))[scales]}
}
