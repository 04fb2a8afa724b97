// SPDX-License-Identifier: Apache-2.0

package ddosmitigator_test

// Random lists, random changes and random packets, compared with an oracle that looks at each prefix.

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"

	"github.com/polycube/polycube/test/bpftest"
	"github.com/polycube/polycube/test/repeat"
)

var listNames = []string{src, dst, "allow"}

// oracle has the prefixes of each list, with the packets that they have dropped.
type oracle struct {
	rng   *rand.Rand
	lists [3]map[netip.Prefix]int
}

// draw is a random prefix for a list: they are close to each other, so that many contain others. Few contain all.
func (o *oracle) draw(list int) netip.Prefix {
	addr := o.address()
	bits := addr.BitLen() - o.rng.IntN(8)
	if n := o.rng.IntN(200); n == 0 && list < 2 {
		bits = 1 + o.rng.IntN(addr.BitLen())
	}
	return netip.PrefixFrom(addr, bits).Masked()
}

func (o *oracle) address() netip.Addr {
	if o.rng.IntN(2) == 0 {
		return netip.AddrFrom4([4]byte{10, byte(o.rng.IntN(2)), byte(o.rng.IntN(4)), byte(o.rng.Uint32())})
	}
	b := [16]byte{0: 0x20, 1: 0x01, 2: 0x0d, 3: 0xb8, 7: byte(o.rng.IntN(4)), 8: byte(o.rng.IntN(4)), 15: byte(o.rng.Uint32())}
	return netip.AddrFrom16(b)
}

// text is a prefix as the model writes it.
func text(p netip.Prefix) string {
	if p.IsSingleIP() {
		return p.Addr().String()
	}
	return p.String()
}

// of returns the longest prefix of a list that contains an address.
func (o *oracle) of(list int, addr netip.Addr) (longest netip.Prefix, ok bool) {
	for p := range o.lists[list] {
		if p.Contains(addr) && (!ok || p.Bits() > longest.Bits()) {
			longest, ok = p, true
		}
	}
	return longest, ok
}

// fate returns what happens to a packet, and counts it.
func (o *oracle) fate(from, to netip.Addr) string {
	for _, addr := range []netip.Addr{from, to} {
		if _, ok := o.of(2, addr); ok {
			return "pass"
		}
	}
	for list, addr := range []netip.Addr{from, to} {
		if p, ok := o.of(list, addr); ok {
			o.lists[list][p]++
			return listNames[list]
		}
	}
	return "pass"
}

// change changes a list at random, also as a whole. The first changes fill the lists.
func (o *oracle) change(l *bpftest.Lab, round int) {
	list, n := o.rng.IntN(3), o.rng.IntN(10)
	if round < 3 {
		list, n = round, 9
	}
	is := o.lists[list]
	switch {
	case n < 5:
		p := o.draw(list)
		if _, ok := is[p]; !ok {
			l.Set("POST", "d "+listNames[list]+" "+text(p), "{}")
			is[p] = 0
		}
	case n < 8:
		if all := slices.SortedFunc(maps.Keys(is), netip.Prefix.Compare); len(all) > 0 {
			p := all[o.rng.IntN(len(all))]
			l.Set("DELETE", "d "+listNames[list]+" "+text(p), "")
			delete(is, p)
		}
	default:
		type entry struct {
			IP string `json:"ip"`
		}
		next, body := map[netip.Prefix]int{}, []entry{}
		for range o.rng.IntN([]int{800, 800, 80}[list]) {
			next[o.draw(list)] = 0
		}
		for p := range next {
			next[p] = is[p] // what stays keeps its counter
			body = append(body, entry{text(p)})
		}
		raw, err := json.Marshal(body)
		if err != nil {
			panic(err)
		}
		l.Set("PUT", "d "+listNames[list], string(raw))
		o.lists[list] = next
	}
}

// counted is an entry with its counters.
type counted struct {
	IP string `json:"ip"`
	counts
}

func TestRandomListsAndPackets(t *testing.T) {
	seed := repeat.Seed(t)
	each(t, `{}`, func(t *testing.T, l *bpftest.Lab) {
		o := &oracle{rng: rand.New(rand.NewPCG(seed, 1)), lists: [3]map[netip.Prefix]int{{}, {}, {}}}
		fates := map[string]int{}
		for round := range 60 {
			o.change(l, round)
			for range 10 {
				from := o.address()
				to := o.address()
				for to.Is4() != from.Is4() {
					to = o.address()
				}
				want := o.fate(from, to)
				fates[want]++
				expect(t, l, fmt.Sprintf("round %d: %s to %s", round, from, to), frame(from.String(), to.String()), want)
			}
			if round == 30 {
				l.Restart(nil)
			}
			if t.Failed() {
				return
			}
		}
		for list := range 2 {
			got := state[[]counted](t, l, "d "+listNames[list])
			if len(got) != len(o.lists[list]) {
				t.Errorf("%s has %d entries, want %d", listNames[list], len(got), len(o.lists[list]))
			}
			want := map[string]int{}
			for p, n := range o.lists[list] {
				want[text(p)] = n
			}
			for _, e := range got {
				if n, ok := want[e.IP]; !ok || n != int(e.Packets) {
					t.Errorf("%s %s has %d packets, want %d (in the list: %t)", listNames[list], e.IP, e.Packets, n, ok)
				}
			}
		}
		if min(fates["pass"], fates[src]+fates[dst]) < 20 {
			t.Errorf("the packets are one-sided: %v", fates)
		}
	})
}
