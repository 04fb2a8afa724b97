// SPDX-License-Identifier: Apache-2.0

package ddosmitigator

import (
	"errors"
	"math"
	"net/netip"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/inet"
	"github.com/polycube/polycube/sketch"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/modeltest"
)

func TestModelAndCodeSayTheSame(t *testing.T) {
	modeltest.Match(t, modeltest.Load(t, modeltest.Service(t, files).Model), Config{})
}

func TestEntriesAreThoseOfThePrograms(t *testing.T) {
	for _, name := range []string{"ddosmitigator.tc.o", "ddosmitigator.xdp.o"} {
		object, err := files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bpftest.Layout(t, object, "entries", entry{})
		bpftest.Layout(t, object, "lengths", lengthsOfEnds{})
		bpftest.Layout(t, object, "detected", listing{})
		bpftest.Layout(t, object, "seeds", sketch.Seed{})
		bpftest.Layout(t, object, "dropped", inet.Count{})
	}
}

// FuzzAddress: a key is accepted in one form only, and its form for the program is that of no other key.
func FuzzAddress(f *testing.F) {
	for _, seed := range []string{"10.0.0.1", "10.0.0.0/8", "2001:db8::/32", "::1", "0.0.0.0/0", "::ffff:10.0.0.1", "::ffff:0:0/95", "1.2.3.4/32"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var a Address
		if err := a.UnmarshalText([]byte(text)); err != nil {
			if !errors.Is(err, cube.ErrInvalid) {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if a.String() != text {
			t.Errorf("%q is accepted, and written as %s", text, a)
		}
		if back := prefixOf(a.Prefix).address(); back != a {
			t.Errorf("%q is %v for the program, and back %s", text, prefixOf(a.Prefix), back)
		}
	})
}

func TestKeysHaveOneForm(t *testing.T) {
	for text, valid := range map[string]bool{
		"10.0.0.1": true, "10.0.0.0/8": true, "2001:db8::1": true, "2001:db8::/32": true, "128.0.0.0/1": true, "::/1": true, "::ffff:0:0/95": false,
		"10.0.0.1/32": false, "10.0.0.1/8": false, "2001:db8::1/128": false, "2001:DB8::1": false, "2001:db8:0::1": false,
		"0.0.0.0/0": false, "::/0": false, "::ffff:10.0.0.1": false, "fe80::1%eth0": false, "": false, "x": false, "10.0.0.0/33": false,
	} {
		var a Address
		err := a.UnmarshalText([]byte(text))
		if (err == nil) != valid || err != nil && !errors.Is(err, cube.ErrInvalid) {
			t.Errorf("%q: %v, valid: %t", text, err, valid)
		}
	}
	if got := prefixOf(netip.MustParsePrefix("10.0.0.0/8")); got != (prefix{0, 0xffff0a000000, 104}) {
		t.Errorf("10.0.0.0/8 is %x", got)
	}
}

func TestARateIsSampled(t *testing.T) {
	var s sample
	for _, tt := range []struct {
		packets uint64
		at      time.Duration
		pps     uint64
	}{{1000, 5 * time.Second, 0}, {3000, 6 * time.Second, 2000}, {3000, 6 * time.Second, 2000}, {4000, 8 * time.Second, 500}, {4000, 9 * time.Second, 0}} {
		s.take(tt.packets, uint64(tt.at))
		if s.pps != tt.pps {
			t.Errorf("%d packets at %s: %d per second, want %d", tt.packets, tt.at, s.pps, tt.pps)
		}
	}
}

func TestEntriesAreDueInTheirOrder(t *testing.T) {
	var q dueQueue
	for _, at := range []uint64{5, 1, math.MaxUint64, 3, 3, 2} {
		q.push(dueEntry{at: at})
	}
	last := uint64(0)
	for len(q) > 0 {
		e := q.pop()
		if e.at < last {
			t.Errorf("%d is due after %d", e.at, last)
		}
		last = e.at
	}
}
