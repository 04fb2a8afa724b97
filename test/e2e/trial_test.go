// SPDX-License-Identifier: Apache-2.0

// Changes on trial, as users make them.

package e2e

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/netns"
)

// TestALockoutIsTakenBack: a rule that locks everybody out is gone when nobody confirms it, also if the daemon was killed
// meanwhile; a confirmed one stays.
func TestALockoutIsTakenBack(t *testing.T) {
	t.Parallel()
	d := start(t)
	lan, _ := d.betweenNetworks()
	d.Do("firewall add fw1")
	d.Do("attach fw1 host")
	lan.Reaches(t, patience, "10.0.0.1")
	blocked := func(when string) {
		t.Helper()
		if err := lan.Ping("10.0.0.1", netns.Brief); err == nil {
			t.Errorf("%s: the ping passes", when)
		}
	}
	r := d.CLI("--try", "3", "fw1", "chain", "INGRESS", "set", "default=DROP")
	if r.code != 0 || !strings.Contains(r.stderr, `On trial for 3 seconds: "polycubectl confirm" keeps it`) {
		t.Fatal(r)
	}
	blocked("on trial")
	lan.Reaches(t, patience, "10.0.0.1")

	d.Do("--try 4 fw1 chain INGRESS set default=DROP")
	if r := d.CLI("fw1", "chain", "EGRESS", "set", "default=DROP"); r.code != 2 || !strings.Contains(r.stderr, "is on trial for another") {
		t.Errorf("another change: %s", r)
	}
	d.Kill9()
	blocked("without a daemon")
	d = d.machine.Start()
	lan.Reaches(t, patience, "10.0.0.1")

	d.Do("fw1 chain INGRESS set default=ACCEPT")
	if r := d.CLI("--try", "60", "fw1", "chain", "INGRESS", "set", "default=ACCEPT"); r.code != 0 || !strings.Contains(r.stderr, "Nothing is on trial") {
		t.Errorf("a change that changes nothing: %s", r)
	}
	left := func(pattern string) {
		t.Helper()
		_, text, err := d.Request(http.MethodGet, "/metrics", "")
		if err != nil || !regexp.MustCompile("(?m)^polycube_trial_seconds_left "+pattern).MatchString(text) {
			t.Errorf("polycube_trial_seconds_left is not %s: %v", pattern, err)
		}
	}
	left("0[.]0+$")

	d.Do("--try 600 fw1 chain INGRESS set default=DROP")
	left("5[0-9]{2}[.]")
	if got := d.Do("confirm show"); !strings.Contains(got, "revision") {
		t.Errorf("confirm show prints %q", got)
	}
	d.Do("confirm")
	blocked("confirmed")
	if r := d.CLI("confirm"); r.code != 2 || !strings.Contains(r.stderr, "no change is on trial") {
		t.Errorf("confirm without a trial: %s", r)
	}
	d.Do("--try=600 fw1 chain INGRESS set default=ACCEPT")
	d.Do("confirm no")
	blocked("taken back")
	if r := d.CLI("--try", "60", "fw1", "show"); r.code != 64 {
		t.Errorf("--try and show: %s", r)
	}
	if r := d.CLI("--try", "soon", "fw1", "show"); r.code != 64 {
		t.Errorf("--try with a word: %s", r)
	}
}
