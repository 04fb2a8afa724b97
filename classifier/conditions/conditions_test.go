// SPDX-License-Identifier: Apache-2.0

package conditions

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/polycube/polycube/classifier"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/test/pkt"
)

// fields has all conditions.
type fields struct {
	VLAN           *uint32
	EtherType      *inet.EtherType
	SrcMAC, DstMAC *inet.MACMatch
	Proto          *inet.Protocol
	Src, Dst       *inet.Prefix
	SrcSet, DstSet string
	DSCP           *uint8
	Sport, Dport   inet.PortList
	Flags          *inet.TCPFlags
	ICMP, ICMPv6   *inet.ICMPMatch
}

func (f *fields) list() List {
	return List{VLAN("vlan", f.VLAN), EtherType("ethertype", f.EtherType), SourceMAC("srcmac", f.SrcMAC), DestinationMAC("dstmac", f.DstMAC),
		Protocol("proto", f.Proto), Source("src", f.Src), Destination("dst", f.Dst), SourceSet("srcset", f.SrcSet), DestinationSet("dstset", f.DstSet),
		DSCP("dscp", f.DSCP), SourcePorts("sport", f.Sport), DestinationPorts("dport", f.Dport), TCPFlags("flags", f.Flags),
		ICMP("icmp", f.ICMP), ICMPv6("icmpv6", f.ICMPv6)}
}

// match makes a match of the fields in JSON, and of negated ones.
func match(t *testing.T, is, not string) (m classifier.Match, err error) {
	t.Helper()
	var f, g fields
	for text, into := range map[string]*fields{is: &f, not: &g} {
		if text == "" {
			continue
		}
		if err := json.Unmarshal([]byte(text), into); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	err = Match(&m, f.list(), g.list())
	return m, err
}

var (
	ssh  = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").VLAN(7).IPv4("10.0.0.1", "10.0.0.2", pkt.IPv4Options{TOS: 46 << 2}).TCP(1000, 22, pkt.TCPFlags{SYN: true}).Bytes()
	ping = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv4("10.0.0.1", "10.0.0.2").Echo(1, 1).Bytes()
	six  = pkt.Eth("02:00:00:00:00:01", "02:00:00:00:00:02").IPv6("2001:db8::1", "2001:db8::2").UDP(1, 53).Bytes()
)

func TestEachConditionMatches(t *testing.T) {
	for _, tt := range []struct {
		is, not        string
		ssh, ping, six bool
	}{
		{"", "", true, true, true},
		{`{"VLAN":7}`, "", true, false, false},
		{"", `{"VLAN":7}`, false, true, true},
		{`{"EtherType":"0x86dd"}`, "", false, false, true},
		{`{"SrcMAC":"02:00:00:00:00:00/ff:00:00:00:00:00","DstMAC":"02:00:00:00:00:02"}`, "", true, true, true},
		{"", `{"SrcMAC":"02:00:00:00:00:01"}`, false, false, false},
		{`{"Proto":"TCP"}`, "", true, false, false},
		{`{"Src":"10.0.0.0/8","Dst":"10.0.0.2"}`, "", true, true, false},
		{"", `{"Dst":"10.0.0.2"}`, false, false, false},
		{`{"DSCP":46}`, "", true, false, false},
		{`{"Sport":"1,1000"}`, "", true, false, true},
		{`{"Dport":"22,53,80-90"}`, "", true, false, true},
		{`{"Dport":"20-21,53"}`, "", false, false, true},
		{"", `{"Dport":"20-22,80"}`, false, false, true},
		{`{"Flags":"SYN,!ACK"}`, "", true, false, false},
		{`{"ICMP":8}`, "", false, true, false},
		{`{"ICMP":"8/1"}`, "", false, false, false},
		{`{"ICMPv6":128}`, "", false, false, false},
		{`{"SrcSet":"none"}`, "", false, false, false},
		{"", `{"DstSet":"none"}`, true, true, true},
	} {
		m, err := match(t, tt.is, tt.not)
		if err != nil {
			t.Errorf("%s not %s: %v", tt.is, tt.not, err)
			continue
		}
		for name, c := range map[string]struct {
			frame []byte
			want  bool
		}{"ssh": {ssh, tt.ssh}, "ping": {ping, tt.ping}, "six": {six, tt.six}} {
			if k, _ := classifier.KeyOf(c.frame, 0, 0); m.Matches(&k) != c.want {
				t.Errorf("%s not %s, %s: %t", tt.is, tt.not, name, !c.want)
			}
		}
	}
}

func TestContradictionsAreRefused(t *testing.T) {
	for _, tt := range []struct{ is, not, says string }{
		{`{"Proto":"UDP","Flags":"SYN"}`, "", "flags: proto is UDP"},
		{`{"ICMP":8,"Flags":"SYN"}`, "", "only one of flags and icmp"},
		{`{"ICMP":8,"ICMPv6":128}`, "", "only one of icmp and icmpv6"},
		{`{"Src":"10.0.0.1","Dst":"::1"}`, "", "dst: address"},
		{`{"Dport":7,"ICMP":8}`, "", "icmp: "},
		{"", `{"Dport":"1,3,5,7,9,11,13,15,17,19,21,23,25,27,29,31,33"}`, "not: dport: "},
	} {
		if _, err := match(t, tt.is, tt.not); !errors.Is(err, cube.ErrInvalid) && !errors.Is(err, cube.ErrFull) || !strings.HasPrefix(err.Error(), tt.says) && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s not %s: %v, want an error with %q", tt.is, tt.not, err, tt.says)
		}
	}
}
