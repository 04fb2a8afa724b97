// SPDX-License-Identifier: Apache-2.0

package pdusession

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

// redirecting is a session that redirects requests.
func redirecting(url string) *Session {
	s := simple(deviceIP, 257)
	s.Rules[0].Forward.Redirect = url
	return s
}

// urls are what rules of the rows redirect to.
func urls(t *testing.T, tables *Tables, r *Rows) (all []string) {
	t.Helper()
	for i := r.Block; i < r.Block+r.Size; i++ {
		is := tables.rules.values[i]
		if is.Flags&flagRedirects == 0 {
			continue
		}
		u := tables.urls.values[is.TEID]
		all = append(all, string(u.URL[:u.Length]))
	}
	return all
}

func TestRedirectionsHaveRows(t *testing.T) {
	all := maps(t, map[string]uint32{"redirects": 4})
	tables := opened(t, all)
	const first, second = "http://a.example/", "http://b.example/?x=1"
	rows := put(t, tables, nil, redirecting(first))
	if got := urls(t, tables, rows); len(got) != 1 || got[0] != first {
		t.Fatalf("redirected to %q", got)
	}
	kept := put(t, tables, rows, redirecting(first))
	if !reflect.DeepEqual(kept.Redirects, rows.Redirects) {
		t.Errorf("a URL that stays has rows %v instead of %v", kept.Redirects, rows.Redirects)
	}

	// A batch without an effect leaves the old URL, and takes no row.
	b := tables.Begin()
	if _, err := b.Put(kept, redirecting(second)); err != nil {
		t.Fatal(err)
	}
	if err := b.Abort(); err != nil {
		t.Fatal(err)
	}
	if got := urls(t, tables, kept); got[0] != first || tables.urls.space.count != 1 {
		t.Errorf("after a batch that was given up: %q, %d rows", got, tables.urls.space.count)
	}
	changed := put(t, tables, kept, redirecting(second))
	if got := urls(t, tables, changed); got[0] != second || tables.urls.space.count != 1 {
		t.Errorf("changed: %q, %d rows", got, tables.urls.space.count)
	}

	// Another process finds the row.
	other := opened(t, all)
	if missing, removed, err := other.Adopt([]*Rows{changed}); err != nil || len(missing) != 0 || removed != 0 || other.urls.space.count != 1 {
		t.Errorf("adopted: %d missing, %d removed, %v, %d rows", len(missing), removed, err, other.urls.space.count)
	}
	if got := urls(t, other, changed); got[0] != second {
		t.Errorf("another process finds %q", got)
	}
	put(t, other, changed, simple(deviceIP, 257))
	if other.urls.space.count != 0 {
		t.Errorf("%d rows are in use without a redirection", other.urls.space.count)
	}
}

func TestRedirectionsThatCannotBeAreRefused(t *testing.T) {
	tables := opened(t, maps(t, map[string]uint32{"redirects": 2}))
	for what, change := range map[string]func(s *Session){
		"two lines":             func(s *Session) { s.Rules[0].Forward.Redirect = "http://a/\r\nX: y" },
		"a space":               func(s *Session) { s.Rules[0].Forward.Redirect = "http://a/b c" },
		"a long one":            func(s *Session) { s.Rules[0].Forward.Redirect = strings.Repeat("x", MaxURL+1) },
		"of packets to it":      func(s *Session) { s.Rules[1].Forward = Forward{Action: Pass, Redirect: "http://a/"} },
		"into a tunnel":         func(s *Session) { s.Rules[0].Forward.Peer = netip.MustParseAddr(gNB) },
		"of packets that wait":  func(s *Session) { s.Rules[0].Forward.Action = Wait },
		"from the network side": func(s *Session) { s.Rules[0].FromNetwork = true },
	} {
		s := redirecting("http://a/")
		change(s)
		b := tables.Begin()
		if _, err := b.Put(nil, s); !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
		if err := b.Abort(); err != nil {
			t.Fatal(err)
		}
	}
	if is := tables.InUse(); is.Rules != 0 || tables.urls.space.count != 0 {
		t.Errorf("rows are in use: %+v", is)
	}

	// There is room for one.
	put(t, tables, nil, redirecting("http://a/"))
	s := redirecting("http://b/")
	s.IPv4, s.Rules[0].TEID = netip.MustParseAddr("10.1.0.2"), 258
	b := tables.Begin()
	if _, err := b.Put(nil, s); !errors.Is(err, cube.ErrFull) {
		t.Errorf("a second one: %v", err)
	}
	if err := b.Abort(); err != nil {
		t.Fatal(err)
	}
}
