// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
	"github.com/polycube/polycube/test/pace"
	"github.com/polycube/polycube/test/pkt"
)

// counted returns the counts of rules, as "id:packets/bytes".
func read(t *testing.T, l *bpftest.Lab) (out []string) {
	t.Helper()
	var rules []counted
	if err := json.Unmarshal([]byte(l.Read("f rules")), &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules {
		out = append(out, fmt.Sprintf("%d:%d/%d", r.ID, r.Packets, r.Bytes))
	}
	return out
}

func TestCountersFollowTheirRules(t *testing.T) {
	n := len(udp4)
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "f", withRules(`{"id":10,"dst_port":53,"action":"FORWARD","out_port":"p2"},{"id":20}`))
	l.Flood("veth1", udp4, 3)
	l.Flood("veth1", ping4, 2)
	ping := 2 * len(ping4)
	for _, tt := range []struct {
		name string
		do   func()
		want []string
	}{
		{"at first", func() {}, []string{fmt.Sprintf("10:3/%d", 3*n), fmt.Sprintf("20:2/%d", ping)}},
		{"a rule before them", func() { l.Set("POST", "f rules 5", `{"src_ip":"10.9.9.9"}`) },
			[]string{"5:0/0", fmt.Sprintf("10:3/%d", 3*n), fmt.Sprintf("20:2/%d", ping)}},
		{"a rule is changed", func() { l.Set("PATCH", "f rules 10 out_port", `"p3"`); l.Flood("veth1", udp4, 1) },
			[]string{"5:0/0", fmt.Sprintf("10:4/%d", 4*n), fmt.Sprintf("20:2/%d", ping)}},
		{"a rule goes", func() { l.Set("DELETE", "f rules 10", ""); l.Flood("veth1", udp4, 1) },
			[]string{"5:0/0", fmt.Sprintf("20:3/%d", ping+n)}},
		{"another one has its id", func() { l.Set("POST", "f rules 10", `{"dst_port":99}`) },
			[]string{"5:0/0", "10:0/0", fmt.Sprintf("20:3/%d", ping+n)}},
		{"a restart", func() {
			l.Restart(func() {
				wires := l.Wires()
				wires[1].Puts(other) // counted by rule 20, without a daemon
			})
		}, nil},
		{"and more packets", func() { l.Flood("veth1", udp4, 2) }, nil},
	} {
		tt.do()
		if got := read(t, l); tt.want != nil && fmt.Sprint(got) != fmt.Sprint(tt.want) {
			t.Errorf("%s: the counters are %v, want %v", tt.name, got, tt.want)
		}
	}
	if got := l.Read("f rules 5 packets"); got != "0" {
		t.Errorf("rule 5 has %s packets, want 0", got)
	}
	var packets uint64
	if err := json.Unmarshal([]byte(l.Read("f rules 20 packets")), &packets); err != nil || packets < 5 {
		t.Errorf("rule 20 has %d packets after a restart (error %v), want at least 5", packets, err)
	}
	l.Set("DELETE", "f rules 20", "")
	if got := l.Run("veth1", udp4); got != drop("no-rule") {
		t.Errorf("a rule of the last daemon: got %+v, want %+v", got, drop("no-rule"))
	}
}

// TestCountersOfForwardersAreSeparate has two forwarders with the same ids in one memory for counters.
func TestCountersOfForwardersAreSeparate(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{})
	l.Create("pbforwarder", "first", `{}`) // the memory stays as long as there is a forwarder
	l.Create("pbforwarder", "f", withRules(`{"id":10,"dst_port":53},{"id":20}`))
	l.Create("pbforwarder", "g", `{"rules":[{"id":10},{"id":20}]}`)
	l.Flood("veth1", udp4, 3)
	want := func(when, cube string, packets ...int) {
		t.Helper()
		var rules []counted
		if err := json.Unmarshal([]byte(l.Read(cube+" rules")), &rules); err != nil {
			t.Fatal(err)
		}
		got := make([]int, len(rules))
		for i, r := range rules {
			got[i] = int(r.Packets)
		}
		if !slices.Equal(got, packets) {
			t.Errorf("%s, the rules of %s have %v packets, want %v", when, cube, got, packets)
		}
	}
	want("at first", "f", 3, 0)
	want("at first", "g", 0, 0)
	l.Set("DELETE", "g", "")
	l.Restart(func() {})
	want("after a restart", "f", 3, 0)
	l.Set("DELETE", "f", "")
	l.Restart(func() {})                                                         // numbers are given again
	l.Create("pbforwarder", "f", withRules(`{"id":10,"dst_port":53},{"id":20}`)) // it has the number of the first f
	want("in another cube of the same name", "f", 0, 0)
	l.Create("pbforwarder", "g", `{"rules":[{"id":10},{"id":20}]}`)
	want("in another cube of the same name", "g", 0, 0)
	l.Flood("veth1", udp4, 2)
	want("at the end", "f", 2, 0)
	want("at the end", "g", 0, 0)
}

// TestCountersTakeMemoryForRulesThatExist has more rules than a part of the memory has counters.
func TestCountersTakeMemoryForRulesThatExist(t *testing.T) {
	const many = 4200
	rules := make([]string, many)
	for i := range rules {
		rules[i] = fmt.Sprintf(`{"id":%d,"src_ip":"10.%d.%d.0/24"}`, i+1, 100+i>>8, i&255)
	}
	hit := pkt.Eth(one, two).IPv4("10.116.103.1", "10.0.1.2").UDP(1000, 53).Payload(30).Bytes() // rule 16*256+103+1
	bpftest.Each(t, bpftest.Options{}, func(t *testing.T, l *bpftest.Lab) {
		l.Create("pbforwarder", "f", withRules(`{"id":5000}`))
		if n := parts(t, l, "f", "rule_counters"); n != 1 {
			t.Errorf("there are %d parts for one rule, want 1", n)
		}
		l.Set("POST", "f rules", "["+strings.Join(rules, ",")+"]")
		if n := parts(t, l, "f", "rule_counters"); n != 2 {
			t.Errorf("there are %d parts for %d rules, want 2", n, many+1)
		}
		l.Flood("veth1", hit, 3)
		l.Flood("veth1", other, 2)
		l.Restart(func() {})
		for id, want := range map[int]string{4200: "3", 5000: "2", 4199: "0", 104: "0"} {
			if got := l.Read(fmt.Sprintf("f rules %d packets", id)); got != want {
				t.Errorf("rule %d has %s packets, want %s", id, got, want)
			}
		}
		all := read(t, l)
		if len(all) != many+1 || !strings.HasPrefix(all[many-1], "4200:3/") {
			t.Errorf("%d rules have counters, that of rule 4200 is %s; want %d and 4200:3", len(all), all[min(many, len(all))-1], many+1)
		}
		l.Set("DELETE", "f rules", "")
		netns.Eventually(t, pace.Stretch(time.Minute), func() error {
			if n := parts(t, l, "f", "rule_counters"); n != 1 {
				return fmt.Errorf("there are %d parts without rules, want 1", n)
			}
			return nil
		})
	})
}
