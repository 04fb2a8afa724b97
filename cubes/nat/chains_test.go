// SPDX-License-Identifier: Apache-2.0

package nat

// A NAT whose rules are the table nat of iptables.

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

// withTable is the configuration with the rules of both families, which may be empty.
func withTable(rules, rules6 string) string {
	text := func(rules string) string {
		chains := ""
		for _, name := range []string{"INNER", "MORE"} {
			if strings.Contains(rules, name) {
				chains += ":" + name + " - [0:0]\n"
			}
		}
		quoted, err := json.Marshal("*nat\n" + chains + rules + "\nCOMMIT\n")
		if err != nil {
			panic(err)
		}
		return string(quoted)
	}
	return fmt.Sprintf(`{"table":[{"family":"ipv4","text":%s},{"family":"ipv6","text":%s}]}`, text(rules), text(rules6))
}

// iptables carries out a command on the table, and returns what it prints.
func (b *bench) iptables(args ...string) string {
	b.t.Helper()
	var list []map[string]string
	for _, a := range append([]string{"-t", "nat"}, args...) {
		list = append(list, map[string]string{"text": a})
	}
	in, err := json.Marshal(map[string]any{"program": "iptables", "argument": list})
	if err != nil {
		b.t.Fatal(err)
	}
	var is struct{ Output, Error string }
	if err := json.Unmarshal([]byte(b.Action("n run", string(in))), &is); err != nil {
		b.t.Fatal(err)
	}
	if is.Error != "" {
		b.t.Errorf("iptables %s: %s", strings.Join(args, " "), is.Error)
	}
	return is.Output
}

// TestConnectionsByRulesInAnOrder: each is compared with the rules once for each side, and so are its answers with none.
func TestConnectionsByRulesInAnOrder(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, withTable(`
-A PREROUTING -d 203.0.113.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.7:8080
-A PREROUTING -d 203.0.113.1/32 -p udp -m multiport --dports 53,1000:1999 -j DNAT --to-destination 10.0.0.8
-A PREROUTING -d 203.0.113.2/32 -j DNAT --to-destination 10.0.0.9
-A POSTROUTING -s 10.0.0.6/32 -j ACCEPT
-A POSTROUTING -s 10.0.0.0/24 -d 10.0.0.0/24 -p tcp -j SNAT --to-source 10.0.0.1
-A POSTROUTING -s 10.0.0.0/24 -p udp -m udp --dport 7 -j SNAT --to-source 203.0.113.1:5000-5003
-A POSTROUTING -s 10.0.0.0/24 -j SNAT --to-source 203.0.113.1
-A POSTROUTING -s 203.0.113.1/32 -j SNAT --to-source 203.0.113.99`,
			`-A PREROUTING -d 2001:db8::1/128 -p tcp -m tcp --dport 80 -j DNAT --to-destination [fd00::7]:8080
-A POSTROUTING -s fd00::/64 -j SNAT --to-source 2001:db8::1`))
		b.steps(
			step{"out", false, out4(host, other).TCP(4000, 80, syn), out4(ours, other).TCP(4000, 80, syn), ""},
			step{"its answer", true, in4(other, ours).TCP(80, 4000, synAck), in4(other, host).TCP(80, 4000, synAck), ""},
			same("its answer on its way to the inside", false, out4(other, host).TCP(80, 4000, synAck)),
			step{"again", false, out4(host, other).TCP(4000, 80, ack), out4(ours, other).TCP(4000, 80, ack), ""},
			same("out on its way from the inside", true, in4(host, other).TCP(4000, 80, ack)),
			step{"echo out", false, out4(host, other).Echo(77, 1).Payload(56), out4(ours, other).Echo(77, 1).Payload(56), ""},
			step{"its answer", true, inFrame(plain4(other, ours, nextICMP, icmp(0, 0, 77<<16|1, bytesOf(9)))),
				inFrame(plain4(other, host, nextICMP, icmp(0, 0, 77<<16|1, bytesOf(9)))), ""},
			step{"IPv6 out", false, out6(host6, other6).UDP(4000, 53).Payload(9), out6(ours6, other6).UDP(4000, 53).Payload(9), ""},
			step{"its answer", true, in6(other6, ours6).UDP(53, 4000).Payload(8), in6(other6, host6).UDP(53, 4000).Payload(8), ""},

			step{"to a port", true, in4(other, ours).TCP(4001, 80, syn), in4(other, host).TCP(4001, 8080, syn), ""},
			step{"its answer", false, out4(host, other).TCP(8080, 4001, synAck), out4(ours, other).TCP(80, 4001, synAck), ""},
			same("its answer on its way from the inside", true, in4(host, other).TCP(8080, 4001, synAck)),
			same("to a port on its way to the inside", false, out4(other, host).TCP(4001, 8080, syn)),
			step{"to one of several ports", true, in4(other, ours).UDP(4001, 1999), in4(other, "10.0.0.8").UDP(4001, 1999), ""},
			step{"to an address", true, in4(other, "203.0.113.2").Echo(3, 4).Payload(5), in4(other, "10.0.0.9").Echo(3, 4).Payload(5), ""},
			step{"IPv6 to a port", true, in6(other6, ours6).TCP(4001, 80, syn), in6(other6, host6).TCP(4001, 8080, syn), ""},

			same("that no rule translates", true, in4(other, ours).TCP(4001, 22, syn)),
			same("its answer, which is no new connection", false, out4(ours, other).TCP(22, 4001, synAck)),
			step{"a new one from there", false, out4(ours, other).TCP(22, 4002, syn), out4("203.0.113.99", other).TCP(22, 4002, syn), ""},
			same("which a rule accepts", false, out4("10.0.0.6", other).TCP(4001, 22, syn)),
			same("again", false, out4("10.0.0.6", other).TCP(4001, 22, ack)),
			same("which has no rule", false, out4("10.9.0.7", other).TCP(4001, 22, syn)),
			same("a reset of no connection", false, out4(host, other).TCP(4009, 80, pkt.TCPFlags{RST: true})),
			same("to all stations", false, out4(host, "255.255.255.255").UDP(4009, 80)),

			step{"both addresses: in", true, in4("10.0.0.5", ours).TCP(4001, 80, syn), in4("10.0.0.5", host).TCP(4001, 8080, syn), ""},
			step{"both addresses: out", false, out4("10.0.0.5", host).TCP(4001, 8080, syn), out4("10.0.0.1", host).TCP(4001, 8080, syn), ""},
			step{"its answer: in", true, in4(host, "10.0.0.1").TCP(8080, 4001, synAck), in4(host, "10.0.0.5").TCP(8080, 4001, synAck), ""},
			step{"its answer: out", false, out4(host, "10.0.0.5").TCP(8080, 4001, synAck), out4(ours, "10.0.0.5").TCP(80, 4001, synAck), ""},

			step{"a pool of ports keeps one of them", false, out4(host, other).UDP(5002, 7), out4(ours, other).UDP(5002, 7), ""},
		)
		seen := map[uint16]bool{}
		for from := range uint16(3) {
			got, err := b.pass(false, out4("10.0.0.8", other).UDP(6000+from, 7).Bytes())
			if err != nil {
				t.Fatal(err)
			}
			port := uint16(got[34])<<8 | uint16(got[35])
			if seen[port] || port < 5000 || port > 5003 || port == 5002 {
				t.Errorf("the port %d is not one of those that are left", port)
			}
			seen[port] = true
		}
		b.step(step{"no port is left", false, out4("10.0.0.8", other).UDP(7000, 7), nil, "ports-exhausted"})
	})
}

// TestEachConditionOfTheTable: a packet that fulfils it, and one that does not.
func TestEachConditionOfTheTable(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, withTable("", ""))
		udp := func(from, to uint16) framer { return in4(other, ours).UDP(from, to) }
		tcp := func(from, to uint16) framer { return in4(other, ours).TCP(from, to, syn) }
		source := func(a string) framer { return in4(a, ours).UDP(9, 9) }
		for _, tt := range []struct {
			rule      string
			hit, miss framer // nil: there is none
		}{
			{"-s 198.51.100.0/25", source("198.51.100.127"), source("198.51.100.128")},
			{"! -s 198.51.100.0/25", source("198.51.100.129"), source("198.51.100.126")},
			{"-s 0.0.0.1/0.0.0.255", source("192.0.2.1"), source("192.0.2.2")},
			{"-d 203.0.113.1", udp(1, 1), in4(other, "203.0.113.2").UDP(1, 1)},
			{"! -d 203.0.113.1", in4(other, "203.0.113.2").UDP(2, 1), udp(2, 1)},
			{"-p tcp", tcp(3, 1), udp(3, 1)},
			{"! -p tcp", udp(4, 1), tcp(4, 1)},
			{"-p udp --dport 50:60", udp(5, 60), udp(5, 61)},
			{"-p udp ! --dport 50:60", udp(6, 49), udp(6, 50)},
			{"-p udp --sport 70", udp(70, 49), udp(71, 49)},
			{"-p tcp --sport 70 --dport 80:", tcp(70, 65535), tcp(70, 79)},
			{"-p tcp -m multiport --dports 1,5:7,9", tcp(7, 6), tcp(7, 8)},
			{"-p tcp -m multiport ! --dports 1,5:7,9", tcp(8, 8), tcp(8, 9)},
			{"-p tcp -m multiport --sports 11,13", tcp(13, 8), tcp(12, 9)},
			{"-p tcp -m multiport --ports 21,23", tcp(23, 8), tcp(24, 25)},
			{"-p tcp -m multiport --ports 21,23", tcp(24, 21), tcp(22, 22)},
			{"-p udp --sport 40 -m multiport --dports 1,2,3,4,5,6,7,8,9,10,11,12,13,14,15", udp(40, 15), udp(40, 16)},
			{"-m iprange --src-range 198.51.100.5-198.51.100.9", source("198.51.100.9"), source("198.51.100.10")},
			{"-m iprange ! --src-range 198.51.100.5-198.51.100.9", source("198.51.100.4"), source("198.51.100.5")},
			{"-m iprange --dst-range 203.0.113.0-203.0.113.1", udp(14, 1), in4(other, "203.0.113.2").UDP(14, 1)},
			{"-m addrtype --dst-type LOCAL", in4(other, "127.0.0.1").UDP(15, 1), udp(15, 1)},
			{"-m addrtype ! --dst-type LOCAL", udp(16, 1), in4(other, "127.0.0.1").UDP(16, 1)},
			{"-m addrtype --src-type UNICAST", udp(17, 1), in4("127.0.0.1", ours).UDP(17, 1)},
			{"-m mark --mark 0", udp(18, 1), nil},
			{"-m mark --mark 1", nil, udp(19, 1)},
			{"-m mark ! --mark 0x10/0xf0", udp(20, 1), nil},
			{"-m statistic --mode random --probability 1", udp(21, 1), nil},
			{"-m statistic --mode nth --every 2 --packet 1", nil, udp(22, 1)},
			{"-m statistic --mode nth ! --every 2 --packet 1", udp(23, 1), nil},
			{"-m comment --comment all -m conntrack --ctstate NEW", udp(24, 1), nil},
			{"-i nowhere", nil, udp(25, 1)},
			{"! -i nowhere", udp(26, 1), nil},
		} {
			b.iptables("-F", "PREROUTING")
			b.iptables(append(append([]string{"-A", "PREROUTING"}, strings.Fields(tt.rule)...), "-j", "DNAT", "--to-destination", "192.0.2.77")...)
			for want, f := range map[bool]framer{true: tt.hit, false: tt.miss} {
				if f == nil {
					continue
				}
				got, err := b.pass(true, f.Bytes())
				if err != nil {
					t.Fatalf("%s: %v", tt.rule, err)
				}
				if hit := string(got[30:34]) == "\xc0\x00\x02\x4d"; hit != want {
					t.Errorf("%s: it matches: %v instead of %v for\n%x", tt.rule, hit, want, got)
				}
			}
		}
	})
}

// TestChainsOfTheTable: jumps, gotos and returns, and what the rules count.
func TestChainsOfTheTable(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	b := newBench(t, l, withTable(`
-A PREROUTING -p udp -j INNER
-A PREROUTING -p tcp -g MORE
-A PREROUTING -j DNAT --to-destination 10.0.0.1
-A INNER -p udp -m udp --dport 1 -j RETURN
-A INNER -p udp -m udp --dport 2 -j MORE
-A INNER -p udp -m udp --dport 3 -j ACCEPT
-A INNER -p udp -m udp --dport 4
-A INNER -j DNAT --to-destination 10.0.0.2
-A MORE -p udp -m udp --sport 9 -j RETURN
-A MORE -p tcp -m tcp --dport 5 -j DNAT --to-destination 10.0.0.3`, ""))
	to := func(name string, sent *pkt.Frame, want string) step {
		got := sent.Bytes()
		f := in4(other, want)
		port, dport := uint16(got[34])<<8|uint16(got[35]), uint16(got[36])<<8|uint16(got[37])
		if got[23] == 6 {
			return step{name, true, sent, f.TCP(port, dport, syn), ""}
		}
		return step{name, true, sent, f.UDP(port, dport), ""}
	}
	b.steps(
		to("return", in4(other, ours).UDP(8, 1), "10.0.0.1"),
		to("jump, and on in the caller", in4(other, ours).UDP(8, 2), "10.0.0.2"),
		to("jump, return, and on in the caller", in4(other, ours).UDP(9, 2), "10.0.0.2"),
		to("accept", in4(other, ours).UDP(8, 3), ours),
		to("count, and on", in4(other, ours).UDP(8, 4), "10.0.0.2"),
		to("goto", in4(other, ours).TCP(8, 5, syn), "10.0.0.3"),
		to("goto, and the end of the chain", in4(other, ours).TCP(8, 6, syn), ours),
		to("none of both", in4(other, ours).UDP(8, 3), ours), // a packet of a connection counts no more
	)
	lines := func(counts ...int) {
		t.Helper()
		var got []int
		for _, line := range strings.Split(b.iptables("-S", "-v"), "\n") {
			var n int
			if _, after, ok := strings.Cut(line, " -c "); ok {
				if _, err := fmt.Sscan(after, &n); err != nil {
					t.Fatal(err)
				}
				got = append(got, n)
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(counts) {
			t.Errorf("the counters are %v instead of %v", got, counts)
		}
	}
	lines(1, 0, 0, 0 /* policies: two were accepted, one by a rule */, 5, 2, 1, 1, 2, 1, 1, 3, 1, 1)
	b.iptables("-I", "INNER", "2", "-p", "tcp")
	lines(1, 0, 0, 0, 5, 2, 1, 1, 0, 2, 1, 1, 3, 1, 1)
	b.iptables("-D", "INNER", "3")
	b.iptables("-Z", "PREROUTING")
	lines(0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 3, 1, 1)
	l.Restart(nil)
	lines(0, 0, 0, 0, 0, 0, 0, 1, 0, 1, 1, 3, 1, 1)
	b.steps(to("a connection keeps its translation", in4(other, ours).UDP(8, 1), "10.0.0.1"))
	b.iptables("-F")
	b.iptables("-X")
	b.steps(
		to("also if there is no rule", in4(other, ours).UDP(8, 1), "10.0.0.1"),
		to("another one has none", in4(other, ours).UDP(7, 1), ours),
	)
}

// TestTheTableAndOtherRules: a NAT has either of them.
func TestTheTableAndOtherRules(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 1})
	table := strings.TrimSuffix(strings.TrimPrefix(withTable("", ""), "{"), "}")
	rule := `"rule":{"snat":{"entry":[{"id":1,"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}]}}`
	for _, config := range []string{
		"{" + table + "," + rule + "}", "{" + table + `,"rule":{"masquerade":{"enabled":true}}}`, "{" + table + `,"session-zone":"shared:a"}`,
	} {
		if err := l.TryCreate("nat", "n", config); err == nil {
			t.Errorf("%s is accepted", config)
		}
	}
	l.Create("nat", "n", "{"+table+"}")
	if err := l.Try("POST", "n rule snat entry 1", `{"internal-net":"10.0.0.0/24","external-ip":"203.0.113.1"}`); err == nil {
		t.Error("a rule is accepted")
	}
	for rules, want := range map[string]string{
		"-A PREROUTING -m string --string a --algo bm -j ACCEPT":               "-m string: not supported in the table nat",
		"-A PREROUTING -p tcp --syn -j ACCEPT":                                 "--syn and --tcp-option are not supported here",
		"-A POSTROUTING -m conntrack --ctstate ESTABLISHED":                    "whose state is NEW",
		"-A POSTROUTING -j LOG":                                                "-j LOG: not supported in the table nat",
		"-A PREROUTING -p tcp -j DNAT --to-destination 10.0.0.1:0":             "port 0 is not a port to translate to",
		"-A POSTROUTING -j SNAT --to-source 0.0.0.0-255.255.255.255":           "less than 2^32 addresses",
		"-A PREROUTING -p tcp -m multiport --sports 1 -m multiport --sports 2": "one list for source ports",
		"-A PREROUTING -f -j ACCEPT":                                           "first fragment alone",
		"-A PREROUTING -j NOWHERE":                                             "there is no such chain",
	} {
		err := l.Try("PATCH", "n", withTable(rules, ""))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", rules, err, want)
		}
	}
}

// TestFragmentsAndErrorsByTheTable: fragments follow their first one, also if that stays as it is, and ICMP errors the connection
// that they are about, in both directions.
func TestFragmentsAndErrorsByTheTable(t *testing.T) {
	t.Parallel()
	bpftest.Each(t, bpftest.Options{Hosts: 2}, func(t *testing.T, l *bpftest.Lab) {
		b := newBench(t, l, withTable(`
-A PREROUTING -d 203.0.113.2/32 -j DNAT --to-destination 10.0.0.8
-A POSTROUTING -s 10.0.0.0/24 -j SNAT --to-source 203.0.113.1`, ""))
		out, want := parts4(host, other, 4000, 53, 7), parts4(ours, other, 4000, 53, 7)
		back, inside := parts4(other, ours, 53, 4000, 7), parts4(other, host, 53, 4000, 7)
		dnat, behind := parts4(other, "203.0.113.2", 53, 4000, 9), parts4(other, "10.0.0.8", 53, 4000, 9)
		plain := parts4(other, ours, 1, 2, 3)
		b.steps(
			step{"the first", false, outFrame(out[0]), outFrame(want[0]), ""},
			step{"the last", false, outFrame(out[2]), outFrame(want[2]), ""},
			step{"the first of an answer", true, inFrame(back[0]), inFrame(inside[0]), ""},
			step{"the second of an answer", true, inFrame(back[1]), inFrame(inside[1]), ""},
			same("the first of an answer on its way to the inside", false, outFrame(inside[0])),
			same("the second of an answer on its way to the inside", false, outFrame(inside[1])),
			step{"a second one before the first", true, inFrame(dnat[1]), nil, "fragment-without-first"},
			step{"the first to an address", true, inFrame(dnat[0]), inFrame(behind[0]), ""},
			step{"the second to an address", true, inFrame(dnat[1]), inFrame(behind[1]), ""},
			same("the first that no rule translates", true, inFrame(plain[0])),
			same("the second that no rule translates", true, inFrame(plain[1])),
			same("of a link", true, inFrame(parts4("0.0.0.0", "255.255.255.255", 68, 67, 5)[1])),
		)
		sent := func(from, to string, sport, dport uint16) []byte {
			return ip4(from, to, nextUDP, 7, 0, nil, udp(from, to, sport, dport, bytesOf(30)))
		}
		about := func(from, to string, packet []byte) []byte {
			return plain4(from, to, nextICMP, icmp(11, 0, 0, packet))
		}
		b.steps(
			step{"out", false, outFrame(sent(host, other, 5000, 53)), outFrame(sent(ours, other, 5000, 53)), ""},
			step{"an error about it", true, inFrame(about(hop, ours, sent(ours, other, 5000, 53))), inFrame(about(hop, host, sent(host, other, 5000, 53))), ""},
			step{"in", true, inFrame(sent(other, "203.0.113.2", 53, 80)), inFrame(sent(other, "10.0.0.8", 53, 80)), ""},
			step{"an error about it", false, outFrame(about("10.0.0.8", other, sent(other, "10.0.0.8", 53, 80))),
				outFrame(about("203.0.113.2", other, sent(other, "203.0.113.2", 53, 80))), ""},
			same("that no rule translates", true, inFrame(sent(other, ours, 53, 99))),
			same("an error about it, from a router inside", false, outFrame(about("10.0.0.1", other, sent(other, ours, 53, 99)))),
			same("an error about nothing that is known", true, inFrame(about(hop, ours, sent(ours, other, 1, 1)))),
		)
	})
}

// TestTheTableAndItsSessions: what is listed, and what can be deleted.
func TestTheTableAndItsSessions(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	b := newBench(t, l, withTable("-A PREROUTING -d 203.0.113.1/32 -p tcp -m tcp --dport 80 -j DNAT --to-destination 10.0.0.7:8080\n-A POSTROUTING -s 10.0.0.0/24 -j SNAT --to-source 203.0.113.1", ""))
	b.steps(
		step{"out", false, out4(host, other).TCP(4000, 80, syn), out4(ours, other).TCP(4000, 80, syn), ""},
		step{"in", true, in4(other, ours).TCP(4001, 80, syn), in4(other, host).TCP(4001, 8080, syn), ""},
		same("that no rule translates", true, in4(other, ours).TCP(4002, 22, syn)),
		same("out, that no rule translates", false, out4("10.9.0.7", other).TCP(4003, 22, syn)),
	)
	var got string
	for e := range l.Entries("n natting-table") {
		got += string(e) + "\n"
	}
	for _, want := range []string{`"originating-rule":"snat"`, `"originating-rule":"dnat"`, `"external-port":80,`, `"internal-src":"10.9.0.7"`} {
		if !strings.Contains(got, want) {
			t.Errorf("%s is not in %s", want, got)
		}
	}
	if strings.Contains(got, `"internal-sport":22,`) || strings.Contains(got, "rule-id") {
		t.Errorf("an inbound session that translates nothing, or the number of a rule, is in %s", got)
	}
	if got := l.Action("n delete-sessions", `{"internal-src":"10.0.0.7"}`); got != `{"deleted":2}` {
		t.Errorf("delete-sessions says %s", got)
	}
	b.iptables("-F", "POSTROUTING")
	b.steps(same("out, as a new connection", false, out4(host, other).TCP(4000, 80, ack)))
}

// TestNthOfAChainThatIsEnteredTwice: a rule counts packets once, wherever they come from.
func TestNthOfAChainThatIsEnteredTwice(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	b := newBench(t, l, withTable(`
-A PREROUTING -p udp -m udp --dport 1 -j INNER
-A PREROUTING -p udp -m udp --dport 2 -j INNER
-A INNER -m statistic --mode nth --every 2 --packet 1 -j DNAT --to-destination 10.0.0.1`, ""))
	for i := range uint16(4) {
		want := framer(in4(other, ours).UDP(4000+i, 1+i/2))
		if i%2 == 1 {
			want = in4(other, "10.0.0.1").UDP(4000+i, 1+i/2)
		}
		b.step(step{"packet", true, in4(other, ours).UDP(4000+i, 1+i/2), want, ""})
	}
	for i := range uint16(4) { // one that enters by the other rule is the second
		want := framer(in4(other, ours).UDP(5000+i, 1+i%2))
		if i%2 == 1 {
			want = in4(other, "10.0.0.1").UDP(5000+i, 1+i%2)
		}
		b.step(step{"packet by either rule", true, in4(other, ours).UDP(5000+i, 1+i%2), want, ""})
	}
}

// TestSessionsOfTheTableAreEvents: those that are listed.
func TestSessionsOfTheTableAreEvents(t *testing.T) {
	t.Parallel()
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	b := newBench(t, l, withTable("-A PREROUTING -p udp -m udp --dport 80 -j DNAT --to-destination 10.0.0.7", ""))
	l.Set("PATCH", "n", `{"session-events":"ON"}`)
	b.steps(
		same("that no rule translates", true, in4(other, ours).UDP(4000, 53)),
		same("its answer", false, out4(ours, other).UDP(53, 4000)),
		step{"in", true, in4(other, ours).UDP(4001, 80), in4(other, host).UDP(4001, 80), ""},
		same("out", false, out4(ours, other).UDP(4002, 53)),
	)
	l.Set("DELETE", "n natting-table", "")
	const in, out = "UDP 10.0.0.7:80 > 198.51.100.1:4001 as 203.0.113.1:80 opening", "UDP 203.0.113.1:4002 > 198.51.100.1:53 as 203.0.113.1:4002 opening"
	wantEvents(t, l, "n: new "+in, "n: new "+out, "n: destroyed "+in, "n: destroyed "+out)
}
