// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
	"github.com/polycube/polycube/test/repeat"
	"github.com/polycube/polycube/test/traffic"
)

// segment is a TCP segment from an address and port.
func segment(from string, sport uint16, flags byte) []byte {
	h := pkt.IPv4Header{From: from, To: inside, Protocol: pkt.ProtoTCP, TTL: 64}
	return h.Packet(pkt.TCPSegment(from, inside, sport, 22, flags, nil))
}

// becomes sends a packet until it has an outcome.
func (o *ours) becomes(t *testing.T, name string, ip []byte, verdict string) {
	t.Helper()
	var got bpftest.Outcome
	for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); time.Now().Before(deadline); {
		if got = o.send(ip); got.Verdict == verdict {
			return
		}
	}
	t.Errorf("%s: %+v, want %s", name, got, verdict)
}

func TestConnectionsAreLimited(t *testing.T) {
	const other, far = "192.0.2.9", "198.51.100.1"
	o := newOurs(t)
	o.restore(t, []string{"a"}, "INPUT -p tcp --syn -m connlimit --connlimit-above 2 -j DROP")
	syn := func(name, from string, sport uint16, drop string) {
		t.Helper()
		o.in(t, name, segment(from, sport, 2), drop)
	}
	syn("the first", outside, 1, "")
	syn("the second", outside, 2, "")
	for range 5 {
		syn("one too many", outside, 3, "rule")
	}
	syn("the first again", outside, 1, "")
	syn("another source", other, 1, "")
	o.Restart(func() {})
	syn("one too many after a restart", outside, 4, "rule")
	o.Action("ipt delete-sessions", `{"src":"192.0.2.1/32","sport":1}`)
	o.becomes(t, "when one has ended", segment(outside, 3, 2), "send")
	syn("one too many again", outside, 5, "rule")
	o.in(t, "an RST", segment(outside, 3, 4), "")

	// One rule for a network, which counts from now on.
	o.restore(t, []string{"a"}, "INPUT -p tcp --syn -m connlimit --connlimit-upto 1 --connlimit-mask 24 -j ACCEPT", "INPUT -j DROP")
	syn("the first of the network", outside, 11, "")
	syn("the second of the network", other, 12, "rule")
	syn("another network", far, 13, "")
	if got := o.Map("ipt", "links"); got == nil {
		t.Fatal("there is no map of the connections that count")
	}
	o.restore(t, []string{"a"}, "INPUT -p tcp --syn -m connlimit --connlimit-above 1 --connlimit-daddr -j DROP")
	syn("the first to the address", outside, 21, "")
	syn("the second to the address", far, 22, "rule")

	// What nobody needs any more goes.
	o.Set("DELETE", "ipt session-table", "")
	for _, name := range []string{"links", "arrived", "departed"} {
		left := 1
		for deadline := time.Now().Add(pace.Stretch(10 * time.Second)); left > 0 && time.Now().Before(deadline); {
			left = 0
			var key, value []byte
			for entries := o.Map("ipt", name).Iterate(); entries.Next(&key, &value); {
				left++
			}
		}
		if left > 0 {
			t.Errorf("%d entries are left in %s", left, name)
		}
	}
}

// TestALostCountIsFound: as if the daemon had forgotten an address at the moment at which a program counted connections of it.
func TestALostCountIsFound(t *testing.T) {
	o := newOurs(t)
	o.restore(t, []string{"a"}, "INPUT -p tcp --syn -m connlimit --connlimit-above 2 -j DROP")
	o.in(t, "the first", segment(outside, 1, 2), "")
	o.in(t, "the second", segment(outside, 2, 2), "")
	for _, name := range []string{"arrived", "departed"} {
		m := o.Map("ipt", name)
		var key, value []byte
		var all [][]byte
		for entries := m.Iterate(); entries.Next(&key, &value); {
			all = append(all, bytes.Clone(key))
		}
		for _, k := range all {
			if err := m.Delete(k); err != nil {
				t.Fatal(err)
			}
		}
	}
	netns.Eventually(t, bpftest.Patience, func() error {
		var key, value []byte
		if !o.Map("ipt", "departed").Iterate().Next(&key, &value) {
			return errors.New("the count is not corrected")
		}
		return nil
	})
	o.in(t, "one too many", segment(outside, 3, 2), "rule")
}

// TestConnectionsAreCountedAsInLinux opens random connections from a few hosts, with rules that count them in different ways, and
// drop none: what Linux drops counts there for a moment.
func TestConnectionsAreCountedAsInLinux(t *testing.T) {
	seed := repeat.Seed(t)
	theirs, o := newLinux(t), newOurs(t)
	ruled := 0
	for round := range uint64(8) {
		random := rand.New(rand.NewPCG(seed+round, 6))
		rules := &ruleset{table: "filter", names: []string{"side0", "side1"}}
		for family := range rules.chains {
			rules.chains[family] = map[string][]string{}
		}
		for _, name := range rules.names {
			for range 3 {
				rules.chains[0][name] = append(rules.chains[0][name], limitRule(random))
			}
		}
		theirs.load(t, []*ruleset{rules, {table: "raw"}})
		o.Set("DELETE", "ipt session-table", "")
		o.do(t, rules.text(0, "INPUT -j side0", "OUTPUT -j side1"), "iptables-restore")
		var all []traffic.Judged
		for range 150 {
			j, err := theirs.judge(opening(random))
			if err != nil {
				t.Fatalf("seed %d: %v", seed+round, err)
			}
			all = append(all, j.Judged)
		}
		o.judges(t, all, seed+round, func() string { return rules.text(0) })
		want, got := theirs.run(t, "", "iptables-nft-save", "-c"), o.do(t, "", "iptables-save", "-c", "-t", "filter")
		ruled += differ(t, seed+round, shared(want), shared(got))
	}
	if ruled < 20 {
		t.Errorf("only %d rules have counted packets", ruled)
	}
}

// limitRule is a rule that limits connections.
func limitRule(random *rand.Rand) string {
	rule := []string{"", "-p udp ", "-p tcp --syn ", "-d 100.0.0.1 "}[random.IntN(4)] + "-m connlimit "
	rule += []string{"--connlimit-above", "--connlimit-upto"}[random.IntN(2)]
	rule += fmt.Sprintf(" %d --connlimit-mask %d ", random.IntN(12), []int{0, 24, 31, 32}[random.IntN(4)])
	rule += []string{"--connlimit-saddr", "--connlimit-daddr"}[random.IntN(2)]
	return rule + []string{"", "", " -j MARK --set-mark 1", " -j ACCEPT"}[random.IntN(4)]
}

// opening is a packet that may open a connection, or be one more of it.
func opening(random *rand.Rand) traffic.Packet {
	from, to := fmt.Sprintf("50.0.%d.%d", random.IntN(2), 1+random.IntN(3)), fmt.Sprintf("100.0.0.%d", 1+random.IntN(3))
	h := pkt.IPv4Header{From: from, To: to, TTL: 64, Protocol: pkt.ProtoUDP}
	sport := uint16(1000 + random.IntN(5))
	what, payload := "datagram", pkt.UDPDatagram(from, to, sport, 53, make([]byte, 10))
	if random.IntN(2) == 0 {
		h.Protocol = pkt.ProtoTCP
		what, payload = "SYN", pkt.TCPSegment(from, to, sport, 22, 2, nil)
	}
	return traffic.Packet{What: what, From: uint8(random.IntN(2)), IP: h.Packet(payload)}
}
