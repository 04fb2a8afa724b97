// SPDX-License-Identifier: Apache-2.0

package ipset

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// expanded returns the elements that a command names, as text, or the error.
func expanded(t *testing.T, create, entry string) string {
	t.Helper()
	c, err := ReadCommand(strings.Fields("create a " + create))
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Header.Element(entry)
	if err != nil {
		return err.Error()
	}
	all, err := c.Header.Expand(e)
	if err != nil {
		return err.Error()
	}
	out := make([]string, len(all))
	for i, e := range all {
		out[i] = c.Header.Text(e)
		if single, err := c.Header.Single(out[i]); err != nil || single != e {
			t.Errorf("%s is read as %v (%v)", out[i], single, err)
		}
	}
	return strings.Join(out, " ")
}

func TestRangesAreTheirElements(t *testing.T) {
	for _, c := range []struct{ create, entry, want string }{
		{"hash:ip", "192.0.2.254-192.0.3.1", "192.0.2.254 192.0.2.255 192.0.3.0 192.0.3.1"},
		{"hash:ip", "255.255.255.254/31", "255.255.255.254 255.255.255.255"},
		{"hash:ip,port", "192.0.2.1,udp:7-9", "192.0.2.1,udp:7 192.0.2.1,udp:8 192.0.2.1,udp:9"},
		{"hash:ip,port", "192.0.2.0/31,65534-65535", "192.0.2.0,tcp:65534 192.0.2.0,tcp:65535 192.0.2.1,tcp:65534 192.0.2.1,tcp:65535"},
		{"hash:ip,port,ip", "192.0.2.0-192.0.2.1,80,2.2.2.2", "192.0.2.0,tcp:80,2.2.2.2 192.0.2.1,tcp:80,2.2.2.2"},
		{"hash:net", "192.0.2.1-192.0.2.6", "192.0.2.1 192.0.2.2/31 192.0.2.4/31 192.0.2.6"},
		{"hash:net", "0.0.0.0-255.255.255.255", "0.0.0.0/1 128.0.0.0/1"},
		{"hash:net", "10.0.0.0/8", "10.0.0.0/8"},
		{"hash:net,port", "192.0.2.0-192.0.2.2,udp:1-2", "192.0.2.0/31,udp:1 192.0.2.0/31,udp:2 192.0.2.2,udp:1 192.0.2.2,udp:2"},
		{"bitmap:port range 5-10", "9-10", "9 10"},
		{"hash:ip", "10.0.0.0/8", "the range 10.0.0.0-10.255.255.255 has more than 1048576 addresses"},
		{"hash:ip,port", "10.0.0.0/27,0-65535", "the range has 2097152 elements, and may have 1048576"},
	} {
		if got := expanded(t, c.create, c.entry); got != c.want {
			t.Errorf("%s of %s: %s, want %s", c.entry, c.create, got, c.want)
		}
	}
	if got := expanded(t, "bitmap:port range 0-65535", "0-65535"); strings.Count(got, " ") != 65535 {
		t.Errorf("all ports are %d elements", strings.Count(got, " ")+1)
	}
}

func TestAnElementOfTheConfigurationIsNoRange(t *testing.T) {
	h := Header{Type: "hash:net", Family: 4}
	for text, want := range map[string]string{
		"192.0.2.0-192.0.2.2": "192.0.2.0-192.0.2.2 names 2 elements: add them one by one, or by pcn-ipset",
		"192.0.2.1/24":        "192.0.2.1/24: write it as 192.0.2.0/24",
		"192.0.2.1/32":        "192.0.2.1/32: write it as 192.0.2.1",
	} {
		if _, err := h.Single(text); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
}

// number returns the last 32 bits of an address.
func number(a netip.Addr) uint64 {
	raw := a.AsSlice()
	n := uint64(0)
	for _, b := range raw[len(raw)-4:] {
		n = n<<8 | uint64(b)
	}
	return n
}

// fewest returns how many prefixes of 1 to 32 bits a range of numbers needs at least, by halves.
func fewest(first, last uint64, from uint64, bits int) int {
	switch end := from + 1<<bits - 1; {
	case last < from || end < first:
		return 0
	case bits < 32 && first <= from && end <= last:
		return 1
	}
	half := bits - 1
	return fewest(first, last, from, half) + fewest(first, last, from+1<<half, half)
}

// TestAFewPrefixesAreARange compares random ranges with the fewest prefixes: they follow each other from its first address to its
// last one.
func TestAFewPrefixesAreARange(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 1))
	for range 2000 {
		a, b := rng.Uint32()>>rng.IntN(32), rng.Uint32()>>rng.IntN(32)
		if rng.IntN(2) == 0 { // at the end of all addresses
			a, b = ^a, ^b
		}
		a, b = min(a, b), max(a, b)
		for _, base := range [][]byte{nil, {0x20, 1, 0xd, 0xb8, 11: 0}} {
			address := func(n uint32) netip.Addr {
				out, _ := netip.AddrFromSlice(append(base[:len(base):len(base)], byte(n>>24), byte(n>>16), byte(n>>8), byte(n)))
				return out
			}
			count, next := 0, uint64(a)
			for p := range prefixes(address(a), address(b)) {
				if p != p.Masked() || p.Bits() < 1 || number(p.Addr()) != next {
					t.Fatalf("%v-%v has the prefix %v, where %d was next", address(a), address(b), p, next)
				}
				next = number(lastOf(p)) + 1
				count++
			}
			if want := fewest(uint64(a), uint64(b), 0, 32); next != uint64(b)+1 || (base == nil || want > 1) && count != want {
				t.Fatalf("%v-%v: %d prefixes to %d, want %d", address(a), address(b), count, next-1, want)
			}
		}
	}
	if got := fmt.Sprint(fewest(1, 6, 0, 32)); got != "4" {
		t.Errorf("the comparison counts %s prefixes for 1-6", got)
	}
}
