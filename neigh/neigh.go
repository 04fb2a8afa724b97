// SPDX-License-Identifier: Apache-2.0

package neigh

// The table: keys, states, limits and the host that it acts on.

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/polycube/polycube/wire"
)

// Key is a neighbour: an address behind a port.
type Key struct {
	Addr netip.Addr
	Port uint16
}

// State is how much is known of a neighbour. The numbers are those of the program.
type State uint8

// The states.
const (
	// Incomplete: it is being asked for the first time.
	Incomplete State = iota + 1
	// Reachable: it answered a short while ago.
	Reachable
	// Stale: the answer is old. It is used, and its use begins a probe.
	Stale
	// Probe: it is in use and being asked again.
	Probe
	// Failed: it did not answer. Only neighbours that are wanted stay so; they are asked again now and then.
	Failed
	// Permanent: it was configured.
	Permanent
)

// String is the name in the model.
func (s State) String() string {
	return [...]string{"", "incomplete", "reachable", "stale", "probe", "failed", "permanent"}[s]
}

// Usable says whether packets can be sent there.
func (s State) Usable() bool { return s == Reachable || s == Stale || s == Probe || s == Permanent }

// Host is what a table acts on.
type Host[P any] interface {
	// Set writes an entry of the fast path, Delete removes it.
	Set(k Key, mac wire.MAC, s State, now time.Duration) error
	Delete(k Key) error
	// Confirmed is when the fast path last saw a sign of life, 0 if it does not know.
	Confirmed(k Key) time.Duration
	// Ask sends a request: to one station, or to all for the zero MAC.
	Ask(k Key, to wire.MAC)
	// Release lets a packet go on, whose neighbour is known now.
	Release(P)
	// Unreachable ends a packet whose neighbour did not answer.
	Unreachable(P)
}

// Limits bound what a table holds.
type Limits struct {
	// Entries that were not configured: in total, and behind a port.
	Entries, PortEntries int
	// Incomplete neighbours: in total, for packets from a port, and for those from a source (an IPv4 address, a /64).
	Incomplete, PortIncomplete, SourceIncomplete int
	// Queue is how many packets wait for a neighbour.
	Queue int
	// Bytes wait in total, and PortBytes from a port.
	Bytes, PortBytes int
}

// Timing is how long things take.
type Timing struct {
	// Aging is how long an answer is good, 0 for ever; Forget how long an entry is kept after that without use.
	Aging, Forget time.Duration
	// Retry is between two questions, Tries how many there are.
	Retry time.Duration
	Tries int
	// Backoff is the longest time between two questions for a neighbour that is wanted and silent.
	Backoff time.Duration
}

// DefaultTiming is that of RFC 4861 10, with the aging of Linux.
var DefaultTiming = Timing{Aging: time.Minute, Forget: 10 * time.Minute, Retry: time.Second, Tries: 3, Backoff: 30 * time.Second}

// Counters tell what became of requests and packets since the table was made.
type Counters struct {
	// Resolved and Unanswered are neighbours that answered, and that did not.
	Resolved, Unanswered uint64
	// Waited are packets that were queued; Released and Expired of them were sent and given up.
	Waited, Released, Expired uint64
	// QueueFull are packets that found no room; Refused those for whose neighbour no more requests were allowed.
	QueueFull, Refused uint64
	// TableFull is how often a neighbour could not be learned.
	TableFull uint64
}

// Table are the neighbours of a cube.
type Table[P any] struct {
	host     Host[P]
	limits   Limits
	timing   Timing
	entries  map[Key]*entry[P]
	due      heapOf[P]
	ports    map[uint16]*portTable
	sources  map[netip.Addr]int // incomplete neighbours by who caused them
	dynamic  int
	pending  int // incomplete
	bytes    int // waiting
	Counters Counters
	// Failed gets the errors of Host; they do not stop anything.
	failed func(error)
}

// portTable is what belongs to a port: entries behind it, and what packets from it caused.
type portTable struct {
	entries, pending, bytes int
	stale                   *list.List // of *entry, the oldest first
}

// entry is a neighbour.
type entry[P any] struct {
	key   Key
	mac   wire.MAC
	state State
	since time.Duration // of the last sign of life
	// at is when something is due, place where it stands in the heap, -1 for not at all.
	at    time.Duration
	place int
	tries int
	wait  time.Duration // between questions, for who is wanted and silent
	// wanted counts the routes that lead over it.
	wanted  int
	dynamic bool
	stale   *list.Element
	queue   []waiting[P]
	// origin and source are who caused the questions.
	origin uint16
	source netip.Addr
	blamed bool
}

// waiting is a packet in a queue.
type waiting[P any] struct {
	packet P
	size   int
	origin uint16
}

// New makes an empty table. failed gets errors of the host.
func New[P any](host Host[P], l Limits, t Timing, failed func(error)) *Table[P] {
	return &Table[P]{
		host: host, limits: l, timing: t, failed: failed,
		entries: map[Key]*entry[P]{}, ports: map[uint16]*portTable{}, sources: map[netip.Addr]int{},
	}
}

// Timing is how long things take.
func (t *Table[P]) Timing() Timing { return t.timing }

// Resize changes what the table may hold. What is too much stays until it is forgotten.
func (t *Table[P]) Resize(l Limits) { t.limits = l }

// Retime changes how long answers are good.
func (t *Table[P]) Retime(aging time.Duration, now time.Duration) {
	t.timing.Aging = aging
	for _, e := range t.entries {
		if e.state == Reachable {
			t.schedule(e, t.aged(e, now))
		}
	}
}

// aged is when an answer is not good any more.
func (t *Table[P]) aged(e *entry[P], now time.Duration) time.Duration {
	if t.timing.Aging == 0 {
		return never
	}
	return max(now, e.since+t.timing.Aging)
}

func (t *Table[P]) port(index uint16) *portTable {
	p := t.ports[index]
	if p == nil {
		p = &portTable{stale: list.New()}
		t.ports[index] = p
	}
	return p
}

// Neighbour is an entry as it is read.
type Neighbour struct {
	Key
	MAC   wire.MAC
	State State
	// Age is the time since the last sign of life.
	Age time.Duration
	// Waiting is the number of packets in its queue.
	Waiting int
}

// Get returns an entry.
func (t *Table[P]) Get(k Key, now time.Duration) (Neighbour, bool) {
	e := t.entries[k]
	if e == nil {
		return Neighbour{}, false
	}
	return t.show(e, now), true
}

func (t *Table[P]) show(e *entry[P], now time.Duration) Neighbour {
	if e.dynamic && e.state.Usable() {
		e.since = max(e.since, t.host.Confirmed(e.key))
	}
	return Neighbour{Key: e.key, MAC: e.mac, State: e.state, Age: max(0, now-e.since), Waiting: len(e.queue)}
}

// All returns the entries, in no order.
func (t *Table[P]) All(now time.Duration) []Neighbour {
	out := make([]Neighbour, 0, len(t.entries))
	for _, e := range t.entries {
		out = append(out, t.show(e, now))
	}
	return out
}

// Len is the number of entries, and Pending that of those that are asked for.
func (t *Table[P]) Len() int { return len(t.entries) }

// Pending is the number of neighbours that are asked for the first time.
func (t *Table[P]) Pending() int { return t.pending }
