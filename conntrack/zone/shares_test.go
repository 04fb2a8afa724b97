// SPDX-License-Identifier: Apache-2.0

package zone

import (
	"errors"
	"os"
	"testing"
	"time"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
)

func TestTheRowsAreAlike(t *testing.T) {
	object, err := os.ReadFile("../../cubes/firewall/firewall.tc.o")
	if err != nil {
		t.Fatal(err)
	}
	bpftest.Layout(t, object, sharesMap, row{})
}

func TestNamesAreThoseOfTheModel(t *testing.T) {
	for text, want := range map[string]Name{"own": "", "shared:a": "a", "shared:own": "own"} {
		var n Name
		if err := n.UnmarshalText([]byte(text)); err != nil || n != want {
			t.Errorf("%s is %q, %v, want %q", text, n, err, want)
		}
	}
}

// TestUsersOfAZoneGetTheLargestOfWhatTheyWant: also those that an earlier daemon knew, and that are not there yet.
func TestUsersOfAZoneGetTheLargestOfWhatTheyWant(t *testing.T) {
	want := func(limit uint32, udp, icmp time.Duration) wants {
		return wants{limit, conntrack.Timeouts{conntrack.UDP: udp, conntrack.ICMP: icmp}}
	}
	x := &shares{rows: make([]row, 4), users: map[uint16]user{
		0: {cube: "a", zone: 2000, wants: want(10, 5*time.Second, 0)},
		1: {cube: "b", zone: 2000, wants: want(20, time.Second, time.Second)},
		2: {cube: "c", zone: 2, wants: want(1000, time.Hour, time.Hour)},
	}}
	if got, any := x.merged(2000); !any || got != want(20, 5*time.Second, 0) {
		t.Errorf("got %v", got)
	}
	x.rows[3] = row{Zone: 2000, Limit: 15}
	x.rows[3].Timeout[conntrack.UDP] = 7
	if got, _ := x.merged(2000); got != want(20, 7*time.Second, 0) {
		t.Errorf("with a cube that is not restored: %v", got)
	}
	if _, any := x.merged(2001); any {
		t.Error("a zone without users wants something")
	}
	if a, c := x.differs(0), x.differs(2); a != "b" || c != "" {
		t.Errorf("others that differ: %q and %q, want b and none", a, c)
	}
}

func TestProgramsWithoutSharedZonesHaveTheirOwn(t *testing.T) {
	x := &shares{users: map[uint16]user{}}
	if _, err := x.number("a"); !errors.Is(err, cube.ErrUnsupported) {
		t.Errorf("the error is %v, want %v", err, cube.ErrUnsupported)
	}
	if got := x.zoneOf(7); got != 7 {
		t.Errorf("the zone of cube 7 is %d", got)
	}
}
