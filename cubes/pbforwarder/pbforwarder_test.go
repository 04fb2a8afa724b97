// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

const threePorts = `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"},{"name":"p3","peer":"veth3"}]}`

// withRules is a cube with rules.
func withRules(rules string) string {
	return strings.Replace(threePorts, "{", `{"rules":[`+rules+`],`, 1)
}

func TestModelAndCodeSayTheSame(t *testing.T) {
	schema := modeltest.Load(t, modeltest.Service(t, files).Model)
	modeltest.Match(t, schema, Config{})
	modeltest.MatchEntry(t, schema, "rules", Rule{})
}

func send(to string) bpftest.Outcome  { return bpftest.Outcome{Verdict: "send", Sent: "f:" + to} }
func drop(why string) bpftest.Outcome { return bpftest.Outcome{Verdict: "drop", Fate: "f " + why} }

const one, two = "02:00:00:00:00:01", "02:00:00:00:00:02"

var (
	udp4    = pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.1.2").UDP(1000, 53).Payload(30).Bytes()
	tcp4    = pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.1.2").TCP(1000, 53, pkt.TCPFlags{SYN: true}).Bytes()
	ping4   = pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.1.2").Echo(1000, 53).Payload(30).Bytes()
	first4  = pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.1.2", pkt.IPv4Options{MoreFragments: true}).UDP(1000, 53).Payload(24).Bytes()
	later4  = pkt.Eth(one, two).IPv4("10.0.0.1", "10.0.1.2", pkt.IPv4Options{Offset: 4}).UDP(1000, 53).Payload(24).Bytes()
	udp6    = pkt.Eth(one, two).IPv6("2001:db8::1", "2001:db8:1::2").UDP(1000, 53).Payload(30).Bytes()
	ping6   = pkt.Eth(one, two).IP(pkt.IPv6Header{From: "2001:db8::1", To: "2001:db8:1::2", Next: 58}.Packet(pkt.ICMPMessage(128, 0, 7, nil))).Bytes()
	tagged4 = pkt.Eth(one, two).VLAN(10).IPv4("10.0.0.1", "10.0.1.2").UDP(1000, 53).Payload(30).Bytes()
	double4 = pkt.Eth(one, two).ServiceVLAN(20).VLAN(10).IPv4("10.0.0.1", "10.0.1.2").UDP(1000, 53).Payload(30).Bytes()
	arp     = pkt.Eth(one, pkt.Broadcast).ARPRequest(one, "10.0.0.1", "10.0.1.2").Bytes()
	other   = pkt.Eth(one, two).Payload(46).Bytes()
)

var frames = map[string][]byte{
	"udp4": udp4, "tcp4": tcp4, "ping4": ping4, "first4": first4, "later4": later4, "udp6": udp6, "ping6": ping6, "tagged4": tagged4,
	"double4": double4, "arp": arp, "other": other,
}

// TestEachMemberOfARuleDecides has a rule of one member in each row, and the frames that match it.
func TestEachMemberOfARuleDecides(t *testing.T) {
	tests := []struct{ rule, matches string }{
		{``, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4 arp other"},
		{`"in_port":"p1",`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4 arp other"},
		{`"in_port":"p2",`, ""},
		{`"vlan":10,`, "tagged4"},
		{`"vlan":20,`, "double4"},
		{`"vlan":0,`, ""},
		{`"src_mac":"02:00:00:00:00:01",`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4 arp other"},
		{`"src_mac":"02:00:00:00:00:02",`, ""},
		{`"dst_mac":"ff:ff:ff:ff:ff:ff",`, "arp"},
		{`"dst_mac":"01:00:00:00:00:00/01:00:00:00:00:00",`, "arp"},
		{`"src_ip":"10.0.0.1",`, "udp4 tcp4 ping4 first4 later4 tagged4 double4"},
		{`"src_ip":"10.0.0.2",`, ""},
		{`"src_ip":"10.0.0.0/31",`, "udp4 tcp4 ping4 first4 later4 tagged4 double4"},
		{`"src_ip":"0.0.0.0/0",`, "udp4 tcp4 ping4 first4 later4 tagged4 double4"},
		{`"src_ip":"::/0",`, "udp6 ping6"},
		{`"dst_ip":"10.0.1.0/24",`, "udp4 tcp4 ping4 first4 later4 tagged4 double4"},
		{`"dst_ip":"10.0.0.0/24",`, ""},
		{`"dst_ip":"2001:db8:1::2",`, "udp6 ping6"},
		{`"dst_ip":"2001:DB8:1:0:0:0:0:2",`, "udp6 ping6"},
		{`"dst_ip":"2001:db8:1::3",`, ""},
		{`"dst_ip":"2001:db8::/32",`, "udp6 ping6"},
		{`"l4_proto":"UDP",`, "udp4 first4 later4 udp6 tagged4 double4"},
		{`"l4_proto":"TCP",`, "tcp4"},
		{`"l4_proto":1,`, "ping4"},
		{`"l4_proto":"ICMP",`, "ping4"},
		{`"src_port":1000,`, "udp4 tcp4 first4 udp6 tagged4 double4"},
		{`"src_port":1001,`, ""},
		{`"dst_port":53,`, "udp4 tcp4 first4 udp6 tagged4 double4"},
		{`"dst_port":"50-53",`, "udp4 tcp4 first4 udp6 tagged4 double4"},
		{`"dst_port":"54-65535",`, ""},
		{`"dst_port":"0-65535",`, "udp4 tcp4 first4 udp6 tagged4 double4"},
		{`"ethertype":"0x0806",`, "arp"},
		{`"ethertype":"0x86DD",`, "udp6 ping6"},
		{`"dscp":0,`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4"},
		{`"dscp":46,`, ""},
		{`"tcp_flags":"SYN,!ACK",`, "tcp4"},
		{`"tcp_flags":"ACK",`, ""},
		{`"icmp_type":8,`, "ping4"},
		{`"icmp_type":"8/0",`, "ping4"},
		{`"icmp_type":"8/1",`, ""},
		{`"icmpv6_type":128,`, "ping6"},
		{`"icmpv6_type":8,`, ""},
		{`"not":{"in_port":"p2"},`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4 arp other"},
		{`"not":{"in_port":"p1"},`, ""},
		{`"not":{"vlan":10},`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 double4 arp other"},
		{`"not":{"ethertype":"0x0800"},`, "udp6 ping6 arp other"},
		{`"not":{"src_mac":"02:00:00:00:00:01"},`, ""},
		{`"not":{"dst_mac":"01:00:00:00:00:00/01:00:00:00:00:00"},`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4 other"},
		{`"not":{"src_ip":"10.0.0.0/24"},`, ""},
		{`"not":{"src_ip":"10.0.1.0/24"},`, "udp4 tcp4 ping4 first4 later4 tagged4 double4"},
		{`"not":{"dst_ip":"2001:db8::/48"},`, "udp6 ping6"},
		{`"not":{"dscp":46},`, "udp4 tcp4 ping4 first4 later4 udp6 ping6 tagged4 double4"},
		{`"not":{"l4_proto":"UDP"},`, "tcp4 ping4 ping6"},
		{`"not":{"src_port":1000},`, ""},
		{`"not":{"dst_port":"54-100"},`, "udp4 tcp4 first4 udp6 tagged4 double4"},
		{`"not":{"tcp_flags":"ACK"},`, "tcp4"},
		{`"not":{"icmp_type":0},`, "ping4"},
		{`"not":{"icmp_type":"8/0"},`, ""},
		{`"not":{"icmpv6_type":128},`, ""},
		{`"l4_proto":"UDP","not":{"src_ip":"10.0.1.0/24","vlan":10},`, "udp4 first4 later4 double4"},
		{`"l4_proto":"UDP","dst_port":53,"src_ip":"10.0.0.1","vlan":10,"in_port":"p1","src_mac":"02:00:00:00:00:01",`, "tagged4"},
	}
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", threePorts)
		for _, tt := range tests {
			l.Set("PUT", "f rules 7", `{`+tt.rule+`"action":"FORWARD","out_port":"p2"}`)
			for name, frame := range frames {
				want := drop("no-rule")
				if strings.Contains(" "+tt.matches+" ", " "+name+" ") {
					want = send("p2")
				}
				if got := l.Run("veth1", frame); got != want {
					t.Errorf("{%s} %s: got %+v, want %+v", tt.rule, name, got, want)
				}
			}
		}
	})
}

func TestTheFirstRuleDecides(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", threePorts)
		for _, tt := range []struct {
			name, method, words, body string
			want                      bpftest.Outcome
		}{
			{"no rules", "", "", "", drop("no-rule")},
			{"one at the end", "POST", "f rules 4000000000", `{"action":"FORWARD","out_port":"p3"}`, send("p3")},
			{"one before it", "POST", "f rules 100", `{"dst_port":53,"action":"FORWARD","out_port":"p2"}`, send("p2")},
			{"one between them", "POST", "f rules 200", `{"action":"SLOWPATH"}`, send("p2")},
			{"one before all", "POST", "f rules 0", `{"src_ip":"10.0.0.0/8"}`, drop("action-drop")},
			{"it does not match any more", "PATCH", "f rules 0", `{"src_ip":"11.0.0.0/8"}`, send("p2")},
			{"nor does the next", "PATCH", "f rules 100 dst_port", `"54-60"`, drop("slowpath")},
			{"another action", "PATCH", "f rules 200", `{"action":"FORWARD","out_port":"p1"}`, send("p1")},
			{"gone", "DELETE", "f rules 200", ``, send("p3")},
			{"another port", "PATCH", "f rules 4000000000 out_port", `"p2"`, send("p2")},
			{"other rules", "PUT", "f rules", `[{"id":1,"dst_ip":"10.0.1.2","action":"FORWARD","out_port":"p3"},{"id":2}]`, send("p3")},
			{"none again", "DELETE", "f rules", ``, drop("no-rule")},
		} {
			if tt.method != "" {
				l.Set(tt.method, tt.words, tt.body)
			}
			if got := l.Run("veth1", udp4); got != tt.want {
				t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
			}
		}
	})
}

func TestSlowpathLogsThePacket(t *testing.T) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", withRules(`{"id":1,"in_port":"p3","action":"SLOWPATH"}`))
		l.Run("veth3", udp6)
		want := fmt.Sprintf("cube=f port=p3 length=%d from=02:00:00:00:00:01 to=02:00:00:00:00:02 ethertype=0x86dd", len(udp6))
		netns.Eventually(t, bpftest.Patience, func() error {
			if logs := l.Logs(); !strings.Contains(logs, want) {
				return fmt.Errorf("%s is not in\n%s", want, logs)
			}
			return nil
		})
	})
}

func TestMistakesAreRefusedAndChangeNothing(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "f", strings.Replace(withRules(`{"id":1,"action":"FORWARD","out_port":"p2"}`), "{", `{"max-rules":64,`, 1))
	before := l.Read("f rules")
	many := make([]string, 65)
	for i := range many {
		many[i] = fmt.Sprintf(`{"id":%d}`, i)
	}
	for _, tt := range []struct{ name, method, words, body, says string }{
		{"FORWARD without out_port", "POST", "f rules 2", `{"action":"FORWARD"}`, "out_port"},
		{"to a port that is not there", "POST", "f rules 2", `{"action":"FORWARD","out_port":"p9"}`, "p9"},
		{"from a port that is not there", "POST", "f rules 2", `{"in_port":"p9"}`, "p9"},
		{"addresses of two versions", "POST", "f rules 2", `{"src_ip":"10.0.0.1","dst_ip":"::1"}`, "IP version"},
		{"no address", "POST", "f rules 2", `{"src_ip":"10.0.0"}`, "src_ip"},
		{"a prefix that is too long", "POST", "f rules 2", `{"src_ip":"10.0.0.0/33"}`, "src_ip"},
		{"ports backwards", "POST", "f rules 2", `{"dst_port":"2000-1000"}`, "2000-1000"},
		{"ports that are too high", "POST", "f rules 2", `{"dst_port":"1-65536"}`, "65536"},
		{"a port that is too high", "POST", "f rules 2", `{"dst_port":65536}`, "dst_port"},
		{"a VLAN that is too high", "POST", "f rules 2", `{"vlan":4096}`, "vlan"},
		{"half a MAC address", "POST", "f rules 2", `{"src_mac":"02:00:00"}`, "src_mac"},
		{"no protocol", "POST", "f rules 2", `{"l4_proto":"TPC"}`, "l4_proto"},
		{"a protocol that is too high", "POST", "f rules 2", `{"l4_proto":256}`, "l4_proto"},
		{"ICMP with another protocol", "POST", "f rules 2", `{"icmp_type":8,"l4_proto":"UDP"}`, "l4_proto is UDP"},
		{"ICMP with ports", "POST", "f rules 2", `{"icmp_type":8,"dst_port":53}`, "no ports"},
		{"ICMP of two versions", "POST", "f rules 2", `{"icmp_type":8,"icmpv6_type":128}`, "only one of"},
		{"ICMP that is too high", "POST", "f rules 2", `{"icmp_type":"8/256"}`, "8/256"},
		{"TCP flags of UDP", "POST", "f rules 2", `{"tcp_flags":"SYN","l4_proto":"UDP"}`, "l4_proto is UDP"},
		{"not from a port that is not there", "POST", "f rules 2", `{"not":{"in_port":"p9"}}`, "p9"},
		{"not an address of another version", "POST", "f rules 2", `{"src_ip":"10.0.0.1","not":{"dst_ip":"::1"}}`, "IP version"},
		{"no EtherType", "POST", "f rules 2", `{"ethertype":"ARP"}`, "ethertype"},
		{"a DSCP that is too high", "POST", "f rules 2", `{"dscp":64}`, "dscp"},
		{"no action", "PATCH", "f rules 1 action", `"BOUNCE"`, "BOUNCE"},
		{"an out_port taken away", "DELETE", "f rules 1 out_port", ``, "out_port"},
		{"a rule in place of another that cannot be", "POST", "f rules 1", `{"action":"FORWARD"}`, "out_port"},
		{"a port that a rule names", "DELETE", "f ports p2", ``, "p2"},
		{"too many rules", "PUT", "f rules", "[" + strings.Join(many, ",") + "]", "max-rules is 64"},
		{"max-rules later", "PATCH", "f max-rules", "100", "max-rules"},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: the error is %v, it should name %s", tt.name, err, tt.says)
		}
		if after := l.Read("f rules"); after != before {
			t.Errorf("%s: the rules became %s", tt.name, after)
		}
	}
	if got := l.Run("veth1", udp4); got != send("p2") {
		t.Errorf("got %+v, want %+v", got, send("p2"))
	}
}
