// SPDX-License-Identifier: Apache-2.0

package balance

// Pins as programs see them.

import (
	"net/netip"
	"sync"
	"testing"
)

func TestAPinStaysUntilItsTimeIsOver(t *testing.T) {
	e := newEnv(t, 1000)
	_, services := e.begin(t, Large)
	to := serviceNumber(7).VIP
	set := func(server uint32) {
		t.Helper()
		if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: []Member{{Key: Key{byte(server)}, Server: server, Weight: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	if is := e.packet(t, 5, to, 80, 250, false); is.Found != 1 || is.Chosen != 1 || is.Pinned != 0 || is.Refused != 0 {
		t.Fatalf("the first packet: %+v", is)
	}
	set(2)
	for _, now := range []uint32{250, 255, 256 + 5, 256 + 15} { // the clock comes round
		if is := e.packet(t, 5, to, 80, now, true); is.Pinned != 1 || is.Chosen != 2 {
			t.Fatalf("at %d: %+v", now, is)
		}
	}
	if is := e.packet(t, 5, to, 80, 256+26, true); is.Pinned != 0 {
		t.Fatalf("11 units after the last packet, of 10: %+v", is)
	}
	if is := e.packet(t, 5, to, 80, 256+26, true); is.Pinned != 2 {
		t.Fatalf("after that: %+v", is)
	}
	if is := e.packet(t, 6, netip.MustParseAddr("172.16.9.9"), 80, 0, true); is.Found != 0 {
		t.Fatalf("no service: %+v", is)
	}
}

// TestFlowsWithTheSameHashHaveTheirOwnPins: services that only hash the client have the same hash for all its flows.
func TestFlowsWithTheSameHashHaveTheirOwnPins(t *testing.T) {
	e := newEnv(t, 1000)
	_, services := e.begin(t, Large)
	set := func(first uint32) {
		t.Helper()
		for n := range uint32(3) {
			members := []Member{{Key: Key{byte(first + n)}, Server: first + n, Weight: 1}}
			if _, err := services.Set(serviceNumber(int(n)), Wanted{By: BySource, Timeout: 10, Members: members}); err != nil {
				t.Fatal(err)
			}
		}
	}
	set(1)
	for range 2 {
		for n := range 3 {
			e.packet(t, 5, serviceNumber(n).VIP, 80, 1, true)
		}
	}
	set(11)
	for n := range 3 {
		if is := e.packet(t, 5, serviceNumber(n).VIP, 80, 1, true); is.Pinned != uint32(1+n) || is.Chosen != uint32(11+n) {
			t.Errorf("service %d: %+v, want a pin to server %d", n, is, 1+n)
		}
	}
}

func TestASweepRemovesWhatIsGone(t *testing.T) {
	e := newEnv(t, 1000)
	_, services := e.begin(t, Large)
	pins := NewPins(e)
	defer func() {
		if err := pins.Close(); err != nil {
			t.Error(err)
		}
	}()
	members := []Member{{Key: Key{1}, Server: 1, Weight: 1}, {Key: Key{2}, Server: 2, Weight: 1}}
	number, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: members})
	if err != nil {
		t.Fatal(err)
	}
	where := map[uint32]int{}
	for from := range uint32(100) {
		where[e.packet(t, from, serviceNumber(7).VIP, 80, 20, true).Chosen]++
		e.packet(t, from, serviceNumber(7).VIP, 80, 20, from%2 == 0)
	}
	left, err := pins.Sweep(25, func(uint32) uint8 { return 10 }, func(p Pair) bool { return p.Server == 2 })
	if err != nil || len(left) != 1 || left[Pair{number, 1}].Flows != where[1] || left[Pair{number, 1}].Confirmed == 0 {
		t.Fatalf("left are %v, %v, want %d flows of server 1", left, err, where[1])
	}
	if left, err = pins.Sweep(31, func(uint32) uint8 { return 10 }, func(Pair) bool { return false }); err != nil || len(left) != 0 {
		t.Fatalf("after the timeout, %v are left, %v", left, err)
	}
}

// TestAsManyFlowsArePinnedAsTheTableIsFor: where a flow has no room in its buckets, a pin moves to its other one, and is found there.
func TestAsManyFlowsArePinnedAsTheTableIsFor(t *testing.T) {
	const flows = 1 << 16 * 7 / 10
	e := newEnv(t, flows)
	if ways := e.spec.Maps["pins"].MaxEntries * pinWays; ways != 1<<16 {
		t.Fatalf("a table for %d flows has room for %d: the least is 70 %%", flows, ways)
	}
	_, services := e.begin(t, Large)
	set := func(server uint32) {
		t.Helper()
		members := []Member{{Key: Key{byte(server)}, Server: server, Weight: 1}}
		if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: members}); err != nil {
			t.Fatal(err)
		}
	}
	set(1)
	refused := 0
	for from := range uint32(flows) {
		is := e.packet(t, from, serviceNumber(7).VIP, 80, 20, true)
		refused += int(is.Refused)
		e.packet(t, from, serviceNumber(7).VIP, 80, 20, true)
	}
	set(2)
	pinned := 0
	for from := range uint32(flows) {
		if is := e.packet(t, from, serviceNumber(7).VIP, 80, 21, false); is.Pinned == 1 {
			pinned++
		}
	}
	t.Logf("%d of %d flows are pinned", pinned, flows)
	if pinned+refused != flows || refused > flows/10000 {
		t.Errorf("of %d flows, %d are pinned, and for %d there was no room", flows, pinned, refused)
	}
	pins := NewPins(e)
	left, err := pins.Sweep(21, func(uint32) uint8 { return 10 }, func(p Pair) bool { return p.Server == 2 })
	if is := left[Pair{1, 1}]; err != nil || len(left) != 1 || is.Flows != pinned || is.Confirmed != pinned {
		t.Errorf("left are %v, %v, want each of %d flows once", left, err, pinned)
	}
	if err := pins.Close(); err != nil {
		t.Error(err)
	}
}

// TestAFlowIsFoundWhileItsPinMoves: packets of flows that have pins, on one CPU, while others add so many flows that pins move.
func TestAFlowIsFoundWhileItsPinMoves(t *testing.T) {
	const flows, room = 600, 1024
	e := newEnv(t, room*7/10)
	if ways := e.spec.Maps["pins"].MaxEntries * pinWays; ways != room {
		t.Fatalf("there is room for %d flows", ways)
	}
	_, services := e.begin(t, Large)
	to := serviceNumber(7).VIP
	set := func(server uint32) {
		t.Helper()
		if _, err := services.Set(serviceNumber(7), Wanted{By: ByFlow, Timeout: 10, Members: []Member{{Key: Key{byte(server)}, Server: server, Weight: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	pins := NewPins(e)
	for round := range uint32(20) {
		set(1)
		now, begin := 40*round, round<<16 // the pins of the round before are over
		if _, err := pins.Sweep(now, func(uint32) uint8 { return 10 }, func(Pair) bool { return false }); err != nil {
			t.Fatal(err)
		}
		for from := range uint32(flows) {
			e.packet(t, begin+from, to, 80, now, true)
			if is := e.packet(t, begin+from, to, 80, now, true); is.Pinned != 1 {
				t.Fatalf("flow %d: %+v", from, is)
			}
		}
		set(2)
		var group sync.WaitGroup
		group.Go(func() {
			for from := uint32(flows); from < room && !t.Failed(); from++ {
				e.packet(t, begin+from, to, 80, now+1, true)
				e.packet(t, begin+from, to, 80, now+1, true)
			}
		})
		for from := range uint32(flows) {
			if is := e.packet(t, begin+from, to, 80, now+1, true); is.Pinned != 1 {
				t.Errorf("flow %d: %+v", from, is)
			}
		}
		group.Wait()
	}
	if err := pins.Close(); err != nil {
		t.Error(err)
	}
}

// TestAFloodOfAServiceUnpinsNoFlowOfAnother: not even where its timeout, which the idle flows have exceeded, is shorter.
func TestAFloodOfAServiceUnpinsNoFlowOfAnother(t *testing.T) {
	e := newEnv(t, 700)
	_, services := e.begin(t, Large)
	set := func(service int, timeout uint8, server uint32) {
		t.Helper()
		if _, err := services.Set(serviceNumber(service), Wanted{By: ByFlow, Timeout: timeout, Members: []Member{{Key: Key{byte(server)}, Server: server, Weight: 1}}}); err != nil {
			t.Fatal(err)
		}
	}
	set(7, 100, 1)
	set(8, 1, 3)
	for from := range uint32(700) {
		e.packet(t, from, serviceNumber(7).VIP, 80, 20, true)
		e.packet(t, from, serviceNumber(7).VIP, 80, 20, true)
	}
	for from := range uint32(10240) {
		e.packet(t, 1<<16+from, serviceNumber(8).VIP, 80, 60, from%2 == 0)
	}
	set(7, 100, 2)
	for from := range uint32(700) {
		if is := e.packet(t, from, serviceNumber(7).VIP, 80, 61, true); is.Pinned != 1 {
			t.Errorf("flow %d: %+v", from, is)
		}
	}
}

func BenchmarkSweep(b *testing.B) {
	e := newEnv(b, 196608)
	pins := NewPins(e)
	buckets, err := pins.buckets.Values()
	if err != nil {
		b.Fatal(err)
	}
	for i := range buckets {
		for w := range buckets[i].way {
			buckets[i].way[w].word = uint64(1+i%100) | 1<<pinService | pinConfirmed
		}
	}
	for b.Loop() {
		if _, err := pins.Sweep(1, func(uint32) uint8 { return 10 }, func(Pair) bool { return false }); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := pins.Close(); err != nil {
		b.Fatal(err)
	}
}
