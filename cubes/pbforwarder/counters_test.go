// SPDX-License-Identifier: Apache-2.0

package pbforwarder

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
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
