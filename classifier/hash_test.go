// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"math/rand/v2"
	"net/netip"
	"testing"

	"github.com/polycube/polycube/test/repeat"
)

// service is a rule as those of a service, or of a host, are.
func service(rng *rand.Rand) Match {
	var m Match
	to := netip.AddrFrom4([4]byte{10, 0, byte(rng.IntN(4)), byte(rng.IntN(64))})
	port := uint16(rng.IntN(8))
	if err := m.Destination(netip.PrefixFrom(to, 32)); err != nil {
		panic(err)
	}
	m.Protocol(6)
	if err := m.DestinationPorts(port, port); err != nil {
		panic(err)
	}
	switch rng.IntN(20) {
	case 0: // as much, and more
		m.DSCP(uint8(rng.IntN(4)))
	case 1:
		if err := m.SourcePorts(uint16(rng.IntN(4)), 4); err != nil {
			panic(err)
		}
	}
	return m
}

// toService is a packet that some of these rules match.
func toService(rng *rand.Rand) *Key {
	return &Key{
		wordLink:        0xffff<<32 | 0x0800<<16 | 6<<8 | kindIP | kindProtocol | kindPorts | kindTCP,
		wordDestination: (10<<24 | rng.Uint64N(4)<<8 | rng.Uint64N(66)) << 32,
		wordPorts:       rng.Uint64N(6)<<48 | rng.Uint64N(9)<<32 | rng.Uint64N(4)<<16,
	}
}

// table returns the table of a set with most rules, nil if there is none.
func (l *lab) table() (most *tree) {
	for i := range l.set.trees {
		if t := &l.set.trees[i]; t.root.hash != nil && (most == nil || t.rules > most.rules) {
			most = t
		}
	}
	return most
}

// hashed is pcn_classify_hashed.
func (b *blocks) hashed(block []byte, k *Key) uint32 {
	words, mask := tuple(k[:hashWords]), tuple{}
	for w := range mask {
		mask[w] = native.Uint64(block[8+8*w:])
	}
	slot := slotOf(&words, &mask, int(block[5]))
	referred := func(from, i uint32) uint32 { return native.Uint32(b.at(from + i/references)[i%references*4:]) }
	return referred(referred(native.Uint32(block), slot>>block[6]), slot&(1<<block[6]-1))
}

// TestRulesOfATupleAreInATable has a table that begins with few rules, and gets many more and loses them, one by one and many
// at once, with others that do not fit into it.
func TestRulesOfATupleAreInATable(t *testing.T) {
	seed := repeat.Seed(t)
	rng := rand.New(rand.NewPCG(seed, 0))
	l := newLab(t)
	var all []Change
	for i := range 20 {
		all = append(all, Change{Order: uint32(i) << 16, Rule: &Rule{Match: service(rng), Result: uint32(i)}})
	}
	l.apply(all)
	if l.table() == nil {
		t.Fatalf("20 rules of a tuple are in no table: %s", Lab{l}.Describe())
	}
	small := l.table().root.hash.bits
	check := func() {
		t.Helper()
		for range 20 {
			l.check(toService(rng))
		}
	}
	for i := range 3000 {
		m := service(rng)
		if i%300 == 0 {
			m = wide(rng)
		}
		l.apply([]Change{{Order: rng.Uint32N(MaxOrder), Rule: &Rule{Match: m, Result: uint32(i)}}})
		if i%20 == 0 {
			check()
		}
	}
	if large := l.table(); large == nil || large.root.hash.bits <= small || large.rules < 2000 {
		t.Errorf("the table has not grown: %s", Lab{l}.Describe())
	}
	for len(l.rules) > 0 {
		var gone []Change
		for order := range l.rules {
			if gone = append(gone, Change{Order: order}); len(gone) == 1+rng.IntN(4) {
				break
			}
		}
		l.apply(gone)
		if len(l.rules)%20 == 0 {
			check()
		}
	}
	if err := l.tight(); err != nil {
		t.Error(err)
	}
}

// TestHostsOfANetworkAreInATable: addresses of IPv6 that differ in their lower half alone.
func TestHostsOfANetworkAreInATable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := newLab(t)
	var all []Change
	host := func(n int) netip.Addr {
		a := netip.MustParseAddr("2001:db8::").As16()
		a[14], a[15] = byte(n>>8), byte(n)
		return netip.AddrFrom16(a)
	}
	for i := range 1000 {
		var m Match
		if err := m.Source(netip.PrefixFrom(host(i), 128)); err != nil {
			t.Fatal(err)
		}
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: m, Result: uint32(i)}})
	}
	l.apply(all)
	if l.table() == nil || l.table().rules != 1000 {
		t.Fatalf("1000 hosts are in no table: %s", Lab{l}.Describe())
	}
	for range 1000 {
		a := host(rng.IntN(1100)).As16()
		l.check(&Key{wordLink: kindIP | kindIPv6 | 0x86dd<<16, wordSource: number(a[:8]), wordSourceLow: number(a[8:])})
	}
}

// TestEqualRulesAreNotInATable: rules that a table could not tell apart.
func TestEqualRulesAreNotInATable(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	l := newLab(t)
	var all []Change
	for i := range 500 {
		m := wide(rng)
		m.Protocol(17)
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: m, Result: uint32(i)}})
	}
	l.apply(all)
	if l.table() != nil {
		t.Errorf("500 rules with the same protocol are in a table: %s", Lab{l}.Describe())
	}
}
