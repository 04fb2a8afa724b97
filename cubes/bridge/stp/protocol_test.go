// SPDX-License-Identifier: Apache-2.0

package stp

import (
	"errors"
	"maps"
	"net"
	"slices"
	"testing"
)

// record is a Sink that records its calls.
type record struct {
	sent    map[int][]message
	states  map[int]State
	flushes map[int]int
}

func newRecord() *record {
	return &record{map[int][]message{}, map[int]State{}, map[int]int{}}
}

func (r *record) Send(port int, bpdu []byte) {
	m, err := parse(bpdu)
	if err != nil {
		panic(err)
	}
	r.sent[port] = append(r.sent[port], m)
}
func (r *record) SetState(port int, s State) { r.states[port] = s }
func (r *record) Flush(port int)             { r.flushes[port]++ }

// last is the BPDU that was sent last.
func (r *record) last(port int) message {
	if len(r.sent[port]) == 0 {
		return message{Type: 0xff}
	}
	return r.sent[port][len(r.sent[port])-1]
}

// better is a bridge that every other one accepts as the root, worse the reverse.
var (
	better = MakeBridgeID(0, net.HardwareAddr{2, 0, 0, 0, 0, 1})
	worse  = MakeBridgeID(61440, net.HardwareAddr{2, 0, 0, 0, 0, 0xff})
)

// bench is a bridge with three ports that are up.
func bench(t *testing.T, change func(*Parameters, *PortParameters)) (*Bridge, *record) {
	t.Helper()
	r := newRecord()
	cfg := Parameters{idA, RSTP, 2, 20, 15}
	port := PortParameters{PathCost: 4, AutoEdge: true}
	if change != nil {
		change(&cfg, &port)
	}
	b := New(cfg, r)
	for i := range 3 {
		port.ID = MakePortID(128, uint16(i+1))
		b.AddPort(i, port, Disabled)
		b.SetPortUp(i, true)
	}
	return b, r
}

func from(id BridgeID, kind uint8, flags uint8) []byte {
	return message{kind, flags, vector{id, 0, id, 0x8001}, times{0, 20, 2, 15}}.bytes()
}

const designatedFlags = 3 << roleShift

func receive(t *testing.T, b *Bridge, port int, bpdu []byte) {
	t.Helper()
	if err := b.Receive(port, bpdu); err != nil {
		t.Fatal(err)
	}
}

func ticks(b *Bridge, n int) {
	for range n {
		b.Tick()
	}
}

func role(b *Bridge, port int) Role {
	s, _ := b.PortStatus(port)
	return s.Role
}

func TestAProposalIsAnsweredAtOnce(t *testing.T) {
	b, r := bench(t, nil)
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagProposal))
	got := r.last(0)
	if !got.has(flagAgreement) || got.role() != RootPort || got.Vector.Root != better || r.states[0] != Forwarding {
		t.Errorf("answered %+v, the port is %v", got, r.states[0])
	}
	for port := 1; port <= 2; port++ {
		if r.states[port] != Blocking || !r.last(port).has(flagProposal) || r.last(port).Vector.Root != better || r.last(port).Vector.Cost != 4 {
			t.Errorf("port %d is %v and sent %+v", port, r.states[port], r.last(port))
		}
	}
}

func TestAnAgreementOpensAPort(t *testing.T) {
	b, r := bench(t, nil)
	agree := message{typeRST, 2<<roleShift | flagAgreement, vector{idA, 4, worse, 0x8001}, times{1, 20, 2, 15}}
	receive(t, b, 1, agree.bytes())
	if r.states[1] != Forwarding {
		t.Errorf("the port is %v", r.states[1])
	}
	shared, r := bench(t, func(_ *Parameters, p *PortParameters) { p.PointToPoint = ForceFalse })
	receive(t, shared, 1, agree.bytes())
	if r.states[1] != Blocking {
		t.Errorf("on a shared link, where others may not agree, the port is %v", r.states[1])
	}
}

// A neighbour that only speaks STP is sent STP on its port, and RSTP again once it speaks RSTP.
func TestAPortFallsBackToSTP(t *testing.T) {
	b, r := bench(t, func(_ *Parameters, p *PortParameters) { p.AutoEdge = false })
	ticks(b, migrateTime+1)
	receive(t, b, 1, from(worse, typeConfig, 0))
	if got := r.last(1); got.Type != typeConfig || got.Times.ForwardDelay != 15 || r.states[1] != Listening {
		t.Errorf("answered %+v, the port is %v", got, r.states[1])
	}
	if got := r.last(2); got.Type != typeRST {
		t.Errorf("another port sends %+v", got)
	}
	ticks(b, 20+15+1)
	if r.states[1] != Forwarding {
		t.Errorf("after its timers, the port is %v", r.states[1])
	}
	receive(t, b, 1, from(worse, typeRST, designatedFlags))
	ticks(b, 1)
	if got := r.last(1); got.Type != typeRST {
		t.Errorf("answered RSTP with %+v", got)
	}
	receive(t, b, 1, from(worse, typeConfig, 0))
	ticks(b, migrateTime)
	receive(t, b, 1, from(worse, typeConfig, 0))
	if s, _ := b.PortStatus(1); s.RSTP {
		t.Fatal("the port speaks RSTP to STP")
	}
	b.Migrate(1)
	if got := r.last(1); got.Type == typeRST {
		t.Error("sent RSTP without being due")
	}
	ticks(b, 2)
	if got := r.last(1); got.Type != typeRST {
		t.Errorf("told to try RSTP again, it sends %+v", got)
	}
}

func TestClassicTimersAndStates(t *testing.T) {
	b, r := bench(t, func(c *Parameters, _ *PortParameters) { c.Version = STP })
	if r.states[0] != Listening || r.last(0).Type != typeConfig {
		t.Fatalf("at first the port is %v and sends %+v", r.states[0], r.last(0))
	}
	ticks(b, 19)
	if r.states[0] != Listening {
		t.Errorf("before the maximum age the port is %v", r.states[0])
	}
	ticks(b, 1)
	if r.states[0] != Learning {
		t.Errorf("then it is %v", r.states[0])
	}
	ticks(b, 14)
	if r.states[0] != Learning {
		t.Errorf("before the forward delay it is %v", r.states[0])
	}
	ticks(b, 1)
	if r.states[0] != Forwarding {
		t.Errorf("after the forward delay it is %v", r.states[0])
	}
}

func TestEdges(t *testing.T) {
	_, r := bench(t, func(_ *Parameters, p *PortParameters) { p.AdminEdge = true })
	if r.states[0] != Forwarding {
		t.Errorf("an edge port is %v at first", r.states[0])
	}
	b, r := bench(t, nil)
	ticks(b, migrateTime)
	if s, _ := b.PortStatus(0); !s.OperEdge || r.states[0] != Forwarding {
		t.Errorf("a port without a bridge behind it is %v after %d s, edge %v", r.states[0], migrateTime, s.OperEdge)
	}
	receive(t, b, 0, from(worse, typeRST, designatedFlags))
	if s, _ := b.PortStatus(0); s.OperEdge {
		t.Error("a port with a bridge behind it is an edge port")
	}
	b, r = bench(t, func(_ *Parameters, p *PortParameters) { p.AutoEdge = false })
	ticks(b, migrateTime+1)
	if r.states[0] != Blocking {
		t.Errorf("a port that is not to find out is %v", r.states[0])
	}
}

func TestWhatIsNotRefreshedAges(t *testing.T) {
	b, r := bench(t, nil)
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagProposal))
	receive(t, b, 1, message{typeRST, designatedFlags, vector{better, 4, worse, 0x8002}, times{1, 20, 2, 15}}.bytes())
	if role(b, 0) != RootPort || role(b, 1) != DesignatedPort {
		t.Fatalf("roles %v and %v", role(b, 0), role(b, 1))
	}
	ticks(b, 5)
	if role(b, 0) != RootPort {
		t.Error("aged before three hello times")
	}
	ticks(b, 1)
	if s := b.Status(); role(b, 0) != DesignatedPort || !s.IsRoot || r.last(0).Vector.Root != idA {
		t.Errorf("after three hello times the role is %v, the root %v", role(b, 0), s.Root)
	}
	old := message{typeRST, designatedFlags, vector{better, 0, better, 0x8001}, times{20, 20, 2, 15}}
	receive(t, b, 0, old.bytes())
	if s := b.Status(); !s.IsRoot {
		t.Error("a message that is too old is believed")
	}
	old.Type = typeConfig
	if err := b.Receive(0, old.bytes()); !errors.Is(err, ErrTooOld) {
		t.Errorf("received, %v", err)
	}
}

func TestForgedBPDUs(t *testing.T) {
	b, _ := bench(t, nil)
	own := message{typeRST, designatedFlags, vector{idA, 0, idA, MakePortID(128, 1)}, times{0, 20, 2, 15}}
	if err := b.Receive(0, own.bytes()); !errors.Is(err, ErrOwn) {
		t.Errorf("its own BPDU: %v", err)
	}
	receive(t, b, 1, own.bytes()) // two ports on one link
	if role(b, 1) != BackupPort {
		t.Errorf("a port that hears another one is %v", role(b, 1))
	}
	if s, _ := b.PortStatus(0); s.Discarded != 1 {
		t.Errorf("%d discarded", s.Discarded)
	}
	if err := b.Receive(7, from(better, typeRST, designatedFlags)); !errors.Is(err, ErrNoPort) {
		t.Errorf("at a port that there is not: %v", err)
	}
	guarded, _ := bench(t, func(_ *Parameters, p *PortParameters) { p.RestrictedRole = true })
	receive(t, guarded, 0, from(better, typeRST, designatedFlags))
	if s := guarded.Status(); !s.IsRoot || role(guarded, 0) != AlternatePort {
		t.Errorf("a restricted port leads to the root %v and is %v", s.Root, role(guarded, 0))
	}
}

func TestChangesOfTheTopologySpread(t *testing.T) {
	b, r := bench(t, nil)
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagProposal))
	agree := message{typeRST, 2<<roleShift | flagAgreement, vector{better, 8, worse, 0x8001}, times{2, 20, 2, 15}}
	receive(t, b, 1, agree.bytes())
	ticks(b, 8)
	receive(t, b, 0, from(better, typeRST, designatedFlags))
	ticks(b, 4)
	receive(t, b, 0, from(better, typeRST, designatedFlags))
	clear(r.flushes)
	before := b.Status().Changes
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagTC))
	if r.flushes[1] != 1 || r.flushes[0] != 0 {
		t.Errorf("flushed %v, want port 1 and not the one that it came from", r.flushes)
	}
	if !r.last(1).has(flagTC) || b.Status().Changes != before+1 || !b.Status().Changing {
		t.Errorf("told the others %+v, status %+v", r.last(1), b.Status())
	}
	ticks(b, 4)
	if b.Status().Changing {
		t.Error("it goes on telling")
	}
	guarded, r := bench(t, func(_ *Parameters, p *PortParameters) { p.RestrictedTCN = true })
	ticks(guarded, 40)
	clear(r.flushes)
	receive(t, guarded, 1, from(worse, typeRST, designatedFlags|flagTC))
	receive(t, guarded, 1, message{Type: typeTCN}.bytes())
	if len(r.flushes) > 0 {
		t.Errorf("a restricted port flushed %v", r.flushes)
	}
}

func TestAClassicBridgeTellsTheRoot(t *testing.T) {
	b, r := bench(t, func(c *Parameters, _ *PortParameters) { c.Version = STP })
	config := from(better, typeConfig, 0)
	for range 60 {
		receive(t, b, 0, config)
		b.Tick()
	}
	if r.states[0] != Forwarding || r.states[1] != Forwarding {
		t.Fatalf("states %v", r.states)
	}
	receive(t, b, 0, from(better, typeConfig, flagTCAck))
	clear(r.sent)
	receive(t, b, 1, message{Type: typeTCN}.bytes())
	if r.last(0).Type != typeTCN || !r.last(1).has(flagTCAck) && !slices.ContainsFunc(r.sent[1], func(m message) bool { return m.has(flagTCAck) }) {
		b.Tick()
		b.Tick()
		if r.last(0).Type != typeTCN || !slices.ContainsFunc(r.sent[1], func(m message) bool { return m.has(flagTCAck) }) {
			t.Errorf("told of a change, it sends %+v to the root and %+v back", r.sent[0], r.sent[1])
		}
	}
	receive(t, b, 0, from(better, typeConfig, flagTCAck))
	clear(r.sent)
	ticks(b, 5)
	if len(r.sent[0]) > 0 {
		t.Errorf("acknowledged, it sends %+v", r.sent[0])
	}
}

func TestNoMoreBPDUsThanTheHoldCount(t *testing.T) {
	b, r := bench(t, nil)
	ticks(b, 1)
	before := len(r.sent[0])
	for i := range 100 { // each is new information, and an inferior one that is answered as well
		receive(t, b, 1, message{typeRST, designatedFlags | flagProposal, vector{better - BridgeID(i%2), 0, better, 0x8001}, times{0, 20, 2, 15}}.bytes())
		receive(t, b, 0, from(worse, typeRST, designatedFlags))
	}
	if n := len(r.sent[0]) - before; n > txHoldCount {
		t.Errorf("%d BPDUs in a second", n)
	}
}

func TestParametersChangeTheTree(t *testing.T) {
	b, r := bench(t, nil)
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagProposal))
	second := message{typeRST, designatedFlags | flagProposal, vector{better, 0, better, 0x8002}, times{0, 20, 2, 15}}
	receive(t, b, 1, second.bytes())
	if role(b, 0) != RootPort || role(b, 1) != AlternatePort {
		t.Fatalf("roles %v, %v", role(b, 0), role(b, 1))
	}
	b.SetPort(0, PortParameters{ID: MakePortID(128, 1), PathCost: 5, AutoEdge: true})
	if role(b, 0) != AlternatePort || role(b, 1) != RootPort || r.states[0] != Blocking || r.states[1] != Forwarding {
		t.Errorf("with a larger cost, roles %v, %v, states %v", role(b, 0), role(b, 1), r.states)
	}
	b.SetParameters(Parameters{MakeBridgeID(0, net.HardwareAddr{1}), RSTP, 1, 10, 7})
	if s := b.Status(); !s.IsRoot || s.MaxAge != 10 || s.ForwardDelay != 7 || s.HelloTime != 1 {
		t.Errorf("with the best priority, %+v", s)
	}
	if got := r.last(2); got.Times != (times{0, 10, 1, 7}) {
		t.Errorf("it sends %+v", got)
	}
	b.RemovePort(1)
	if _, ok := b.PortStatus(1); ok {
		t.Error("a port that was removed has a status")
	}
}

// The cost of the only path to the root may change under traffic.
func TestACostThatChangesNoRoleClosesNoPort(t *testing.T) {
	b, r := bench(t, nil)
	receive(t, b, 0, from(better, typeRST, designatedFlags|flagProposal))
	agree := message{typeRST, 2<<roleShift | flagAgreement, vector{better, 8, worse, 0x8001}, times{2, 20, 2, 15}}
	receive(t, b, 1, agree.bytes())
	if r.states[0] != Forwarding || r.states[1] != Forwarding {
		t.Fatalf("states %v", r.states)
	}
	clear(r.states)
	for _, cost := range []uint32{100, 2, 19} {
		b.SetPort(0, PortParameters{ID: MakePortID(128, 1), PathCost: cost, AutoEdge: true})
		ticks(b, 1)
		if got := r.last(1); got.Vector.Cost != cost || b.Status().RootCost != cost {
			t.Errorf("with a cost of %d it sends %+v", cost, got)
		}
	}
	if len(r.states) > 0 {
		t.Errorf("it sets %v", r.states)
	}
}

// A resumed instance changes no state before it has received its neighbours' BPDUs.
func TestResumingLeavesWhatIsOpen(t *testing.T) {
	r := newRecord()
	b := New(Parameters{idA, RSTP, 2, 20, 15}, r)
	b.Resume()
	for i, had := range []State{Forwarding, Blocking, Forwarding} {
		b.AddPort(i, PortParameters{ID: MakePortID(128, uint16(i+1)), PathCost: 4, AutoEdge: true}, had)
	}
	for i := range 3 {
		b.SetPortUp(i, true)
	}
	// The path through port 1, which is blocked, is received first.
	neighbour := MakeBridgeID(4096, net.HardwareAddr{2, 0, 0, 0, 0, 2})
	receive(t, b, 1, message{typeRST, designatedFlags | 0x30, vector{better, 4, neighbour, 0x8002}, times{1, 20, 2, 15}}.bytes())
	ticks(b, 1)
	receive(t, b, 0, from(better, typeRST, designatedFlags|0x30))
	closed := map[int]State{1: Blocking} // a port that is down is disabled until it is up
	if len(r.sent) > 0 || !maps.Equal(r.states, closed) {
		t.Errorf("while it listens it sends %v and sets %v", r.sent, r.states)
	}
	ticks(b, 2)
	if !maps.Equal(r.states, closed) || role(b, 0) != RootPort || role(b, 2) != DesignatedPort || role(b, 1) != AlternatePort {
		t.Errorf("then it sets %v; roles %v %v %v", r.states, role(b, 0), role(b, 1), role(b, 2))
	}
	if len(r.sent[2]) == 0 || r.last(2).Vector.Root != better {
		t.Errorf("and sends %+v", r.sent[2])
	}
}

func TestAPortThatDoesNotComeBackIsClosed(t *testing.T) {
	r := newRecord()
	b := New(Parameters{idA, RSTP, 2, 20, 15}, r)
	b.Resume()
	b.AddPort(0, PortParameters{ID: 0x8001, PathCost: 4}, Forwarding)
	ticks(b, 2)
	if len(r.states) > 0 {
		t.Errorf("set %v while its link may come", r.states)
	}
	ticks(b, 1)
	if r.states[0] != Disabled {
		t.Errorf("the port is %v", r.states[0])
	}
}

// toldFor returns for how many seconds port 1, whose neighbour speaks STP, announces a change, while port 0 receives
// BPDUs from a root.
func toldFor(t *testing.T, b *Bridge, r *record, seconds int, root func(second int) []byte) (last int) {
	t.Helper()
	for i := range seconds {
		clear(r.sent)
		receive(t, b, 0, root(i))
		receive(t, b, 1, from(worse, typeConfig, 0))
		b.Tick()
		if r.last(1).has(flagTC) && r.last(1).Type == typeConfig {
			last = i + 1
		}
	}
	return last
}

// wholeTime is the maximum age and the forward delay.
const wholeTime = 20 + 15

// A bridge that speaks STP forgets learned addresses within a forward delay while it is notified of a change, and may
// receive the notification late: each change lasts the full time, even if another one is already announced.
func TestEachChangeIsToldToSTPForItsWholeTime(t *testing.T) {
	b, r := bench(t, nil)
	root := func(int) []byte { return from(better, typeRST, designatedFlags|0x30) }
	toldFor(t, b, r, 120, root)
	receive(t, b, 2, message{Type: typeTCN}.bytes())
	if r.states[1] != Forwarding || r.states[2] != Forwarding {
		t.Fatalf("states %v", r.states)
	}
	if last := toldFor(t, b, r, 20, root); last < 20-2 {
		t.Fatalf("told for %d s", last)
	}
	receive(t, b, 2, message{Type: typeTCN}.bytes())
	if last := toldFor(t, b, r, 60, root); last < wholeTime-2 || last > wholeTime {
		t.Errorf("told for %d s after a second change, want %d", last, wholeTime)
	}
}

// The root's repetition is one change: more distant neighbours do not announce it for longer.
func TestARepeatedChangeIsOne(t *testing.T) {
	b, r := bench(t, nil)
	quiet := func(int) []byte { return from(better, typeConfig, 0) }
	toldFor(t, b, r, 120, quiet)
	if r.states[1] != Forwarding || r.states[0] != Forwarding {
		t.Fatalf("states %v", r.states)
	}
	last := toldFor(t, b, r, 80, func(second int) []byte {
		if second < 20 {
			return from(better, typeConfig, flagTC)
		}
		return quiet(second)
	})
	if last < wholeTime-2 || last > wholeTime {
		t.Errorf("told for %d s, want %d", last, wholeTime)
	}
}
