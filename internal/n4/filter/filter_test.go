// SPDX-License-Identifier: Apache-2.0

package filter

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// show is a rule in one line.
func show(r Rule) string {
	text := "ip"
	if r.Protocol != nil {
		text = fmt.Sprint(*r.Protocol)
	}
	return fmt.Sprint(text, " ", r.Remote, " ", r.RemotePorts, " ", r.Device, " ", r.DevicePorts)
}

var texts = []struct{ text, want string }{
	{"permit out ip from any to assigned", "ip <nil> [] <nil> []"},
	{"permit out ip from any to any", "ip <nil> [] <nil> []"},
	{"permit out 17 from 192.0.2.0/24 to assigned", "17 192.0.2.0/24 [] <nil> []"},
	{"permit out 6 from 192.0.2.9 443 to assigned", "6 192.0.2.9/32 [443] <nil> []"},
	{"permit out 6 from 192.0.2.9/8 443,8000-8080 to assigned 5,6-7", "6 192.0.0.0/8 [443 8000-8080] <nil> [5 6-7]"},
	{"permit out 17 from 2001:db8::/32 to assigned 1-65535", "17 2001:db8::/32 [] <nil> [1-65535]"},
	{"permit out ip from any 53 to 10.45.0.7", "ip <nil> [53] 10.45.0.7/32 []"},
	{"PERMIT OUT IP FROM ANY TO ASSIGNED", "ip <nil> [] <nil> []"},
	{"  permit   out ip from any\tto assigned ", "ip <nil> [] <nil> []"},
	{"permit out 0 from any to any", "0 <nil> [] <nil> []"},
}

func TestFlowDescriptionsAreParsed(t *testing.T) {
	for _, tt := range texts {
		r, err := Parse(tt.text)
		if err != nil || show(r) != tt.want {
			t.Errorf("%q: %s, error %v, instead of %s", tt.text, show(r), err, tt.want)
		}
	}
}

var invalid = []string{
	"", "permit", "deny out ip from any to assigned", "permit in ip from any to assigned", "permit out tcp from any to assigned",
	"permit out 256 from any to assigned", "permit out ip any to assigned", "permit out ip from assigned to any",
	"permit out ip from !192.0.2.1 to assigned", "permit out ip from 192.0.2.1/33 to assigned", "permit out ip from 192.0.2 to assigned",
	"permit out ip from any 0x50 to assigned", "permit out ip from any 80, to assigned", "permit out ip from any 70000 to assigned",
	"permit out ip from any 9-8 to assigned", "permit out ip from any 80 81 to assigned", "permit out ip from any to assigned frag",
	"permit out 6 from any to assigned established", "permit out ip from any to", "permit out ip from any",
	"permit out ip from 192.0.2.1 to 2001:db8::1", "permit out ip from fe80::1%eth0 to assigned", "permit out ip from ::ffff:1.2.3.4/120 to assigned",
	"permit out ip from any " + strings.Repeat("1,", MaxPorts) + "1 to assigned",
}

func TestOtherTextsAreRefused(t *testing.T) {
	for _, text := range invalid {
		if r, err := Parse(text); !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %s, error %v", text, show(r), err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, tt := range texts {
		f.Add(tt.text)
	}
	for _, text := range invalid {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil && (!errors.Is(err, ErrInvalid) || show(r) != show(Rule{})) {
			t.Errorf("%q: %s, error %v", text, show(r), err)
		}
		for _, p := range append(r.RemotePorts, r.DevicePorts...) {
			if p.First > p.Last {
				t.Errorf("%q: ports %v", text, p)
			}
		}
	})
}
