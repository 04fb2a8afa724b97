// SPDX-License-Identifier: Apache-2.0

// Parameters in the containers of a port can be set with it, are explained and completed, and so are lists of keys.

package e2e

import (
	"regexp"
	"strings"
	"testing"
)

func TestParametersInContainersAreTypedWithTheOthers(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("bridge add br1")
	d.Do("router add r1")
	for _, c := range []struct{ line, shows, want string }{
		{"br1 ports add p1 mode=access access.vlanid=10", "br1 show ports p1 access vlanid", "10"},
		{"br1 ports add p2 mode=trunk trunk.default-vlan=false trunk.allowed=10,20", "br1 show ports p2 trunk allowed", "vlanid 10 20"},
		{"br1 ports p2 set trunk.allowed=20,30", "br1 show ports p2 trunk allowed", "vlanid 20 30"},
		{"br1 ports p2 set trunk.allowed=40 trunk.native-vlan=40", "br1 show ports p2 trunk allowed", "vlanid 40"},
		{"br1 ports p2 trunk add allowed=50,60", "br1 show ports p2 trunk allowed", "vlanid 40 50 60"},
		{"br1 ports p2 trunk set allowed=70", "br1 show ports p2 trunk allowed", "vlanid 70"},
		{"br1 ports p2 set trunk.allowed=", "br1 show ports p2 trunk allowed", ""},
		{"r1 ports add p1 ip=10.0.0.1/24 secondaryip=10.0.1.1/24,10.0.2.1/24", "r1 show ports p1 secondaryip", "ip 10.0.1.1/24 10.0.2.1/24"},
		{"bridge add br2 ports=p1,p2", "br2 show ports p2 mode", "access"},
	} {
		d.Do(c.line)
		if got := strings.Join(strings.Fields(d.Do(c.shows)), " "); got != c.want {
			t.Errorf("after %s, %s: %q, want %q", c.line, c.shows, got, c.want)
		}
	}
	for line, says := range map[string]string{
		"br1 ports add p3 acess.vlanid=10":                "did you mean access?",
		"br1 ports add p3 access.vlnid=10":                "did you mean vlanid?",
		"br1 ports add p3 vlanid=10":                      "did you mean access.vlanid?",
		"br1 ports p1 set vlanid=10":                      "did you mean access.vlanid?",
		"br1 ports add p3 access=10":                      "it has no value of its own, only members: vlanid: did you mean access.vlanid?",
		"br1 ports add p3 mode=trunk trunk.allowed=10,,2": `"10,,2" has an empty value between commas`,
		"br1 ports add p3 mode=trunk trunk.allowed=1,x":   `vlanid: "x"`,
		"br1 ports add p3 mode=access trunk.allowed=10":   "is allowed only when ../mode = 'trunk'",
		"br1 ports p1 trunk show allowd":                  "did you mean allowed?",
		"br1 set ports=p1,p2":                             "br1 ports is a list: append <name> to the path",
	} {
		if r := d.CLI(strings.Fields(line)...); r.code != 2 || !strings.Contains(r.stderr, says) {
			t.Errorf("%s: want exit 2 and %q: %v", line, says, r)
		}
	}
	if got := strings.Fields(d.Do("br1 show ports -brief")); strings.Contains(strings.Join(got, " "), "p3") {
		t.Errorf("a refused port is there: %v", got)
	}
}

func TestParametersInContainersAreExplainedAndCompleted(t *testing.T) {
	t.Parallel()
	d := start(t)
	d.Do("bridge add br1")
	d.Do("br1 ports add p2 mode=trunk trunk.allowed=10,20")
	for line, want := range map[string]string{
		"br1 ports add p1 ?":                `(?m)^access\.vlanid= +vlan-id +VLAN of all frames received and sent on the port\..* 10$`,
		"br1 ports p2 set ?":                `(?m)^trunk\.allowed= +list of vlan-id +VLANs whose tagged frames are accepted and sent\.`,
		"br1 ports add p1 mode=trunk ?":     `(?m)^trunk\.native-vlan= `,
		"br1 ports add p1 trunk.allowed= ?": `(?s)^allowed: +VLANs whose.*Type: +list of vlan-id.*Range: +1\.\.4094.*Example: +polycubectl br1 ports add p1 trunk\.allowed=10\nSeveral: +trunk\.allowed=A,B`,
		"br1 ports p2 set access.vlanid= ?": `(?s)^vlanid: .*Default: +1\n.*polycubectl br1 ports p2 set access\.vlanid=10`,
		"br1 ports p2 trunk allowed add ?":  `(?m)^<vlanid> +vlan-id`,
		"br1 set ?":                         `(?m)^fdb\.aging-time= +uint32`,
		"bridge add br2 ?":                  `(?m)^fdb\.max-entries= +uint32`,
	} {
		if got := d.Do(line); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s: no %q in\n%s", line, want, got)
		}
	}
	for typed, want := range map[string]string{
		"br1 ports add p1 ":                          "peer= tcubes= mac= mode= access.vlanid= trunk.default-vlan= trunk.native-vlan-enabled= trunk.native-vlan= trunk.allowed=",
		"br1 ports add p1 access.vl":                 "access.vlanid=",
		"br1 ports add p1 mode=":                     "mode=access mode=trunk",
		"br1 ports add p1 mode=trunk trunk.a":        "trunk.allowed=",
		"br1 ports add p1 trunk.default-vlan=":       "trunk.default-vlan=true trunk.default-vlan=false",
		"br1 ports add p1 access.vlanid=10 access.v": "",
		"br1 ports p2 set trunk.allowed=":            "trunk.allowed=1 trunk.allowed=10 trunk.allowed=20",
		"br1 ports p2 set trunk.allowed=10,":         "trunk.allowed=10,1 trunk.allowed=10,20",
		"br1 ports p2 set trunk.allowed=10,2":        "trunk.allowed=10,20",
		"br1 set fdb.":                               "fdb.aging-time= fdb.max-entries=",
	} {
		r := d.CLI("__complete", "polycubectl "+typed)
		if got := strings.Join(strings.Fields(r.stdout), " "); r.code != 0 || got != want {
			t.Errorf("%s TAB: %q, want %q: %v", typed, got, want, r)
		}
	}
}
