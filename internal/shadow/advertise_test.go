// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"errors"
	"net/netip"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
)

func TestWhatACubeServesIsARouteInItsNamespace(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.linked(t, r1)
	l.inside(t, "ip route add blackhole 203.0.113.9/32")
	l.inside(t, "ip route add blackhole 203.0.113.8/32 proto 80") // of an earlier daemon
	routes := func() (all []string) {
		for _, family := range []string{"-4", "-6"} {
			out, err := exec.Command("nsenter", "--net="+l.k.path("r1"), "ip", family, "route", "show", "type", "blackhole", "proto", "80").CombinedOutput()
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			for line := range strings.Lines(string(out)) {
				all = append(all, strings.Fields(line)[1])
			}
		}
		slices.Sort(all)
		return all
	}
	for _, want := range [][]string{{"10.9.0.1", "2001:db8::1"}, {"10.9.0.1", "10.9.0.2"}, {"2001:db8::1"}, nil} {
		var prefixes []netip.Prefix
		for _, a := range want {
			addr := netip.MustParseAddr(a)
			prefixes = append(prefixes, netip.PrefixFrom(addr, addr.BitLen()))
		}
		l.Must(func() error { return l.k.Advertise(r1.UUID, prefixes) })
		if got := routes(); !slices.Equal(got, want) {
			t.Errorf("the namespace has %v, want %v", got, want)
		}
	}
	out, err := exec.Command("nsenter", "--net="+l.k.path("r1"), "ip", "route", "show", "203.0.113.9").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "203.0.113.9") {
		t.Errorf("a route of someone else is gone: %v, %s", err, out)
	}
	if err := l.k.Advertise("nobody", nil); !errors.Is(err, cube.ErrNotFound) {
		t.Errorf("a cube without a namespace: %v", err)
	}
}
