// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/pkt"
)

const inside, outside = "10.0.0.1", "192.0.2.1"

// in sends a packet that comes in; drop is the reason for which it is dropped, "" if it passes.
func (o *ours) in(t *testing.T, name string, ip []byte, drop string) {
	t.Helper()
	want := bpftest.Outcome{Verdict: "send", Sent: "f:p2"}
	if drop != "" {
		want = bpftest.Outcome{Verdict: "drop", Fate: "ipt " + drop}
	}
	if got := o.send(ip); got != want {
		t.Errorf("%s: %+v, want %+v", name, got, want)
	}
}

// send sends a packet that comes in.
func (o *ours) send(ip []byte) bpftest.Outcome {
	h := o.Hosts[0]
	return o.Run(h.Outer, pkt.Eth(h.MAC.String(), h.OuterMAC.String()).IP(ip).Bytes())
}

func udp(sport, dport uint16) []byte {
	h := pkt.IPv4Header{From: outside, To: inside, Protocol: pkt.ProtoUDP, TTL: 64}
	return h.Packet(pkt.UDPDatagram(outside, inside, sport, dport, make([]byte, 30)))
}

// restore loads rules of the table filter for IPv4.
func (o *ours) restore(t *testing.T, chains []string, rules ...string) {
	t.Helper()
	o.do(t, "*filter\n:"+strings.Join(chains, " - [0:0]\n:")+" - [0:0]\n-A "+strings.Join(rules, "\n-A ")+"\nCOMMIT\n", "iptables-restore")
}

func TestChainsCallEachOther(t *testing.T) {
	o := newOurs(t)
	o.in(t, "no rules", udp(1, 1), "")
	o.restore(t, []string{"a", "b", "c"},
		"INPUT -p udp -m udp --dport 1:9 -j a", "INPUT -p udp -m udp --dport 5 -j DROP", "INPUT -p udp -m udp --dport 7 -g c", "INPUT -j DROP",
		"a -p udp -m udp --dport 1 -j ACCEPT", "a -p udp -m udp --dport 2 -j RETURN", "a -j b", "a -p udp -m udp --dport 4 -j ACCEPT",
		"b -p udp -m udp --dport 3 -j ACCEPT", "b -p udp -m udp --dport 4 -j RETURN", "b -j MARK --set-mark 5",
		"c -m mark --mark 5 -j RETURN")
	for port, want := range map[uint16]string{1: "", 2: "rule", 3: "", 4: "", 5: "rule", 6: "rule", 7: "", 10: "rule"} {
		o.in(t, fmt.Sprint("port ", port), udp(2, port), want)
	}
	o.do(t, "", "iptables", "-P", "INPUT", "DROP")
	o.in(t, "the policy", udp(3, 7), "policy")
	if got := o.do(t, "", "iptables", "-L", "c", "-n", "-v"); !strings.Contains(got, "    2   116 RETURN") {
		t.Errorf("-L prints\n%s", got)
	}
}

func TestOptionsOfTCPAreFound(t *testing.T) {
	o := newOurs(t)
	o.restore(t, []string{"a"}, "INPUT -p tcp -m tcp --tcp-option 8 -j DROP", "INPUT -p tcp -m tcp ! --tcp-option 2 -j a", "a -j ACCEPT")
	for name, c := range map[string]struct {
		options string
		drop    string
	}{
		"the first":                     {"\x08\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "rule"},
		"behind others":                 {"\x02\x04\x05\xb4\x04\x02\x01\x01\x08\x0a\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00", "rule"},
		"the last byte":                 {"\x01\x01\x01\x08", "rule"},
		"behind the end":                {"\x00\x00\x00\x08", "rule"},
		"a length of zero":              {"\x05\x00\x08\x00", "rule"},
		"inside another":                {"\x05\x04\x08\x08", ""},
		"behind one that is too long":   {"\x05\xff\x08\x08", ""},
		"the length is missing":         {"\x01\x01\x01\x05", ""},
		"behind the header":             {"", ""},
		"forty bytes without an option": {strings.Repeat("\x01", 40), ""},
		"the last of forty bytes":       {strings.Repeat("\x01", 39) + "\x08", "rule"},
	} {
		segment := pkt.TCPSegment(outside, inside, 1, 2, 0x10, []byte(c.options+strings.Repeat("\x08", 12)))
		segment[12] = byte(5+len(c.options)/4) << 4
		o.in(t, name, pkt.IPv4Header{From: outside, To: inside, Protocol: pkt.ProtoTCP, TTL: 64}.Packet(segment), c.drop)
	}
}

func TestARestartKeepsRulesAndCounters(t *testing.T) {
	o := newOurs(t)
	o.restore(t, []string{"a"}, "INPUT -m limit --limit 1/day --limit-burst 2 -j a", "INPUT -j DROP", "a -p udp -j ACCEPT")
	for range 2 {
		o.in(t, "within the limit", udp(1, 1), "")
	}
	o.in(t, "above the limit", udp(2, 2), "rule")
	was := o.do(t, "", "iptables-save", "-c")
	o.Restart(func() {})
	o.in(t, "after a restart", udp(3, 3), "rule")
	if got := o.do(t, "", "iptables-save", "-c"); got != strings.Replace(was, "[1:58] -A INPUT -j DROP", "[2:116] -A INPUT -j DROP", 1) {
		t.Errorf("the counters were\n%s\nand are\n%s", was, got)
	}
}

// TestARuleHasNoGroupsOfAnother: not even if it says the same, and has the counter that another one had.
func TestARuleHasNoGroupsOfAnother(t *testing.T) {
	o := newOurs(t)
	rule := "INPUT -m hashlimit --hashlimit-upto 1/day --hashlimit-burst 1 --hashlimit-mode srcip --hashlimit-name h -j ACCEPT"
	for range 3 {
		o.restore(t, []string{"a"}, rule, "INPUT -j DROP")
		o.in(t, "the first packet", udp(1, 1), "")
		o.in(t, "the second", udp(1, 1), "rule")
		o.Restart(func() {})
		o.in(t, "after a restart", udp(1, 1), "rule")
		o.do(t, "", "iptables", "-F")
		o.in(t, "without rules", udp(1, 1), "")
	}
}

func TestRulesWithoutVerdictAreLimited(t *testing.T) {
	o := newOurs(t)
	var rules []string
	for range 600 {
		rules = append(rules, "INPUT -p udp")
	}
	o.restore(t, []string{"a"}, rules...)
	o.in(t, "600 rules without a verdict", udp(1, 1), "too-many-rules")
	o.restore(t, []string{"a"}, rules[:500]...)
	o.in(t, "500 rules without a verdict", udp(2, 1), "")
}

// TestWhatCannotBeIsRefused: with a sentence that says why, and without a change.
func TestWhatCannotBeIsRefused(t *testing.T) {
	o := newOurs(t)
	o.restore(t, []string{"a", "b"}, "INPUT -j a", "a -j b")
	was := o.do(t, "", "iptables-save")
	for rule, says := range map[string]string{
		"b -j a":                       "jump back to b",
		"b -j nosuch":                  "there is no such chain",
		"nosuch -j DROP":               "No chain/target/match by that name",
		"INPUT -m owner --gid-owner 0": "works only in the chains OUTPUT",
		"OUTPUT -m owner --gid-owner 0 --suppl-groups": "--suppl-groups is not supported",
		"INPUT -m conntrack --ctexpire 1:10":           "use --ctstate",
		"INPUT -m addrtype --dst-type BLACKHOLE":       "use UNICAST, LOCAL",
		"INPUT -m recent --set":                        "recent",
		"INPUT -p udp -j REJECT --reject-with nosuch":  "nosuch",
	} {
		input := "*filter\n-A INPUT -j ACCEPT\n-A " + rule + "\nCOMMIT\n"
		out, err := o.TryAction("ipt run", fmt.Sprintf(`{"program":"iptables-restore","argument":[{"text":"-n"}],"input":%q}`, input))
		if err == nil && strings.Contains(out, `"code":0`) {
			t.Errorf("%s: is taken", rule)
		} else if text := fmt.Sprint(out, err); !strings.Contains(text, says) {
			t.Errorf("%s: %s, want %q", rule, text, says)
		}
	}
	if is := o.do(t, "", "iptables-save"); is != was {
		t.Errorf("the rules were\n%s\nand are\n%s", was, is)
	}
}

// TestConditionsOfTheStackAtXDP: the netdev of a packet, and its type, which there has to be told by the address.
func TestConditionsOfTheStackAtXDP(t *testing.T) {
	for _, typ := range []cube.Type{cube.TypeTC, cube.TypeXDPDRV} {
		o := newOursOf(t, typ)
		o.restore(t, []string{"a"}, "INPUT -i veth2 -j DROP", "INPUT -m pkttype --pkt-type unicast -p udp -m udp --dport 1 -j DROP",
			"INPUT -m pkttype --pkt-type multicast -p udp -m udp --dport 2 -j DROP",
			"INPUT -m pkttype --pkt-type broadcast -p udp -m udp --dport 3 -j DROP")
		h := o.Hosts[0]
		for i, to := range []string{h.OuterMAC.String(), "01:00:5e:00:00:fb", "ff:ff:ff:ff:ff:ff"} {
			for port := uint16(1); port <= 3; port++ {
				want := "send"
				if port == uint16(i+1) {
					want = "drop"
				}
				if got := o.Run(h.Outer, pkt.Eth(h.MAC.String(), to).IP(udp(port, port)).Bytes()); got.Verdict != want {
					t.Errorf("%s, to %s, port %d: %+v, want %s", typ, to, port, got, want)
				}
			}
		}
	}
}
