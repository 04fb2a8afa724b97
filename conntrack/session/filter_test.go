// SPDX-License-Identifier: Apache-2.0

package session

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/conntrack/table"
)

// TestFiltersSelectWhatFulfilsAllConditions: each condition is left out by one of the sessions that it does not select.
func TestFiltersSelectWhatFulfilsAllConditions(t *testing.T) {
	web := Session{netip.MustParseAddrPort("10.0.0.1:1000"), netip.MustParseAddrPort("192.0.2.1:443"), 6, "ESTABLISHED"}
	dns := Session{netip.MustParseAddrPort("[2001:db8::1]:1000"), netip.MustParseAddrPort("[2001:db8::53]:53"), 17, "NEW"}
	for _, c := range []struct {
		input    string
		web, dns bool
	}{
		{``, true, true},
		{`{}`, true, true},
		{`{"src":"10.0.0.0/8"}`, true, false},
		{`{"src":"10.0.0.2"}`, false, false},
		{`{"src":"2001:db8::/32"}`, false, true},
		{`{"src":"::/0"}`, false, true},
		{`{"dst":"192.0.2.1"}`, true, false},
		{`{"l4proto":"UDP"}`, false, true},
		{`{"l4proto":6}`, true, false},
		{`{"sport":1000}`, true, true},
		{`{"sport":1000,"dport":53}`, false, true},
		{`{"dport":0}`, false, false},
		{`{"state":"NEW"}`, false, true},
		{`{"src":"10.0.0.1","state":"NEW"}`, false, false},
	} {
		f, err := Parse(json.RawMessage(c.input))
		if err != nil {
			t.Fatalf("%s: %v", c.input, err)
		}
		if got := [2]bool{f.Selects(web), f.Selects(dns)}; got != [2]bool{c.web, c.dns} {
			t.Errorf("%s selects %v", c.input, got)
		}
	}
	if _, err := Parse(json.RawMessage(`{"src":"10.0.0"}`)); err == nil {
		t.Error("an address that is none is accepted")
	}
}

// TestSessionsAreThoseOfTheOpener: also if its address is the higher one.
func TestSessionsAreThoseOfTheOpener(t *testing.T) {
	from, to := netip.MustParseAddrPort("192.0.2.1:1000"), netip.MustParseAddrPort("10.0.0.1:53")
	key, side := table.Between(from, to, 17, 0)
	if side != 1 {
		t.Fatal("the opener is the lower end")
	}
	e := table.Entry{Key: key}
	if e.State.UDP(side) != conntrack.New {
		t.Fatal("it is not new")
	}
	if got, want := Of(&e), (Session{from, to, 17, "NEW"}); got != want {
		t.Errorf("the session is %v, want %v", got, want)
	}
}
