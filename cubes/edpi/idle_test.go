// SPDX-License-Identifier: Apache-2.0

package edpi_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/dpi"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/netns"
)

func TestFlowsOfAnApplicationStayAsLongAsItSays(t *testing.T) {
	each(t, `{"timeout":600,"idle-timeout":[{"kind":"PROTOCOL","name":"dns","seconds":1},{"kind":"PROTOCOL","name":"TLS","seconds":600},
		{"kind":"CATEGORY","name":"Media","seconds":1}]}`, func(t *testing.T, r *rig) {
		if got := r.Read("c idle-timeout PROTOCOL dns in-effect"); got != "false" {
			t.Errorf("before names are known, in-effect is %s", got)
		}
		r.announce()
		r.alive(true)
		if got := r.Read("c idle-timeout PROTOCOL dns in-effect"); got != "true" {
			t.Errorf("in-effect is %s", got)
		}
		for port, class := range map[uint16]*dpi.Class{
			1: {Protocol: dns},                               // ends
			2: {Protocol: video, Category: media},            // by its category
			3: {Protocol: tls, Category: media},              // the protocol comes first
			4: {Protocol: 7, Master: tls, Category: media},   // so does the one that carries it
			5: nil,                                           // not decided
			6: {Protocol: 7, Category: media + 1},            // neither has a time
			7: {Protocol: 0, Category: media, Master: video}, // unknown, of the category
		} {
			r.run("a packet", "veth1", udp(port, 53), "")
			if class != nil {
				r.decide(udp(port, 53), *class)
			}
			if port == 2 {
				r.run("one after the decision", "veth1", udp(port, 53), "")
			}
		}
		left := func(want ...int) {
			t.Helper()
			netns.Eventually(t, bpftest.Patience, func() error {
				var ports []int
				for _, e := range r.entries() {
					ports = append(ports, e.SourcePort)
				}
				if slices.Sort(ports); !slices.Equal(ports, want) {
					return fmt.Errorf("flows %v are left, want %v", ports, want)
				}
				return nil
			})
		}
		left(3, 4, 5, 6)
		r.Set("PATCH", "c idle-timeout PROTOCOL TLS", `{"seconds":1}`)
		left(5, 6)
		r.Set("PATCH", "c timeout", "1")
		left()
	})
}

func TestWrongIdleTimeoutsAreRefused(t *testing.T) {
	l := bpftest.New(t, bpftest.Options{Hosts: 2})
	r := newRig(t, l, `{"idle-timeout":[{"kind":"PROTOCOL","name":"Nonsense","seconds":1}]}`)
	r.announce()
	for _, tt := range []struct{ words, body, want string }{
		{"c idle-timeout PROTOCOL DNS", `{}`, "seconds"},
		{"c idle-timeout PROTOCOL DNS", `{"seconds":0}`, "seconds"},
		{"c idle-timeout ELEPHANT any", `{"seconds":1}`, "kind"},
		{"c idle-timeout PROTOCOL Nonsens", `{"seconds":1}`, "unknown to polycube-ndpi"},
		{"c idle-timeout CATEGORY DNS", `{"seconds":1}`, "unknown to polycube-ndpi"},
		{"c idle-timeout PROTOCOL nonsense", `{"seconds":1}`, "names are case-insensitive"},
	} {
		if err := l.Try("POST", tt.words, tt.body); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s %s: %v, want %q", tt.words, tt.body, err, tt.want)
		}
	}
	if got := l.Read("c idle-timeout"); strings.Count(got, "seconds") != 1 {
		t.Errorf("after refusals the list is %s", got)
	}
}
