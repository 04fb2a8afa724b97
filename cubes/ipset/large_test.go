// SPDX-License-Identifier: Apache-2.0

package ipset_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

// many is the number of prefixes in a large set.
const many = 100000

// spread are prefixes anywhere: of IPv4 from /16 to hosts, and of IPv6 from /32 to hosts.
func spread(rng *rand.Rand, count int) []netip.Prefix {
	seen := map[netip.Prefix]bool{}
	for len(seen) < count {
		var b [16]byte
		for i := range b {
			b[i] = byte(rng.Uint32())
		}
		b[0] = 16 + b[0]&15
		p := netip.PrefixFrom(netip.AddrFrom4([4]byte(b[:4])), 16+rng.IntN(17))
		if rng.IntN(4) == 0 {
			b[0], b[1] = 0x20, 0x01
			p = netip.PrefixFrom(netip.AddrFrom16(b), 32+rng.IntN(97))
		}
		seen[p.Masked()] = true
	}
	all := make([]netip.Prefix, 0, count)
	for p := range seen {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b netip.Prefix) int { return a.Compare(b) })
	return all
}

// list is prefixes in the form of the API.
func list(all []netip.Prefix) string {
	var b strings.Builder
	b.WriteString("[")
	for i, p := range all {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"prefix":%q}`, p)
	}
	b.WriteString("]")
	return b.String()
}

// TestTimedALargeSetChangesLikeASmallOne compares changes of a set of 100,000 prefixes with those of one of ten.
func TestTimedALargeSetChangesLikeASmallOne(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 2))
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV})
	forwarder(l, "f", []int{1, 2}, `{"id":1,"src_set":"large"}`, `{"id":2,"src_set":"small"}`, `{"id":3,"action":"FORWARD","out_port":"p2"}`)
	l.Create("ipset", "small", `{"prefixes":`+list(spread(rng, 10))+`}`)
	l.Create("ipset", "large", `{"prefixes":`+list(spread(rng, many))+`}`)
	times := map[string][]time.Duration{}
	for i := range 100 {
		for _, name := range []string{"small", "large"} {
			p, method, want := netip.AddrFrom4([4]byte{name[0] & 15, byte(i / 2), 1, 1}), "POST", "action-drop"
			if i%2 == 1 {
				method, want = "DELETE", "f:p2"
			}
			begin := time.Now()
			l.Set(method, fmt.Sprintf("%s prefixes %s", name, p), "")
			times[name] = append(times[name], time.Since(begin))
			if got := fate(l, "veth1", p.String(), "1.1.1.1"); got != want {
				t.Fatalf("%s %s prefixes %s: the fate of its packets is %s, want %s", method, name, p, got, want)
			}
		}
	}
	median := func(name string) time.Duration { return slices.Sorted(slices.Values(times[name]))[len(times[name])/2] }
	t.Logf("a change takes %v, with 10 prefixes %v", median("large"), median("small"))
	if median("large") > 3*median("small")+5*time.Millisecond {
		t.Errorf("a change of %d prefixes takes %v, of 10 %v", many, median("large"), median("small"))
	}
}

// TestASwapIsAtomicForPackets swaps a set of thousands of prefixes while packets arrive that are in both, in neither, or whose
// two addresses are in the same one of them.
func TestASwapIsAtomicForPackets(t *testing.T) {
	rng := rand.New(rand.NewPCG(repeat.Seed(t), 3))
	l := bpftest.New(t, bpftest.Options{Hosts: 2, Type: cube.TypeXDPDRV})
	// Packets of 198.18.0.1 are dropped, and those that are only half in the set.
	forwarder(l, "f", []int{1, 2}, `{"id":1,"src_ip":"198.18.0.0/16","src_set":"s","not":{"dst_set":"s"}}`,
		`{"id":2,"src_ip":"198.18.0.0/16","dst_set":"s","not":{"src_set":"s"}}`,
		`{"id":3,"src_set":"s","action":"FORWARD","out_port":"p2"}`, `{"id":4,"src_ip":"198.18.0.0/16","action":"FORWARD","out_port":"p2"}`)
	lists := make([]string, 2)
	for i := range lists {
		all := append(spread(rng, 3000), netip.MustParsePrefix("203.0.113.0/24"))
		if i == 1 { // both addresses, or none
			all = append(all, netip.MustParsePrefix("198.18.0.1/32"), netip.MustParsePrefix("198.18.0.2/32"))
		}
		lists[i] = list(all)
	}
	l.Create("ipset", "s", `{"prefixes":`+lists[0]+`}`)
	frames := make([][]byte, 4000)
	kinds := [][]byte{frame("203.0.113.9", "1.1.1.1"), frame("198.18.0.1", "198.18.0.2"), frame("203.0.114.9", "203.0.113.9")}
	for i := range frames {
		frames[i] = kinds[i%len(kinds)]
	}
	for round := 0; ; round++ {
		swapped := make(chan struct{})
		go func() {
			defer close(swapped)
			for i := range 4 {
				l.Set("PUT", "s prefixes", lists[(i+1)%2])
			}
		}()
		count := [3]int{}
		for done := false; !done; {
			select {
			case <-swapped:
				done = true
			default:
			}
			l.Together("veth1", 2, frames, func(n int, got []byte) {
				if forwarded, want := got != nil, n%len(kinds) < 2; forwarded != want {
					count[n%len(kinds)]++
				}
			})
		}
		if count != [3]int{} {
			t.Fatalf("%d packets in both sets were dropped, %d were half in the set, %d in neither were forwarded", count[0], count[1], count[2])
		}
		if round == 2 {
			return
		}
	}
}
