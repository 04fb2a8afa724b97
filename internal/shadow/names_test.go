// SPDX-License-Identifier: Apache-2.0

package shadow

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"

	"github.com/polycube/polycube/internal/netdev"
)

func TestNamesOfInterfaces(t *testing.T) {
	for _, c := range []struct{ cube, port, inner, outer string }{
		{"r1", "p1", "p1", "r1-p1"},
		{"router7", "toveth1", "toveth1", "router7-toveth1"},
		{"r1", "a.b_c+d-e", "a.b_c+d-e", "r1-a.b_c+d-e"},
	} {
		if got := InnerName(c.port); got != c.inner {
			t.Errorf("port %s is %s in the namespace, want %s", c.port, got, c.inner)
		}
		if got := OuterName(c.cube, c.port); got != c.outer {
			t.Errorf("%s:%s has the outer end %s, want %s", c.cube, c.port, got, c.outer)
		}
	}
}

// TestNamesThatAreTooLongStayApart: every name is one that an interface can have, and no two are the same.
func TestNamesThatAreTooLongStayApart(t *testing.T) {
	long := strings.Repeat("p", 63)
	ports := []string{"lo", "all", "default", "p1", long + "1", long + "2", "exactly15chars1", "sixteen-chars-16"}
	taken := map[string]string{}
	take := func(name, whose string) {
		t.Helper()
		if err := netdev.CheckName(name); err != nil || reserved[name] {
			t.Errorf("%s: %v", whose, err)
		}
		if other := taken[name]; other != "" {
			t.Errorf("%s is the name of %s and of %s", name, other, whose)
		}
		taken[name] = whose
	}
	for _, p := range ports {
		take(InnerName(p), p)
	}
	clear(taken)
	for _, c := range []string{"r1", long + "1", long + "2", "elevenchars"} {
		for _, p := range ports {
			take(OuterName(c, p), c+":"+p)
			take(otherOuterName("", c, p), "the other "+c+":"+p)
			take(otherOuterName("x", c, p), "x@"+c+":"+p)
		}
	}
	if OuterName("a-b", "c") != OuterName("a", "b-c") || otherOuterName("", "a-b", "c") == otherOuterName("", "a", "b-c") {
		t.Error("a-b:c and a:b-c have the same plain name, and must not have the same other one")
	}
}

func TestNamespacesOfInstancesStayApart(t *testing.T) {
	taken := map[string]bool{}
	for _, instance := range []string{"", "a", "a-b", "b"} {
		for _, cube := range []string{"a", "b", "a-b", "b-a", "a-b-a"} {
			k := &Keeper{o: Options{Instance: instance}}
			if name := k.Name(cube); taken[name] || strings.ContainsAny(name, "/ ") {
				t.Errorf("instance %q, cube %s: %s is taken or no name", instance, cube, name)
			} else {
				taken[name] = true
			}
		}
	}
}

// event is a struct inotify_event with a name, padded as the kernel does.
func event(name string, padded int) []byte {
	e := make([]byte, 16+padded)
	binary.NativeEndian.PutUint32(e[12:], uint32(padded))
	copy(e[16:], name)
	return e
}

func TestRemovedNames(t *testing.T) {
	for _, c := range []struct {
		what string
		buf  []byte
		want []string
	}{
		{"nothing", nil, nil},
		{"one", event("pcn-r1", 16), []string{"pcn-r1"}},
		{"two", slices.Concat(event("pcn-r1", 16), event("pcn-another-cube", 32)), []string{"pcn-r1", "pcn-another-cube"}},
		{"one without a name", slices.Concat(event("", 0), event("b", 16)), []string{"", "b"}},
		{"one cut off", event("pcn-r1", 16)[:20], []string{"pcn-"}},
		{"a head cut off", event("pcn-r1", 16)[:10], nil},
	} {
		if got := removedNames(c.buf); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
