// SPDX-License-Identifier: Apache-2.0

package search

import (
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/iptables/language"
	"github.com/polycube/polycube/test/pkt"
)

// conditions are those of a rule, and whether they are whole.
func conditions(t *testing.T, text string) (c Conditions, whole bool) {
	t.Helper()
	args, err := language.SplitLine("-A INPUT " + text)
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := language.ReadCommand(language.IPv4, args)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	r := cmd.Rules[0]
	source, errSource := c.Source(r.Source)
	destination, errDestination := c.Destination(r.Destination)
	if err := c.Protocol(r.Protocol); err != nil || errSource != nil || errDestination != nil {
		t.Fatalf("%s: %v, %v, %v", text, errSource, errDestination, err)
	}
	whole = source && destination
	for _, m := range r.Matches {
		is, err := c.Extension(m)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		whole = whole && is
	}
	return c, whole
}

func TestConditionsMatchTheirPackets(t *testing.T) {
	eth := func() *pkt.Frame {
		return pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.1.1")
	}
	web, dns, echo := eth().TCP(1000, 80, pkt.TCPFlags{SYN: true}).Bytes(), eth().UDP(1000, 53).Bytes(), eth().Echo(1, 1).Bytes()
	for _, tt := range []struct {
		rule           string
		web, dns, echo bool
		whole          bool
	}{
		{"", true, true, true, true},
		{"-s 10.0.0.0/24", true, true, true, true},
		{"! -s 10.0.0.1", false, false, false, true},
		{"-d 10.0.1.0/255.255.255.1", true, true, true, false}, // a mask that is no prefix
		{"-p tcp", true, false, false, true},
		{"! -p tcp", false, true, true, true},
		{"-p tcp --dport 80 --syn", true, false, false, true},
		{"-p tcp ! --syn", false, false, false, true},
		{"-p tcp --tcp-option 5", true, false, false, false},
		{"-p udp --dport 53:54", false, true, false, true},
		{"-p udp ! --dport 53", false, false, false, true},
		{"-p tcp -m multiport --dports 22,80,443", true, false, false, true},
		{"-p tcp -m multiport --dports 22,81,443", false, false, false, true},
		{"-p udp -m multiport ! --sports 22,1000:1001", false, false, false, true},
		{"-p tcp -m multiport --ports 22,81", true, false, false, false},
		{"-p icmp --icmp-type 8", false, false, true, true},
		{"-p icmp ! --icmp-type 8", false, false, false, true},
		{"-m mac --mac-source 02:00:00:00:00:01", true, true, true, true},
		{"-m mark --mark 1", false, false, false, true},
		{"-m dscp --dscp 10", false, false, false, true},
		{"-m comment --comment x", true, true, true, true},
		{"-m length --length 1", true, true, true, false},
	} {
		c, whole := conditions(t, tt.rule)
		var got [3]bool
		for i, frame := range [][]byte{web, dns, echo} {
			key, ok := classifier.KeyOf(frame, 0, 0)
			if !ok {
				t.Fatal("no key")
			}
			got[i] = c.Match.Matches(&key)
		}
		if got != [3]bool{tt.web, tt.dns, tt.echo} || whole != tt.whole {
			t.Errorf("%q matches %v, whole: %t", tt.rule, got, whole)
		}
	}
}
