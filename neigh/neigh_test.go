// SPDX-License-Identifier: Apache-2.0

package neigh

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/polycube/polycube/wire"
)

// world is a host that records its calls.
type world struct {
	log       []string
	fast      map[Key]State
	macs      map[Key]wire.MAC
	confirmed map[Key]time.Duration
}

func (w *world) say(format string, args ...any) { w.log = append(w.log, fmt.Sprintf(format, args...)) }

func (w *world) Set(k Key, mac wire.MAC, s State, _ time.Duration) error {
	w.fast[k], w.macs[k] = s, mac
	return nil
}

func (w *world) Delete(k Key) error {
	delete(w.fast, k)
	delete(w.macs, k)
	return nil
}

func (w *world) Confirmed(k Key) time.Duration { return w.confirmed[k] }

func (w *world) Ask(k Key, to wire.MAC) {
	if to == (wire.MAC{}) {
		w.say("ask all for %s", k.Addr)
		return
	}
	w.say("ask %s for %s", to, k.Addr)
}
func (w *world) Release(p string)     { w.say("release %s", p) }
func (w *world) Unreachable(p string) { w.say("unreachable %s", p) }

// take returns the calls since the last take.
func (w *world) take() string {
	s := strings.Join(w.log, "; ")
	w.log = nil
	return s
}

var small = Limits{Entries: 6, PortEntries: 4, Incomplete: 5, PortIncomplete: 4, SourceIncomplete: 3, Queue: 2, Bytes: 1000, PortBytes: 600}

const (
	second = time.Second
	portA  = 1
	portB  = 2
)

var one = wire.MAC{2, 0, 0, 0, 0, 1}
var two = wire.MAC{2, 0, 0, 0, 0, 2}

func key(text string, port uint16) Key { return Key{netip.MustParseAddr(text), port} }

func from(port uint16, text string) Origin { return Origin{port, netip.MustParseAddr(text)} }

func newTable(t *testing.T) (*Table[string], *world) {
	t.Helper()
	w := &world{fast: map[Key]State{}, macs: map[Key]wire.MAC{}, confirmed: map[Key]time.Duration{}}
	return New[string](w, small, DefaultTiming, func(err error) { t.Error(err) }), w
}

func (w *world) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := w.take(); got != want {
		t.Errorf("%s: did %q, want %q", what, got, want)
	}
}

func TestPacketsWaitForTheAnswerAndLeaveInTheirOrder(t *testing.T) {
	tb, w := newTable(t)
	k := key("10.0.0.9", portB)
	o := from(portA, "10.1.0.1")
	for i, want := range []bool{true, true, false} {
		if got := tb.Packet(k, o, fmt.Sprint("p", i), 100, 0); got != want {
			t.Errorf("packet %d: taken %v, want %v", i, got, want)
		}
	}
	w.expect(t, "the first packet", "ask all for 10.0.0.9")
	if w.fast[k] != Incomplete {
		t.Errorf("the fast path has %v, want incomplete", w.fast[k])
	}
	tb.Answered(k, Answer{MAC: one, Solicited: true, Override: true}, second/10)
	w.expect(t, "the answer", "release p0; release p1")
	if w.fast[k] != Reachable || w.macs[k] != one {
		t.Errorf("the fast path has %v %v, want reachable %v", w.fast[k], w.macs[k], one)
	}
	tb.Packet(k, o, "late", 100, second/10)
	w.expect(t, "a packet that was on its way", "release late")
	if c := (Counters{Resolved: 1, Waited: 2, Released: 2, QueueFull: 1}); tb.Counters != c {
		t.Errorf("counters %+v, want %+v", tb.Counters, c)
	}
}

func TestSilenceIsUnreachableAfterThreeQuestions(t *testing.T) {
	for _, address := range []string{"10.0.0.9", "2001:db8::9"} {
		tb, w := newTable(t)
		k := key(address, portB)
		tb.Packet(k, from(portA, address), "p", 100, 0)
		tb.Tick(second - 1)
		w.expect(t, "before a second", "ask all for "+address)
		tb.Tick(second)
		tb.Tick(2 * second)
		w.expect(t, "after two", "ask all for "+address+"; ask all for "+address)
		tb.Tick(3 * second)
		w.expect(t, "after three", "unreachable p")
		if _, there := w.fast[k]; there || tb.Len() != 0 || tb.Pending() != 0 || tb.bytes != 0 {
			t.Errorf("%s: something is left: %d entries, %d pending, %d bytes", address, tb.Len(), tb.Pending(), tb.bytes)
		}
	}
}

func TestAnAnswerAges(t *testing.T) {
	tb, w := newTable(t)
	k := key("10.0.0.9", portB)
	tb.Packet(k, from(portA, "10.1.0.1"), "p", 1, 0)
	tb.Answered(k, Answer{MAC: one, Solicited: true, Override: true}, 0)
	w.take()
	w.confirmed[k] = 30 * second
	tb.Tick(60 * second)
	if w.fast[k] != Reachable {
		t.Errorf("confirmed 30 s ago it is %v, want reachable", w.fast[k])
	}
	tb.Tick(90 * second)
	if w.fast[k] != Stale {
		t.Fatalf("it is %v, want stale", w.fast[k])
	}
	w.expect(t, "aging asks nobody", "")
	tb.Used(k, 100*second)
	w.expect(t, "use", "ask 02:00:00:00:00:01 for 10.0.0.9")
	tb.Tick(101 * second)
	tb.Tick(102 * second)
	w.take()
	if w.fast[k] != Probe {
		t.Errorf("while it is asked it is %v, want probe", w.fast[k])
	}
	tb.Tick(103 * second)
	if _, there := w.fast[k]; there {
		t.Error("the dead neighbour is still there")
	}
}

func TestWhatIsNotUsedIsForgotten(t *testing.T) {
	tb, w := newTable(t)
	k := key("10.0.0.9", portB)
	tb.Asked(k, one, 0)
	if w.fast[k] != Stale {
		t.Fatalf("who asked is %v, want stale", w.fast[k])
	}
	tb.Tick(599 * second)
	if tb.Len() != 1 {
		t.Error("forgotten too early")
	}
	tb.Tick(600 * second)
	if tb.Len() != 0 {
		t.Error("not forgotten")
	}
}

func TestScansAreBounded(t *testing.T) {
	tb, w := newTable(t)
	scan := func(o Origin, from, to int) (taken int) {
		for i := from; i < to; i++ {
			if tb.Packet(key(fmt.Sprintf("10.0.0.%d", i), portB), o, "p", 100, 0) {
				taken++
			}
		}
		return taken
	}
	if n := scan(from(portA, "10.1.0.1"), 0, 100); n != small.SourceIncomplete {
		t.Errorf("one source: %d, want %d", n, small.SourceIncomplete)
	}
	if n := scan(from(portA, "10.1.0.2"), 100, 200); n != small.PortIncomplete-small.SourceIncomplete {
		t.Errorf("another source of the port: %d", n)
	}
	if n := scan(from(3, "10.3.0.1"), 200, 250); n != 0 {
		t.Errorf("behind a port with all entries: %d", n)
	}
	if !tb.Packet(key("10.4.0.1", 4), from(3, "10.3.0.1"), "p", 100, 0) {
		t.Error("another port is starved")
	}
	tb.Tick(second)
	tb.Tick(2 * second)
	tb.Tick(3 * second)
	w.take()
	if tb.Pending() != 0 || len(tb.sources) != 0 {
		t.Errorf("after the scan %d are pending from %d sources", tb.Pending(), len(tb.sources))
	}
	if n := scan(from(portA, "10.1.0.1"), 0, 2); n != 2 {
		t.Errorf("after the scan: %d, want 2", n)
	}
}

func TestSourcesOfIPv6AreCountedByTheirNetwork(t *testing.T) {
	tb, _ := newTable(t)
	taken := 0
	for i := range 9 {
		if tb.Packet(key(fmt.Sprintf("2001:db8:1::%d", i), portB), from(portA, fmt.Sprintf("2001:db8::%d", i+1)), "p", 1, 0) {
			taken++
		}
	}
	if taken != small.SourceIncomplete {
		t.Errorf("a /64 began %d questions, want %d", taken, small.SourceIncomplete)
	}
}

func TestStrangersPushOutOnlyWhatIsStaleBehindTheirPort(t *testing.T) {
	tb, w := newTable(t)
	friend := key("10.9.0.1", portA)
	tb.Packet(friend, from(portB, "10.0.0.1"), "p", 1, 0)
	tb.Answered(friend, Answer{MAC: one, Solicited: true, Override: true}, 0)
	for i := range 100 {
		tb.Asked(key(fmt.Sprintf("10.0.0.%d", i), portB), two, time.Duration(i))
	}
	if tb.Len() != 1+small.PortEntries {
		t.Errorf("%d entries, want %d", tb.Len(), 1+small.PortEntries)
	}
	if w.fast[friend] != Reachable {
		t.Error("a neighbour behind another port was pushed out")
	}
	for _, last := range []int{96, 97, 98, 99} {
		if _, ok := w.fast[key(fmt.Sprintf("10.0.0.%d", last), portB)]; !ok {
			t.Errorf("the newest, %d, is not there", last)
		}
	}
}

func TestQueuesAreBoundedInBytes(t *testing.T) {
	tb, _ := newTable(t)
	taken := 0
	for i := range 2 {
		for range 2 {
			if tb.Packet(key(fmt.Sprintf("10.0.0.%d", i), portB), from(portA, "10.1.0.1"), "p", 200, 0) {
				taken++
			}
		}
	}
	if taken != 3 {
		t.Errorf("%d packets of 200 bytes wait, want 3", taken)
	}
}

func TestStaticEntriesStay(t *testing.T) {
	tb, w := newTable(t)
	k := key("10.0.0.9", portB)
	tb.Packet(k, from(portA, "10.1.0.1"), "p", 1, 0)
	w.take()
	tb.SetStatic(k, one, 0)
	w.expect(t, "the entry", "release p")
	tb.Answered(k, Answer{MAC: two, Solicited: true, Override: true}, 0)
	tb.Asked(k, two, 0)
	tb.Flush(portB, 0)
	tb.Tick(24 * time.Hour)
	if w.fast[k] != Permanent || w.macs[k] != one || tb.Forget(k, 0) {
		t.Errorf("it is %v %v", w.fast[k], w.macs[k])
	}
	tb.DeleteStatic(k, 0)
	if tb.Len() != 0 || tb.dynamic != 0 || len(w.fast) != 0 {
		t.Error("it is not gone")
	}
}

func TestNeighboursOfRoutesAreKeptUp(t *testing.T) {
	tb, w := newTable(t)
	k := key("10.0.0.1", portB)
	tb.Want(k, 0)
	tb.Want(k, 0)
	w.expect(t, "want", "ask all for 10.0.0.1")
	for at := second; at <= 3*second; at += second {
		tb.Tick(at)
	}
	w.take()
	if w.fast[k] != Failed {
		t.Fatalf("it is %v, want failed", w.fast[k])
	}
	asked := 0
	for at := 3 * second; at < 300*second; at += second {
		tb.Tick(at)
		asked += len(w.log)
		w.take()
	}
	if asked < 9 || asked > 15 {
		t.Errorf("asked %d times in five minutes", asked)
	}
	tb.Answered(k, Answer{MAC: one, Solicited: true, Override: true}, 300*second)
	tb.Tick(360 * second)
	w.expect(t, "aging", "ask 02:00:00:00:00:01 for 10.0.0.1")
	tb.Answered(k, Answer{MAC: one, Solicited: true, Override: true}, 360*second)
	if w.fast[k] != Reachable {
		t.Errorf("it is %v, want reachable", w.fast[k])
	}
	tb.Unwant(k)
	tb.Unwant(k)
	tb.Tick(420 * second)
	if w.fast[k] != Stale {
		t.Errorf("not wanted any more it is %v, want stale", w.fast[k])
	}
}

func TestAdvertisementsAreJudgedByTheirFlags(t *testing.T) {
	for _, tt := range []struct {
		name string
		a    Answer
		mac  wire.MAC
		want State
	}{
		{"solicited, the same", Answer{MAC: one, Solicited: true}, one, Reachable},
		{"solicited, override", Answer{MAC: two, Solicited: true, Override: true}, two, Reachable},
		{"solicited, another without override", Answer{MAC: two, Solicited: true}, one, Stale},
		{"unsolicited, another without override", Answer{MAC: two}, one, Stale},
		{"unsolicited, override", Answer{MAC: two, Override: true}, two, Stale},
		{"unsolicited, the same", Answer{MAC: one, Override: true}, one, Reachable},
	} {
		tb, w := newTable(t)
		k := key("2001:db8::9", portB)
		tb.Packet(k, from(portA, "2001:db8:1::1"), "p", 1, 0)
		tb.Answered(k, Answer{MAC: one, Solicited: true, Override: true}, 0)
		tb.Answered(k, tt.a, second)
		if w.fast[k] != tt.want || w.macs[k] != tt.mac {
			t.Errorf("%s: %v %v, want %v %v", tt.name, w.fast[k], w.macs[k], tt.want, tt.mac)
		}
	}
}

func TestAFlapForgetsWhatIsBehindThePort(t *testing.T) {
	tb, w := newTable(t)
	known, wanted, other := key("10.0.0.9", portB), key("10.0.0.1", portB), key("10.1.0.9", portA)
	tb.Asked(known, one, 0)
	tb.Want(wanted, 0)
	tb.Answered(wanted, Answer{MAC: one, Solicited: true, Override: true}, 0)
	tb.Asked(other, one, 0)
	w.take()
	tb.Flush(portB, 0)
	w.expect(t, "the flap", "ask all for 10.0.0.1")
	if _, there := w.fast[known]; there || w.fast[wanted] != Incomplete || w.fast[other] != Stale {
		t.Errorf("the fast path has %v", w.fast)
	}
	tb.Remove(portB)
	if _, there := w.fast[wanted]; there || tb.Len() != 1 {
		t.Error("the port is gone, and its neighbours are not")
	}
}

func TestARestartFindsWhatWasLearned(t *testing.T) {
	tb, w := newTable(t)
	for i, s := range []State{Incomplete, Reachable, Stale, Probe, Failed, Permanent} {
		k := key(fmt.Sprintf("10.0.0.%d", i), uint16(i))
		w.fast[k] = s
		tb.Restore(k, one, s, 100*second, 130*second)
	}
	want := map[Key]State{key("10.0.0.1", 1): Reachable, key("10.0.0.2", 2): Stale, key("10.0.0.3", 3): Stale}
	if fmt.Sprint(w.fast) != fmt.Sprint(want) {
		t.Errorf("the fast path has %v, want %v", w.fast, want)
	}
	tb.Tick(160 * second)
	if w.fast[key("10.0.0.1", 1)] != Stale {
		t.Error("what was reachable does not age")
	}
}

// judge records the calls of claims.
type judge struct{ world }

func (j *judge) Probe(k Key, _ wire.MAC)         { j.say("probe %s", k.Addr) }
func (j *judge) Announce(k Key, _ wire.MAC)      { j.say("announce %s", k.Addr) }
func (j *judge) Usable(k Key, usable bool)       { j.say("usable %v", usable) }
func (j *judge) Duplicate(_ Key, other wire.MAC) { j.say("duplicate %s", other) }
func (j *judge) Unique(Key)                      { j.say("unique") }

func run(c *Claims, from, to int) {
	for s := from; s <= to; s++ {
		c.Tick(time.Duration(s) * second)
	}
}

func TestAddressesAreCheckedAnnouncedAndDefended(t *testing.T) {
	four, six := key("10.0.0.1", 1), key("2001:db8::1", 1)
	for _, tt := range []struct {
		name string
		k    Key
		do   func(c *Claims)
		want string
	}{
		{"a new IPv4 address", four, func(c *Claims) { c.Add(four, one, Check, true, 0); run(c, 0, 20) },
			"probe 10.0.0.1; probe 10.0.0.1; probe 10.0.0.1; usable true; announce 10.0.0.1; announce 10.0.0.1"},
		{"a new IPv6 address", six, func(c *Claims) { c.Add(six, one, Check, true, 0); run(c, 0, 20) },
			"probe 2001:db8::1; usable true; announce 2001:db8::1; announce 2001:db8::1"},
		{"a port that comes up later", six, func(c *Claims) { c.Add(six, one, Check, false, 0); run(c, 0, 5); c.Up(1, 6*second); run(c, 6, 6) },
			"probe 2001:db8::1"},
		{"without a check", four, func(c *Claims) { c.Add(four, one, Announce, true, 0); run(c, 0, 20) },
			"usable true; announce 10.0.0.1; announce 10.0.0.1"},
		{"after a restart", four, func(c *Claims) { c.Add(four, one, Hold, true, 0); run(c, 0, 20) }, ""},
		{"a flap", four, func(c *Claims) {
			c.Add(four, one, Hold, true, 0)
			c.Up(1, 0)
			run(c, 0, 5)
			c.Down(1)
			c.Up(1, 6*second)
			run(c, 6, 20)
		},
			"usable true; announce 10.0.0.1; announce 10.0.0.1"},
		{"a duplicate that goes away", six, func(c *Claims) {
			c.Add(six, one, Check, true, 0)
			run(c, 0, 0)
			c.Conflict(six, two, second/2)
			run(c, 1, 70)
		}, "probe 2001:db8::1; usable false; duplicate 02:00:00:00:00:02; probe 2001:db8::1; unique; usable true; " +
			"announce 2001:db8::1; announce 2001:db8::1"},
		{"a duplicate that stays", six, func(c *Claims) {
			c.Add(six, one, Check, true, 0)
			run(c, 0, 0)
			c.Conflict(six, two, second/2)
			run(c, 1, 61)
			c.Conflict(six, two, 61*second)
			run(c, 61, 100)
		}, "probe 2001:db8::1; usable false; duplicate 02:00:00:00:00:02; probe 2001:db8::1"},
		{"a later conflict", four, func(c *Claims) {
			c.Add(four, one, Hold, true, 0)
			for s := range 15 {
				c.Conflict(four, two, time.Duration(s+1)*second)
			}
		}, "duplicate 02:00:00:00:00:02; announce 10.0.0.1; duplicate 02:00:00:00:00:02; announce 10.0.0.1"},
		{"our own announcement", four, func(c *Claims) { c.Add(four, one, Hold, true, 0); c.Conflict(four, one, 0) }, ""},
	} {
		j := &judge{}
		c := NewClaims(j)
		tt.do(c)
		if got := j.take(); got != tt.want {
			t.Errorf("%s: did %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestDuplicatesAreListed(t *testing.T) {
	c := NewClaims(&judge{})
	a, b := key("10.0.0.1", 1), key("10.0.0.2", 1)
	c.Add(b, one, Check, true, 0)
	c.Add(a, one, Hold, true, 0)
	c.Conflict(a, two, second)
	c.Conflict(b, two, second)
	if got := c.Duplicates(1, 2*second); !slices.Equal(got, []Key{a, b}) {
		t.Errorf("duplicates %v", got)
	}
	if got := c.Duplicates(1, 12*second); !slices.Equal(got, []Key{b}) {
		t.Errorf("after the interval of defence: %v", got)
	}
}
