// SPDX-License-Identifier: Apache-2.0

package classifier

import (
	"errors"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/polycube/polycube/cube"
	"github.com/polycube/polycube/flow"
)

// subnet is a rule's match: a /24 of the destination, by number.
func subnet(n int) Match {
	var m Match
	if err := m.Destination(netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(n >> 8), byte(n), 0}), 24)); err != nil {
		panic(err)
	}
	return m
}

// to is the key of a packet to a subnet.
func to(n int) *Key {
	return &Key{wordLink: 0x0800<<16 | kindIP | flow.Untagged<<32, wordDestination: (10<<24 | uint64(n)<<8 | 9) << 32}
}

func TestAPacketUnderWayFindsWhatWasThereWhenItBegan(t *testing.T) {
	l := newLab(t)
	var all []Change
	for i := range 400 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: subnet(i), Result: uint32(i)}})
	}
	l.apply(all)
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		n := rng.IntN(400)
		seen, was := l.heap.where()
		result, order, ok := l.find(to(n))
		switch rng.IntN(3) {
		case 0:
			l.apply([]Change{{Order: uint32(n), Rule: &Rule{Match: subnet(n), Result: rng.Uint32()}}})
		case 1:
			l.apply([]Change{{Order: rng.Uint32N(1 << 20), Rule: &Rule{Match: subnet(n), Result: rng.Uint32()}}})
		default:
			if _, there := l.rules[uint32(n)]; there {
				l.apply([]Change{{Order: uint32(n)}})
			}
		}
		if now, after, still := searchFrom(seen, was, to(n)); now != result || after != order || still != ok {
			t.Fatalf("subnet %d: a packet that began before the edit finds rule %d (%v), before it was %d (%v)", n, after, still, order, ok)
		}
		l.check(to(n))
	}
}

func TestBlocksAreUsedAgain(t *testing.T) {
	l := newLab(t)
	for i := range 40 {
		l.apply([]Change{{Order: uint32(i), Rule: &Rule{Match: subnet(i)}}})
	}
	for i := range 5000 {
		n := i % 40
		l.apply([]Change{{Order: uint32(n), Rule: &Rule{Match: subnet(n), Result: uint32(i)}}})
		l.check(to(n))
	}
	if err := l.tight(); err != nil {
		t.Error(err)
	}
	if has := l.set.blocks.count(); has != sizes[1] {
		t.Errorf("40 rules take memory of %d blocks", has)
	}
	if open := l.heap.open.Load(); open > 2 {
		t.Errorf("%d memories are open, want the one in use and the one before", open)
	}
	if err := l.set.Close(); err != nil || l.heap.open.Load() != 0 {
		t.Errorf("%d memories are open after Close (error %v)", l.heap.open.Load(), err)
	}
}

func TestWhatARuleReadsIsRead(t *testing.T) {
	l := newLab(t)
	l.apply([]Change{{Order: 1, Rule: &Rule{}}})
	if l.heap.reads != 0 {
		t.Errorf("a rule that looks at nothing reads %b", l.heap.reads)
	}
	m := subnet(1)
	if err := m.DestinationPorts(80, 90); err != nil {
		t.Fatal(err)
	}
	l.apply([]Change{{Order: 0, Rule: &Rule{Match: m}}})
	if l.heap.reads != readIP {
		t.Errorf("a rule on an address and ports reads %b", l.heap.reads)
	}
	m.SourceMAC([6]byte{2}, [6]byte{0xff})
	l.apply([]Change{{Order: 2, Rule: &Rule{Match: m}}})
	if l.heap.reads != readIP|readMAC {
		t.Errorf("a rule on an address and a MAC address reads %b", l.heap.reads)
	}
}

func TestChangesThatCannotBeAreRefused(t *testing.T) {
	l := newLab(t)
	l.apply([]Change{{Order: 1, Rule: &Rule{Result: 5}}})
	for _, tt := range []struct {
		name    string
		changes []Change
		want    error
	}{
		{"a rule that is not there goes", []Change{{Order: 2}}, cube.ErrNotFound},
		{"a rule changes twice", []Change{{Order: 1}, {Order: 1, Rule: &Rule{}}}, cube.ErrExists},
		{"an order too high", []Change{{Order: none, Rule: &Rule{}}}, cube.ErrInvalid},
	} {
		if _, err := l.set.Prepare(tt.changes); !errors.Is(err, tt.want) {
			t.Errorf("%s: the error is %v, want %v", tt.name, err, tt.want)
		}
	}
	var m Match
	if err := m.SourcePorts(9, 8); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("ports backwards: the error is %v", err)
	}
	if err := errors.Join(m.Source(netip.MustParsePrefix("10.0.0.0/8")), m.Destination(netip.MustParsePrefix("::/0"))); !errors.Is(err, cube.ErrInvalid) {
		t.Errorf("two versions of IP: the error is %v", err)
	}
	l.check(to(1))
}

func TestTreesAreMadeBesideTheWork(t *testing.T) {
	l := newLab(t)
	l.set.rebuildFrom = 0
	rng := rand.New(rand.NewPCG(3, 3))
	var all []Change
	for i := range 500 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: subnet(i), Result: uint32(i)}})
	}
	l.apply(all)
	adopted := 0
	for adopted < 4 {
		if m := l.set.making; m != nil && rng.IntN(8) == 0 {
			<-m.done
		}
		was := l.set.home
		l.apply(l.edits(rng, 1+rng.IntN(20), func() Match { return subnet(rng.IntN(600)) }))
		if l.set.home != was {
			adopted++
		}
		if err := l.tight(); err != nil {
			t.Fatal(err)
		}
		for range 20 {
			l.check(to(rng.IntN(600)))
		}
	}
	if err := l.set.Close(); err != nil || l.set.making != nil {
		t.Errorf("error %v, trees are being made: %v", err, l.set.making != nil)
	}
}

// TestNewTreesComeHoweverFastRulesChange makes every change affect many rules after background work has ended.
func TestNewTreesComeHoweverFastRulesChange(t *testing.T) {
	l := newLab(t)
	l.set.rebuildFrom = 0
	rng := rand.New(rand.NewPCG(4, 4))
	var all []Change
	for i := range 500 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: subnet(i), Result: uint32(i)}})
	}
	l.apply(all)
	change := func() { l.apply(l.edits(rng, 30, func() Match { return subnet(rng.IntN(600)) })) }
	for l.set.making == nil {
		change()
	}
	m := l.set.making
	<-m.done
	m.rounds, m.patience = maxRounds, 0
	for _, r := range l.set.rules { // as if they had changed often
		m.note([]*rule{r}, []*rule{r})
		m.note([]*rule{r}, []*rule{r})
	}
	for range 100 {
		if change(); l.set.home == m.home {
			break
		}
	}
	if l.set.home != m.home {
		t.Errorf("after 100 changes, %d steps are left to do", len(m.log))
	}
	if err := l.tight(); err != nil {
		t.Error(err)
	}
	for i := range 600 {
		l.check(to(i))
	}
}

// TestNewTreesReadWhatRulesReadThatCameMeanwhile removes the only rule on MAC addresses before trees are rebuilt, and
// adds another during the rebuild.
func TestNewTreesReadWhatRulesReadThatCameMeanwhile(t *testing.T) {
	l := newLab(t)
	var mac Match
	mac.SourceMAC([6]byte{2, 0, 0, 0, 0, 7}, [6]byte{255, 255, 255, 255, 255, 255})
	all := []Change{{Order: 1000, Rule: &Rule{Match: mac}}}
	for i := range 300 {
		all = append(all, Change{Order: uint32(i), Rule: &Rule{Match: subnet(i), Result: uint32(i)}})
	}
	l.apply(all)
	l.apply([]Change{{Order: 1000}})
	l.set.edits = 300
	l.heap.hold = make(chan struct{})
	l.apply([]Change{{Order: 5}})
	m := l.set.making
	if m == nil {
		t.Fatal("no trees are being made")
	}
	l.apply([]Change{{Order: 1001, Rule: &Rule{Match: mac, Result: 9}}})
	close(l.heap.hold)
	<-m.done
	l.apply([]Change{{Order: 6}})
	if l.set.home != m.home {
		t.Fatal("the new trees are not in place")
	}
	l.check(&Key{wordSourceMAC: 2<<40 | 7})
	l.check(to(7))
}

func TestTooManyRulesAreRefusedWithAWayOut(t *testing.T) {
	l := newLab(t)
	l.apply([]Change{{Order: 1, Rule: &Rule{Result: 5}}})
	var all []Change
	for i := range maxBlocks/longBlocks + 1 {
		var m Match
		m.Mark(uint32(i), 0xffffffff)
		all = append(all, Change{Order: uint32(i) + 2, Rule: &Rule{Match: m}})
	}
	_, err := l.set.Prepare(all)
	if !errors.Is(err, cube.ErrFull) || !strings.Contains(err.Error(), "divide them between cubes") {
		t.Errorf("the error is %v", err)
	}
	l.check(to(1))
}
