// SPDX-License-Identifier: Apache-2.0

package stp

// A network of bridges in virtual time: BPDUs arrive a moment later, in order, and each change of a port's state is
// immediately checked for a loop.

import (
	"container/heap"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"testing"
	"time"
)

type event struct {
	at  time.Duration
	seq int
	run func()
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].seq < e[j].seq
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := (*e)[len(*e)-1]
	*e = (*e)[:len(*e)-1]
	return last
}

// end is a bridge's port; wire is its link, with one end, two, or more if it is shared.
type end struct{ node, port int }

type wire struct {
	ends  []end
	up    bool
	delay time.Duration
	gone  int // how often it was cut: BPDUs in flight then are lost
}

type node struct {
	n     *network
	index int
	cfg   Parameters
	*Bridge
	classic *classic // instead of an instance
	alive   bool
	wires   []*wire // by port
	costs   []uint32
	ids     []PortID
	state   []State
	flushes []int
}

// linux is the version of a bridge of another make.
const linux Version = 0xff

type network struct {
	t       testing.TB
	rng     *rand.Rand
	now     time.Duration
	seq     int
	queue   events
	nodes   []*node
	wires   []*wire
	changed time.Duration // the last change of a state
	// lenient: the lost bridge may have been the root; in a mesh, bridges that speak RSTP can keep advertising it
	// to each other until the messages are too old. The standard does not exclude a temporary loop during that
	// time.
	lenient bool
	loops   int // in that time
}

func newNetwork(t testing.TB, seed uint64) *network {
	return &network{t: t, rng: rand.New(rand.NewPCG(seed, 1))}
}

func (n *network) after(d time.Duration, run func()) {
	n.seq++
	heap.Push(&n.queue, event{n.now + d, n.seq, run})
}

func (n *network) runUntil(at time.Duration) {
	for len(n.queue) > 0 && n.queue[0].at <= at {
		e := heap.Pop(&n.queue).(event)
		n.now = e.at
		e.run()
	}
	n.now = at
}

func (n *network) add(priority uint16, v Version) *node {
	i := len(n.nodes)
	cfg := Parameters{ID: MakeBridgeID(priority, net.HardwareAddr{2, 0, 0, 0, byte(i >> 8), byte(i + 1)}), Version: v,
		HelloTime: 2, MaxAge: 20, ForwardDelay: 15}
	d := &node{n: n, index: i, cfg: cfg, alive: true}
	n.nodes = append(n.nodes, d)
	if v == linux {
		d.cfg.Version = STP
		d.classic = newClassic(d, d.cfg)
		return d
	}
	d.Bridge = New(cfg, d)
	n.after(time.Duration(n.rng.IntN(1000))*time.Millisecond, d.second)
	return d
}

func (d *node) second() {
	if !d.alive {
		return
	}
	d.Tick()
	d.n.after(time.Second, d.second)
}

// join creates a wire between new ports of nodes, with one cost. It is down.
func (n *network) join(shared bool, nodes ...int) *wire {
	w := &wire{delay: time.Duration(100+n.rng.IntN(5000)) * time.Microsecond}
	for _, i := range nodes {
		n.plug(w, i, []uint32{4, 4, 4, 19, 100}[n.rng.IntN(5)], PortID(0x10*n.rng.IntN(16)), shared)
	}
	n.wires = append(n.wires, w)
	return w
}

// plug joins a new port of a node to a wire.
func (n *network) plug(w *wire, i int, cost uint32, priority PortID, shared bool) {
	d := n.nodes[i]
	port := len(d.wires)
	w.ends = append(w.ends, end{i, port})
	id := MakePortID(uint8(priority), uint16(port+1))
	d.wires, d.costs, d.ids = append(d.wires, w), append(d.costs, cost), append(d.ids, id)
	d.state, d.flushes = append(d.state, Disabled), append(d.flushes, 0)
	if d.classic != nil {
		d.classic.addPort(id, cost)
		return
	}
	cfg := PortParameters{ID: id, PathCost: cost, AutoEdge: true}
	if shared {
		cfg.PointToPoint = ForceFalse
	}
	d.AddPort(port, cfg, Disabled)
}

func (n *network) set(w *wire, up bool) {
	w.up = up
	w.gone++
	for _, e := range w.ends {
		switch d := n.nodes[e.node]; {
		case !d.alive:
		case d.classic != nil:
			d.classic.setUp(e.port, up)
		default:
			d.SetPortUp(e.port, up)
		}
	}
}

// kill removes a node; its neighbours see their links go down.
func (n *network) kill(d *node) {
	d.alive = false
	for port, w := range d.wires {
		d.state[port] = Disabled
		live := 0
		for _, e := range w.ends {
			if n.nodes[e.node].alive {
				live++
			}
		}
		if live < 2 && len(w.ends) > 1 {
			n.set(w, false)
		}
	}
}

func (d *node) receive(port int, bpdu []byte) error {
	if d.classic != nil {
		return d.classic.receive(port, bpdu)
	}
	return d.Receive(port, bpdu)
}

// role returns the role of a port, root the node's root and the cost of the path to it.
func (d *node) role(port int) Role {
	if d.classic != nil {
		return d.classic.role(port)
	}
	st, _ := d.PortStatus(port)
	return st.Role
}

func (d *node) root() (BridgeID, uint32) {
	if d.classic != nil {
		return d.classic.root.Root, d.classic.root.Cost
	}
	s := d.Status()
	return s.Root, s.RootCost
}

// Send implements Sink.
func (d *node) Send(port int, bpdu []byte) {
	n, w := d.n, d.wires[port]
	gone := w.gone
	n.after(w.delay, func() {
		for _, e := range w.ends {
			if to := n.nodes[e.node]; w.up && w.gone == gone && to.alive && e != (end{d.index, port}) {
				if err := to.receive(e.port, bpdu); err != nil && !errors.Is(err, ErrTooOld) {
					n.t.Errorf("bridge %d refuses what bridge %d sent: %v", e.node, d.index, err)
				}
			}
		}
	})
}

// SetState implements Sink.
func (d *node) SetState(port int, s State) {
	d.n.changed = d.n.now
	d.state[port] = s
	if s == Forwarding {
		if loop := d.n.loop(); loop != "" {
			if d.n.loops++; d.n.lenient {
				return
			}
			d.n.t.Errorf("at %v there is a loop: %s", d.n.now, loop)
		}
	}
}

// Flush implements Sink.
func (d *node) Flush(port int) { d.flushes[port]++ }

// loop looks for a forwarding loop: bridges and wires are connected by forwarding ports.
func (n *network) loop() string {
	loop := ""
	n.parts(func(e end) {
		if loop == "" {
			loop = fmt.Sprintf("closed by port %d of bridge %d\n%s", e.port, e.node, n)
		}
	})
	return loop
}

// connected reports whether frames reach one bridge from another.
func (n *network) connected(a, b int) bool {
	find := n.parts(func(end) {})
	return find(a) == find(b)
}

// parts finds the parts connected by forwarding ports, with bridges by index; round is called for an end that closes a
// loop.
func (n *network) parts(round func(end)) (find func(int) int) {
	parent := make([]int, len(n.nodes)+len(n.wires))
	for i := range parent {
		parent[i] = i
	}
	find = func(i int) int {
		for parent[i] != i {
			i = parent[i]
		}
		return i
	}
	for i, w := range n.wires {
		for _, e := range w.ends {
			d := n.nodes[e.node]
			if !w.up || !d.alive || d.state[e.port] != Forwarding {
				continue
			}
			a, b := find(e.node), find(len(n.nodes)+i)
			if a == b {
				round(e)
			}
			parent[a] = b
		}
	}
	return find
}

// String shows the connections between bridges.
func (n *network) String() (s string) {
	for i, w := range n.wires {
		s += fmt.Sprintf("wire %d up=%v:", i, w.up)
		for _, e := range w.ends {
			d := n.nodes[e.node]
			s += fmt.Sprintf("  %d/%d(%v classic=%v alive=%v) %v %v cost %d", e.node, e.port, d.cfg.Version, d.classic != nil, d.alive,
				d.role(e.port), d.state[e.port], d.costs[e.port])
		}
		s += "\n"
	}
	return s
}
