// SPDX-License-Identifier: Apache-2.0

package classifier_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	_ "github.com/polycube/polycube/test/bpftest/cubes" // registers the classifier, and what it is attached to
	_ "github.com/polycube/polycube/test/classes"       // registers a cube that gives packets a class, and shows it
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pkt"
)

func TestMain(m *testing.M) { os.Exit(netns.CheckLeaks(m)) }

// sender is the source of frames. Its last byte is their QFI, as the test cube has it.
const sender, receiver = "02:00:00:00:00:05", "02:00:00:00:00:02"

// classified is a forwarder with a classifier k on its first port.
type classified struct {
	*bpftest.Lab
	t *testing.T
}

// classify creates them. Test cubes give packets a class before they meet the classifier, the destination port of UDP, and
// show the one that they have then.
func classify(t *testing.T, l *bpftest.Lab, conf string) *classified {
	t.Helper()
	l.Create("simpleforwarder", "f", `{"ports":[{"name":"p1","peer":"veth1"},{"name":"p2","peer":"veth2"}],
		"actions":[{"inport":"p1","action":"FORWARD","outport":"p2"},{"inport":"p2","action":"FORWARD","outport":"p1"}]}`)
	l.Create("classifier", "k", conf)
	for name, conf := range map[string]string{"inner": `{"shows":true}`, "outer": `{"shows":true}`, "gives": "", "gives2": ""} {
		l.Create("classes", name, conf)
	}
	for _, name := range []string{"inner", "k", "gives", "outer"} {
		l.Attach(name, "f:p1")
	}
	l.Attach("gives2", "f:p2")
	return &classified{l, t}
}

// in returns the class of a frame that comes in at the port of the classifier, and out that of one that goes out there.
func (c *classified) in(frame []byte) uint32  { return c.class("veth1", "f:p2", frame) }
func (c *classified) out(frame []byte) uint32 { return c.class("veth2", "f:p1", frame) }

func (c *classified) class(dev, to string, frame []byte) uint32 {
	c.t.Helper()
	outcome, got := c.RunBytes(dev, frame)
	if want := (bpftest.Outcome{Verdict: "send", Sent: to}); outcome != want {
		c.t.Fatalf("%x: %+v, want %+v", frame, outcome, want)
	}
	return binary.BigEndian.Uint32(got[2:])
}

// wants checks the class of a frame.
func (c *classified) wants(what string, got, want uint32) {
	c.t.Helper()
	if got != want {
		c.t.Errorf("%s: class %d, want %d", what, got, want)
	}
}

func each(t *testing.T, conf string, test func(t *testing.T, c *classified)) {
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) { test(t, classify(t, l, conf)) })
}

func udp(from, to string, sport, dport uint16) []byte {
	return pkt.Eth(sender, receiver).IPv4(from, to).UDP(sport, dport).Payload(20).Bytes()
}

func tcp(from, to string, sport, dport uint16) []byte {
	return pkt.Eth(sender, receiver).IPv4(from, to).TCP(sport, dport, pkt.TCPFlags{ACK: true}).Bytes()
}

// packets reads the counters of a rule.
func (c *classified) packets(id int) (n struct{ Packets, Bytes json.Number }) {
	c.t.Helper()
	if err := json.Unmarshal([]byte(c.Read(fmt.Sprintf("k traffic-class %d", id))), &n); err != nil {
		c.t.Fatal(err)
	}
	return n
}

func TestTheFirstRuleThatMatchesGivesTheClass(t *testing.T) {
	each(t, `{"traffic-class":[
		{"id":1,"priority":10,"srcip":"10.0.0.0/8"},
		{"id":2,"priority":11,"srcip":"10.0.0.0/24"},
		{"id":3,"priority":5,"direction":"INGRESS","srcip":"10.0.0.0/24","dport":"53"},
		{"id":4,"priority":5,"direction":"EGRESS","l4proto":"UDP","dport":"53"},
		{"id":5,"priority":1,"ethtype":"ARP"},
		{"id":6,"priority":1,"qfi":5,"dscp":46},
		{"id":7,"priority":1,"srcip":"2001:db8::/32","sport":"1000-1999","class":4000000000},
		{"id":8,"priority":1,"smac":"02:00:00:00:00:07","dmac":"02:00:00:00:00:00/ff:ff:00:00:00:00"}]}`, func(t *testing.T, c *classified) {
		c.wants("a prefix, before a longer one", c.in(tcp("10.0.0.1", "192.0.2.1", 1, 80)), 1)
		c.wants("a port", c.in(tcp("10.0.0.1", "192.0.2.1", 1, 53)), 3)
		c.wants("a rule for the other direction", c.in(udp("10.1.0.1", "192.0.2.1", 1, 53)), 1)
		c.wants("none matches, the packet has no class", c.in(tcp("192.0.2.1", "10.0.0.1", 80, 1)), 0)
		c.wants("none matches, the packet has a class", c.in(udp("192.0.2.1", "10.0.0.1", 1, 77)), 77)
		c.wants("EGRESS", c.out(udp("192.0.2.1", "10.0.0.1", 1, 53)), 4)
		c.wants("BOTH", c.out(tcp("10.0.0.1", "10.0.0.2", 1, 53)), 1)
		c.wants("ARP", c.in(pkt.Eth(sender, "ff:ff:ff:ff:ff:ff").ARPRequest(sender, "192.0.2.1", "192.0.2.2").Bytes()), 5)
		c.wants("QFI and DSCP", c.in(pkt.Eth(sender, receiver).IPv4("192.0.2.1", "10.0.0.1", pkt.IPv4Options{TOS: 46 << 2}).TCP(1, 2, pkt.TCPFlags{}).Bytes()), 6)
		c.wants("DSCP without QFI", c.in(pkt.Eth("02:00:00:00:00:06", receiver).IPv4("192.0.2.1", "10.0.0.1", pkt.IPv4Options{TOS: 46 << 2}).TCP(1, 2, pkt.TCPFlags{}).Bytes()), 0)
		c.wants("IPv6, a range of ports, a class of its own", c.in(pkt.Eth(sender, receiver).IPv6("2001:db8::1", "2001:db8:1::1").UDP(1999, 5).Bytes()), 4000000000)
		c.wants("IPv6, outside the range", c.in(pkt.Eth(sender, receiver).IPv6("2001:db8::1", "2001:db8:1::1").UDP(2000, 5).Bytes()), 5)
		c.wants("MAC addresses", c.in(pkt.Eth("02:00:00:00:00:07", receiver).IPv4("192.0.2.1", "10.0.0.1").Echo(1, 1).Bytes()), 8)
		if n := c.packets(1); n.Packets != "3" || n.Bytes != json.Number(fmt.Sprint(len(tcp("10.0.0.1", "192.0.2.1", 1, 80))*2+len(udp("10.1.0.1", "192.0.2.1", 1, 53)))) {
			t.Errorf("rule 1 has counted %+v", n)
		}
	})
}

func TestRulesChangeUnderTraffic(t *testing.T) {
	each(t, `{"default-class":9,"traffic-class":[{"id":1,"srcip":"10.0.0.0/8"},{"id":2,"dport":80}]}`, func(t *testing.T, c *classified) {
		frame := tcp("10.0.0.1", "192.0.2.1", 1, 80)
		c.wants("equal priorities: the lower id", c.in(frame), 1)
		c.wants("the default", c.in(tcp("192.0.2.1", "192.0.2.2", 1, 2)), 9)
		c.Set("PATCH", "k traffic-class 1", `{"priority":1}`)
		c.wants("a rule that moves back", c.in(frame), 2)
		c.Set("PATCH", "k traffic-class 2", `{"class":22}`)
		c.wants("another class", c.in(frame), 22)
		c.Set("PATCH", "k traffic-class 2", `{"direction":"EGRESS"}`)
		c.wants("a rule that leaves a direction", c.in(frame), 1)
		c.wants("the direction in which it stays", c.out(frame), 22)
		c.Set("POST", "k traffic-class 0", `{"class":33}`)
		c.wants("a new one", c.in(frame), 33)
		if n := c.packets(2); n.Packets != "3" {
			t.Errorf("rule 2 has counted %s packets, want 3: changes do not reset its counter", n.Packets)
		}
		c.Restart(nil)
		c.wants("after a restart", c.in(frame), 33)
		if n := c.packets(0); n.Packets != "2" {
			t.Errorf("rule 0 has counted %s packets, want 2: one before and one after the restart", n.Packets)
		}
		c.Set("DELETE", "k traffic-class", "")
		c.wants("no rules", c.in(frame), 9)
		c.Set("DELETE", "k default-class", "")
		c.wants("no default", c.in(frame), 0)
		c.Restart(nil)
		c.Set("PUT", "k traffic-class", `[{"id":7,"dport":80},{"id":8}]`)
		c.wants("after another restart", c.in(frame), 7)
	})
}

func TestSubscribersHaveTheirClassInBothDirections(t *testing.T) {
	each(t, `{"traffic-class":[{"id":1}],"subscriber":[{"address":"10.1.0.1","class":100},{"address":"2001:db8:0:1::","class":101},
		{"address":"10.1.0.2","class":102,"flow":[
			{"precedence":20,"remote":"192.0.2.0/24","class":120},
			{"precedence":10,"l4proto":"TCP","remote-port":"443","class":110},
			{"precedence":15,"local-port":"5060-5061","class":115},
			{"precedence":5,"dscp":46,"qfi":5,"class":105}]},
		{"address":"2001:db8:0:2::","class":103,"flow":[{"precedence":1,"remote":"2001:db8:5:5::/63","class":131},{"precedence":2,"remote":"0.0.0.0/0","class":132}]}]}`, func(t *testing.T, c *classified) {
		const peer, other = "192.0.2.7", "198.51.100.1"
		c.wants("uplink", c.in(tcp("10.1.0.1", other, 1, 80)), 100)
		c.wants("downlink", c.out(tcp(other, "10.1.0.1", 80, 1)), 100)
		c.wants("its address as the other end", c.in(tcp(other, "10.1.0.1", 80, 1)), 1)
		c.wants("nobody's", c.in(tcp("10.1.0.9", other, 1, 80)), 1)
		six := func(from, to string) []byte { return pkt.Eth(sender, receiver).IPv6(from, to).UDP(7, 8).Bytes() }
		c.wants("IPv6, uplink", c.in(six("2001:db8:0:1::aaaa", "2001:db8:5::1")), 101)
		c.wants("IPv6, downlink", c.out(six("2001:db8:5::1", "2001:db8:0:1:ffff::1")), 101)

		c.wants("no flow", c.in(udp("10.1.0.2", other, 1, 443)), 102)
		c.wants("a remote port", c.in(tcp("10.1.0.2", peer, 1, 443)), 110)
		c.wants("the same, downlink", c.out(tcp(peer, "10.1.0.2", 443, 1)), 110)
		c.wants("the port on the wrong side", c.in(tcp("10.1.0.2", peer, 443, 1)), 120)
		c.wants("a local port, first of a range", c.in(udp("10.1.0.2", peer, 5060, 9)), 115)
		c.wants("a local port, last of a range", c.out(udp(peer, "10.1.0.2", 9, 5061)), 115)
		c.wants("after the range", c.out(udp(peer, "10.1.0.2", 9, 5062)), 120)
		c.wants("before the range", c.out(udp(peer, "10.1.0.2", 9, 5059)), 120)
		c.wants("ICMP has no ports", c.in(pkt.Eth(sender, receiver).IPv4("10.1.0.2", other).Echo(5060, 5060).Bytes()), 102)
		c.wants("DSCP and QFI", c.in(pkt.Eth(sender, receiver).IPv4("10.1.0.2", peer, pkt.IPv4Options{TOS: 46 << 2}).TCP(1, 443, pkt.TCPFlags{}).Bytes()), 105)
		c.wants("an IPv6 prefix", c.in(six("2001:db8:0:2::1", "2001:db8:5:4::1")), 131)
		c.wants("beside it", c.in(six("2001:db8:0:2::1", "2001:db8:5:6::1")), 103)

		c.Set("PATCH", "k faces", `"NETWORK"`)
		c.wants("from the network", c.in(tcp(peer, "10.1.0.2", 443, 1)), 110)
		c.wants("to the network", c.out(tcp("10.1.0.2", peer, 1, 443)), 110)
		c.wants("the sender is not a subscriber", c.in(tcp("10.1.0.1", other, 1, 80)), 1)
	})
}

func TestSubscribersChangeAndSurviveARestart(t *testing.T) {
	flows := func(class int) string {
		return fmt.Sprintf(`"flow":[{"precedence":1,"l4proto":"TCP","class":%d}]`, class)
	}
	each(t, `{"max-flow-lists":2,"max-subscribers":3,"subscriber":[{"address":"10.1.0.1","class":1,`+flows(11)+`},{"address":"10.1.0.2","class":2,`+flows(11)+`},{"address":"10.1.0.3","class":3}]}`, func(t *testing.T, c *classified) {
		frame := func(host int) []byte { return tcp(fmt.Sprintf("10.1.0.%d", host), "192.0.2.1", 1, 80) }
		all := func(what string, want ...uint32) {
			t.Helper()
			for i, class := range want {
				c.wants(fmt.Sprintf("%s: host %d", what, i+1), c.in(frame(i+1)), class)
			}
		}
		all("at first", 11, 11, 3, 0)
		c.Set("PUT", "k subscriber 10.1.0.3", `{"class":3,`+flows(13)+`}`)
		all("with two lists", 11, 11, 13, 0)
		err := c.Try("PATCH", "k subscriber 10.1.0.1", `{`+flows(12)+`}`)
		if !errors.Is(err, cube.ErrFull) || !strings.Contains(err.Error(), "3 different lists of flows, but max-flow-lists is 2") {
			t.Errorf("a third list: %v", err)
		}
		all("after it was refused", 11, 11, 13, 0)
		c.Restart(nil)
		all("after a restart", 11, 11, 13, 0)
		c.Set("DELETE", "k subscriber 10.1.0.3 flow", "")
		all("flows that are removed", 11, 11, 3, 0)
		for range 5 {
			c.Set("PATCH", "k subscriber 10.1.0.1 flow 1", `{"class":14}`)
			all("a row that is used again", 14, 11, 3, 0)
			c.Set("PATCH", "k subscriber 10.1.0.1 flow 1", `{"class":15}`)
			all("a row that is used again", 15, 11, 3, 0)
		}
		c.Set("PUT", "k subscriber", `[{"address":"10.1.0.4","class":4},{"address":"10.1.0.1","class":5,`+flows(16)+`},{"address":"10.1.0.2","class":2}]`)
		all("all others, where there is room for three", 16, 2, 0, 4)
		c.Restart(nil)
		all("after another restart", 16, 2, 0, 4)
		for i := range 4 {
			c.Set("PUT", "k subscriber 10.1.0.1", `{"class":5,`+flows(20+i)+`}`)
			all("rows of an earlier daemon are used again", uint32(20+i), 2, 0, 4)
		}
	})
}

func TestWhatCannotBeIsRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	c := classify(t, l, `{"max-classes":2,"max-subscribers":2,"traffic-class":[{"id":1,"l4proto":"TCP"}],"subscriber":[{"address":"10.1.0.1","class":100}]}`)
	var many strings.Builder
	for i := range 33 {
		fmt.Fprintf(&many, `%s{"precedence":%d,"class":1}`, map[bool]string{true: ",", false: ""}[i > 0], i)
	}
	for _, tt := range []struct {
		method, words, body, why string
		as                       error
	}{
		{"POST", "k traffic-class 2", `{"dport":"90-80"}`, "the first port is greater than the last", cube.ErrInvalid},
		{"POST", "k traffic-class", `[{"id":2},{"id":3}]`, "3 traffic classes, but max-classes is 2", cube.ErrFull},
		{"POST", "k subscriber", `[{"address":"10.1.0.2","class":1},{"address":"10.1.0.3","class":1}]`, "3 subscribers, but max-subscribers is 2", cube.ErrFull},
		{"POST", "k subscriber 2001:db8::1", `{"class":1}`, "subscriber 2001:db8::1: address: a subscriber has a /64 IPv6 prefix: use its first address, 2001:db8::", cube.ErrInvalid},
		{"POST", "k subscriber 10.1.0.2", `{"class":1,"flow":[` + many.String() + `]}`, "33 flows, at most 32 are possible", cube.ErrInvalid},
		{"POST", "k subscriber 10.1.0.2", `{}`, "class", nil},
		{"PATCH", "k max-classes", `3`, "", nil},
	} {
		err := l.Try(tt.method, tt.words, tt.body)
		if err == nil || !strings.Contains(err.Error(), tt.why) || tt.as != nil && !errors.Is(err, tt.as) {
			t.Errorf("%s %s %s: %v, want %v: %s", tt.method, tt.words, tt.body, err, tt.as, tt.why)
		}
	}
	c.wants("after all that", c.in(tcp("192.0.2.1", "192.0.2.2", 1, 2)), 1)
	c.wants("the subscriber", c.in(tcp("10.1.0.1", "192.0.2.2", 1, 2)), 100)
}

// TestManySubscribers are made in a few requests, and one more costs what it costs among few.
func TestManySubscribers(t *testing.T) {
	const many = 100_000
	l := bpftest.New(t, bpftest.Options{Type: cube.TypeXDPDRV})
	c := classify(t, l, fmt.Sprintf(`{"max-subscribers":%d}`, many+20))
	address := func(i int) string { return fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&0xff, i&0xff) }
	begin := time.Now()
	for at := 0; at < many; at += many / 4 {
		var body strings.Builder
		for i := at; i < at+many/4; i++ {
			fmt.Fprintf(&body, `%s{"address":%q,"class":%d,"flow":[{"precedence":1,"l4proto":"UDP","class":%d}]}`, map[bool]string{true: ",", false: "["}[i > at], address(i), 1000+i, 1+i%100)
		}
		l.Set("POST", "k subscriber", body.String()+"]")
	}
	t.Logf("%d subscribers are made in %s", many, time.Since(begin))
	c.wants("one of them", c.in(tcp(address(54_321), "192.0.2.1", 1, 2)), 1000+54_321)
	c.wants("its flow", c.in(udp(address(54_321), "192.0.2.1", 1, 2)), 1+54_321%100)
	begin = time.Now()
	for i := range 20 {
		l.Set("POST", "k subscriber "+address(many+i), `{"class":7}`)
	}
	t.Logf("one more takes %s", time.Since(begin)/20)
	c.Restart(nil)
	c.wants("after a restart", c.in(udp(address(54_321), "192.0.2.1", 1, 2)), 1+54_321%100)
}
