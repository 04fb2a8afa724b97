// SPDX-License-Identifier: Apache-2.0

package table

import (
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cilium/ebpf"

	"github.com/polycube/polycube/conntrack"
	"github.com/polycube/polycube/test/pace"
)

// segment is one of the client's, or of the server's, of a connection whose sequence numbers begin at 1000 and 5000.
func segment(client uint32, port uint16, flags conntrack.Flag, reply bool) []byte {
	host := fmt.Sprintf("10.1.%d.%d", client>>8, client&0xff)
	p := conntrack.Segment{Seq: 1000, Window: 1000, Flags: flags, Scale: conntrack.NoScale}
	if flags&conntrack.ACK != 0 && !reply {
		p.Seq, p.Ack = 1001, 5001
	}
	if reply {
		p.Seq, p.Ack = 5000, 1001
		return tcpFrame(hostB, host, 80, port, p)
	}
	return tcpFrame(host, hostB, port, 80, p)
}

const synAck = conntrack.SYN | conntrack.ACK

// class fails the test unless the packet has a class.
func (l *packetLab) class(name string, frame []byte, want conntrack.Class) verdict {
	l.t.Helper()
	got := l.pass(frame, 0)
	if conntrack.Class(got.Class) != want || got.Refusal != 0 {
		l.t.Errorf("%s is %v, refused %d, want %v", name, conntrack.Class(got.Class), got.Refusal, want)
	}
	return got
}

// handshake opens a connection.
func (l *packetLab) handshake(client uint32, port uint16) {
	l.t.Helper()
	l.class("a SYN", segment(client, port, conntrack.SYN, false), conntrack.New)
	half := l.class("its answer", segment(client, port, synAck, true), conntrack.Established)
	whole := l.class("the third", segment(client, port, conntrack.ACK, false), conntrack.Established)
	if half.Number != 0 || whole.Number == 0 {
		l.t.Errorf("the connection has number %d when it is half open, and then %d, want 0 and another one", half.Number, whole.Number)
	}
}

// numbers returns where the free numbers of the large table are.
func (l *packetLab) numbers() (n []uint32) {
	l.t.Helper()
	var cpus []taken
	if err := l.ring.taken.Lookup(uint32(0), &cpus); err != nil {
		l.t.Fatal(err)
	}
	for _, cpu := range cpus {
		n = append(n, cpu.Left)
	}
	return append(n, l.control.head, l.control.tail)
}

// TestAFloodTakesNothingOfOpenConnections sends ten times as many SYNs as there may be half-open connections, and answers
// them or not: all open connections remain, and the large table is as before.
func TestAFloodTakesNothingOfOpenConnections(t *testing.T) {
	const embryos, known = 256, 64
	for hook, object := range packetObjects {
		for _, answered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/answered=%v", hook, answered), func(t *testing.T) {
				l := newPacketLab(t, object, embryos)
				for n := range uint32(known) {
					l.handshake(n, 1000)
				}
				before := l.numbers()
				for n := range uint32(10 * embryos) {
					l.class("a SYN of the flood", segment(n, 2000, conntrack.SYN, false), conntrack.New)
					if answered {
						l.class("its answer", segment(n, 2000, synAck, true), conntrack.Established)
					}
				}
				if after := l.numbers(); !slices.Equal(after, before) || l.Count(0) != known {
					t.Errorf("numbers of the large table are %v after the flood, were %v; %d are used", after, before, l.Count(0))
				}
				if n := l.HalfOpen(0); n != embryos {
					t.Errorf("%d connections are half open, want %d", n, embryos)
				}
				for n := range uint32(known) {
					l.class("a packet of an open connection", segment(n, 1000, conntrack.ACK, false), conntrack.Established)
				}
				l.class("the answer to the first SYN", segment(0, 2000, synAck, true), conntrack.Invalid)
				l.class("the answer to the last one", segment(10*embryos-1, 2000, synAck, true), conntrack.Established)
				l.handshake(1, 3000)
				if l.check() != known+1 {
					t.Errorf("%d connections are open, want %d", l.Count(0), known+1)
				}
			})
		}
	}
}

// TestHalfOpenConnectionsExpireAndAreListed: they have timeouts, zones and owners like others, and outlive the daemon.
func TestHalfOpenConnectionsExpireAndAreListed(t *testing.T) {
	l := newPacketLab(t, packetTC, 256)
	want := func(name string, half, whole int) {
		t.Helper()
		seen := map[bool]int{}
		for cursor, pages := uint32(0), 0; ; pages++ {
			var page []Entry
			page, cursor = l.Page(cursor, 3, func(e *Entry) bool { return e.Key.Zone == 7 })
			for i := range page {
				seen[halfOpen(&page[i].State)]++
			}
			if cursor == 0 || pages > 100 {
				break
			}
		}
		if seen[true] != half || seen[false] != whole || l.HalfOpen(7) != half || l.Count(7) != whole {
			t.Errorf("%s: %d are half open and %d open, and pages show %v, want %d and %d", name, l.HalfOpen(7), l.Count(7), seen, half, whole)
		}
	}
	l.class("a SYN of another zone", segment(1, 1, conntrack.SYN, false), conntrack.New)
	l.v.Zone = 7
	for n := range uint32(10) {
		l.class("a SYN", segment(n, 1, conntrack.SYN, false), conntrack.New)
		if n < 4 {
			l.class("its answer", segment(n, 1, synAck, true), conntrack.Established)
		}
		if n < 2 {
			l.class("the third", segment(n, 1, conntrack.ACK, false), conntrack.Established)
		}
	}
	want("some of ten", 8, 2)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	l.open()
	want("after a restart", 8, 2)
	limits := map[uint16]*conntrack.Timeouts{7: {conntrack.TCPSynSent: time.Minute, conntrack.TCPSynRecv: 3 * time.Minute}}
	for _, tt := range []struct {
		after time.Duration
		half  int
	}{{time.Second, 8}, {2 * time.Minute, 2}, {4 * time.Minute, 0}} {
		l.remove(expired(monotonic()+tt.after, limits))
		want(fmt.Sprint("after ", tt.after), tt.half, 2)
	}
	l.class("the answer to a SYN that has expired", segment(9, 1, synAck, true), conntrack.Invalid)
	l.class("another SYN", segment(9, 1, conntrack.SYN, false), conntrack.New)
	want("after another SYN", 1, 2)
	if err := l.Own(7, "another cube"); err != nil {
		t.Fatal(err)
	}
	want("with another owner", 0, 0)
	if n := l.HalfOpen(0); n != 1 {
		t.Errorf("another zone has %d half-open connections, want 1", n)
	}
}

// TestAHalfOpenConnectionIsFoundAndEndedByItsKey, as open ones are.
func TestAHalfOpenConnectionIsFoundAndEndedByItsKey(t *testing.T) {
	l := newPacketLab(t, packetTC, 256)
	var reported []Key
	Watch(l.Table, 0, func(e *Entry) { reported = append(reported, e.Key) })
	l.handshake(1, 1)
	for n := uint32(2); n < 5; n++ {
		l.class("a SYN", segment(n, 1, conntrack.SYN, false), conntrack.New)
	}
	key := func(client byte) Key {
		k, _ := Between(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 1, 0, client}), 1), netip.AddrPortFrom(netip.MustParseAddr(hostB), 80), 6, 0)
		return k
	}
	for client := byte(1); client < 5; client++ {
		if e, ok := l.Find(key(client)); !ok || e.Key != key(client) || halfOpen(&e.State) != (client > 1) {
			t.Errorf("client %d: found %v, %v", client, e, ok)
		}
	}
	if _, ok := l.Find(key(9)); ok || l.End(key(9)) {
		t.Error("a connection that does not exist was found or ended")
	}
	if !l.End(key(3)) || l.End(key(3)) || l.HalfOpen(0) != 2 || l.Count(0) != 1 {
		t.Errorf("a half-open connection was not ended once: %d are half open, %d open", l.HalfOpen(0), l.Count(0))
	}
	if _, ok := l.Find(key(3)); ok || !slices.Equal(reported, []Key{key(3)}) {
		t.Errorf("after its end it is found: %v; reported: %v", ok, reported)
	}
	l.class("an answer that is late", segment(3, 1, synAck, true), conntrack.Invalid)
	l.class("its SYN again", segment(3, 1, conntrack.SYN, false), conntrack.New)
}

// TestADeletionCountsWhatItSelects: half-open connections, and those of all parts of the table, but not those that programs
// had ended.
func TestADeletionCountsWhatItSelects(t *testing.T) {
	l := newPacketLab(t, packetTC, 3*step)
	l.v.Zone = 7
	for n := range uint32(10) {
		l.class("a SYN", segment(n, 1, conntrack.SYN, false), conntrack.New)
		if n < 6 {
			l.class("its answer", segment(n, 1, synAck, true), conntrack.Established)
			l.class("the third", segment(n, 1, conntrack.ACK, false), conntrack.Established)
		}
	}
	far := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")}
	for range 2*step/takes + 1 { // numbers of the first parts are taken
		l.ring.spare = append(l.ring.spare, l.ring.take(takes)...)
	}
	l.ring.spare = l.ring.spare[2*step:]
	for port := range uint16(5) {
		e := Entry{State: conntrack.State{State: conntrack.Open}}
		e.Key, _ = Between(netip.AddrPortFrom(far[0], port), netip.AddrPortFrom(far[1], 80), tcp, 7)
		if added, err := l.Add(&e); !added || err != nil {
			t.Fatal(added, err)
		}
		if port == 0 && !l.End(e.Key) {
			t.Fatal("it is not ended")
		}
	}
	ended := 0
	Watch(l.Table, 7, func(*Entry) { ended++ })
	d, steps := Deletion{Table: l.Table, Selects: func(e *Entry) bool { return e.Key.Zone == 7 }}, 0
	for d.Next != 0 || steps == 0 {
		if err := d.Step(); err != nil {
			t.Fatal(err)
		}
		steps++
	}
	if d.Deleted != 4+6+4 || d.Collected != 1 || steps < 3 || ended != 15 || l.Count(7) != 0 || l.HalfOpen(7) != 0 {
		t.Errorf("%d deleted, %d collected, %d reported in %d steps; %d are left, and %d half open", d.Deleted, d.Collected, ended, steps, l.Count(7), l.HalfOpen(7))
	}
}

// TestALimitIsForHalfOpenConnectionsToo: a zone that has all of its connections opens no more, and those that were half
// open before are refused.
func TestALimitIsForHalfOpenConnectionsToo(t *testing.T) {
	l := newPacketLab(t, packetXDP, 256)
	l.class("a SYN", segment(2, 1, conntrack.SYN, false), conntrack.New)
	l.class("its answer", segment(2, 1, synAck, true), conntrack.Established)
	l.handshake(1, 1)
	l.Limit(0, 1)
	if got := l.pass(segment(2, 1, conntrack.ACK, false), 0); conntrack.Class(got.Class) != conntrack.Invalid || got.Refusal != -limit {
		t.Errorf("the third of one that was half open: %+v, want it refused by the limit", got)
	}
	if got := l.pass(segment(3, 1, conntrack.SYN, false), 0); got.Refusal != -limit {
		t.Errorf("a SYN beyond the limit: %+v", got)
	}
	l.Limit(0, 2)
	l.class("the third, sent again", segment(2, 1, conntrack.ACK, false), conntrack.Established)
	if l.check() != 2 {
		t.Errorf("%d connections are open, want 2", l.Count(0))
	}
}

// TestCPUsShareHalfOpenConnections: two CPUs open and complete the same connections, and a sweeper removes some, while
// the ring goes round: no state is that of another connection, and none is open twice.
func TestCPUsShareHalfOpenConnections(t *testing.T) {
	l := newPacketLab(t, packetTC, 256)
	var frames [][]byte
	for client := range uint32(40) {
		for _, flags := range []conntrack.Flag{conntrack.SYN, conntrack.ACK, conntrack.RST | conntrack.ACK} {
			frames = append(frames, segment(client, 1000, flags, false))
		}
		frames = append(frames, segment(client, 1000, synAck, true), segment(client, 1000, conntrack.ACK, true))
	}
	for client := range uint32(300) {
		frames = append(frames, segment(client, 2000+uint16(client), conntrack.SYN, false))
	}
	var stop atomic.Bool
	var wg sync.WaitGroup
	var passed atomic.Uint64
	for cpu := range 2 {
		wg.Go(func() {
			pin(t, cpu)                                            // ends with the thread
			for n := uint64(1); !stop.Load() && !t.Failed(); n++ { // both have the same frames in the same order
				at := mix(n) % uint64(len(frames))
				if _, err := l.progs["track"].Run(&ebpf.RunOptions{Data: frames[at], Repeat: 4}); err != nil {
					t.Error(err)
				}
				passed.Add(1)
			}
		})
	}
	removed := 0
	wg.Go(func() {
		for round := uint64(0); !stop.Load() && !t.Failed(); round++ {
			removed += l.remove(func(e *Entry) bool { return mix(uint64(e.Key.Address[0][15])+round<<32)&7 == 0 })
		}
	})
	end := time.Now().Add(pace.Stretch(2 * time.Second))
	for time.Now().Before(end) && !t.Failed() {
		page, _ := l.Page(0, 1000, nil)
		for _, e := range page {
			for side, port := range e.Key.Port {
				// The server's first sequence number is 5000, the clients' is 1000.
				if first := e.State.Side[side].End - 1; e.State.Side[side].End != 0 && (first == 5000) != (port.Number() == 80) {
					t.Errorf("%+v has the state of another connection", e)
				}
			}
		}
	}
	stop.Store(true)
	wg.Wait()
	l.remove(none)
	n := l.check()
	t.Logf("%d runs, %d removed, %d open and %d half open", passed.Load(), removed, n, l.HalfOpen(0))
	if removed == 0 || l.young.ring.head < 1000 {
		t.Errorf("%d are removed, %d were opened", removed, l.young.ring.head)
	}
}
