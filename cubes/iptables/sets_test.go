// SPDX-License-Identifier: Apache-2.0

package iptables_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

// ipset runs a command about one set.
func (o *ours) ipset(t *testing.T, set, line string) (output string, code int) {
	t.Helper()
	var args []map[string]string
	for _, word := range strings.Fields(line) {
		args = append(args, map[string]string{"text": word})
	}
	body, err := json.Marshal(map[string]any{"argument": args})
	if err != nil {
		t.Fatal(err)
	}
	var out struct {
		Output, Error string
		Code          int
	}
	if err := json.Unmarshal([]byte(o.Action(set+" run", string(body))), &out); err != nil {
		t.Fatal(err)
	}
	return out.Output + out.Error, out.Code
}

// must is ipset for a command that succeeds.
func (o *ours) must(t *testing.T, set, line string) string {
	t.Helper()
	out, code := o.ipset(t, set, line)
	if code != 0 {
		t.Fatalf("%s: %d %s", line, code, out)
	}
	return out
}

func TestRulesMatchSetsOfAllTypes(t *testing.T) {
	o := newOurs(t)
	for _, c := range []struct{ set, entries, dirs, drops, passes string }{
		{`"set-type":"hash:ip","timeout":0`, "192.0.2.1", "src", "1 1", ""},
		{`"set-type":"hash:ip","timeout":0`, "192.0.2.1", "dst", "", "1 1"},
		{`"set-type":"hash:net","counters":true`, "192.0.2.0/24", "src,dst", "1 1", ""},
		{`"set-type":"hash:net","exceptions":true`, "192.0.0.0/16 192.0.2.0/25,nomatch", "src", "", "1 1"},
		{`"set-type":"hash:net"`, "192.0.2.0/24", "src,dst", "1 1", ""},
		{`"set-type":"hash:ip,port"`, "10.0.0.1,udp:7", "dst,dst", "1 7", "7 1"},
		{`"set-type":"hash:ip,port"`, "192.0.2.1,udp:7", "src,dst", "1 7", "7 1"},
		{`"set-type":"hash:ip,port"`, "192.0.2.1,tcp:7", "src,dst", "", "1 7"},
		{`"set-type":"hash:ip,port"`, "192.0.2.1,udp:7", "src", "", "1 7"},
		{`"set-type":"hash:net,port"`, "192.0.0.0/8,udp:7", "src,src", "7 1", "1 7"},
		{`"set-type":"hash:ip,port,ip"`, "192.0.2.1,udp:7,10.0.0.1", "src,dst,dst", "1 7", "7 1"},
		{`"set-type":"hash:ip,port,ip"`, "192.0.2.1,udp:7,10.0.0.2", "src,dst,dst", "", "1 7"},
		{`"set-type":"bitmap:port","first-port":5,"last-port":9`, "7", "dst", "1 7", "7 1"},
		{`"set-type":"hash:mac"`, o.Hosts[0].MAC.String(), "src", "1 1", ""},
		{`"set-type":"hash:mac"`, "02:00:00:00:00:99", "src", "", "1 1"},
		{`"set-type":"hash:ip","family":"inet6","timeout":0`, "::1", "src", "", "1 1"},
	} {
		o.Create("ipset", "s", "{"+c.set+"}")
		for _, e := range strings.Fields(c.entries) {
			o.must(t, "s", "add s "+strings.Replace(e, ",nomatch", " nomatch", 1))
		}
		for _, not := range []string{"", "! "} {
			o.restore(t, []string{"a"}, "INPUT -m set "+not+"--match-set s "+c.dirs+" -j DROP")
			for i, ports := range []string{c.drops, c.passes} {
				var from, to uint16
				if _, err := fmt.Sscan(ports, &from, &to); err != nil {
					continue
				}
				o.in(t, fmt.Sprintf("%s {%s} %s%s ports %s", c.set, c.entries, not, c.dirs, ports), udp(from, to), map[bool]string{true: "rule"}[(i == 0) == (not == "")])
			}
		}
		o.restore(t, []string{"a"}, "INPUT -p udp")
		o.Set("DELETE", "s", "")
	}
}

func TestElementsExpireCountAndAreAddedByRules(t *testing.T) {
	o := newOurs(t)
	o.Create("ipset", "s", `{"set-type":"hash:ip,port","timeout":1000,"counters":true,"maxelem":2}`)
	o.restore(t, []string{"a"}, "INPUT -m set --match-set s src,dst -j DROP", "INPUT -p udp -m udp --sport 5 -j SET --add-set s src,dst --timeout 500",
		"INPUT -p udp -m udp --sport 6 -j SET --del-set s src,dst")
	o.in(t, "before", udp(1, 7), "")
	o.in(t, "adds", udp(5, 7), "")
	o.in(t, "added", udp(1, 7), "rule")
	o.in(t, "another port", udp(1, 8), "")
	if got := o.must(t, "s", "list s"); !regexp.MustCompile(`(?m)^192\.0\.2\.1,udp:7 timeout [45]\d\d packets 1 bytes [1-9]\d*$`).MatchString(got) {
		t.Errorf("list prints\n%s", got)
	}
	o.in(t, "adds another", udp(5, 8), "")
	o.in(t, "the set is full", udp(5, 9), "")
	o.in(t, "not added", udp(1, 9), "")
	if got := o.Read("s refused"); got != "1" {
		t.Errorf("the full set has refused %s packets, want 1", got)
	}
	if out, code := o.ipset(t, "s", "add s 192.0.2.1,udp:7"); code != 1 || !strings.Contains(out, "already added") {
		t.Errorf("a second add: %d %s", code, out)
	}
	was := o.must(t, "s", "save s")
	o.Restart(func() {})
	o.in(t, "after a restart", udp(1, 7), "rule")
	if got := o.must(t, "s", "save s"); strings.Count(got, "\n") != strings.Count(was, "\n") {
		t.Errorf("it was\n%s\nand is\n%s", was, got)
	}
	o.must(t, "s", "del s 192.0.2.1,udp:7")
	o.in(t, "deleted", udp(1, 7), "")
	if out, code := o.ipset(t, "s", "destroy s"); code != 1 || !strings.Contains(out, "in use by a kernel component") {
		t.Errorf("destroy: %d %s", code, out)
	}
	o.must(t, "s", "flush s")
	o.in(t, "flushed", udp(1, 8), "")
	o.must(t, "s", "add s 192.0.2.1,udp:9 timeout 1")
	netns.Eventually(t, bpftest.Patience, func() error {
		if out, code := o.ipset(t, "s", "test s 192.0.2.1,udp:9"); code == 0 {
			return fmt.Errorf("%s", out)
		}
		if got := o.Read("s element"); got != "[]" {
			return fmt.Errorf("the configuration has %s", got)
		}
		return nil
	})
	o.in(t, "expired", udp(2, 9), "")
}

// TestElementsThatRulesEndMakeRoom: in a set whose elements do not expire, too.
func TestElementsThatRulesEndMakeRoom(t *testing.T) {
	o := newOurs(t)
	o.Create("ipset", "s", `{"set-type":"hash:ip,port","maxelem":1}`)
	o.restore(t, []string{"a"}, "INPUT -p udp -m udp --sport 5 -j SET --add-set s src,dst", "INPUT -p udp -m udp --sport 6 -j SET --del-set s src,dst",
		"INPUT -m set --match-set s src,dst -j DROP")
	o.in(t, "adds", udp(5, 7), "rule")
	o.in(t, "added", udp(1, 7), "rule")
	o.in(t, "the set is full", udp(5, 8), "")
	o.in(t, "ends", udp(6, 7), "")
	o.in(t, "ended", udp(1, 7), "")
	netns.Eventually(t, bpftest.Patience, func() error {
		if got := o.send(udp(5, 8)); got.Verdict != "drop" {
			return fmt.Errorf("an element is not added: %+v", got)
		}
		return nil
	})
}

func TestSetsOfSetsAndSwaps(t *testing.T) {
	o := newOurs(t)
	o.Create("ipset", "a1", `{"set-type":"hash:ip","timeout":0}`)
	o.Create("ipset", "b1", `{"set-type":"hash:ip","timeout":0}`)
	o.Create("ipset", "p1", `{}`)
	o.Create("ipset", "l", `{"set-type":"list:set"}`)
	o.must(t, "l", "add l a1")
	o.must(t, "l", "add l p1 before a1")
	o.must(t, "l", "add l a1 -exist") // it stays where it is
	o.must(t, "l", "add l p1 -exist")
	o.Create("ipset", "l2", `{"set-type":"list:set"}`)
	for member, want := range map[string]string{"l2": "Sets with list:set type cannot be added to the set", "l": "does not exist", "none": "does not exist"} {
		if out, code := o.ipset(t, "l", "add l "+member); code != 1 || !strings.Contains(out, want) {
			t.Errorf("add l %s: %d %s, want %s", member, code, out, want)
		}
	}
	if got := o.must(t, "l", "save l"); !strings.HasSuffix(got, "add l p1\nadd l a1\n") {
		t.Errorf("save prints %s", got)
	}
	o.restore(t, []string{"a"}, "INPUT -m set --match-set l src -j DROP")
	o.in(t, "empty sets", udp(1, 1), "")
	o.must(t, "a1", "add a1 192.0.2.1")
	o.in(t, "a member has it", udp(1, 1), "rule")
	o.must(t, "a1", "del a1 192.0.2.1")
	o.in(t, "no member has it", udp(1, 1), "")
	o.must(t, "p1", "add p1 192.0.2.0/24")
	o.in(t, "a member with plain prefixes has it", udp(1, 1), "rule")
}
