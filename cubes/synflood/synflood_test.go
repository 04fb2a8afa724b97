// SPDX-License-Identifier: Apache-2.0

package synflood_test

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // one to attach to
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

// oneHost are the options of a lab: one host, and events of netdevs, from which the cube knows addresses.
var oneHost = bpftest.Options{Hosts: 1, Follow: true, ServicesIn: services}

const on = `{"protection":"ON","protected-ports":[{"port":7000}]}`

func TestSYNsAreAnsweredByteForByte(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		n := uint64(0)
		for _, v6 := range []bool{false, true} {
			for what, opts := range map[string][]byte{
				"of Linux":                         usual,
				"without options":                  nil,
				"MSS alone":                        optMSS,
				"no timestamps, so nothing":        slices.Concat(optMSS, optSACK, optScale9),
				"timestamps alone":                 optTime,
				"no SACK":                          slices.Concat(optTime, optScale9),
				"no scaling":                       slices.Concat(optSACK, optTime),
				"in another order, without blanks": slices.Concat(optScale9[1:], optTime, optMSS, optSACK),
				"as many as possible":              slices.Concat(usual, optTime, []byte{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}),
				"a scale that is too large":        slices.Concat(optTime, []byte{3, 3, 200}),
				"an unknown one":                   slices.Concat([]byte{254, 6, 1, 2, 3, 4}, usual),
				"a Fast Open cookie":               slices.Concat([]byte{34, 6, 1, 2, 3, 4}, usual),
				"behind the end":                   slices.Concat(optMSS, []byte{0}, optTime),
				"a length of 0":                    slices.Concat(optSACK, []byte{8, 0}, optTime),
				"a length of 1":                    slices.Concat(optSACK, []byte{8, 1}, optTime),
				"longer than the header":           slices.Concat(optTime, []byte{3, 200}),
				"cut off in the middle":            slices.Concat(optMSS, optMSS, optTime[:8]),
				"cut off after its kind":           slices.Concat(optMSS, []byte{1, 1, 1, 8}),
				"with wrong lengths":               {3, 4, 9, 9, 4, 3, 1, 8, 9, 1, 1, 1, 1, 1, 1, 1},
			} {
				m.answers(fmt.Sprintf("IPv6 %v, %s", v6, what), fromClient(v6, syn, opts...), byDefault)
				n++
			}
			s := fromClient(v6, syn|0xc0, usual...) // ECN
			s.data = []byte("data that the client sends again")
			m.answers("with data", s, byDefault)
			n++
		}
		if got, want := m.counts(), (map[string]uint64{"syns": n, "cookies-sent": n}); !maps.Equal(got, want) {
			t.Errorf("counters are %v, want %v", got, want)
		}
	})
}

func TestLeavesChangeAnswers(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		a := byDefault
		for _, tt := range []struct {
			words, value string
			change       func()
		}{
			{"s mss-ipv4", "1000", func() { a.mss[0] = 1000 }},
			{"s mss-ipv6", "1300", func() { a.mss[1] = 1300 }},
			{"s mss-ipv4", "9000", func() { a.mss[0] = 1460 }}, // the MTU is 1500
			{"s ttl", "255", func() { a.ttl = 255 }},
			{"s window-scale", "3", func() { a.scale = 3 }},
		} {
			l.Set("PATCH", tt.words, tt.value)
			tt.change()
			for _, v6 := range []bool{false, true} {
				m.answers(tt.words+" "+tt.value, fromClient(v6, syn, usual...), a)
			}
		}
		l.Set("DELETE", "s window-scale", "")
		sysctl(t, l, map[string]string{"ipv4/tcp_rmem": "4096 16384 67108864"})
		m.reads("s cookies window-scale", "11")
		a.scale, a.window = 11, 8192
		m.answers("the kernel's largest buffer", fromClient(false, syn, usual...), a)
		for _, name := range []string{"tcp_window_scaling", "tcp_sack"} {
			sysctl(t, l, map[string]string{"ipv4/" + name: "0"})
			netns.Eventually(t, bpftest.Patience, func() error {
				_, got := l.RunBytes("veth1", m.frame(fromClient(false, syn, usual...)))
				if low := got[34+31] & 31; name == "tcp_sack" && low != 15 || name != "tcp_sack" && low != 31 {
					return fmt.Errorf("with %s=0, the timestamp has the options %#x", name, low)
				}
				return nil
			})
		}
		sysctl(t, l, map[string]string{"ipv4/tcp_timestamps": "1"})
		m.reads("s cookies options", "false")
		a.plain = true
		m.answers("with timestamps that have a secret", fromClient(false, syn, usual...), a)
	})
}

func TestOnlyACKsWithACookieReachTheListener(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		want := map[string]uint64{}
		check := func(what string) {
			t.Helper()
			if got := m.counts(); !maps.Equal(got, want) {
				t.Errorf("%s: counters are %v, want %v", what, got, want)
			}
		}
		for n, v6 := range []bool{false, true} {
			s := fromClient(v6, syn, usual...)
			s.sport += uint16(n)
			cookie := m.answers("a SYN", s, byDefault)
			want["syns"]++
			want["cookies-sent"]++
			s.flags, s.options, s.seq, s.acked = ack, nil, s.seq+1, cookie+1
			for what, change := range map[string]func(*segment){
				"another cookie":        func(s *segment) { s.acked ^= 0x1000000 },
				"another client port":   func(s *segment) { s.sport += 7 },
				"another number":        func(s *segment) { s.seq += 0x1000000 },
				"data without a cookie": func(s *segment) { s.acked = 5; s.data = []byte("data") },
				"a FIN without one":     func(s *segment) { s.acked = 5; s.flags |= fin },
			} {
				other := s
				change(&other)
				m.leaves(what, m.frame(other), forged)
				want["cookies-invalid"]++
			}
			check("forged")
			m.leaves("the cookie", m.frame(s), toStack)
			want["cookies-valid"]++
			s.data = []byte("the first data")
			m.leaves("with data", m.frame(s), toStack)
			want["cookies-valid"]++
			s.seq += 0x1000000
			m.leaves("data of the same flow", m.frame(s), toStack)
			s.flags = rst
			m.leaves("an RST", m.frame(s), toStack)
			check("valid")
		}
		s := fromClient(false, ack)
		s.dport++
		m.leaves("to another port", m.frame(s), toStack)
		l.Set("POST", "s protected-ports 7001", "{}")
		m.leaves("to a port where nothing listens", m.frame(s), forged)
		l.Set("PATCH", "s protection", `"OFF"`)
		m.leaves("with protection OFF", m.frame(s), toStack)
	})
}

// TestTheStackGetsTheRest: what cannot be answered in place, or is not for the server.
func TestTheStackGetsTheRest(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		valid := m.frame(fromClient(false, syn, usual...))
		v6 := m.frame(fromClient(true, syn, usual...))
		with := func(frame []byte, change func([]byte)) []byte {
			out := slices.Clone(frame)
			change(out)
			return out
		}
		header := pkt.IPv4Header{From: client4, To: server4, Protocol: pkt.ProtoTCP, TTL: 64}
		fragmented, more, optional := header, header, header
		fragmented.Fragment, more.Fragment, optional.Options = 4, 0x2000, []byte{1, 1, 1, 1}
		segment4 := fromClient(false, syn, usual...).tcp()
		six := pkt.IPv6Header{From: client6, To: server6, HopLimit: 64}
		extended, later := six, six
		extended.Next, later.Next = pkt.NextHopByHop, pkt.NextFragment
		segment6 := fromClient(true, syn, usual...).tcp()
		other := fromClient(false, syn, usual...)
		other.dport++
		host := fromClient(false, syn, usual...)
		host.to = "10.0.0.9"
		same := fromClient(false, syn, usual...)
		same.from = server4
		for what, frame := range map[string][]byte{
			"a later fragment":       m.wire(fragmented.Packet(segment4)),
			"a first fragment":       m.wire(more.Packet(segment4)),
			"options of IPv4":        m.wire(optional.Packet(segment4)),
			"an extension header":    m.wire(extended.Packet(slices.Concat(pkt.IPv6Extension(pkt.ProtoTCP), segment6))),
			"a fragment of IPv6":     m.wire(later.Packet(slices.Concat(pkt.IPv6Fragment(pkt.ProtoTCP, 0, 1), segment6))),
			"a tag":                  pkt.Tagged(valid, 0x81000007),
			"a priority tag":         pkt.Tagged(valid, 0x8100e000),
			"another station":        with(valid, func(b []byte) { b[5] ^= 1 }),
			"all stations":           with(valid, func(b []byte) { copy(b, "\xff\xff\xff\xff\xff\xff") }),
			"another EtherType":      with(valid, func(b []byte) { b[13] = 6 }),
			"UDP":                    with(v6, func(b []byte) { b[14+6] = pkt.ProtoUDP }),
			"a wrong IP checksum":    with(valid, func(b []byte) { b[24] ^= 1 }),
			"a TCP header too short": with(valid, func(b []byte) { b[34+12] = 0x40 }),
			"a TCP header too long":  with(valid, func(b []byte) { b[34+12] = 0xf0 }),
			"a TCP header cut off":   valid[:60],
			"half a TCP header":      v6[:60],
			"IPv6 longer than it is": with(v6, func(b []byte) { b[19]++ }),
			"a SYN-ACK":              m.frame(fromClient(false, syn|ack, usual...)),
			"an RST":                 m.frame(fromClient(false, rst)),
			"a SYN with RST":         m.frame(fromClient(false, syn|rst)),
			"no flags":               m.frame(fromClient(false, 0)),
			"another port":           m.frame(other),
			"another host":           m.frame(host),
			"its own address":        m.frame(same),
		} {
			m.leaves(what, frame, toStack)
		}
		if got := m.counts(); len(got) > 2 || got["syns"] != got["passed"] {
			t.Errorf("counters are %v, want nothing but SYNs that are passed", got)
		}
		before := m.counts()["passed"]
		l.Set("POST", "s protected-ports 7001", "{}")
		m.leaves("a port where nothing listens", m.frame(other), toStack)
		if got := m.counts()["passed"] - before; got != 1 {
			t.Errorf("%d SYNs are counted as passed, want 1", got)
		}
		m.answers("and a valid one", fromClient(false, syn, usual...), byDefault)
	})
}

// wire is a frame of the client with an IP packet.
func (m *machine) wire(packet []byte) []byte { return ethernet(m.here, m.host, packet) }

// TestConnectionsStay: packets of a connection that the stack has, whatever their numbers, and SYNs with its ports.
func TestConnectionsStay(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, `{"protected-ports":[{"port":7000}]}`)
		l.Hosts[0].Run("ip", "addr", "add", client4+"/24", "dev", netns.Inner)
		var c net.Conn
		l.Hosts[0].Must(func() (err error) { c, err = net.Dial("tcp4", net.JoinHostPort(server4, fmt.Sprint(port))); return err })
		defer func() { _ = c.Close() }()
		in, err := m.listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = in.Close() }()
		l.Set("PATCH", "s protection", `"ON"`)
		s := fromClient(false, ack)
		s.sport = uint16(c.LocalAddr().(*net.TCPAddr).Port)
		m.leaves("an ACK", m.frame(s), toStack)
		s.flags, s.options = syn, usual
		m.leaves("a SYN", m.frame(s), toStack)
		if got, want := m.counts()["passed"], uint64(1); got != want {
			t.Errorf("%d SYNs are counted as passed, want %d", got, want)
		}
	})
}

func TestProtectionFollowsTheRateOfSYNs(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, `{"protection":"AUTO","threshold":1000000,"hold-time":1,"protected-ports":[{"port":7000}]}`)
		s := fromClient(false, syn, usual...)
		forgedACK := m.frame(fromClient(false, ack))
		m.leaves("below the threshold", m.frame(s), toStack)
		m.leaves("an ACK", forgedACK, toStack)
		m.reads("s cookies status", `"IDLE"`)
		l.Set("PATCH", "s", `{"threshold":1,"hold-time":3600}`)
		netns.Eventually(t, bpftest.Patience, func() error { // two in one second
			if out, _ := l.RunBytes("veth1", m.frame(s)); fate(out) != sentBack {
				return fmt.Errorf("above the threshold: %+v", out)
			}
			return nil
		})
		m.answers("from then on", s, byDefault)
		m.leaves("an ACK during a flood", forgedACK, forged)
		m.reads("s cookies status", `"ACTIVE"`)
		m.logs("protection from SYN floods starts")
		sent := m.counts()["cookies-sent"]
		l.Set("PATCH", "s", `{"threshold":1000000,"hold-time":1}`)
		m.answers("a new threshold does not end a flood", s, byDefault)
		if got := m.counts()["cookies-sent"]; got != sent+1 {
			t.Errorf("%d cookies are counted, want %d", got, sent+1)
		}
	})
}

// TestAFloodEnds: after the hold time.
func TestAFloodEnds(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, `{"protection":"AUTO","threshold":1,"hold-time":1,"protected-ports":[{"port":7000}]}`)
		s := m.frame(fromClient(false, syn, usual...))
		for _, want := range []string{"starts", "ends"} {
			netns.Eventually(t, bpftest.Patience, func() error {
				if want == "starts" {
					l.RunBytes("veth1", s)
				}
				return m.logged("protection from SYN floods " + want)
			})
		}
		m.reads("s cookies status", `"IDLE"`)
		m.leaves("an ACK after the flood", m.frame(fromClient(false, ack)), toStack)
	})
}

func (m *machine) logged(text string) error {
	if logs := m.Logs(); !strings.Contains(logs, text) {
		return fmt.Errorf("%q is not in\n%s", text, logs)
	}
	return nil
}

func (m *machine) logs(text string) {
	m.t.Helper()
	netns.Eventually(m.t, bpftest.Patience, func() error { return m.logged(text) })
}

func TestWithoutTheKernelsSettingNothingIsAnswered(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		s, forgedACK := fromClient(false, syn, usual...), m.frame(fromClient(false, ack))
		m.answers("with the setting", s, byDefault)
		m.reads("s cookies", `{"status":"ACTIVE","options":true,"window-scale":7}`)
		for _, value := range []string{"1", "0"} {
			sysctl(t, l, map[string]string{"ipv4/tcp_syncookies": value})
			m.reads("s cookies status", `"UNAVAILABLE"`)
			m.reads("s cookies status-reason",
				`"net.ipv4.tcp_syncookies is `+value+`: set it to 2 (sysctl -w net.ipv4.tcp_syncookies=2)"`)
			m.logs("no protection from SYN floods")
			before := m.counts()["unavailable"]
			m.leaves("a SYN", m.frame(s), toStack)
			m.leaves("an ACK", forgedACK, toStack)
			if got := m.counts()["unavailable"] - before; got != 1 {
				t.Errorf("%d SYNs are counted as unavailable, want 1", got)
			}
		}
		sysctl(t, l, wanted)
		m.reads("s cookies status", `"ACTIVE"`)
		m.logs("protection from SYN floods starts")
		m.answers("with the setting again", s, byDefault)
		l.Detach("s", "veth1")
		m.reads("s cookies status", `"UNAVAILABLE"`)
		if got := l.Read("s cookies status-reason"); !strings.Contains(got, "not on a network interface") {
			t.Errorf("detached: the reason is %s", got)
		}
	})
}

func TestListedAddressesAreProtected(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, `{"protection":"ON","forward-syn-rate":1,"protected-ports":[{"port":7000}],"protected-addresses":[{"address":"`+server6+`"}]}`)
		m.answers("listed", fromClient(true, syn, usual...), byDefault)
		m.leaves("not listed", m.frame(fromClient(false, syn, usual...)), toStack)
		s := fromClient(false, syn, usual...)
		s.to = "192.0.2.1"
		l.Set("POST", "s protected-addresses 192.0.2.1", "{}")
		m.answers("of another interface", s, byDefault)
		l.Set("DELETE", "s protected-addresses 192.0.2.1", "")
		m.leaves("no longer listed", m.frame(s), toStack)
		l.Set("DELETE", "s protected-addresses", "")
		m.answers("of the netdev", fromClient(false, syn, usual...), byDefault)
		l.Set("DELETE", "s protected-ports 7000", "")
		m.leaves("the port is not listed", m.frame(fromClient(false, syn, usual...)), toStack)
	})
}

func TestSYNsToOtherHostsHaveARate(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, `{"protected-ports":[{"port":7000}]}`)
		s := fromClient(false, syn, usual...)
		s.to = "192.0.2.1"
		l.Flood("veth1", m.frame(s), 300)
		m.leaves("without a limit", m.frame(s), toStack)
		l.Set("PATCH", "s forward-syn-rate", "1")
		l.Flood("veth1", m.frame(s), 300)
		m.leaves("above the rate", m.frame(s), overRate)
		dropped := m.counts()["forward-dropped"]
		if fates := l.Fates("s"); dropped < 180 || dropped > 201 || fates["forward-rate"] != dropped {
			t.Errorf("%d SYNs were dropped, fates %v, want all but a burst of 100", dropped, fates)
		}
		m.leaves("to this host", m.frame(fromClient(false, syn, usual...)), toStack)
		s.flags = ack
		m.leaves("an ACK", m.frame(s), toStack)
		l.Set("PATCH", "s forward-syn-rate", "0")
		s.flags = syn
		m.leaves("without a limit again", m.frame(s), toStack)
	})
}

// TestOnAPortThereIsNothingToProtect: SYNs there have the rate of those to other hosts.
func TestOnAPortThereIsNothingToProtect(t *testing.T) {
	bpftest.Each(t, bpftest.Options{Hosts: 2, ServicesIn: services}, func(t *testing.T, l *bpftest.Lab) {
		sysctl(t, l, wanted)
		l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
			"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
		l.Create("synflood", "s", `{"protection":"ON","forward-syn-rate":1,"protected-ports":[{"port":7000}],"protected-addresses":[{"address":"`+server4+`"}]}`)
		l.Attach("s", "f:p1")
		m := &machine{Lab: l, t: t, host: l.Hosts[0].MAC, here: l.Hosts[0].OuterMAC}
		m.reads("s cookies status", `"UNAVAILABLE"`)
		frame := m.frame(fromClient(false, syn, usual...))
		m.leaves("the first", frame, bpftest.Outcome{Verdict: "send", Sent: "f:p2"})
		l.Flood("veth1", frame, 300)
		m.leaves("above the rate", frame, overRate)
		m.leaves("an ACK", m.frame(fromClient(false, ack)), bpftest.Outcome{Verdict: "send", Sent: "f:p2"})
		m.here = make(net.HardwareAddr, 6) // the address of no netdev
		m.leaves("to a station without an address", m.frame(fromClient(false, syn, usual...)), overRate)
	})
}

func TestInvalidConfigurationsAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 1, ServicesIn: services})
	l.Create("synflood", "s", `{"protected-ports":[{"port":80}]}`)
	before := l.Read("s protected-ports")
	for _, tt := range []struct{ method, words, body, says string }{
		{"PATCH", "s protection", `"ALWAYS"`, "protection"},
		{"PATCH", "s threshold", "0", "threshold"},
		{"PATCH", "s hold-time", "0", "hold-time"},
		{"PATCH", "s mss-ipv4", "535", "mss-ipv4"},
		{"PATCH", "s mss-ipv6", "1219", "mss-ipv6"},
		{"PATCH", "s ttl", "0", "ttl"},
		{"PATCH", "s window-scale", "15", "window-scale"},
		{"PATCH", "s forward-syn-rate", "-1", "forward-syn-rate"},
		{"POST", "s protected-ports 65536", "{}", "port"},
		{"POST", "s protected-addresses 10.0.0.0/8", "{}", "address"},
		{"POST", "s protected-addresses fe80::1%eth0", "{}", "address"},
	} {
		if err := l.Try(tt.method, tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s %s %s: %v, want an error with %q", tt.method, tt.words, tt.body, err, tt.says)
		}
	}
	if after := l.Read("s protected-ports"); after != before {
		t.Errorf("refused changes have changed %s to %s", before, after)
	}
}

// TestStatisticsAreShown: those of the machine's namespace, which change.
func TestStatisticsAreShown(t *testing.T) {
	l := bpftest.New(t, oneHost)
	m := protect(t, l, "")
	l.Hosts[0].Run("ip", "addr", "add", client4+"/24", "dev", netns.Inner)
	if err := l.Hosts[0].Do(func() error { _, err := net.Dial("tcp4", server4+":7001"); return err }); err == nil {
		t.Fatal("something listens on port 7001")
	}
	m.reads("s stats tcpoutrsts", `"1"`)
	m.reads("s stats tcpattemptfails", `"0"`)
	m.reads("s stats deliverratio", `"1.000"`)
	m.reads("s stats responseratio", `"1.000"`)
}

// TestAnswersToRandomPackets: a packet is answered exactly if it should be, and never with other bytes.
func TestAnswersToRandomPackets(t *testing.T) {
	bpftest.Each(t, oneHost, func(t *testing.T, l *bpftest.Lab) {
		m := protect(t, l, on)
		random(t, m, 150)
	})
}

// synOf returns the SYN in a frame that has to be answered.
func (m *machine) synOf(frame []byte) (s segment, ok bool) {
	if len(frame) < 54 || !slices.Equal(frame[:6], []byte(m.here)) {
		return s, false
	}
	l4, length := 34, 14+int(binary.BigEndian.Uint16(frame[16:]))
	s.from, s.to = client4, server4
	switch kind := binary.BigEndian.Uint16(frame[12:]); {
	case kind == 0x0800:
		if frame[14] != 0x45 || frame[23] != pkt.ProtoTCP || frame[20]&0x3f != 0 || frame[21] != 0 || pkt.Sum(frame[14:34]) != 0xffff ||
			net.IP(frame[30:34]).String() != server4 || net.IP(frame[26:30]).Equal(net.IP(frame[30:34])) {
			return s, false
		}
		s.from = net.IP(frame[26:30]).String()
	case kind == 0x86dd && len(frame) >= 74:
		l4, length = 54, 54+int(binary.BigEndian.Uint16(frame[18:]))
		if frame[14]>>4 != 6 || frame[20] != pkt.ProtoTCP || net.IP(frame[38:54]).String() != server6 {
			return s, false
		}
		s.from, s.to = net.IP(frame[22:38]).String(), server6
	default:
		return s, false
	}
	header := int(frame[l4+12]>>4) * 4
	if header < 20 || length > len(frame) || length < l4+header || frame[l4+13]&(syn|ack|rst|fin) != syn {
		return s, false
	}
	s.sport, s.dport = binary.BigEndian.Uint16(frame[l4:]), binary.BigEndian.Uint16(frame[l4+2:])
	s.seq, s.options = binary.BigEndian.Uint32(frame[l4+4:]), frame[l4+20:l4+header]
	return s, s.dport == port
}

func TestExamplesOfTheReadme(t *testing.T) { bpftest.Readme(t, "README.md") }
