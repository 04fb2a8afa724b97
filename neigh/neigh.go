// SPDX-License-Identifier: Apache-2.0

package neigh

// The table: keys, states, limits and the host that carries out its actions.

import (
	"container/list"
	"net/netip"
	"time"

	"github.com/polycube/polycube/wire"
)

// Key is a neighbour: an address on a port.
type Key struct {
	Addr netip.Addr
	Port uint16
}

// State is the state of a neighbour. The numbers are those of the program.
type State uint8

// The states.
const (
	// Incomplete: being resolved for the first time.
	Incomplete State = iota + 1
	// Reachable: it answered recently.
	Reachable
	// Stale: the answer is old. It is used, and its use starts a probe.
	Stale
	// Probe: in use and being probed.
	Probe
	// Failed: it did not answer. Only wanted neighbours stay in this state; requests are repeated occasionally.
	Failed
	// Permanent: configured.
	Permanent
)

// String returns the name in the model.
func (s State) String() string {
	return [...]string{"", "incomplete", "reachable", "stale", "probe", "failed", "permanent"}[s]
}

// Usable reports whether packets can be sent there.
func (s State) Usable() bool { return s == Reachable || s == Stale || s == Probe || s == Permanent }

// Host carries out the actions of a table.
type Host[P any] interface {
	// Set writes an entry of the fast path, Delete removes it.
	Set(k Key, mac wire.MAC, s State, now time.Duration) error
	Delete(k Key) error
	// Confirmed returns when the fast path last confirmed the neighbour, 0 if unknown.
	Confirmed(k Key) time.Duration
	// Ask sends a request: to one station, or to all for the zero MAC.
	Ask(k Key, to wire.MAC)
	// Release lets a packet continue, whose neighbour is resolved now.
	Release(P)
	// Unreachable drops a packet whose neighbour did not answer.
	Unreachable(P)
}

// Limits are the limits of a table.
type Limits struct {
	// Entries that are not configured: in total, and per port.
	Entries, PortEntries int
	// Incomplete neighbours: in total, per ingress port, and per source (an IPv4 address, a /64).
	Incomplete, PortIncomplete, SourceIncomplete int
	// Queue is the number of packets that may wait for a neighbour.
	Queue int
	// Bytes limits the queued bytes in total, PortBytes those from a port.
	Bytes, PortBytes int
}

// Timing contains the intervals of the protocol.
type Timing struct {
	// Aging is how long an answer is valid, 0: forever; Forget how long an entry is kept after that without use.
	Aging, Forget time.Duration
	// Retry is the interval between two requests, Tries their number.
	Retry time.Duration
	Tries int
	// Backoff is the maximum interval between two requests for a wanted neighbour that does not answer.
	Backoff time.Duration
}

// DefaultTiming contains the values of RFC 4861 10, with the aging of Linux.
var DefaultTiming = Timing{Aging: time.Minute, Forget: 10 * time.Minute, Retry: time.Second, Tries: 3, Backoff: 30 * time.Second}

// Counters count requests and packets since the table was created.
type Counters struct {
	// Resolved and Unanswered count neighbours that answered, and that did not.
	Resolved, Unanswered uint64
	// Waited are packets that were queued; Released those of them that were sent, Expired those that were dropped.
	Waited, Released, Expired uint64
	// QueueFull are packets that did not fit the queue; Refused those for which no more requests were allowed.
	QueueFull, Refused uint64
	// TableFull is how often a neighbour could not be added.
	TableFull uint64
}

// Table contains the neighbours of a cube.
type Table[P any] struct {
	host     Host[P]
	limits   Limits
	timing   Timing
	entries  map[Key]*entry[P]
	due      heapOf[P]
	ports    map[uint16]*portTable
	sources  map[netip.Addr]int // incomplete neighbours by the source that caused them
	dynamic  int
	pending  int // incomplete
	bytes    int // waiting
	Counters Counters
	// Failed is called with errors of Host; they do not stop anything.
	failed func(error)
}

// portTable contains the data of a port: its entries, and the load caused by packets from it.
type portTable struct {
	entries, pending, bytes int
	stale                   *list.List // of *entry, the oldest first
}

// entry is a neighbour.
type entry[P any] struct {
	key   Key
	mac   wire.MAC
	state State
	since time.Duration // of the last confirmation
	// at is when the entry is due, place its position in the heap, -1 if it is not due.
	at    time.Duration
	place int
	tries int
	wait  time.Duration // between requests, for a wanted neighbour that does not answer
	// wanted counts the routes that use it.
	wanted  int
	dynamic bool
	stale   *list.Element
	queue   []waiting[P]
	// origin and source are those of the packet that caused the requests.
	origin uint16
	source netip.Addr
	blamed bool
}

// waiting is a queued packet.
type waiting[P any] struct {
	packet P
	size   int
	origin uint16
}

// New creates an empty table. failed is called with errors of the host.
func New[P any](host Host[P], l Limits, t Timing, failed func(error)) *Table[P] {
	return &Table[P]{
		host: host, limits: l, timing: t, failed: failed,
		entries: map[Key]*entry[P]{}, ports: map[uint16]*portTable{}, sources: map[netip.Addr]int{},
	}
}

// Timing returns the intervals in effect.
func (t *Table[P]) Timing() Timing { return t.timing }

// Resize changes the limits of the table. Entries beyond them stay until they expire.
func (t *Table[P]) Resize(l Limits) { t.limits = l }

// Retime changes how long answers are valid.
func (t *Table[P]) Retime(aging time.Duration, now time.Duration) {
	t.timing.Aging = aging
	for _, e := range t.entries {
		if e.state == Reachable {
			t.schedule(e, t.aged(e, now))
		}
	}
}

// aged returns when an answer expires.
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

// Neighbour is an entry as returned to callers.
type Neighbour struct {
	Key
	MAC   wire.MAC
	State State
	// Age is the time since the last confirmation.
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

// Len returns the number of entries, and Pending the number of those that are being resolved.
func (t *Table[P]) Len() int { return len(t.entries) }

// Pending returns the number of neighbours that are being resolved for the first time.
func (t *Table[P]) Pending() int { return t.pending }
