// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// sets runs a script in which the programs of iptables and ipset are those of the cubes.
func (d *daemon) sets(script string) string {
	d.t.Helper()
	return d.inPlaceOfIptables(fmt.Sprintf("ipset() { %s \"$@\"; }\nfails() { ! \"$@\"; }\n%s", program(d.t, "pcn-ipset"), script))
}

// TestScriptsBanHostsBySets: as fail2ban and other scripts do, with a timeout, and a list that replaces another one.
func TestScriptsBanHostsBySets(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.lab.AnswerLines("10.0.0.1:7000", sender)
	reaches := func(when string, want bool) {
		t.Helper()
		if err := dials(lan, "10.0.0.1", 7000); (err == nil) != want {
			t.Errorf("%s: %v", when, err)
		}
	}
	out := d.sets(`
		pcn-iptables-init
		ipset create ban hash:ip timeout 3600 counters
		ipset -exist create ban hash:ip timeout 3600 counters
		fails ipset create ban hash:ip timeout 3600 counters
		iptables -A INPUT -p tcp -m set --match-set ban src -j DROP
		ipset add ban 10.0.0.2 timeout 600
		fails ipset add ban 10.0.0.2
		ipset -exist add ban 10.0.0.2 timeout 500
		ipset test ban 10.0.0.2
		fails ipset test ban 10.0.0.3
		fails ipset destroy ban
		fails ipset list nosuch
		ipset save`)
	contains(t, out, "Set cannot be created: set with the same name already exists", "Element cannot be added to the set: it's already added",
		"10.0.0.2 is in set ban.", "10.0.0.3 is NOT in set ban.", "ipset v7.17: Set cannot be destroyed: it is in use by a kernel component",
		"The set with the given name does not exist", "create ban hash:ip family inet hashsize 1024 maxelem 65536 timeout 3600 counters\nadd ban 10.0.0.2 timeout ")
	reaches("banned", false)
	contains(t, d.sets("ipset create other hash:ip timeout 5\nipset swap ban other\nipset list other\nipset del other 10.0.0.2"), "Name: other\nType: hash:ip\n",
		"References: 0\nNumber of entries: 1\nMembers:\n10.0.0.2 timeout ", " packets ")
	reaches("swapped with an empty set", true)
	out = d.sets(`
		ipset restore <<-end
			create web hash:net,port family inet hashsize 1024 maxelem 65536
			add web 10.0.0.0/24,tcp:7000
			create nets hash:net
			add nets 10.0.0.0/8
			add nets 10.0.0.2/31 nomatch
			end
		fails ipset restore <<-end
			add nets 192.0.2.0/24
			add nosuch 192.0.2.0/24
			end
		iptables -F
		iptables -A INPUT -m set --match-set web src,dst -m set --match-set nets src -j DROP
		ipset list nets`)
	contains(t, out, "Error in command 2, add nosuch: The set with the given name does not exist", "Members:\n10.0.0.0/8\n10.0.0.2/31 nomatch\n")
	reaches("an exception", true)
	out = d.sets(`
		ipset restore <<-end
			create l list:set size 8
			add l nets
			add l web before nets
			end
		fails ipset restore <<-end
			add l nosuch
			end
		ipset del l web
		ipset add l web after nets
		ipset -exist add l nets
		ipset save l`)
	contains(t, out, "does not exist", "\nadd l nets\nadd l web\n")
	d.sets("ipset destroy l\nipset del nets 10.0.0.2/31")
	reaches("no exception", false)
	out = d.sets("iptables -F\nipset rename web old\nipset destroy nets\nipset destroy\nipset list")
	if out != "" {
		t.Errorf("it prints %s", out)
	}
	if err := lan.Ping("10.0.0.1", netns.Brief); err != nil {
		t.Error(err)
	}
	reaches("no rules", true)
}
